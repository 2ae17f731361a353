"""Match: the rows of `Engine.match_table`, whatever the door, and nothing lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

import tamis
from tamis.errors import SnapshotError, TableError
from tamis.spark import backtest, check_events, compile_subscriptions, match, write_snapshot
from tamis.spark.matching import matching
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts


def accepted(spark: Any, filters: list[tuple[Any, str]], schema: tamis.Schema = SCHEMA) -> Any:
    kind = "string" if isinstance(filters[0][0], str) else "long"
    frame = spark.createDataFrame(filters, f"id {kind}, filter string")
    return compile_subscriptions(frame, schema=schema)[0]


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A snapshot of 400 subscriptions in three parts, and 500 events."""
    filters = [(f"s{i}", text) for i, text in enumerate(texts(400, seed=1))]
    directory = tmp_path_factory.mktemp("snapshots")
    write_snapshot(accepted(spark, filters), directory, schema=SCHEMA, part_size=150)
    events = rows(500, seed=2)
    return {
        "filters": filters,
        "directory": directory,
        "events": spark.createDataFrame(events, COLUMNS).repartition(3),
        "wanted": sorted(laptop(filters, events)),
    }


def test_the_same_rows_as_on_a_laptop(world: dict[str, Any]) -> None:
    assert len(world["wanted"]) > 5_000
    assert pairs(match(world["events"], world["directory"])) == world["wanted"]


def test_an_engine_opens_what_spark_wrote(world: dict[str, Any]) -> None:
    engine = tamis.Engine.load(world["directory"])
    assert len(engine) == 400
    assert engine.statistics()["namespaces"]["default"]["parts"] == 3
    columns = {name: [row.get(name) for row in rows(500, seed=2)] for name in SCHEMA if name != "at"}
    matches = engine.match_table({**columns, "at": [row["at"] for row in rows(500, seed=2)]})
    assert sorted(zip(matches.event.tolist(), matches.subscription, strict=True)) == world["wanted"]
    assert engine.match({"price": 10.0}) == tamis.Engine.load(world["directory"], matcher="linear").match(
        {"price": 10.0}
    )


def test_spark_reads_what_an_engine_saved(spark: Any, tmp_path: Path) -> None:
    engine = tamis.Engine(tamis.Schema({"price": tamis.Number(), "volume": tamis.Number()}))
    generator = np.random.default_rng(3)
    lo = generator.uniform(0, 90, (500, 2))
    engine.subscribe_boxes(["price", "volume"], lo, lo + 20)
    engine.subscribe("price < 50 AND volume IS NULL", id=1_000)
    engine.unsubscribe(7)
    engine.save(tmp_path)
    events = [(i, float(price), float(volume)) for i, (price, volume) in enumerate(generator.uniform(0, 100, (50, 2)))]
    frame = spark.createDataFrame([*events, (99, 3.0, None)], "event_id long, price double, volume double")
    wanted = [
        (i, id)
        for i, price, volume in [*events, (99, 3.0, None)]
        for id in engine.match({"price": price, "volume": volume})
    ]
    assert pairs(match(frame, tmp_path)) == sorted(wanted)
    assert (99, 1_000) in wanted


def test_a_table_of_subscriptions_is_indexed_at_once(spark: Any, world: dict[str, Any]) -> None:
    frame = spark.createDataFrame(world["filters"], "id string, filter string")
    assert pairs(match(world["events"], frame, schema=SCHEMA)) == world["wanted"]


def test_bad_subscriptions_are_named(spark: Any, world: dict[str, Any]) -> None:
    bad = [(f"bad{i:02}", f"price >< {i}") for i in range(12)]
    frame = spark.createDataFrame([*world["filters"][:5], *bad], "id string, filter string")
    with pytest.raises(
        TableError, match=r"(?s)cannot be used:\n  'bad.*and more; compile_subscriptions gives them all"
    ):
        match(world["events"], frame, schema=SCHEMA)


def test_bad_events_match_nothing_and_are_told(spark: Any, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("any", "price IS NOT NULL OR price IS NULL")]), tmp_path, schema=SCHEMA)
    columns = "event_id string, price double, area string"
    good, bad = [("a", 1.0, None), ("d", None, "POINT(1 1)")], [("b", float("nan"), None), ("c", 2.0, "POLYGON((0 0")]
    events = spark.createDataFrame([*good, *bad], columns)
    assert pairs(match(events, tmp_path)) == [("a", "any"), ("d", "any")]
    reasons = {row["event_id"]: row["reason"] for row in check_events(events, schema=SCHEMA).collect()}
    assert reasons.keys() == {"b", "c"}
    assert reasons["b"] == ("attribute 'price': NaN and infinity are not numbers; leave a missing value out (got nan)")


