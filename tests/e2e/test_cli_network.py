"""``tamis network``: policies side by side, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.routing.policies import POLICIES

FIELDS = [
    "policy",
    "delivered",
    "lost",
    "duplicates",
    "refused",
    "subscription_messages",
    "subscription_bytes",
    "event_messages",
    "false_positives",
    "table_entries",
    "suppressed",
    "screened",
    "rejected",
    "filters_asked",
    "filters_spared",
    "cpu_seconds",
]
SMALL = ["network", "--brokers", "7", "--limit", "60"]


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def rows(*arguments: str) -> list[dict[str, Any]]:
    code, shown = run(*arguments, "--json")
    assert code == 0, shown
    return [json.loads(line) for line in shown.splitlines()]


def test_all_policies_deliver_the_same_and_cost_less_and_less() -> None:
    shown_rows = rows("network", "--brokers", "5", "--limit", "40", "--policy", "all")
    assert [row["policy"] for row in shown_rows] == list(POLICIES)
    assert all(list(row) == FIELDS for row in shown_rows)
    assert {(row["delivered"], row["lost"], row["duplicates"]) for row in shown_rows} == {
        (shown_rows[0]["delivered"], 0, 0)
    }
    cost = {str(row["policy"]): row for row in shown_rows}
    by_messages = [int(cost[name]["subscription_messages"]) for name in ("identity", "covering", "subsumption")]
    assert by_messages == sorted(by_messages, reverse=True)
    assert int(cost["merging"]["table_entries"]) < int(cost["covering"]["table_entries"])
    assert int(cost["flood"]["event_messages"]) > int(cost["covering"]["event_messages"])


def test_drawn_ranges_order_the_policies_as_the_paper_does() -> None:
    """[mics] Fig. 7: nothing > covering > subsumption, and merging, which its ranges do, below that."""
    names = ("every", "covering", "subsumption", "mics:bits=6", "mics-gap:bits=6")
    chosen = [part for name in (*names, "mics") for part in ("--policy", name)]
    *coarse, fine = rows("network", "--brokers", "5", "--work", "zipf", "--limit", "20", *chosen)
    updates = [int(row["subscription_messages"]) for row in coarse]
    assert int(fine["subscription_messages"]) == updates[2], "256 cells for 256 values: ranges are exact subsumption"
    assert updates == sorted(set(updates), reverse=True)
    assert updates[0] == 300 * 4
    assert {row["lost"] for row in coarse} == {0}


def test_the_order_is_told_in_words() -> None:
    few = ["network", "--brokers", "3", "--work", "uniform", "--ranges", "30", "--attributes", "1", "--limit", "60"]
    code, shown = run(*few, "--policy", "mics", "--policy", "every", "--policy", "two-stage")
    assert code == 0
    text = " ".join(shown.split())
    assert "Updates of each policy, compared with `every`: every 100%," in text
    assert "two-stage: the cells alone rejected" in text


def test_links_tell_which_subscription_is_withheld_for_which() -> None:
    [row] = rows(*SMALL, "--policy", "covering", "--links")
    links = row["links"]
    assert len(links) == 12  # both directions
    assert sum(len(link["suppressed"]) for link in links) == row["suppressed"] > 0
    assert sum(link["updates"] for link in links) == row["subscription_messages"]
    assert sum(link["events"] for link in links) == row["event_messages"]
    hidden = next(link for link in links if link["suppressed"])
    assert set(hidden) >= {"announced", "retracted", "table_entries", "false_positives", "refused"}
    code, shown = run(*SMALL, "--policy", "covering", "--links")
    assert code == 0
    assert "b1 to b2" in shown


def test_two_stages_reject_by_cells_and_deliver_the_same() -> None:
    few = ["--brokers", "7", "--work", "uniform", "--ranges", "100", "--limit", "60"]
    plain, staged = rows("network", *few, "--policy", "covering", "--policy", "two-stage")
    same = ("delivered", "subscription_messages", "subscription_bytes", "event_messages", "false_positives")
    assert [plain[name] for name in same] == [staged[name] for name in same]
    assert 0 < int(staged["rejected"]) < int(staged["screened"])
    assert int(staged["filters_spared"]) > 10 * int(staged["filters_asked"])
    assert plain["screened"] == 0


def test_the_table_and_the_tree() -> None:
    code, shown = run(*SMALL, "--policy", "covering", "--shape", "star")
    assert code == 0
    assert "7 brokers, 14 clients: 67 subscriptions meet 60 events" in shown
    assert "└── b7" in shown
    assert "covering" in shown


def test_faults_change_nothing_that_is_delivered() -> None:
    [calm], [rough] = (rows(*SMALL, "--policy", "covering", *more) for more in ([], ["--faults"]))
    assert rough["lost"] == rough["duplicates"] == 0
    assert rough["delivered"] == calm["delivered"]


def test_files_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"id": "a", "filter": "x < 5"}\n{"id": "b", "filter": "x < 9"}\n')
    (tmp_path / "events.jsonl").write_text('{"x": 1}\n{"x": 7}\n{"x": 20}\n')
    files = ["--subscriptions", str(tmp_path / "asked.jsonl"), "--events", str(tmp_path / "events.jsonl")]
    [row] = rows("network", "--brokers", "2", "--clients", "1", "--policy", "identity", *files)
    assert row["delivered"] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "covring"], "did you mean 'covering'"),
        (["--shape", "ring"], "unknown topology 'ring'"),
        (["--work", "pareto"], "unknown work 'pareto'; choose from quakes, uniform, zipf, regions"),
        (["--subscriptions", "x.jsonl"], "give both"),
    ],
)
def test_wrong_input(arguments: list[str], problem: str) -> None:
    code, shown = run("network", *arguments)
    assert code == 2
    assert problem in shown


def test_peers_take_the_options_of_their_tree() -> None:
    usual, other = (
        rows(*SMALL, "--overlay", "drtree", *options)[0]
        for options in ([], ["--split", "linear", "--choice", "r*", "--least", "2", "--most", "4"])
    )
    assert (usual["lost"], other["lost"], usual["delivered"]) == (0, 0, other["delivered"])
    assert usual["event_messages"] != other["event_messages"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "cubic"], "unknown split 'cubic'; choose from linear, quadratic, r*"),
        (["--choice", "best"], "unknown choice 'best'; choose from r, r*"),
        (["--least", "4", "--most", "5"], "needs a least of at most 3"),
    ],
)
def test_a_wrong_tree_of_peers_is_refused(options: list[str], words: str) -> None:
    code, shown = run(*SMALL, "--overlay", "drtree", *options)
    assert (code, words in " ".join(shown.split())) == (2, True), shown


def test_policies_take_options() -> None:
    shown_rows = rows(*SMALL, "--policy", "zcurve:epsilon=0.5,bits=4", "--policy", "mics:axes=1,false_positives=0.1")
    assert [row["policy"] for row in shown_rows] == ["zcurve:epsilon=0.5,bits=4", "mics:axes=1,false_positives=0.1"]
    assert {(row["lost"], row["delivered"]) for row in shown_rows} == {(0, shown_rows[0]["delivered"])}
