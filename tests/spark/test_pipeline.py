"""The pipeline from files to files: the same rows as the engine, every row accounted for, and again without a trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tamis.cli.main import app
from tamis.demo import datasets
from tamis.engine import Engine
from tamis.errors import InvariantError, SnapshotError
from tamis.model.schema import Schema
from tamis.model.types import Number, Region, String
from tamis.spark import Pipeline, read_summary, run_pipeline
from tamis.spark.pipelines.report import EventCounts, SubscriptionCounts

SUBSCRIPTIONS = [
    {"id": "strong", "filter": "mag >= 5"},
    {"id": "strong", "filter": "mag >= 5"},  # sent twice: one is kept
    {"id": "strong", "filter": "mag >= 5", "team": None},
    {"id": "here", "filter": "S_WITHIN(where, BBOX(0, 0, 2, 2))"},
    {"id": "deep", "filter": {"op": ">", "args": [{"property": "depth"}, 70]}},
    {"id": "two-faced", "filter": "mag >= 1"},
    {"id": "two-faced", "filter": "mag >= 2"},
    {"id": "broken", "filter": "mag >> 4"},
    {"id": "strong", "filter": "mag >= 4", "team": "red"},
]
EVENTS = [
    {"id": "a", "mag": 4.5, "depth": 100, "where": "POINT (1 1)", "place": "Alaska"},
    {"id": "b", "mag": 5.5, "depth": 10, "where": "POINT (9 9)", "place": "Chile"},
    {"id": "c", "mag": 6, "place": "Taiwan"},
    {"id": "d", "mag": 6, "where": "nowhere", "place": "?"},
]
PIPELINE = """
[subscriptions]
path = "s.jsonl"
namespace = "team"
[events]
path = "e.jsonl"
id = "id"
payload = ["place"]
[schema]
mag = "number"
depth = "number"
where = "region"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("s.jsonl", SUBSCRIPTIONS), ("e.jsonl", EVENTS)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(text + "{\n", encoding="utf-8")
    (tmp_path / "alerts.toml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *(str(argument) for argument in arguments)])


def rows_in(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return sorted(rows, key=str)


def expected() -> set[tuple[str, str, str]]:
    """Ask the engine, which knows nothing of Spark, about the subscriptions and events that are good."""
    engine = Engine(Schema({"mag": Number(), "depth": Number(), "where": Region(), "place": String(), "id": String()}))
    for row in (SUBSCRIPTIONS[0], *SUBSCRIPTIONS[3:5]):
        engine.subscribe(row["filter"] if isinstance(row["filter"], str) else json.dumps(row["filter"]), id=row["id"])
    return {(event["id"], id, event["place"]) for event in EVENTS[:3] for id in engine.match(event)}


def test_from_files_to_files_and_again(spark: SparkSession, folder: Path) -> None:
    first = run("run", folder / "alerts.toml", "--json")
    assert first.exit_code == 0, first.output
    report = json.loads(first.stdout)
    assert report["subscriptions"] == {"rows": 10, "accepted": 4, "rejected": 4, "repeated": 2}
    counts = {"rows": 5, "entered": 4, "matched_input": 3, "quarantined": 2, "unreadable": 1}
    assert report["events"] == counts
    deliveries = rows_in(folder / "output" / "deliveries")
    assert {tuple(row.values()) for row in deliveries} == expected()
    assert report["deliveries"] == len(deliveries) == len(expected())
    refused = rows_in(folder / "output" / "quarantine" / "subscriptions")
    assert sorted(str(row["id"]) for row in refused) == ["None", "broken", "two-faced", "two-faced"]
    assert all(row["reason"] for row in refused)
    bad = {
        row["event_id"]: (row["reason"], row["record"]) for row in rows_in(folder / "output" / "quarantine" / "events")
    }
    assert bad.keys() == {"d", None}
    assert "nowhere" in bad["d"][0]
    assert bad[None] == ("not JSON: expecting property name enclosed in double quotes at column 2", "{")
    check_what_people_see(run("run", folder / "alerts.toml"), folder)
    again = json.loads((folder / "output" / "report.json").read_bytes())
    assert (report.pop("new_snapshot"), again.pop("new_snapshot")) == (True, False)
    assert {**again, "stages": []} == {**report, "stages": []}
    assert rows_in(folder / "output" / "deliveries") == deliveries
    assert [path.name for path in (folder / "snapshots").iterdir()] == ["v000001"]
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["alerts.toml", "e.jsonl", "output", "s.jsonl", "snapshots"]
    (folder / "s.jsonl").write_text('{"id": "all", "filter": "mag > 0", "team": "default"}\n', encoding="utf-8")
    changed = run_pipeline(Pipeline.from_file(folder / "alerts.toml"), spark=spark)
    assert (changed.new_snapshot, Path(changed.snapshot).name) == (True, "v000002")
    assert changed.fingerprint != report["fingerprint"]
    assert {row["subscription_id"] for row in rows_in(folder / "output" / "deliveries")} == {"all"}
    assert Engine.load(folder / "snapshots").match({"mag": 1}) == ["all"]


def check_what_people_see(done: Result, folder: Path) -> None:
    assert done.exit_code == 0, done.output
    for line in (
        "10 subscriptions = 4 accepted + 4 rejected + 2 repeated",
        "5 events = 3 matched + 2 quarantined",
        "differing rows have this id",
        "Subscriptions with most deliveries",
        f"{folder / 'output' / 'deliveries'}  who gets what",
        "the indexed subscriptions, unchanged",
    ):
        assert line in done.stdout
    stages = [line.split("  ")[0] for line in done.stdout.splitlines() if re.search(r"  \d+\.\d$", line)]
    work = ["read subscriptions", "read events", "compile", "snapshot", "match", "quarantine", "summary"]
    assert stages == ["start Spark", *work]


def test_a_summary_for_links_changes_no_delivery(spark: SparkSession, folder: Path) -> None:
    (folder / "s.jsonl").write_text(
        '{"id": "wide", "filter": "mag > 4", "team": "default"}\n{"id": "narrow", "filter": "mag > 5"}\n'
        '{"id": "deep", "filter": "depth > 70"}\n{"id": "never", "filter": "mag > 5 AND mag < 4"}\n',
        encoding="utf-8",
    )
    off = run_pipeline(Pipeline.from_file(folder / "alerts.toml"), spark=spark)
    deliveries = rows_in(folder / "output" / "deliveries")
    (folder / "alerts.toml").write_text(PIPELINE + "[reduce]\n", encoding="utf-8")
    done = run("run", folder / "alerts.toml")
    assert "2 of 4 subscriptions must be forwarded to neighbours: 1 covered, 1 impossible" in done.stdout
    assert rows_in(folder / "output" / "deliveries") == deliveries
    assert {row["subscription_id"] for row in deliveries} == {"wide", "narrow", "deep"}
    on = json.loads((folder / "output" / "report.json").read_bytes())
    assert (off.reduction, on["reduction"]["before"], Path(on["snapshot"]).name) == (None, 4, "v000002")
    assert {row["id"] for row in read_summary(spark, folder / "snapshots").collect()} == {"wide", "deep"}
    with pytest.raises(SnapshotError, match="has no routing summary"):
        read_summary(spark, folder / "snapshots" / "v000001")


def test_typed_columns_parquet_and_namespaces(spark: SparkSession, tmp_path: Path) -> None:
    bounds = pa.table({"who": [1, 2, 3], "lo": [1.0, None, 5.0], "hi": [2.0, 3.0, 4.0], "team": ["red", None, "red"]})
    pq.write_table(bounds, tmp_path / "s.parquet")
    events = pa.table({"event_id": [1, 2, 3], "price": [1.5, 2.5, 9.0], "ns": ["red", None, "red"]})
    pq.write_table(events, tmp_path / "e.parquet")
    (tmp_path / "p.toml").write_text(
        '[subscriptions]\npath = "s.parquet"\nid = "who"\nnamespace = "team"\nbounds = { price = ["lo", "hi"] }\n'
        '[events]\npath = "e.parquet"\nnamespace = "ns"\n',
        encoding="utf-8",
    )
    done = run("run", tmp_path / "p.toml", "--out", tmp_path / "elsewhere", "--json")
    assert json.loads(done.stdout)["subscriptions"] == {"rows": 3, "accepted": 2, "rejected": 1, "repeated": 0}
    assert {tuple(row.values()) for row in rows_in(tmp_path / "elsewhere" / "deliveries")} == {(1, 1), (2, 2)}
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"s.jsonl"', '"absent.jsonl"', "absent.jsonl: there is no such file"),
        ('id = "id"', 'id = "key"', "there is no column 'key', which events.id names (columns: "),
        ('["place"]', '["city"]', "there is no column 'city', which events.payload names"),
        ('namespace = "team"', 'filter = "query"', "there is no column 'query', which subscriptions.filter names"),
        ('namespace = "team"', 'bounds = { mag = ["lo", ""] }', "no column 'lo', which subscriptions.bounds names"),
        ("[subscriptions]", 'snapshot = "output/s"\n[subscriptions]', "may not lie in one another"),
        ("[schema]", "[options]\nnow = 2026-01-01T00:00:00\n[schema]", "options.now: a time without a zone"),
    ],
)
def test_what_is_wrong_is_named(spark: SparkSession, folder: Path, old: str, new: str, problem: str) -> None:
    assert old in PIPELINE
    (folder / "alerts.toml").write_text(PIPELINE.replace(old, new, 1), encoding="utf-8")
    done = run("run", folder / "alerts.toml")
    assert done.exit_code == 2
    assert f"error: {problem}" in done.stderr or problem in done.stderr
    assert "Traceback" not in done.output
    assert not (folder / "output").exists()