def test_payload_namespaces_and_ids_of_any_kind(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(1, "price > 0", "red"), (1, "price > 5", "blue"), (2, "price > 0", None)],
        "id long, filter string, namespace string",
    )
    write_snapshot(compile_subscriptions(frame, schema=SCHEMA)[0], tmp_path, schema=SCHEMA)
    rows = [(b"\x01", 3.0, "red", {"k": 1}), (b"\x02", 9.0, "blue", None), (b"\x03", 9.0, None, None)]
    events = spark.createDataFrame(rows, "key binary, price double, tenant string, extra map<string, int>")
    deliveries = match(
        events, tmp_path, event_id="key", namespace_column="tenant", payload=["extra", "price"]
    ).collect()
    assert sorted((bytes(row[0]), *row[1:]) for row in deliveries) == [
        (b"\x01", 1, {"k": 1}, 3.0),
        (b"\x02", 1, None, 9.0),
        (b"\x03", 2, None, 9.0),
    ]
    assert [row[1] for row in match(events, tmp_path, event_id="key", namespace="blue").collect()] == [1, 1]


def test_subscriptions_end(spark: Any, tmp_path: Path) -> None:
    ends = [("past", "price > 0", "2000-01-01T00:00:00Z"), ("later", "price > 0", "2050-01-01T00:00:00Z")]
    frame = spark.createDataFrame(ends, "id string, filter string, expires string")
    write_snapshot(compile_subscriptions(frame, schema=SCHEMA)[0], tmp_path, schema=SCHEMA)
    events = spark.createDataFrame([(1, 5.0)], "event_id int, price double")
    assert pairs(match(events, tmp_path)) == [(1, "later")]
    assert pairs(match(events, tmp_path, now="1999-01-01T00:00:00Z")) == [(1, "later"), (1, "past")]
    assert pairs(match(events, tmp_path, now="2051-01-01T00:00:00Z")) == []


def test_geometry_variant_decimal_and_times(spark: Any, tmp_path: Path) -> None:
    filters = [
        ("area", "S_INTERSECTS(area, POLYGON((0 0, 5 0, 0 5, 0 0)))"),
        ("exact", "volume = 9007199254740993"),
        ("text", "symbol = 'IBM'"),
        ("time", "at >= TIMESTAMP('2020-01-01T00:00:00Z')"),
    ]
    write_snapshot(accepted(spark, filters), tmp_path, schema=SCHEMA)
    events = spark.sql(
        "SELECT 1 AS event_id, ST_GeomFromWKB(X'0101000000000000000000F03F000000000000F03F') AS area,"
        " CAST(9007199254740993 AS DECIMAL(20, 0)) AS volume, parse_json('\"IBM\"') AS symbol,"
        " TIMESTAMP '2020-01-01 02:00:00+02:00' AS at"
        " UNION ALL SELECT 2, NULL, 9007199254740992, parse_json('null'), TIMESTAMP '2020-01-01 01:00:00+02:00'"
    )
    assert pairs(match(events, tmp_path)) == [(1, "area"), (1, "exact"), (1, "text"), (1, "time")]


