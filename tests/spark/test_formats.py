"""The formats: every record becomes a row or stays with its reason, whichever columns are requested."""

from __future__ import annotations

import datetime as dt
import json
import string
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tamis.errors import SchemaError, TableError
from tamis.model.schema import Schema
from tamis.model.types import Boolean, Many, Number, Region, String, Timestamp, Vector
from tamis.spark import check_events, match, read_events, read_subscriptions
from tamis.spark.sources.formats import Read, format_of

SCHEMA = Schema({"mag": Number(), "at": Timestamp(), "felt": Boolean(), "where": Region(), "look": Vector(2)})


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def unreadable_in(read: Read) -> list[tuple[str, str]]:
    assert read.unreadable is not None
    return sorted((row["record"], row["reason"]) for row in read.unreadable.collect())


def whole(read: Read) -> bool:
    """Whether no record was lost, whichever columns a query needs."""
    bad = 0 if read.unreadable is None else read.unreadable.count()
    counts = {read.rows.count(), read.rows.select("id").count(), len(read.rows.select("id").collect())}
    return counts == {read.records.count() - bad}


def test_lines_of_json_and_why_some_are_none(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "mag": 4.5, "at": "2018-02-01T00:00:00Z", "felt": true, "where": "POINT (1 2)", "look": [1, 2.5]}',
        '{"id": 2, "mag": "big"}',
        "",
        '{"id": 3, "mag" 4}',
        "[1, 2]",
        '{"id": 4, "mag": NaN}',
        '{"id": 5, "mag": 7}',
        '{"id": 6, "felt": 1}',
    ]
    read = read_events(spark, write(tmp_path / "e.jsonl", "\n".join(lines) + "\n"), schema=SCHEMA)
    assert sorted(row["id"] for row in read.rows.collect()) == [1, 5]
    assert read.records.count() == 7
    assert whole(read)
    assert unreadable_in(read) == sorted(
        [
            (lines[1], "attribute 'mag': expected a number, not a string (got 'big')"),
            (lines[3], "not JSON: expecting ':' delimiter at column 17"),
            (lines[4], "expected an object, not a list"),
            (lines[5], "attribute 'mag': NaN and infinity are not numbers; leave a missing value out (got nan)"),
            (lines[7], "attribute 'felt': expected true or false, not a number (got 1)"),
        ]
    )
    assert check_events(read.rows, schema=SCHEMA, event_id="id").collect() == []


def test_types_are_learned_from_lines(spark: SparkSession, tmp_path: Path) -> None:
    rows = '{"id": "a", "n": 9007199254740993, "x": 1.5, "at": "2018-02-01T01:00:00+01:00"}\n{"id": "b", "x": 2}\n'
    read = read_events(spark, write(tmp_path / "e.jsonl", rows))
    kinds = dict(read.rows.dtypes)
    assert kinds == {"id": "string", "n": "bigint", "x": "double", "at": "timestamp"}
    [first, _] = read.rows.orderBy("id").select("n", F.unix_micros("at")).collect()
    moment = dt.datetime(2018, 2, 1, tzinfo=dt.UTC)
    assert tuple(first) == (9007199254740993, int(moment.timestamp() * 1e6))


def test_a_time_without_a_zone_stays_text_and_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema({"at": Timestamp()})
    for name, text in (
        ("e.csv", "id,at\n1,2018-02-01 01:00:00\n"),
        ("e.jsonl", '{"id":1,"at":"2018-02-01T01:00:00"}\n'),
    ):
        read = read_events(spark, write(tmp_path / name, text), schema=schema)
        [row] = check_events(read.rows, schema=schema, event_id="id").collect()
        assert "a time without a zone" in row["reason"]


