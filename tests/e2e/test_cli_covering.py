"""Covering from the command line: ``bench covering``, ``covers --explain``, ``reduce`` with its table and picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import InvariantError
from tamis.workload.bench import covering as bench


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_bench_covering_has_all_rows() -> None:
    code, out, _ = run("bench", "covering", "--quick", "--work", "boxes2,wide4", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    fields = {"work", "n", "system", "what", "rate", "unit", "ratio", "goal", "note"}
    assert all(set(row) == fields for row in rows)
    assert {row["system"] for row in rows} == set(bench.SYSTEMS)
    ours = [row["what"] for row in rows if (row["work"], row["system"]) == ("wide4", "ours")]
    assert ours == ["build", "cover", "cover p50", "reduce"]
    assert all(0 <= row["rate"] <= 1 for row in rows if row["what"] == "recall")
    assert [row["ratio"] for row in rows if row["system"] == "scan"] == [1.0, 1.0]


def test_bench_covering_as_a_table() -> None:
    code, out, _ = run("bench", "covering", "--quick", "--work", "boxes2", "--system", "ours,scan")
    assert code == 0
    assert "boxes/s" in out
    assert "became" in out
    assert run("bench", "covering", "--work", "nothing")[0] == 2


def test_a_false_cover_stops_the_bench() -> None:
    table = bench.make_covering_boxes("boxes2", 5)
    with pytest.raises(InvariantError, match="does not cover"):
        bench._check("some", table, table, np.array([1, 2, 3, 4, 0], np.int32), None)
    with pytest.raises(InvariantError, match="disagree"):
        bench._check("some", table, table, np.arange(5, dtype=np.int32), np.full(5, -1, np.int32))
