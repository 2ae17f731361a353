"""``tamis bench balls``: it runs, checks what it times, and tells the way that was taken. No speed is judged here."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tamis.cli.main import app
from tamis.errors import InvariantError
from tamis.index.balls.ball_index import BallIndex
from tamis_bench import balls as bench
from tamis_bench.timing import Effort
from tamis_bench.workloads.balls import KINDS, make_balls

QUICK = Effort(repeat=1, seconds=0.01, batch=64, fresh=False)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", "balls", *map(str, arguments)])


def test_every_work_has_rows_of_every_system() -> None:
    done = run("--quick", "--size", 400, "--json")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["work"] for row in rows if row["system"] == "ours"] == list(bench.WORKS)
    for row in rows:
        cover = row["work"].startswith("cover")
        assert row["unit"] == ("questions/s" if cover else "events/s")
        assert row["rate"] > 0
        if row["system"] == ("scan" if cover else "numpy"):
            assert row["ratio"] == 1
        if row["system"] == "ours":
            assert row["note"].split(",")[0] in ("tree", "blocks", "scan")
    assert {row["system"] for row in rows} == set(bench.SYSTEMS)


def test_the_table_has_a_line_for_each_work_and_size() -> None:
    done = run("--quick", "--size", "300,400", "--work", "cover-pareto-4,match-pareto-2", "--system", "ours,tree")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("cover-pareto-4") == 2
    assert done.stdout.count("match-pareto-2") == 2


@pytest.mark.parametrize("wrong", [("--work", "boxes"), ("--system", "faiss"), ("--size", "many")])
def test_unknown_names_are_refused(wrong: tuple[str, str]) -> None:
    done = run(*wrong)
    assert done.exit_code == 2
    assert wrong[1] in done.output


def test_a_wrong_answer_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BallIndex.find_covers

    def wrong(self: BallIndex, centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        matches = right(self, centers, radii)
        return matches if self.statistics()["way"] == "scan" else np.full_like(matches, -1)

    monkeypatch.setattr(BallIndex, "find_covers", wrong)
    with pytest.raises(InvariantError, match="tree and the scan disagree"):
        list(bench.measure_balls(["cover-uniform-4"], [600], ["tree"], QUICK))


@pytest.mark.parametrize("kind", KINDS)
def test_worlds_are_the_same_every_time(kind: str) -> None:
    first, again, other = (make_balls(kind, 50, 6, 4, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.centers, other.centers)
