"""Columns that do not fit the rules: a wrong type is an error in every form, an absent column is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import ModelError, TableError
from tamis.spark import (
    ball_join,
    check_events,
    covers_join,
    find_covers,
    hilbert_ranges,
    match,
    match_stream,
    matcher,
    overlay_plan,
    prune_snapshots,
    reduce_subscriptions,
    relation_join,
    sync_snapshot,
    sync_stream,
    write_snapshot,
)
from tests.spark.test_match import accepted

SCHEMA = tamis.Schema({"symbol": tamis.String(), "price": tamis.Number(), "detail.state": tamis.String()})
RULES = [("ibm", "symbol = 'IBM' AND price < 100"), ("high", "price > 50"), ("on", "detail.state = 'on'")]

#: Runs in any session, classic or Connect; prints a line for each form of the matcher.
EVERY_FORM = """
from tamis import Number, Schema
from tamis.spark import matcher

rules = spark.createDataFrame([("high", "price > 50")], "id string, filter string")
m = matcher(rules, schema=Schema({"price": Number()}))
m.register(spark, "alerts_on_columns", event_id_type="int")
for name, price in {"text": "'60'", "struct": "named_struct('value', 60)", "number": "60"}.items():
    spark.sql(f"SELECT 1 AS event_id, {price} AS price").createOrReplaceTempView("events_on_columns")
    events = spark.table("events_on_columns")
    forms = {
        "match": lambda: events.transform(m.match).count(),
        "split": lambda: m.split(events)[1].count(),
        "ids": lambda: len(events.select(m.ids()).first()[0]),
        "sql": lambda: spark.sql("SELECT * FROM alerts_on_columns(TABLE(events_on_columns))").count(),
    }
    for form, run in forms.items():
        try:
            answer = run()
        except Exception as error:
            answer = "attribute 'price' is a number, but its column has the type" in str(error)
        print(name, form, answer)
