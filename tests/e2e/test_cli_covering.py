"""Covering from the command line: ``bench covering``, ``covers --explain``, ``reduce`` with its table and picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import InvariantError
from tamis_bench import covering as bench


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
    assert "questions/s" in out
    assert "became" in out
    assert run("bench", "covering", "--work", "nothing")[0] == 2


def test_a_false_cover_stops_the_bench() -> None:
    table = bench.make_covering_boxes("boxes2", 5)
    with pytest.raises(InvariantError, match="does not cover"):
        bench._check("some", table, table, np.array([1, 2, 3, 4, 0], np.int32), None)
    with pytest.raises(InvariantError, match="disagree"):
        bench._check("some", table, table, np.arange(5, dtype=np.int32), np.full(5, -1, np.int32))


def test_covers_explains() -> None:
    code, out, _ = run("covers", "mag >= 4 AND depth < 70", "mag >= 5 AND depth < 100", "--explain")
    assert code == 1
    assert "yes      mag >= 4: B says mag >= 5" in out
    assert "decides  depth < 70: B says depth < 100" in out
    code, out, _ = run("covers", "mag >= 4 AND depth < 70", "mag >= 5", "--explain", "--json")
    document = json.loads(out)
    assert [condition["decides"] for condition in document["conditions"]] == [False, True]
    assert document["conditions"][1]["b"] is None
    assert "conditions" not in json.loads(run("covers", "x < 2", "x < 1", "--json")[1])


def write_subscriptions(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_reduce_draws_before_and_after(tmp_path: Path) -> None:
    texts = [
        "x BETWEEN 0 AND 9 AND y < 5",
        "x BETWEEN 2 AND 3 AND y < 4",
        "x > 3 AND x < 1",
        "y = 8",
        "s = 'a'",
        "y = 9",
    ]
    file = write_subscriptions(tmp_path / "s.jsonl", [{"id": f"s{i}", "filter": text} for i, text in enumerate(texts)])
    code, out, err = run("reduce", file, "--picture", tmp_path / "p.svg")
    assert code == 0, err
    assert "6 subscriptions -> 3" in out
    drawn = (tmp_path / "p.svg").read_text()
    assert "before: 6" in drawn
    assert "after: 3" in drawn
    run("reduce", file, "--picture", tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn
    assert run("reduce", file, "--picture", tmp_path / "p.gif")[0] == 2
    none = write_subscriptions(tmp_path / "t.jsonl", [{"id": 1, "filter": "s LIKE '%a%'"}])
    assert run("reduce", none, "--picture", tmp_path / "t.png")[0] == 0


def test_reduce_one_id_in_two_namespaces(tmp_path: Path) -> None:
    rows = [{"id": "a", "filter": f"x < {9 - i}", "namespace": name} for i, name in enumerate(("one", "two"))]
    code, out, err = run("reduce", write_subscriptions(tmp_path / "s.jsonl", rows), "--json")
    assert code == 0, err
    assert json.loads(out)["kept"] == ["one/a", "two/a"]
