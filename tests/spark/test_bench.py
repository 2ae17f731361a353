"""``tamis bench spark``: the joins that `match` is compared with find what it finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app


def test_all_systems_find_the_same_pairs(spark: Any) -> None:
    """On boxes with equal ends and open sides, of which bins have to take care."""
    pytest.importorskip("duckdb")
    systems = "tamis,tamis laptop,binned join,range join,duckdb binned,duckdb range"
    options = ["--work", "stock", "--size", "500", "--events", "16000", "--repeat", "1", "--system", systems, "--json"]
    done = CliRunner().invoke(app, ["bench", "spark", *options])
    assert done.exit_code == 0, done.output
    rows = {row["system"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows.keys() == set(systems.split(","))
    every, few = ("tamis", "tamis laptop", "binned join", "duckdb binned"), ("range join", "duckdb range")
    for some, events in ((every, 16_000), (few, 1_000)):
        assert {rows[name]["events"] for name in some} == {events}
        assert len({rows[name]["pairs"] for name in some}) == 1
    assert rows["tamis"]["pairs"] > rows["range join"]["pairs"] > 0


def test_what_has_a_goal_has_a_row(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tamis_bench.spark import goals

    monkeypatch.setattr(goals, "_EVENTS", 2_000)
    monkeypatch.setattr(goals, "_FIRST_JOB", "print('Row(event_id=1)')")  # a session of its own costs ten seconds
    environment = dict(spark.sparkContext.environment)
    options = ["--size", "300", "--repeat", "1", "--system", ",".join(goals.GOALS), "--json"]
    done = CliRunner().invoke(app, ["bench", "spark", *options])
    assert done.exit_code == 0, done.output
    rows = {row["system"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows.keys() == goals.GOALS.keys()
    assert "300 changes into 300 rules" in rows["sync"]["note"]
    assert all("x as slow as from a directory" in rows[name]["note"] for name in ("s3 cold", "s3 warm"))
    assert rows["s3 warm"]["rate"] > 0
    assert spark.sparkContext.environment == environment


def test_every_join_of_the_papers_has_a_row(spark: Any) -> None:
    from tamis_bench.spark.papers import PAPERS

    options = ["--size", "60", "--repeat", "1", "--system", ",".join(PAPERS), "--json"]
    done = CliRunner().invoke(app, ["bench", "spark", *options])
    assert done.exit_code == 0, done.output
    rows = {row["system"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows.keys() == PAPERS.keys()
    assert all(row["rate"] > 0 for row in rows.values())
    assert "60 peers planned" in rows["overlay_plan"]["note"]
    parts, one_task = rows["reduce by parts"], rows["reduce in one task"]
    assert parts["pairs"] == one_task["pairs"] > 0
    assert "at most about 30 of them" in parts["note"]
    assert "at most about 60 of them" in one_task["note"]
