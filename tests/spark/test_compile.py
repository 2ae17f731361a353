"""Compile: every input row is accepted, rejected with a reason, or one of several identical ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import SchemaError, TableError
from tamis.spark import compile_subscriptions

SCHEMA = tamis.Schema(
    {"symbol": tamis.String(), "price": tamis.Number(), "at": tamis.Timestamp(), "area": tamis.Region()}
)


def reasons(rejected: Any) -> dict[Any, str]:
    return {row["id"]: row["reason"] for row in rejected.collect()}


def test_texts_json_and_what_cannot_be_read(spark: Any) -> None:
    json = '{"op": "<", "args": [{"property": "price"}, 3]}'
    rows = [("text", "price < 10"), ("json", json), ("bad", "price >< 3"), ("unknown", "colour = 1"), ("none", None)]
    rows += [(None, "price < 1"), ("crossed", "S_WITHIN(area, POLYGON((0 0, 1 1, 1 0, 0 1, 0 0)))")]
    accepted, rejected = compile_subscriptions(spark.createDataFrame(rows, "id string, filter string"), schema=SCHEMA)
    assert {row["id"]: row["filter"] for row in accepted.collect()} == {"text": "price < 10", "json": json}
    by_id = {row["id"]: row for row in rejected.collect()}
    assert by_id.keys() == {"bad", "unknown", "none", None, "crossed"}
    assert by_id["bad"]["reason"].startswith("expected a value at column 8")
    assert by_id["bad"]["position"] == 7
    assert "known are symbol, price, at, area" in by_id["unknown"]["reason"]
    assert by_id["none"]["reason"] == "there is no filter"
    assert by_id[None]["reason"] == "there is no id"
    assert accepted.count() + rejected.count() == len(rows)


def test_identical_rows_collapse_and_differing_ones_are_all_rejected(spark: Any) -> None:
    rows = [(1, "price < 1", "a"), (1, "price < 1", "a"), (1, "price < 1", "b"), (2, "price < 2", None)]
    rows += [(2, "price < 3", None), (2, "price < 3", None), (3, "price < 3", None)]
    frame = spark.createDataFrame(rows, "id int, filter string, namespace string")
    accepted, rejected = compile_subscriptions(frame, schema=SCHEMA)
    assert sorted((row["namespace"], row["id"]) for row in accepted.collect()) == [("a", 1), ("b", 1), ("default", 3)]
    assert [row["filter"] for row in rejected.orderBy("filter").collect()] == ["price < 2", "price < 3", "price < 3"]
    assert set(reasons(rejected).values()) == {"differing rows have this id; which one is meant?"}


def test_metadata_in_another_order_is_the_same_metadata(spark: Any) -> None:
    frame = spark.sql(
        "SELECT 'a' AS id, 'price < 1' AS filter, map('x', '1', 'y', '2') AS metadata"
        " UNION ALL SELECT 'a', 'price < 1', map('y', '2', 'x', '1')"
    )
    accepted, rejected = compile_subscriptions(frame, schema=SCHEMA)
    assert [row["metadata"] for row in accepted.collect()] == [{"x": "1", "y": "2"}]
    assert rejected.count() == 0


@pytest.mark.parametrize("kind", ["timestamp", "string", "bigint"])
def test_ends_in_every_form(spark: Any, kind: str) -> None:
    moment = {"bigint": 1_000_000, "string": "1970-01-01T00:00:01Z", "timestamp": None}[kind]
    frame = spark.createDataFrame([("a", "price < 1", moment)], f"id string, filter string, expires {kind}")
    if kind == "timestamp":
        frame = frame.selectExpr("id", "filter", "timestamp_seconds(1) AS expires")
    accepted, _ = compile_subscriptions(frame, schema=SCHEMA)
    assert [row["expires"] for row in accepted.collect()] == [1_000_000]


def test_an_end_that_is_none(spark: Any) -> None:
    frame = spark.createDataFrame([("a", "price < 1", "tomorrow")], "id string, filter string, expires string")
    assert "expires" in reasons(compile_subscriptions(frame, schema=SCHEMA)[1])["a"]


def test_json_in_a_variant_column(spark: Any) -> None:
    frame = spark.sql("""SELECT 'v' AS id, parse_json('{"op": "<", "args": [{"property": "price"}, 3]}') AS filter""")
    accepted, rejected = compile_subscriptions(frame, schema=SCHEMA)
    assert (accepted.count(), rejected.count()) == (1, 0)


def test_bounds_in_columns_become_boxes(spark: Any) -> None:
    rows = [
        ("both", 1.0, 2.0),
        ("open", None, 2.0),
        ("all", None, None),
        ("empty", 3.0, 2.0),
        ("nan", float("nan"), 2.0),
    ]
    frame = spark.createDataFrame(rows, "id string, low double, high double")
    accepted, rejected = compile_subscriptions(frame, schema=SCHEMA, columns={"price": ("low", "high")})
    inf = float("inf")
    boxes = {row["id"]: (row["lo"], row["hi"], row["filter"]) for row in accepted.collect()}
    assert boxes == {"both": ([1.0], [2.0], None), "open": ([-inf], [2.0], None), "all": ([-inf], [inf], None)}
    assert reasons(rejected) == {
        "empty": "'price': lower bound 3.0 is above upper bound 2.0",
        "nan": "'price': bounds nan and 2.0 are not a range",
    }


def test_other_columns_become_text_that_is_exact(spark: Any) -> None:
    frame = spark.sql(
        "SELECT 'a' AS id, 9007199254740993L AS low, 'IBM' AS symbol, timestamp_seconds(1) AS since, "
        "'POLYGON((0 0, 1 0, 0 1, 0 0))' AS area"
        " UNION ALL SELECT 'b', NULL, NULL, NULL, NULL"
    )
    columns = {"price": ("low", None), "symbol": "symbol", "at": ("since", None), "area": "area"}
    accepted, _ = compile_subscriptions(frame, schema=SCHEMA, columns=columns)
    texts = {row["id"]: row["filter"] for row in accepted.collect()}
    assert texts["a"] == (
        "price >= 9007199254740993 AND at >= TIMESTAMP('1970-01-01T00:00:01.000000Z') AND symbol = 'IBM' AND "
        "S_INTERSECTS(area, POLYGON ((0 0, 1 0, 0 1, 0 0)))"
    )
    assert texts["b"] == "TRUE"


def test_a_file_that_changed_is_read_again(spark: Any, tmp_path: Path) -> None:
    """Spark would answer an equal plan from what was persisted."""
    for text in ("price < 1", "price < 2"):
        frame = spark.createDataFrame([("a", text)], "id string, filter string")
        frame.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "subscriptions"))
        source = spark.read.schema("id string, filter string").parquet(str(tmp_path / "subscriptions"))
        accepted, _ = compile_subscriptions(source, schema=SCHEMA)
        assert [row["filter"] for row in accepted.collect()] == [text]


def test_what_a_caller_can_get_wrong(spark: Any) -> None:
    frame = spark.createDataFrame([("a", "price < 1", 1.5)], "id string, filter string, amount double")
    with pytest.raises(TableError, match="has no column 'filter'"):
        compile_subscriptions(frame.drop("filter"), schema=SCHEMA)
    with pytest.raises(TableError, match="a string or a whole number, not double"):
        compile_subscriptions(frame.withColumn("id", frame["amount"]), schema=SCHEMA)
    with pytest.raises(SchemaError, match="'cost': unknown"):
        compile_subscriptions(frame, schema=SCHEMA, columns={"cost": ("amount", "amount")})
    with pytest.raises(SchemaError, match="needs a tamis.Schema"):
        compile_subscriptions(frame, schema={"price": "number"})  # type: ignore[arg-type]


def test_what_is_kept_can_be_released(spark: Any) -> None:
    frame = spark.createDataFrame([("a", "price < 1"), ("b", "price <")], "id string, filter string")
    compiled = compile_subscriptions(frame, schema=SCHEMA)
    accepted, rejected = compiled
    assert (accepted.count(), rejected.count()) == (1, 1)
    before = kept_by(spark)
    compiled.release()
    assert kept_by(spark) == before - 1
    assert (accepted.count(), rejected.count()) == (1, 1)  # compiled again


def kept_by(spark: Any) -> int:
    """How many tables Spark keeps."""
    return len(spark.sparkContext._jsc.getPersistentRDDs())
