"""Rules in a table: a sync publishes what differs and nothing else; two writers do not lose each other's changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.engine import snapshot
from tamis.engine.snapshot.manifest import read_manifest
from tamis.errors import SchemaError, SnapshotError, TableError
from tamis.spark import (
    match,
    read_quarantine,
    read_summary,
    reduce_subscriptions,
    sync_reports,
    sync_snapshot,
    sync_stream,
    update_snapshot,
    write_snapshot,
)
from tamis.spark.snapshots import differences, sync
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts

RULES = "id string, filter string, namespace string, expires string, metadata map<string,string>"


def table(spark: Any, rules: dict[str, tuple[Any, ...]]) -> Any:
    """Return rules {id: (filter, namespace, expires, metadata)}, of which the last ones may be left out."""
    return spark.createDataFrame([(id, *rule, *[None] * (4 - len(rule))) for id, rule in rules.items()], RULES)


def counts(report: Any) -> tuple[int, int, int, int, int]:
    return (report.added, report.changed, report.removed, report.unchanged, report.rejected)


def held(directory: Path) -> dict[tuple[str, Any], tuple[Any, Any, dict[str, str]]]:
    """Return what the newest version holds: {(namespace, id): (text, expires, metadata)}."""
    engine = tamis.Engine.load(directory, clock=lambda: 0)
    return {
        (subscription.namespace, subscription.id): (
            subscription.text,
            subscription.expires,
            dict(subscription.metadata),
        )
        for subscription in engine
    }


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where rules that differ are compared: few in the driver, many in Spark, with the same result."""
    if request.param == "spark":
        monkeypatch.setattr(differences, "_FEW_BYTES", -1)
    return str(request.param)


in_both_ways = pytest.mark.parametrize("way", ["driver", "spark"], indirect=True)
mostly_in_the_driver = pytest.mark.parametrize(
    "way", ["driver", pytest.param("spark", marks=pytest.mark.soak)], indirect=True
)


@in_both_ways
@pytest.mark.usefixtures("way")
def test_a_sync_publishes_what_differs_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    rules: dict[str, tuple[Any, ...]] = {f"s{i}": (text,) for i, text in enumerate(texts(30, seed=41))}
    rules["timed"] = ("price < 1", None, "2030-01-01T02:00:00+02:00", {"b": "2", "a": "1"})
    rules["odd"] = ("price < 1", None, "2030-01-01t00:00:00z")  # a form that Spark does not read
    rules["theirs"] = ("price < 1", "other")
    with pytest.raises(SchemaError, match="has no version yet: name the attributes of events with schema="):
        sync_snapshot(table(spark, rules), tmp_path)
    first = sync_snapshot(table(spark, rules | {"bad": ("price >>",)}), tmp_path, schema=SCHEMA)
    assert counts(first) == (33, 0, 0, 0, 1)
    again = sync_snapshot(table(spark, rules | {"bad": ("price >>",)}), tmp_path)
    assert (again.version, counts(again)) == (first.version, (0, 0, 0, 33, 1))
    assert [(row["id"], row["position"]) for row in again.quarantine.collect()] == [("bad", 7)]
    del rules["s1"], rules["theirs"]
    rules |= {"s2": ("price < 2",), "s3": (rules["s3"][0], None, None, {"a": "1"}), "new": ("price < 3",)}
    rules["timed"] = ("price < 1", None, "2031-01-01T00:00:00Z", {"a": "1", "b": "2"})
    report = sync_snapshot(table(spark, rules | {"s4": ("price >>",)}), tmp_path)
    # What can no longer be compiled leaves: the version is what a table without history would give.
    assert counts(report) == (1, 3, 3, 27, 1)
    wanted = {id: (rule[0], (*rule, None, None, None)[3] or {}) for id, rule in rules.items() if id != "s4"}
    assert {id: (text, metadata) for (_, id), (text, _, metadata) in held(tmp_path).items()} == wanted
    assert held(tmp_path)["default", "timed"][1] == 1924992000000000
    assert held(tmp_path)["default", "odd"][1] == 1893456000000000
    manifest = read_manifest(Path(report.version))
    assert {part.home for part in manifest.parts} == {"", "v000001"}
    assert sum(part.n_rows for part in manifest.parts if not part.home) == 4  # nothing else was indexed again
    events = rows(60, seed=42)
    filters = [(id, rule[0]) for id, rule in rules.items() if id != "s4"]
    assert pairs(match(spark.createDataFrame(events, COLUMNS), tmp_path, now=0)) == sorted(laptop(filters, events))
    for rule in ("s5", "s6"):  # a second loss of the same part
        del rules[rule]
    assert counts(sync_snapshot(table(spark, rules), tmp_path)) == (1, 0, 2, len(rules) - 1, 0)  # s4 is good again
    assert {id for _, id in held(tmp_path)} == rules.keys()
    for done in (first, again, report):
        done.release()