@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_one_event_that_every_subscription_matches(spark: Any, tmp_path: Path, n: int) -> None:
    boxes = spark.range(n).selectExpr("id", "0.0D AS low", "100.0D + id AS high")
    schema = tamis.Schema({"price": tamis.Number()})
    write_snapshot(
        compile_subscriptions(boxes, schema=schema, columns={"price": ("low", "high")})[0], tmp_path, schema=schema
    )
    events = spark.range(60).selectExpr("id AS event_id", "IF(id = 7, 50.0D, -1.0D - id) AS price")
    deliveries = match(events, tmp_path).selectExpr(
        "count(*)", "min(event_id)", "max(event_id)", "count(DISTINCT subscription_id)", "sum(subscription_id)"
    )
    assert tuple(deliveries.collect()[0]) == (n, 7, 7, n, n * (n - 1) // 2)


def test_matches_come_in_blocks(monkeypatch: pytest.MonkeyPatch, world: dict[str, Any]) -> None:
    """The worker's own loop, with blocks so small that every event fills several."""
    import pyarrow as pa

    monkeypatch.setattr(matching, "_AT_ONCE", 40)
    monkeypatch.setattr(matching, "_OUT_ROWS", 7)
    version = str(next(world["directory"].glob("v*")))
    columns = {name: [row.get(name) for row in rows(500, seed=2)] for name in SCHEMA}
    columns["at"] = pa.array(columns["at"], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({matching.EVENT: list(range(500)), **columns})
    form = pa.schema([("event_id", pa.int64()), ("subscription_id", pa.string())])
    task = matching.MatchTask(version, SCHEMA.to_json(), tuple(columns), None, "default", form)
    batches = list(matching.match_batches(iter([batch]), task=task))
    assert max(block.num_rows for block in batches) == 7
    assert sorted(row for block in batches for row in zip(*block.to_pydict().values(), strict=True)) == world["wanted"]


def test_what_a_caller_can_get_wrong(spark: Any, world: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TableError, match="has no column 'key' .columns: event_id, symbol"):
        match(world["events"], world["directory"], event_id="key")
    with pytest.raises(SnapshotError, match="there is no saved engine in it"):
        match(world["events"], tmp_path)
    with pytest.raises(tamis.ModelError, match="no column of the events is in the schema"):
        match(spark.range(3).withColumnRenamed("id", "event_id"), world["directory"])
    with pytest.raises(tamis.ModelError, match="now: "):
        match(world["events"], world["directory"], now="yesterday")
    with pytest.raises(tamis.SchemaError, match="'price'"):
        match(world["events"], world["directory"], schema=tamis.Schema({"price": tamis.String()}))
    engine = tamis.Engine()
    engine.subscribe("price > 1", id="text")
    engine.subscribe("price > 1", id=1)
    engine.save(tmp_path)
    with pytest.raises(TableError, match="numbers and ids that are strings"):
        match(world["events"], tmp_path)


def test_paths_reach_into_structs_and_lists_of_structs(spark: Any) -> None:
    form = "event_id int, detail struct<state:string, n:int>, items array<struct<sku:string>>, tags array<string>"
    events = spark.createDataFrame(
        [(1, ("running", 1), [("a1",), ("b2",)], ["x"]), (2, ("stopped", 2), [("b2",)], []), (3, None, None, None)],
        form,
    )
    rules = [("s", "detail.state = 'running'"), ("n", "detail.n > 1"), ("t", "tags = 'x'")]
    subscriptions = spark.createDataFrame(rules, "id string, filter string")
    pairs = {(row["event_id"], row["subscription_id"]) for row in match(events, subscriptions).collect()}
    assert pairs == {(1, "s"), (2, "n"), (1, "t")}
    through_a_list = spark.createDataFrame([("i", "items.sku = 'a1'")], "id string, filter string")
    schema = tamis.Schema({"items.sku": tamis.Many(tamis.String())})
    assert [tuple(row) for row in match(events, through_a_list, schema=schema).collect()] == [(1, "i")]


def test_a_path_into_a_variant_column_is_refused_with_the_expression_that_takes_it_out(spark: Any) -> None:
    events = spark.createDataFrame([(1, "{}")], "event_id int, detail string").withColumn(
        "detail", F.parse_json("detail")
    )
    subscriptions = spark.createDataFrame([("s", "detail.state = 'running'")], "id string, filter string")
    with pytest.raises(TableError, match=r"'detail' is a VARIANT.*try_variant_get\(detail, '\$\.state'"):
        match(events, subscriptions, schema=tamis.Schema({"detail.state": tamis.String()}))


def test_attributes_without_a_column_are_missing_in_every_event(spark: Any) -> None:
    filters = [
        ("a", "price < 1"),
        ("b", "elsewhere LIKE 'x%' OR price > 5 AND nowhere IS NULL"),
        ("c", "\"*\" ILIKE '%lamp%'"),
        ("d", "absent = 7"),
    ]
    rules = spark.createDataFrame(filters, "id string, filter string")
    events = spark.createDataFrame(
        [(1, 0.5, "a Lamp"), (2, 9.0, "b"), (3, 7.0, None)], "event_id long, price double, name string"
    )
    absent = r"without a column in the events.*: 'absent', 'elsewhere', 'nowhere'; give strict=True"
    with pytest.warns(UserWarning, match=absent) as noted:
        fired = {row["subscription_id"]: row["fired"] for row in backtest(events, rules).collect()}
    assert fired == {"a": 1, "b": 2, "c": 1, "d": 0}
    assert [warning.filename for warning in noted] == [__file__]
    with pytest.warns(UserWarning, match=absent) as warned:
        deliveries = match(events, rules)
    assert [warning.filename for warning in warned] == [__file__]
    pairs = {(row["event_id"], row["subscription_id"]) for row in deliveries.collect()}
    assert pairs == {(1, "a"), (1, "c"), (2, "b"), (3, "b")}
    engine = tamis.Engine()
    for id, filter in filters:
        engine.subscribe(filter, id=id)
    table = engine.match_table({"price": [0.5, 9.0, 7.0], "name": ["a Lamp", "b", None]})
    assert {(row + 1, id) for row in range(3) for id in table.of(row)} == pairs, "as a table of the library"
    bad = spark.createDataFrame([("e", "price <")], "id string, filter string")
    with pytest.raises(TableError, match="'e'"):
        backtest(events, rules.union(bad))


def test_strict_refuses_rules_about_attributes_without_a_column(spark: Any) -> None:
    rules = spark.createDataFrame([("a", "prise < 1"), ("b", "\"*\" ILIKE '%lamp%'")], "id string, filter string")
    events = spark.createDataFrame([(1, 0.5, "a Lamp")], "event_id long, price double, name string")
    with pytest.raises(TableError, match="'a': attribute 'prise': unknown .did you mean 'price'"):
        match(events, rules, strict=True)
    with pytest.raises(TableError, match="'a': attribute 'prise': unknown"):
        backtest(events, rules, strict=True)
    with pytest.warns(UserWarning, match=r"'prise' \(did you mean 'price'\?\)"):
        assert [row["subscription_id"] for row in match(events, rules).collect()] == ["b"]
    keywords = rules.where("id = 'b'")
    assert [row["subscription_id"] for row in match(events, keywords, strict=True).collect()] == ["b"]


def test_a_field_that_a_struct_does_not_have_is_absent(spark: Any) -> None:
    rules = spark.createDataFrame([("a", "detail.stat = 'on'")], "id string, filter string")
    events = spark.createDataFrame([(1, ("on",))], "event_id long, detail struct<state: string>")
    with pytest.raises(TableError, match="'a': attribute 'detail.stat': unknown"):
        match(events, rules, strict=True)
    with pytest.warns(UserWarning, match=r"'detail.stat' \(did you mean 'detail.state'\?\)"):
        match(events, rules)


def test_rules_of_sigma_meet_numbers_booleans_and_objects(spark: Any) -> None:
    """What the importer writes runs on columns of any type, in `match` and in `backtest`, and parts are one rule."""
    parts = {"rule": "long"}
    filters = [
        ("id", "CASEI(EventID) = CASEI('4688')", {}),
        ("flag", "CASEI(Signed) = CASEI('true')", {}),
        ("size", "Size MATCHES '^1[0-9]$' AND CASEI(Size) NOT LIKE CASEI('%5')", {}),
        ("inside", "request.items ILIKE '%\"port\":22%' AND CASEI(request.name) = CASEI('ssh')", {}),
        ("whole", "request ILIKE '%ssh%'", {}),
        ("long (part 1)", "EventID ILIKE '46%'", parts),
        ("long (part 2)", "EventID ILIKE '%88'", parts),
    ]
    rules = spark.createDataFrame(filters, "id string, filter string, metadata map<string,string>")
    events = spark.createDataFrame(
        [
            (1, 4688, True, 12.0, {"name": "SSH", "items": [{"port": 22}]}),
            (2, 4624, False, 15.0, {"name": None, "items": []}),
            (3, None, None, None, None),
        ],
        "event_id long, EventID long, Signed boolean, Size double, "
        "request struct<name: string, items: array<struct<port: int>>>",
    )
    wanted = {(1, "id"), (1, "flag"), (1, "size"), (1, "inside"), (1, "whole")}
    wanted |= {(1, "long (part 1)"), (1, "long (part 2)"), (2, "long (part 1)")}
    schema = tamis.Schema(
        dict.fromkeys(
            ["EventID", "Signed", "Size", "request", "request.items", "request.name"], tamis.String(coerce=True)
        )
    )
    pairs = {(row["event_id"], row["subscription_id"]) for row in match(events, rules, schema=schema).collect()}
    assert pairs == wanted
    pairs = {(row["event_id"], row["subscription_id"]) for row in match(events, rules, strict=True).collect()}
    assert pairs == wanted, "what is inside of a struct is there"
    fired = {row["subscription_id"]: row["fired"] for row in backtest(events, rules).collect()}
    assert fired == {"id": 1, "flag": 1, "size": 1, "inside": 1, "whole": 1, "long": 2}
