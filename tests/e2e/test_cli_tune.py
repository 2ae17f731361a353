"""``tamis tune``: which policy would pay, with figures that can be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.routing.policies import OPTIONS, POLICIES
from tamis.runtime.broker.config import LinkConfig


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Ranges of one attribute, of which the last one covers two others; 100 events, 31 of them wanted."""
    filters = ["x BETWEEN 0 AND 9", "x BETWEEN 2 AND 3", "x BETWEEN 40 AND 60", "x BETWEEN 41 AND 42"]
    subscriptions, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    subscriptions.write_text("".join(json.dumps({"id": n, "filter": text}) + "\n" for n, text in enumerate(filters)))
    events.write_text("".join(json.dumps({"x": x, "note": "n" * 50}) + "\n" for x in range(100)))
    return str(subscriptions), str(events)


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["tune", *arguments])
    return done.exit_code, done.output


def costs(*arguments: str) -> dict[str, dict[str, Any]]:
    code, shown = run(*arguments, "--json")
    assert code == 0, shown
    return {row["policy"]: row for row in json.loads(shown)["costs"]}


def test_the_figures_are_those_of_the_link(files: tuple[str, str]) -> None:
    cost_of = costs(*files, "--policy", "flood", "--policy", "every", "--policy", "covering", "--policy", "mics:axes=1")
    entries = {name: (row["entries"], row["wanted"], row["false_positives"]) for name, row in cost_of.items()}
    assert entries["flood"] == (1, 31, 69)
    assert entries["every"] == (4, 31, 0)
    assert entries["covering"] == (2, 31, 0)
    assert entries["mics:axes=1"][1:] == (31, 0), "cells end where the bounds are"
    assert all(row["event_us"] > 0 and row["subscription_us"] > 0 for row in cost_of.values())
    assert cost_of["flood"]["traffic_bytes"] > 69 * 50


def test_the_advice_follows_the_figures(files: tuple[str, str]) -> None:
    code, shown = run(*files, "--policy", "flood", "--policy", "every", "--policy", "covering", "--json")
    assert code == 0
    assert json.loads(shown)["advice"] == {
        "least_traffic": "covering",
        "smallest_table": "flood",
        "least_traffic_without_needless_events": "covering",
    }
    code, shown = run(*files, "--policy", "flood", "--policy", "every", "--policy", "covering")
    assert code == 0
    assert "4 subscriptions, 100 events, one link" in shown
    assert "Least traffic: covering" in shown


def test_all_candidates_run_on_their_own(files: tuple[str, str]) -> None:
    cost_of = costs(*files)
    assert {"flood", "covering", "zcurve:epsilon=0.3", "mics:axes=2,false_positives=0.01"} <= cost_of.keys()
    assert "projection" not in cost_of, "there are no balls"
    assert {row["wanted"] for row in cost_of.values()} == {31}


def test_the_limit_takes_the_first_events(files: tuple[str, str]) -> None:
    assert costs(*files, "--policy", "flood", "--limit", "20")["flood"]["forwarded"] == 20


def test_cells_are_written_for_the_configuration(files: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    code, shown = run(*files, "--policy", "mics:axes=1", "--cells", str(path))
    assert code == 0, shown
    cells = LinkConfig("north", policy="mics:axes=1", cells=str(path)).read_policy().cells
    assert cells is not None
    assert [json.loads(space)["axes"][0][0] for space in cells.spaces] == ["x"]
    code, shown = run(*files, "--policy", "covering", "--cells", str(path))
    assert code == 2
    assert "--cells needs a policy with cells" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "zcurve:epsilom=1"], "did you mean 'epsilon'?"),
        (["--policy", "nothing"], "unknown policy 'nothing'"),
    ],
)
def test_wrong_policies_are_refused(files: tuple[str, str], arguments: list[str], words: str) -> None:
    code, shown = run(*files, *arguments)
    assert (code, words in " ".join(shown.split())) == (2, True), shown


def test_no_subscriptions_are_refused(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    code, shown = run(str(tmp_path / "none.jsonl"), files[1])
    assert code == 2
    assert "no subscriptions" in " ".join(shown.split())


def test_options_are_listed() -> None:
    code, shown = run("--options")
    assert code == 0
    assert all(f"{name} = " in shown for name in OPTIONS)
    assert all(name in shown for name in POLICIES if name not in ("flood", "every"))