@mostly_in_the_driver
@pytest.mark.usefixtures("way")
def test_rows_that_differ_under_one_id_are_rejected(spark: Any, tmp_path: Path) -> None:
    sync_snapshot(table(spark, {"a": ("price < 1",), "b": ("price < 2",)}), tmp_path, schema=SCHEMA).release()
    twice = spark.createDataFrame(
        [("a", "price < 1"), ("a", "price < 9"), ("b", "price < 2")], "id string, filter string"
    )
    report = sync_snapshot(twice.union(twice.where("id = 'b'")), tmp_path)
    assert counts(report) == (0, 0, 1, 1, 2)
    assert list(held(tmp_path)) == [("default", "b")]
    ends = [(None, "2030-01-01T00:00:00Z", {}), (None, "2030-01-01T00:00:00Z", None)]
    timed = table(spark, {"b": ("price < 2", *ends[0])}).union(table(spark, {"b": ("price < 2", *ends[1])}))
    assert counts(sync_snapshot(timed, tmp_path)) == (0, 1, 0, 0, 0)  # no metadata are empty metadata
    assert counts(sync_snapshot(timed, tmp_path)) == (0, 0, 0, 1, 0)
    other = table(spark, {"b": ("price < 2", None, "2030-01-01T02:00:00+02:00")})
    assert counts(sync_snapshot(timed.union(other), tmp_path)) == (0, 0, 1, 0, 3)  # differing texts, though equal ends
    assert counts(sync_snapshot(table(spark, {"b": ("price < 2",)}), tmp_path)) == (1, 0, 0, 0, 0)
    nothing = spark.createDataFrame([("b", "price < 2"), ("b", None)], "id string, filter string")
    assert counts(sync_snapshot(nothing, tmp_path)) == (0, 0, 1, 0, 2)


def test_a_table_that_cannot_belong_to_the_version(spark: Any, tmp_path: Path) -> None:
    rules = table(spark, {"a": ("price < 1",)})
    sync_snapshot(rules, tmp_path, schema=SCHEMA).release()
    with pytest.raises(SchemaError, match="the schema is not that of"):
        sync_snapshot(rules, tmp_path, schema=tamis.Schema({"price": tamis.Number()}))
    with pytest.raises(TableError, match="ids of type long, but those of"):
        sync_snapshot(spark.range(1).selectExpr("id", "'price < 1' AS filter"), tmp_path)
    with pytest.raises(TableError, match="has no column 'filter'"):
        sync_snapshot(spark.range(1), tmp_path)


def test_a_writer_that_is_overtaken_begins_again(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"a": ("price < 1",), "b": ("price < 2",)}
    sync_snapshot(table(spark, rules), tmp_path, schema=SCHEMA).release()
    publish, bases = sync.publish_changes, []

    def overtaken(base: Any, *args: Any) -> Any:
        bases.append(snapshot.name_of(base))
        if len(bases) == 1:  # after the difference was found
            update_snapshot(tmp_path, add=accepted(spark, [("a", "price < 7"), ("c", "price < 3")]))
        return publish(base, *args)

    monkeypatch.setattr(sync, "publish_changes", overtaken)
    report = sync_snapshot(table(spark, rules | {"b": ("price < 8",)}), tmp_path)
    assert bases == ["v000001", "v000002"]
    assert counts(report) == (0, 2, 1, 0, 0)
    assert {id: rule[0] for (_, id), rule in held(tmp_path).items()} == {"a": "price < 1", "b": "price < 8"}