def test_csv_and_why_some_rows_are_none(spark: SparkSession, tmp_path: Path) -> None:
    text = 'id,mag,place,felt\n1,4.5,"a, ""b""",true\n2,big,x,false\n3,1\n4,,y,\n5,1,z,true,more\n6,1,z,perhaps\n'
    schema = Schema({"mag": Number(), "place": String(), "felt": Boolean()})
    read = read_events(spark, write(tmp_path / "e.csv", text), schema=schema)
    assert [tuple(row) for row in read.rows.orderBy("id").collect()] == [(1, 4.5, 'a, "b"', True), (4, None, "y", None)]
    assert whole(read)
    assert unreadable_in(read) == [
        ("2,big,x,false", "attribute 'mag': expected a number (got 'big')"),
        ("3,1", "the row has 2 cells, the header 4"),
        ("5,1,z,true,more", "the row has 5 cells, the header 4"),
        ("6,1,z,perhaps", "attribute 'felt': expected a boolean (got 'perhaps')"),
    ]


def test_subscriptions_may_be_cql2_json(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"id": "text", "filter": "mag > 1"},
        {"id": "json", "filter": {"op": ">", "args": [{"property": "mag"}, 1]}, "metadata": {"team": "red"}},
    ]
    path = write(tmp_path / "s.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "{\n")
    read = read_subscriptions(spark, path)
    by_id = {row["id"]: row for row in read.rows.collect()}
    assert json.loads(by_id["json"]["filter"]) == rows[1]["filter"]
    assert by_id["json"]["metadata"] == {"team": "red"}
    assert [record for record, _ in unreadable_in(read)] == ["{"]


def geoparquet(path: Path, column: dict[str, Any]) -> Path:
    points = pa.array(shapely.to_wkb([shapely.Point(1, 1), shapely.Point(9, 9)]), pa.binary())
    geo = {"version": "1.1.0", "primary_column": "where", "columns": {"where": column}}
    table = pa.table({"id": [1, 2], "where": points}).replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("crs", [None, {"name": "WGS 84", "id": {"authority": "EPSG", "code": 4326}}])
def test_geoparquet_says_which_columns_are_regions(spark: SparkSession, tmp_path: Path, crs: Any) -> None:
    column = {"encoding": "WKB", "geometry_types": []} | ({"crs": crs} if crs else {})
    read = read_events(spark, geoparquet(tmp_path / "e.parquet", column), "geoparquet")
    assert read.declared == Schema({"where": Region()})
    subscriptions = spark.createDataFrame([("here", "S_WITHIN(where, BBOX(0, 0, 2, 2))")], "id string, filter string")
    deliveries = match(read.rows, subscriptions, schema=read.declared, event_id="id").collect()
    assert [tuple(row) for row in deliveries] == [(1, "here")]


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (
            {"encoding": "WKB", "crs": {"name": "UTM 32N", "id": {"authority": "EPSG", "code": 25832}}},
            "in UTM 32N; convert",
        ),
        ({"encoding": "WKB", "crs": None}, "in no stated system; convert"),
        ({"encoding": "point"}, "the geometry is point; tamis reads WKB"),
        ({"encoding": "WKB", "edges": "spherical"}, "edges are spherical"),
    ],
)
def test_other_geometry_is_refused(spark: SparkSession, tmp_path: Path, column: dict[str, Any], problem: str) -> None:
    with pytest.raises(TableError, match="column 'where': ") as raised:
        read_events(spark, geoparquet(tmp_path / "e.geoparquet", column))
    assert problem in str(raised.value)


def test_parquet_without_geo_metadata_is_not_geoparquet(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "e.geoparquet")
    with pytest.raises(TableError, match="no GeoParquet"):
        read_events(spark, tmp_path / "e.geoparquet")


EVENTS_AS_JSON: list[Any] = [
    '{"mag": 4.5, "at": "2018-02-01T00:00:00Z", "felt": true, "where": "POINT (1 2)", "look": [1, 2.5], "key": "k"}',
    '{"mag": null, "other": 1}',
    '{"mag": "5"}',
    '{"mag": 9007199254740993}',
    '{"look": ["a", "b"]}',
    "[1]",
    "{",
    None,
]