def test_a_file_that_is_not_there_or_no_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    done = run("run", tmp_path / "absent.toml")
    assert (done.exit_code, "absent.toml: there is no such file" in done.stderr) == (2, True)
    (tmp_path / "p.toml").write_text("[events]\npath = 1\n", encoding="utf-8")
    done = run("run", tmp_path / "p.toml")
    assert (done.exit_code, done.stdout) == (2, "")


def test_init_writes_a_file_once(tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    assert run("init", file).exit_code == 0
    assert Pipeline.from_file(file).name == "alerts"
    done = run("init", file)
    assert (done.exit_code, "exists already" in done.stderr) == (2, True)


def test_a_lost_row_is_a_bug_of_ours() -> None:
    with pytest.raises(InvariantError, match="a row of the subscriptions was lost"):
        SubscriptionCounts(rows=10, accepted=4, rejected=4, repeated=1).check()
    with pytest.raises(InvariantError, match="an event was lost"):
        EventCounts(rows=5, entered=3, matched_input=3, quarantined=2, unreadable=1).check()
    with pytest.raises(InvariantError, match="an event was lost"):
        EventCounts(rows=5, entered=4, matched_input=3, quarantined=1, unreadable=1).check()


def test_without_the_extra_the_next_step_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from tamis.cli.main import main;"
        "sys.argv[1:] = ['pipeline', 'init', 'x.toml']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'tamis[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = run("demo", "--out", tmp_path)
    assert (done.exit_code, "choose another with --out" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_the_demonstration(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    """On an eighth of the storms and of the counties, evenly drawn, and on all earthquakes; on everything in a soak."""
    for name in ("storms", "county_subscriptions"):
        whole = getattr(datasets, name)()
        drawn = whole.take(list(range(0, len(whole), share)))
        monkeypatch.setattr(datasets, name, lambda drawn=drawn: drawn)
    done = run("demo", "--out", tmp_path / "demo", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    storms, quakes = report["storms"], report["quakes"]
    n_asked = datasets.county_subscriptions().num_rows
    assert storms["subscriptions"] == {"rows": n_asked + 4, "accepted": n_asked, "rejected": 3, "repeated": 1}
    assert [entry["example"] for entry in storms["rejected_subscriptions"]] == [
        "broken-polygon",
        "broken-attribute",
        "broken-syntax",
    ]
    assert storms["events"]["matched_input"] == datasets.storms().num_rows
    assert storms["deliveries"] > 0
    assert quakes["events"]["matched_input"] == datasets.earthquakes().num_rows
    pairs = {(row["event_id"], row["subscription_id"]) for row in rows_in(tmp_path / "demo" / "quakes" / "deliveries")}
    assert ("uw61345682", "washington") in pairs
    assert ("uw61345682", "region-US-WA") in pairs
    for picture in report["pictures"]:
        assert Path(picture).stat().st_size > 100_000