def test_small_parts_are_merged_and_what_stood_beside_is_rebuilt(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_MOST_PARTS", 1)
    rules = {f"s{i}": (f"price BETWEEN {i} AND {i + 1 + i % 4}",) for i in range(12)}
    subscriptions = accepted(spark, [(id, rule[0]) for id, rule in rules.items()])
    reduced = reduce_subscriptions(subscriptions, schema=SCHEMA)
    write_snapshot(subscriptions, tmp_path, schema=SCHEMA, tile_by=["price"], tiles=3, summary=reduced)
    frame = spark.createDataFrame([(i, i + 0.5) for i in range(14)], "event_id long, price double")
    rules["s0"] = ("price < 20",)  # covers all others
    without = sync_snapshot(table(spark, rules), tmp_path, rebuild=False)
    assert without.dropped == ("summary.json", "tiles.json")
    assert read_manifest(Path(without.version)).beside == {}
    assert [part.n_rows for part in read_manifest(Path(without.version)).parts] == [12]  # 11 living and the new one
    write_snapshot(subscriptions, tmp_path, schema=SCHEMA, tile_by=["price"], tiles=3, summary=reduced)
    report = sync_snapshot(table(spark, rules), tmp_path)
    assert (report.dropped, counts(report)) == ((), (0, 1, 0, 11, 0))
    assert {"tiles.json", "summary.json"} <= read_manifest(Path(report.version)).beside.keys()
    assert [row["id"] for row in read_summary(spark, tmp_path).collect()] == ["s0"]
    wanted = sorted((i, f"s{n}") for i in range(14) for n in range(12) if n == 0 or n <= i + 0.5 <= n + 1 + n % 4)
    assert pairs(match(frame, tmp_path)) == wanted
    reduced.release()


@mostly_in_the_driver
@pytest.mark.usefixtures("way")
def test_a_stream_of_changes(spark: Any, tmp_path: Path) -> None:
    directory, source, checkpoint = tmp_path / "rules", tmp_path / "source", tmp_path / "checkpoint"
    form = "id string, filter string, _change_type string, _commit_version long"

    def publish(*changes: tuple[Any, ...]) -> None:
        spark.createDataFrame(list(changes), form).coalesce(1).write.mode("append").parquet(str(source))

    def run() -> dict[str, Any]:
        stream = spark.readStream.schema(form).parquet(str(source))
        names = {"operation": "_change_type", "version": "_commit_version"}
        query = sync_stream(
            stream, directory, checkpoint=checkpoint, schema=SCHEMA, trigger={"availableNow": True}, **names
        )
        query.awaitTermination()
        return {id: rule[0] for (_, id), rule in held(directory).items()}

    publish(("a", "price < 1", "insert", 1), ("b", "price < 2", "insert", 1), ("c", "price < 3", "insert", 1))
    assert run() == {"a": "price < 1", "b": "price < 2", "c": "price < 3"}
    publish(
        ("a", "price < 5", "update_postimage", 3),
        ("a", "price < 4", "update_postimage", 2),  # an earlier change that comes later
        ("a", "price < 4", "update_preimage", 3),
        ("b", None, "delete", 4),
        ("b", "price < 6", "insert", 4),  # an overwrite: a deletion and an insertion of one version
        ("c", "price >>", "update_postimage", 2),
        ("d", "price < 7", "insert", 2),
        ("d", None, "delete", 3),
        ("e", "price < 8", "explode", 3),
        ("f", "price < 8", "insert", None),
        ("g", "price <", "insert", 5),
        ("g", "price <", "insert", 6),
        (None, "price < 9", "insert", 6),
    )
    wanted = {"a": "price < 5", "b": "price < 6"}
    assert run() == wanted
    assert [report.version for report in sync_reports(checkpoint)] == ["v000001", "v000002"]
    last = sync_reports(checkpoint)[-1]
    assert (counts(last), last.batch) == ((0, 2, 1, 0, 5), 1)
    rejected = read_quarantine(spark, checkpoint).where("batch = 1").collect()
    assert {row["id"]: (row["operation"], row["version"], row["filter"]) for row in rejected} == {
        "c": ("update_postimage", "2", "price >>"),
        "e": ("explode", "3", "price < 8"),
        "f": ("insert", None, "price < 8"),
        "g": ("insert", "6", "price <"),
        None: ("insert", "6", "price < 9"),
    }
    reasons = {row["id"]: row["reason"] for row in rejected}
    assert "id" in reasons[None]
    assert reasons["e"] == "the operation is explode; use insert, update or delete"
    assert reasons["f"] == "there is no version to order the change by"
    assert reasons["g"].startswith("expected")
    for noted in (checkpoint / "commits").glob("*1*"):  # as after a crash before Spark noted the batch
        noted.unlink()
    assert run() == wanted
    assert snapshot.name_of(snapshot.newest(directory)) == "v000002"
    assert read_quarantine(spark, checkpoint).count() == 5


def test_what_a_caller_of_a_stream_can_get_wrong(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="needs a streaming DataFrame"):
        sync_stream(spark.range(1), tmp_path, checkpoint=tmp_path / "c")
    stream = spark.readStream.schema("id string, filter string, operation string").parquet(str(tmp_path))
    with pytest.raises(TableError, match="has no column 'version'"):
        sync_stream(stream, tmp_path, checkpoint=tmp_path / "c")
    with pytest.raises(SchemaError, match="has no version yet"):
        sync_stream(stream.selectExpr("*", "1 AS version"), tmp_path, checkpoint=tmp_path / "c")


def test_a_version_follows_the_one_it_was_built_upon(tmp_path: Path) -> None:
    """Without Spark: a writer that built upon a version that is no longer the newest is refused."""
    engine = tamis.Engine()
    engine.subscribe("price < 1", id="a")
    base = engine.save(tmp_path)
    state = snapshot.EngineState(engine.schema, True, "packed", 0)
    with snapshot.building(tmp_path) as place:
        engine.save(tmp_path)
        with pytest.raises(SnapshotError, match="another writer published a version after v000001"):
            snapshot.seal(place, state, [], after=base)
    with (
        snapshot.building(tmp_path) as place,
        pytest.raises(SnapshotError, match="another writer published a version after v000000"),
    ):
        snapshot.seal(place, state, [], after=snapshot.before_all(tmp_path))
    with snapshot.building(tmp_path / "new") as place:
        first = snapshot.seal(place, state, [], after=snapshot.before_all(tmp_path / "new"))
    assert snapshot.name_of(first) == "v000001"
    shutil.rmtree(tmp_path / "new")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["v000001", "v000002"]