@pytest.mark.usefixtures("generated_code")
@pytest.mark.parametrize("as_variant", [True, False])
def test_events_in_one_column(spark: SparkSession, tmp_path: Path, as_variant: bool) -> None:
    frame = spark.createDataFrame(list(enumerate(EVENTS_AS_JSON)), "id int, body string")
    if as_variant:  # what is not JSON cannot be in a VARIANT
        frame = frame.withColumn("body", F.try_parse_json("body"))
    frame.write.parquet(str(tmp_path / "e.parquet"))
    read = read_events(spark, tmp_path / "e.parquet", schema=SCHEMA, variant="body", beside=["key"])
    first, second = read.rows.orderBy("id").collect()
    assert first.asDict() == {"id": 0, **json.loads(EVENTS_AS_JSON[0])}
    assert second.asDict() == {name: 1 if name == "id" else None for name in first.asDict()}
    assert read.unreadable is not None
    assert {row["id"]: row["reason"] for row in read.unreadable.collect()} == {
        2: "attribute 'mag': expected a number, not string",
        3: "attribute 'mag': a whole number beyond 2**53 in a VARIANT; give it a column of its own",
        4: "attribute 'look': expected a vector, not array<string>",
        5: "expected an object, not ARRAY<BIGINT>",
        6: "no value, or text that is not JSON",
        7: "no value, or text that is not JSON",
    }
    assert whole(read)


@pytest.mark.usefixtures("generated_code")
def test_a_path_in_a_variant_goes_through_lists_of_objects(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema({"items.sku": Many(String()), "a.b.n": Many(Number()), "place": Region(), "items.one": Number()})
    events = [
        '{"items": [{"sku": "x"}, {"other": 1}, 5, {"sku": ["y", null]}]}',
        '{"items": {"sku": "x"}, "a": [{"b": [{"n": 1}, {"n": 2.5}]}, {"b": {"n": [3]}}]}',
        '{"items": {"sku": []}, "place": {"type": "Point", "coordinates": [1, 2]}}',
        '{"items": [{"other": 1}], "a": []}',
        '{"items": [{"sku": "x"}, {"sku": 7}]}',
        '{"a": [{"b": {"n": 9007199254740993}}]}',
        '{"items": [{"one": 1}]}',
        '{"items": {"one": 1}}',
    ]
    frame = spark.createDataFrame(list(enumerate(events)), "id int, body string")
    frame.withColumn("body", F.parse_json("body")).write.parquet(str(tmp_path / "e.parquet"))
    read = read_events(spark, tmp_path / "e.parquet", schema=schema, variant="body")
    assert [tuple(row) for row in read.rows.orderBy("id").collect()] == [
        (0, ["x", "y"], None, None, None),
        (1, ["x"], [1.0, 2.5, 3.0], None, None),
        (2, [], None, '{"coordinates":[1,2],"type":"Point"}', None),
        (3, None, None, None, None),
        (7, None, None, None, 1.0),
    ]
    assert read.unreadable is not None
    assert {row["id"]: row["reason"] for row in read.unreadable.collect()} == {
        4: "attribute 'items.sku': expected a string, not bigint",
        5: "attribute 'a.b.n': a whole number beyond 2**53 in a VARIANT; give it a column of its own",
        6: "attribute 'items.one': a list of objects is on its path; declare a repeated attribute, Many(...)",
    }


def test_events_in_one_column_need_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "body": ["{}"]}), tmp_path / "e.parquet")
    with pytest.raises(SchemaError, match="name their attributes"):
        read_events(spark, tmp_path / "e.parquet", variant="body")


