"""``tamis bench``: it runs, checks what it times, and says what it leaves out. No speed is judged here."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tamis.cli.main import app
from tamis.errors import InvariantError
from tamis_bench.commands.options import effort
from tamis_bench.matching import match as bench
from tamis_bench.matching.systems import Ours, Scan
from tamis_bench.report import markdown, notes
from tamis_bench.rows import Row
from tamis_bench.timing import Effort, time_each
from tamis_bench.workloads.boxes import WORKS, make_boxes, make_work

QUICK = Effort(repeat=1, seconds=0.01, batch=64, fresh=False)
FIELDS = {"work", "n", "system", "what", "rate", "unit", "ratio", "goal", "note"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", "match", *map(str, arguments)])


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_quick_run_is_small() -> None:
    [row] = rows_of(run("--quick", "--json", "--work", "stock", "--system", "scan"))
    assert 1_000 <= row["n"] <= 10_000
    few, many = effort(quick=True, repeat=9), effort(quick=False, repeat=9)
    assert (few.repeat, few.fresh) == (2, False)
    assert few.seconds <= many.seconds / 10


def test_a_run_has_all_rows() -> None:
    rows = rows_of(run("--quick", "--json", "--size", "300"))
    assert all(set(row) == FIELDS for row in rows)
    assert {row["work"] for row in rows} == set(WORKS)
    assert {row["system"] for row in rows} == set(bench.SYSTEMS)
    for row in rows:
        assert row["rate"] is None or row["rate"] >= 0
        assert row["rate"] is not None or row["note"].startswith("left out: ")
    ours = [row for row in rows if (row["work"], row["system"]) == ("stock", "ours")]
    assert [row["what"] for row in ours] == [
        *(
            "build",
            "match",
            "match 256",
            "match 2 threads",
            "bytes",
            "p50",
            "p99",
            "p50 json",
            "p99 json",
            "insert",
            "delete",
        ),
        *("p50 churn", "p99 churn", "p50 writer", "p99 writer", "p99 merge"),
    ]
    assert ours[1]["unit"] == "events/s"
    [scan] = [row for row in rows if (row["work"], row["system"]) == ("stock", "scan")]
    assert scan["ratio"] == 1
    assert ours[1]["ratio"] == pytest.approx(ours[1]["rate"] / scan["rate"], rel=0.01)


def test_tables_on_a_terminal_and_in_markdown() -> None:
    chosen = ("--quick", "--work", "stock,mixed", "--system", "ours,scan,duckdb", "--size", "300")
    shown = run(*chosen)
    assert shown.exit_code == 0
    assert "stock, events/s" in shown.stdout
    assert "left out: it takes boxes only" in shown.stdout
    page = run(*chosen, "--markdown").stdout
    assert "cores" in page.splitlines()[0]
    assert "| mixed, events/s | 300 |\n|---|--:|\n| ours |" in page
    assert "| ours | n | stock | mixed |" in page


def test_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "rates.svg"
    assert (
        run("--quick", "--work", "zipf4", "--system", "ours,scan", "--size", "200,300", "--picture", path).exit_code
        == 0
    )
    drawn = path.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert all(f">{word}<" in drawn for word in ("zipf4", "ours", "scan", "events per second"))


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("--quick", "--picture", "rates.svg")
    assert result.exit_code == 2
    assert "pip install 'tamis[plots]'" in result.stderr


def test_a_missing_package_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "polars" else find(name, *rest)
    )
    rows = rows_of(run("--quick", "--json", "--work", "stock", "--size", "300", "--system", "scan,polars"))
    assert [(row["system"], row["rate"] is None) for row in rows] == [("scan", False), ("polars", True)]
    assert rows[1]["note"] == "left out: polars is not installed; pip install 'tamis-bench[peers]'"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--work", "stocks", "there is no workload 'stocks'; choose from uniform4"),
        ("--system", "ours,boost", "there is no system 'boost'; choose from ours"),
        ("--size", "10 k", "a size is a number as 500, 10k or 1M"),
        ("--size", "0", "a size is a number as 500, 10k or 1M"),
        ("--size", "", "a size is"),
        ("--picture", "rates.gif", "rates.gif: a picture is a .svg"),
    ],
)
def test_wrong_options(option: str, value: str, message: str) -> None:
    result = run("--quick", option, value or ",")
    assert result.exit_code == 2
    assert message in result.stderr


class Forgetful(Scan):
    """Loses the last match."""

    name = "forgetful"

    def match(self, events: Any) -> Any:
        offsets, rows = super().match(events)
        return np.minimum(offsets, max(offsets[-1] - 1, 0)), rows[:-1]


class WrongEngine(Ours):
    """Finds nothing."""

    def pairs(self, matches: Any) -> Any:
        return np.empty(0, np.int64), np.empty(0, np.int64)


def test_a_wrong_answer_is_never_timed() -> None:
    work = make_boxes("stock", 500, 64)
    *_, last = bench.Bench(work, QUICK).measure([Scan, Forgetful])
    assert (last.system, last.rate, last.note) == (
        "forgetful", None, "left out: its answers are not those of the scan",
    )  # fmt: skip
    with pytest.raises(InvariantError, match="ours and the scan disagree on stock"):
        list(bench.Bench(work, QUICK).measure([WrongEngine]))


def test_the_sample_has_matches_where_they_are_rare() -> None:
    measured = bench.Bench(make_boxes("uniform4", 500, 2_000), Effort(batch=2_000))
    sample, (events, _) = measured._find_sample(measured._base())
    assert len(sample) == 16
    assert len(set(events.tolist())) >= 8


def test_large_texts_and_large_counting_are_left_out_with_a_reason() -> None:
    rows = list(bench.measure_all(["mixed"], [1_000_000], ["ours", "scan"], QUICK))
    assert [row.rate for row in rows] == [None, None]
    assert "one by one" in rows[0].note
    work = make_work("stock", 100, 1)
    measured = bench.Bench(work, QUICK)
    assert measured._reason_to_leave_out(bench.SYSTEMS["counting"]) == ""
    assert measured._reason_to_leave_out(type("Small", (bench.SYSTEMS["counting"],), {"most": 99}))


def test_rows_survive_json() -> None:
    row = Row("stock", 1_000_000, "ours", "p99 merge", 12.5, None, 30.0, "said")
    assert Row.from_json(row.as_json()) == row
    assert row.as_json()["unit"] == "us"


def test_goals_stand_beside_the_numbers() -> None:
    rows = [
        Row("stock", 100_000, "ours", "match", 456_789.0, 120.0, 400e3),
        Row("stock", 100_000, "scan", "match", 3_800.0, 1.0),
        Row("stock", 100_000, "ours", "delete", 12_345.0, None, 200e3),
        Row("stock", 1_000_000, "counting", "match", None, note="left out: too many"),
    ]
    page = markdown(rows)
    assert "| ours | 457k (120x) |  |" in page
    assert "| goal for ours | >= 400k |  |" in page
    assert "| delete, subscriptions/s | 100k | 12.3k (goal >= 200k) |" in page
    assert notes(rows) == ["stock, match, counting at 1M: left out: too many"]


def test_time_between_events_is_not_counted() -> None:
    calls = []
    times = time_each(lambda event: None, [{}] * 10, Effort(seconds=0.05), lambda: calls.append(time.sleep(0.005)))
    assert times.n == 25 * len(calls)
    assert times.p99 < 5_000


def test_the_callback_between_events_can_end_it() -> None:
    answers = iter([True, None, False])
    assert time_each(lambda event: None, [{}], Effort(seconds=60), lambda: next(answers)).n == 50


def test_events_are_timed_while_segments_merge() -> None:
    measured = bench.Bench(make_boxes("uniform4", 60_000, 64), Effort(seconds=5.0, batch=64))
    rows = list(measured._latency_of_merge(Ours(measured.work)))
    assert rows[-1].what == "p99 merge"
    assert rows[-1].rate is None or rows[-1].goal == 3 * rows[0].rate


def test_regions_are_measured_beside_their_peers() -> None:
    result = CliRunner().invoke(app, ["bench", "regions", "--quick", "--size", "300", "--json"])
    rows = rows_of(result)
    systems = {(row["work"], row["system"]) for row in rows}
    assert {("contains point", "ours"), ("intersects", "strtree"), ("covers", "strtree+relate")} <= systems
    assert {("storms over counties", "ours"), ("quakes in provinces", "strtree")} <= systems
    assert {("relation", "ours"), ("cr-tree A", "cr-tree"), ("simplifier C", "on")} <= systems
    assert all(row["rate"] > 0 for row in rows if row["rate"] is not None and row["what"] != "evaluations")
    rates = {(row["work"], row["system"]): row["rate"] for row in rows if row["what"] == "evaluations"}
    assert all(rates[f"cr-tree {kind}", "cr-tree"] <= rates[f"cr-tree {kind}", "scan"] for kind in "ABC")


def test_a_part_of_the_regions_as_a_table() -> None:
    result = CliRunner().invoke(app, ["bench", "regions", "--quick", "--size", "200", "--part", "relation"])
    assert result.exit_code == 0
    assert "shapely.relate" in result.output
    assert CliRunner().invoke(app, ["bench", "regions", "--part", "maps"]).exit_code == 2