"""
ANSWERS = [f"{name} {form} True" for name in ("text", "struct") for form in ("match", "split", "ids", "sql")]
ANSWERS += ["number match 1", "number split 0", "number ids 1", "number sql 1"]


def events(spark: Any, *columns: str) -> Any:
    return spark.createDataFrame([(1,)], "event_id int").selectExpr("event_id", *columns)


@pytest.fixture(scope="module")
def directory(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("columns")
    write_snapshot(accepted(spark, RULES, SCHEMA), place, schema=SCHEMA)
    return place


def test_a_column_of_a_wrong_type_is_an_error_in_every_form(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(EVERY_FORM, "columns", "exec"), {"spark": spark})
    assert capsys.readouterr().out.splitlines() == ANSWERS


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["'60' AS price"], "'price' is a number, but its column has the type 'string'.*; cast the column, or declare"),
        (["60 AS price", "5 AS symbol"], "'symbol' is a string, but its column has the type 'int32'"),
        (["60 AS price", "named_struct('state', 1) AS detail"], "'detail.state' is a string, .*'int32'"),
        (["parse_json('5') AS price"], "'price' is a number, but its column has the type 'string'"),
    ],
)
def test_the_error_names_attribute_type_and_next_step(
    spark: Any, directory: Path, columns: list[str], problem: str
) -> None:
    with pytest.raises(Exception, match=f"(?i){problem}"):
        matcher(directory).match(events(spark, *columns))


def test_checks_and_streams_refuse_the_column_before_they_start(spark: Any, directory: Path, tmp_path: Path) -> None:
    wrong = events(spark, "'60' AS price")
    with pytest.raises(TableError, match="attribute 'price' is a number"):
        check_events(wrong, schema=SCHEMA)
    wrong.write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema(wrong.schema).parquet(str(tmp_path / "source"))
    with pytest.raises(TableError, match="attribute 'price' is a number"):
        match_stream(stream, directory, output=tmp_path / "output", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(TableError, match="attribute 'price' is a number"):
        matcher(directory).match(stream)


def test_attributes_without_a_column_are_named(spark: Any, directory: Path) -> None:
    frame = events(spark, "60 AS price", "'IBM' AS Symbols")
    absent = r"the schema has attributes without a column .*: 'symbol' \(did you mean 'Symbols'\?\); rename the columns"
    with pytest.warns(UserWarning, match=absent) as noted:
        deliveries = matcher(directory).match(frame)
    assert [warning.filename for warning in noted] == [__file__]
    assert [row["subscription_id"] for row in deliveries.collect()] == ["high"]
    with pytest.warns(UserWarning, match=absent):
        match(frame, directory, schema=SCHEMA)
    for refuse in (lambda: matcher(directory, strict=True).match(frame), lambda: match(frame, directory, strict=True)):
        with pytest.raises(TableError, match=r"'symbol' \(did you mean 'Symbols'\?\), 'detail.state'; add them"):
            refuse()
    matcher(directory).match(events(spark, "60 AS price"))  # absent on purpose: a warning would fail this test


def test_a_column_of_ids_without_any_attribute_is_an_error(spark: Any, directory: Path) -> None:
    with pytest.raises(Exception, match="no column of the events is in the schema .columns: event_id, other"):
        events(spark, "1 AS other").select(matcher(directory).ids()).collect()
    with pytest.raises(ModelError, match="no column of the events is in the schema"):
        matcher(directory).match(events(spark, "1 AS other"))


def test_columns_read_structs_and_all_text_as_match_does(spark: Any) -> None:
    schema = tamis.Schema({"detail.state": tamis.String(), "*": tamis.String(), "price": tamis.Number()})
    rules = spark.createDataFrame(
        [("s", "detail.state = 'on'"), ("k", "\"*\" ILIKE '%lamp%'")], "id string, filter string"
    )
    m = matcher(rules, schema=schema)
    form = "event_id int, detail struct<state: string>, name string, price double"
    frame = spark.createDataFrame([(1, ("on",), "A Lamp", 1.0), (2, ("off",), "x", float("nan"))], form)
    answers = frame.select("event_id", m.ids().alias("who"), m.explain("s").alias("why")).orderBy("event_id").collect()
    assert [row["who"] for row in answers] == [["k", "s"], None]
    assert answers[0]["why"].startswith("match: subscription 's'")
    assert answers[1]["why"].startswith("attribute 'price': NaN")
    assert sorted(row["subscription_id"] for row in m.match(frame).collect()) == ["k", "s"]


def test_wrong_arguments_are_named_before_anything_runs(spark: Any, directory: Path, tmp_path: Path) -> None:
    """By every function that takes rules, in the words of its own parameters."""
    rules, numbers = (
        spark.createDataFrame(RULES, "id string, filter string"),
        spark.range(1).selectExpr("id", "5 AS filter"),
    )
    boxes = spark.createDataFrame([(1, [0, 0], [3, 3])], "id int, low array<int>, high array<int>")
    points = spark.createDataFrame([(1, [0.0])], "id int, vector array<double>")
    balls = points.selectExpr("id", "vector AS center", "1.0D AS radius")
    stream = spark.readStream.schema("id string, filter string, operation string, version long").parquet(str(tmp_path))
    some, place = events(spark, "60 AS price"), {"output": tmp_path / "o", "checkpoint": tmp_path / "c"}
    text: Any = "4"
    number: Any = 5
    no_schema: Any = {"price": "number"}
    no_stream: Any = "now"
    calls: list[tuple[Any, str]] = [
        (lambda: covers_join(rules, numbers, schema=SCHEMA), "column 'filter': a filter is text, not int"),
        (
            lambda: covers_join(rules, rules, schema=SCHEMA, parts=text),
            "parts: expected a whole number of at least 1, got '4'",
        ),
        (lambda: find_covers(rules, rules, schema=no_schema), "needs a tamis.Schema, not dict"),
        (
            lambda: overlay_plan(rules, schema=SCHEMA, fanout=text),
            "fanout: expected a whole number of at least 2, got '4'",
        ),
        (lambda: overlay_plan(rules, schema=no_schema), "overlay_plan needs a tamis.Schema, not dict"),
        (lambda: hilbert_ranges(boxes, bits=0), "bits: expected a whole number from 1 to 16, got 0"),
        (lambda: ball_join(points, balls, dimensions=0), "dimensions: expected a whole number of at least 1, got 0"),
        (
            lambda: reduce_subscriptions(accepted(spark, RULES, SCHEMA), schema=no_schema),
            "needs a tamis.Schema, not dict",
        ),
        (
            lambda: sync_snapshot(numbers, tmp_path / "s", schema=SCHEMA),
            "column 'filter': a filter is text or VARIANT, not int",
        ),
        (lambda: sync_snapshot(stream, tmp_path / "s", schema=SCHEMA), "use sync_stream for a stream of changes"),
        (
            lambda: sync_stream(stream, directory, checkpoint=tmp_path / "c", trigger=no_stream),
            "trigger: expected a dict such as",
        ),
        (
            lambda: match_stream(stream, directory, trigger={"availableNw": True}, **place),
            "trigger: unknown key 'availableNw'; choose one of processingTime, once, continuous, availableNow",
        ),
        (
            lambda: sync_stream(stream, directory, checkpoint="c", trigger={"once": True, "availableNow": True}),
            "trigger: expected one key, got once, availableNow",
        ),
        (lambda: matcher(directory, pins=number), "pins: expected a directory or a URI, got 5"),
        (
            lambda: match_stream(stream, directory, output=number, checkpoint="c"),
            "output: expected a directory or a URI, got 5",
        ),
        (
            lambda: sync_stream(stream, directory, checkpoint=number),
            "checkpoint: expected a directory or a URI, got 5",
        ),
        (lambda: prune_snapshots(directory, pins=number), "pins: expected a list of directories or URIs, got 5"),
        (
            lambda: prune_snapshots(directory, checkpoints="c"),
            "checkpoints: expected a list of directories or URIs, got 'c'",
        ),
        (lambda: prune_snapshots(directory, pins=[number]), "pins: expected a directory or a URI, got 5"),
        (
            lambda: match_stream(stream, rules, **place),
            "directory: got a DataFrame of rules; write_snapshot or sync_snapshot",
        ),  # type: ignore[arg-type]
        (lambda: match_stream(some, directory, **place), "match_stream needs a streaming DataFrame"),
        (lambda: relation_join(boxes, boxes, "touches"), r"relations \['touches'\]: choose from contains"),
    ]
    for call, problem in calls:
        with pytest.raises(ModelError, match=problem):
            call()