def test_a_delta_table_is_what_its_log_says(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    for ids in ([1, 2, 3], [4]):
        table = pa.table({"id": ids, "day": [f"0{number}" for number in ids], "mag": [float(number) for number in ids]})
        deltalake.write_deltalake(path, table, partition_by=["day"], mode="append")
    deltalake.DeltaTable(path).delete("id = 2")
    assert format_of(path) == "delta"
    read = read_events(spark, path)
    assert sorted(tuple(row) for row in read.rows.select("id", "day", "mag").collect()) == [
        (1, "01", 1.0),
        (3, "03", 3.0),
        (4, "04", 4.0),
    ]
    deltalake.DeltaTable(path).delete()
    assert read_events(spark, path).rows.count() == 0


def deletion_vector(rows: list[int]) -> dict[str, Any]:
    """Return a deletion vector as a Delta log has it inline: a roaring bitmap array in base 85."""
    array = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + array
    letters = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{-(-len(data) // 4)}I", data + bytes(-len(data) % 4))
    text = "".join(letters[word // 85**power % 85] for word in words for power in range(4, -1, -1))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def delete_by_vector(path: Path, rows: list[int], file: str) -> None:
    """Commit to a Delta table, as other writers do, that some rows of a file are deleted."""
    log = sorted((path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in log for line in commit.read_text().splitlines()]
    [added] = [action["add"] for action in actions if file in action.get("add", {}).get("path", "")]
    removal = {"path": added["path"], "deletionTimestamp": 0, "dataChange": True, "size": added["size"]}
    commit = [{"commitInfo": {}}, {"remove": removal}, {"add": {**added, "deletionVector": deletion_vector(rows)}}]
    lines = "".join(f"{json.dumps(action)}\n" for action in commit)
    (path / "_delta_log" / f"{len(log):020}.json").write_text(lines)


def test_rows_that_deletion_vectors_name_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "a table"
    for ids in ([1, 2, 3, 4], [5, 6]):
        table = pa.table({"id": ids, "day": ["0 1" if id < 5 else "02" for id in ids]})
        deltalake.write_deltalake(str(path), table, partition_by=["day"], mode="append")

    def read() -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in read_events(spark, path, "delta").rows.select("id", "day").collect())

    features = [deltalake.TableFeatures.DeletionVectors]
    deltalake.DeltaTable(str(path)).alter.add_feature(features, allow_protocol_versions_increase=True)
    every = [(id, "0 1" if id < 5 else "02") for id in range(1, 7)]
    assert read() == every, "the feature alone deletes nothing"
    delete_by_vector(path, [0, 2], "day=0%25201")
    assert read() == [row for row in every if row[0] not in (1, 3)]


def test_a_table_of_the_catalog(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("formats_events")
    assert read_events(spark, "formats_events", "table").rows.count() == 3
    with pytest.raises(TableError, match="formats_nothing: cannot be read as table: "):
        read_events(spark, "formats_nothing", "table").rows.count()


@pytest.mark.parametrize(
    ("path", "format", "problem"),
    [
        ("absent.jsonl", None, "absent.jsonl: there is no such file"),
        ("absent/*.csv", None, "there is no such file"),
        ("notes.txt", None, "the name does not tell the format; say which: parquet, geoparquet, jsonl, csv, delta"),
        ("notes.txt", "avro", "there is no format 'avro'"),
        ("notes.txt", "parquet", "notes.txt: cannot be read as parquet: "),
        ("notes.txt", "delta", "notes.txt: cannot be read as delta: "),
        ("notes.txt", "geoparquet", "notes.txt: cannot be read as "),
        ("empty.jsonl", None, "empty.jsonl: there is no record that can be read"),
        ("empty.csv", None, "empty.csv: there is no record that can be read"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, tmp_path: Path, path: str, format: str | None, problem: str
) -> None:
    write(tmp_path / "notes.txt", "these are notes\n")
    write(tmp_path / "empty.jsonl", "")
    write(tmp_path / "empty.csv", "")
    with pytest.raises(TableError) as raised:
        read_events(spark, tmp_path / path, format)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
