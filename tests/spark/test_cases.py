"""The shared cases through Spark: batch and stream give the written answers."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import shapely
from pyspark.sql import functions as F

from tamis.model.schema import Schema
from tamis.model.types import Boolean, Date, Ip, Many, Number, Region, String, Timestamp, Uuid, Vector, Version
from tamis.model.types import Decimal as DecimalType
from tamis.spark import compile_subscriptions, match, match_stream, read_deliveries, write_snapshot
from tamis.spark.sources.formats import read_events
from tests.case_files import Case, load_cases

#: Spark carries only text that can be encoded.
UNSENT = {"lone surrogate in a subscription"}
ANSWERED = [case for case in load_cases() if case.schema is not None and case.expected is not None and case.has_columns]
REFUSED = [case for case in load_cases() if case.schema is not None and case.error is not None]
FILES = sorted({case.file for case in ANSWERED})
#: Where a start costs more than the answers: these in every run, the others in a soak.
QUICK = {"missing", "regions"}
SOME = [file if file in QUICK else pytest.param(file, marks=pytest.mark.soak) for file in FILES]


def text_of(case: Case) -> str:
    return case.subscription if isinstance(case.subscription, str) else json.dumps(case.subscription)


def number_type(value: Any) -> str:
    """Return a Spark type that holds a number exactly."""
    if isinstance(value, Decimal):
        return f"decimal(38,{-min(int(value.as_tuple().exponent), 0)})"
    if isinstance(value, int):
        return "long" if -(2**63) <= value < 2**63 else "decimal(38,0)"
    return "double"


def kind_of(value: Any, kind: Any) -> str:
    if isinstance(kind, Many):
        largest = (
            max(value, key=lambda element: isinstance(element, float), default=None)
            if isinstance(value, list)
            else value
        )
        return f"array<{kind_of(largest, kind.of)}>"
    if isinstance(kind, Number):
        return number_type(value)
    names: dict[type, str] = dict.fromkeys((Ip, DecimalType, Date, Uuid, Version), "string")
    names |= {String: "string", Boolean: "boolean", Timestamp: "timestamp", Region: "binary", Vector: "array<double>"}
    return names[type(kind)]


def plain(value: Any, kind: Any) -> Any:
    """Return a canonical value as Spark's rows want it."""
    if isinstance(kind, Many):
        elements = [plain(element, kind.of) for element in value]
        return (
            [float(element) for element in elements]
            if any(isinstance(element, float) for element in elements)
            else elements
        )
    if isinstance(kind, Ip | Date | Uuid | Version):
        return kind.to_json(value)
    if isinstance(kind, DecimalType):
        return str(kind.to_wire(value) if isinstance(value, int) else value)
    if isinstance(value, int) and number_type(value).startswith("decimal"):
        return Decimal(value)
    if isinstance(kind, Timestamp):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
    if isinstance(kind, Region):
        return shapely.to_wkb(value)
    return value.tolist() if isinstance(kind, Vector) else value


Event = tuple[str, dict[str, Any]]


def by_types(cases: list[Case]) -> list[tuple[dict[str, str], list[Event]]]:
    """Group events whose values fit the same Spark types; an absent value fits any."""
    groups: list[tuple[dict[str, str], list[Event]]] = []
    for case in cases:
        assert case.schema is not None
        event = case.schema.event(case.event)
        raw = {name: value for name, value in case.event.items() if isinstance(value, Decimal)}
        values = {name: plain(raw.get(name, value), case.schema[name]) for name, value in event.items()}
        types = {name: kind_of(raw.get(name, values[name]), case.schema[name]) for name in event}
        fitting = (group for group in groups if all(group[0].get(name, kind) == kind for name, kind in types.items()))
        group = next(fitting, None)
        if group is None:
            groups.append(group := ({}, []))
        group[0].update(types)
        group[1].append((case.name, values))
    return groups


