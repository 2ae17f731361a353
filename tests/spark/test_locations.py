"""Every parameter that names a place: a URI is served or refused at once, and never becomes a path on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tamis.errors import ModelError, SnapshotError, TableError, TamisError
from tamis.spark import (
    Pipeline,
    batch_reports,
    compile_subscriptions,
    match,
    match_stream,
    matcher,
    prune_snapshots,
    read_deliveries,
    read_events,
    read_quarantine,
    run_pipeline,
    sync_reports,
    sync_snapshot,
    sync_stream,
    write_rows,
    write_snapshot,
)
from tests.spark.worlds import SCHEMA

URI, UNKNOWN, SHORTENED = "s3://b/x", "ftp://b/x", Path("s3://b/x")
NO_JAR = (TableError, "Spark has no file system for s3://; use a path, or add the store's jar")
NO_STORE = (SnapshotError, "ftp:// is not a store for snapshots")
NO_SLASH = (SnapshotError, "a URI has two slashes; give it as a string")
EVENTS, CHANGES = "event_id int, price double", "id string, filter string, operation string, version long"


class Doors:
    """A snapshot with one rule, one event, and the functions that take locations."""

    def __init__(self, spark: Any, place: Path) -> None:
        self.spark, self.place, self.rules = spark, place, place / "rules"
        self.table = spark.createDataFrame([("low", "price < 10")], "id string, filter string")
        self.accepted, _ = compile_subscriptions(self.table, schema=SCHEMA)
        write_snapshot(self.accepted, self.rules, schema=SCHEMA)
        self.frame = spark.createDataFrame([(1, 5.0)], EVENTS)
        (place / "source").mkdir()

    def stream(self, form: str = EVENTS) -> Any:
        return self.spark.readStream.schema(form).parquet(str(self.place / "source"))

    def match_stream(self, **places: Any) -> Any:
        rules = places.pop("rules", self.rules)
        return match_stream(self.stream(), rules, **{"output": self.place / "o", "checkpoint": "c", **places})

    def run_pipeline(self, line: str) -> Any:
        (self.place / "s.jsonl").write_text('{"id": "a", "filter": "price < 100"}\n')
        (self.place / "e.jsonl").write_text('{"event_id": 1, "price": 9.5}\n')
        file = self.place / "p.toml"
        file.write_text(f'{line}\n[subscriptions]\npath = "s.jsonl"\n[events]\npath = "e.jsonl"\n')
        return run_pipeline(Pipeline.from_file(file), spark=self.spark)


@pytest.fixture(scope="module")
def doors(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Doors:
    return Doors(spark, tmp_path_factory.mktemp("doors"))


REFUSED: dict[str, tuple[Callable[[Doors], object], tuple[type[TamisError], str]]] = {
    "match_stream checkpoint": (lambda d: d.match_stream(checkpoint=URI), NO_JAR),
    "match_stream sink": (lambda d: d.match_stream(output=URI, sink="parquet"), NO_JAR),
    "match_stream output scheme": (lambda d: d.match_stream(output=UNKNOWN), NO_STORE),
    "match_stream output path": (lambda d: d.match_stream(output=SHORTENED), NO_SLASH),
    "match_stream checkpoint path": (lambda d: d.match_stream(checkpoint=SHORTENED), NO_SLASH),
    "match_stream rules path": (lambda d: d.match_stream(rules=SHORTENED), NO_SLASH),
    "read_deliveries path": (lambda d: read_deliveries(d.spark, SHORTENED), NO_SLASH),
    "batch_reports path": (lambda d: batch_reports(SHORTENED), NO_SLASH),
    "sync_reports path": (lambda d: sync_reports(SHORTENED), NO_SLASH),
    "read_quarantine path": (lambda d: read_quarantine(d.spark, SHORTENED), NO_SLASH),
    "prune checkpoint": (lambda d: prune_snapshots(d.rules, checkpoints=[UNKNOWN]), NO_STORE),
    "prune checkpoint path": (lambda d: prune_snapshots(d.rules, checkpoints=[SHORTENED]), NO_SLASH),
    "sync_stream checkpoint": (lambda d: sync_stream(d.stream(CHANGES), d.rules, checkpoint=URI), NO_JAR),
    "sync_stream rules": (lambda d: sync_stream(d.stream(CHANGES), UNKNOWN, checkpoint="c"), NO_STORE),
    "sync_snapshot path": (lambda d: sync_snapshot(d.table, SHORTENED, schema=SCHEMA), NO_SLASH),
    "write_snapshot": (lambda d: write_snapshot(d.accepted, UNKNOWN, schema=SCHEMA), NO_STORE),
    "write_snapshot path": (lambda d: write_snapshot(d.accepted, SHORTENED, schema=SCHEMA), NO_SLASH),
    "matcher pins": (lambda d: matcher(d.rules, pins=UNKNOWN), NO_STORE),
    "match work": (lambda d: match(d.frame, d.table, work=UNKNOWN), NO_STORE),
    "matcher work path": (lambda d: matcher(d.table, schema=SCHEMA, work=SHORTENED), NO_SLASH),
    "matcher pins path": (lambda d: matcher(d.rules, pins=SHORTENED), NO_SLASH),
    "write_rows": (lambda d: write_rows(d.frame, "parquet", URI), NO_JAR),
    "write_rows path": (lambda d: write_rows(d.frame, "csv", SHORTENED), NO_SLASH),
    "read_events": (lambda d: read_events(d.spark, URI, "jsonl"), NO_JAR),
    "read_events path": (lambda d: read_events(d.spark, SHORTENED, "jsonl"), NO_SLASH),
    "a pipeline's file": (lambda d: Pipeline.from_file(URI), (ModelError, "the file of a pipeline is on this machine")),
    "a pipeline's output": (lambda d: d.run_pipeline(f'output = "{UNKNOWN}"'), NO_STORE),
    "a pipeline's snapshot": (lambda d: d.run_pipeline(f'snapshot = "{SHORTENED}"'), NO_SLASH),
    "a pipeline's deliveries": (
        lambda d: d.run_pipeline(f'deliveries = {{format = "parquet", path = "{URI}"}}'),
        (ModelError, "p.toml: s3://b/x: Spark has no file system for s3://"),
    ),
}


@pytest.mark.parametrize("door", REFUSED)
def test_a_uri_that_nothing_serves_is_refused_at_once(
    doors: Doors, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    act, (kind, message) = REFUSED[door]
    with pytest.raises(kind, match=message):
        act(doors)
    assert list(tmp_path.iterdir()) == []  # nothing took the URI for a path
    assert not doors.spark.streams.active


def test_a_file_uri_is_a_directory(doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = doors.run_pipeline(f'output = "file://{tmp_path}/out"')
    assert report.output == str(tmp_path / "out")
    assert matcher(doors.rules, pins="pins").pins == str(tmp_path / "pins")  # workers run in directories of their own
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