@pytest.fixture
def exact_names(spark: Any) -> Iterator[None]:
    """Attributes may differ in case alone; Spark's columns may not unless it is told so."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.set("spark.sql.caseSensitive", "false")


def of_file(file: str) -> tuple[list[Case], Any]:
    """Return the cases of a file, and the schema they share."""
    cases = [case for case in ANSWERED if case.file == file]
    return cases, cases[0].schema


def frames(spark: Any, cases: list[Case]) -> Iterator[Any]:
    """Yield the events of cases as DataFrames; the id of an event is the name of its case."""
    for types, events in by_types(cases):
        columns = ", ".join(["event_id string", *(f"`{name}` {kind}" for name, kind in types.items())])
        yield spark.createDataFrame([(name, *(row.get(key) for key in types)) for name, row in events], columns)


def write(spark: Any, cases: list[Case], schema: Any, directory: Path) -> None:
    subscriptions = spark.createDataFrame([(case.name, text_of(case)) for case in cases], "id string, filter string")
    accepted, rejected = compile_subscriptions(subscriptions, schema=schema)
    assert rejected.collect() == []
    write_snapshot(accepted, directory, schema=schema)


def own(deliveries: Any) -> set[str]:
    """Return the cases whose event went to their subscription."""
    return {row["event_id"] for row in deliveries.where("event_id = subscription_id").collect()}


def groups(cases: list[Case]) -> list[tuple[dict[str, Any], list[Case]]]:
    """Return cases, those together whose files say the same of the attributes they share: a query costs the most."""
    result: list[tuple[dict[str, Any], list[Case]]] = []
    for file in sorted({case.file for case in cases}):
        of_file = [case for case in cases if case.file == file]
        schema = of_file[0].schema
        assert schema is not None
        types = {name: schema[name] for name in schema}
        fitting = (
            existing for existing in result if all(existing[0].get(name, kind) == kind for name, kind in types.items())
        )
        group = next(fitting, None)
        if group is None:
            result.append(group := ({}, []))
        group[0].update(types)
        group[1].extend(of_file)
    return result


#: Two groups, at present.
GROUPS = groups(ANSWERED)


@pytest.mark.usefixtures("exact_names")
@pytest.mark.parametrize(("types", "cases"), GROUPS, ids=[cases[0].file for _, cases in GROUPS])
def test_answers(spark: Any, tmp_path: Path, types: dict[str, Any], cases: list[Case]) -> None:
    """Many files in one snapshot: a start costs more than the answers."""
    write(spark, cases, Schema(types), tmp_path)
    answers = [own(match(frame, tmp_path)) for frame in frames(spark, cases)]
    assert set().union(*answers) == {case.name for case in cases if case.expected}


def fits_a_variant(case: Case) -> bool:
    """Whether the event is JSON, and has no whole number beyond 2**53, which a VARIANT refuses by name."""
    numbers = re.findall(r"(?<![\w.+-])-?[0-9]{16,}(?![\w.])", json.dumps(case.event)) if case.is_json else ["0"]
    return case.is_json and all(abs(int(number)) <= 2**53 for number in numbers)


@pytest.mark.usefixtures("exact_names", "generated_code")
@pytest.mark.parametrize(("types", "cases"), GROUPS, ids=[cases[0].file for _, cases in GROUPS])
def test_answers_for_events_in_a_variant(spark: Any, tmp_path: Path, types: dict[str, Any], cases: list[Case]) -> None:
    schema, held = Schema(types), [case for case in cases if fits_a_variant(case)]
    assert len(held) > 0.9 * len(cases)
    write(spark, held, schema, tmp_path / "snapshots")
    rows = [(case.name, json.dumps(case.event)) for case in held]
    frame = spark.createDataFrame(rows, "event_id string, body string").withColumn("body", F.parse_json("body"))
    frame.coalesce(1).write.parquet(str(tmp_path / "e.parquet"))
    read = read_events(spark, tmp_path / "e.parquet", schema=schema, variant="body")
    assert read.unreadable is not None
    assert [(row["event_id"], row["reason"]) for row in read.unreadable.collect()] == []
    assert own(match(read.rows, tmp_path / "snapshots")) == {case.name for case in held if case.expected}


@pytest.mark.usefixtures("exact_names")
@pytest.mark.parametrize("file", SOME)
def test_a_stream_of_spark_gives_the_answers(spark: Any, tmp_path: Path, file: str) -> None:
    cases, schema = of_file(file)
    write(spark, cases, schema, tmp_path / "snapshots")
    answers = []
    for number, frame in enumerate(frames(spark, cases)):
        source, output, checkpoint = (str(tmp_path / f"{name}{number}") for name in ("source", "output", "checkpoint"))
        frame.coalesce(1).write.parquet(source)
        stream = spark.readStream.schema(frame.schema).parquet(source)
        places = {"output": output, "checkpoint": checkpoint}
        match_stream(stream, tmp_path / "snapshots", trigger={"availableNow": True}, **places).awaitTermination()
        answers.append(own(read_deliveries(spark, output)))
    assert set().union(*answers) == {case.name for case in cases if case.expected}


def test_refusals_go_to_quarantine(spark: Any) -> None:
    of_texts = ("SubscriptionError", "SubscriptionSyntaxError", "LimitError")
    texts = [case for case in REFUSED if case.error in of_texts and case.name not in UNSENT]
    assert len(texts) > 50
    reasons: dict[str, str] = {}
    for types, cases in groups(texts):
        rows = [(case.name, text_of(case)) for case in cases]
        frame = spark.createDataFrame(rows, "id string, filter string").coalesce(1)
        _, rejected = compile_subscriptions(frame, schema=Schema(types), persist=False)
        reasons |= {row["id"]: row["reason"] for row in rejected.collect()}
    for case in texts:
        assert case.name in reasons, f"{case.name} was accepted"
        assert all(word in reasons[case.name] for word in case.mentions), case.name
