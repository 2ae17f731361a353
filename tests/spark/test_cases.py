"""The shared cases through Spark: batch and stream give the written answers."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import shapely

from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector
from tamis.spark import compile_subscriptions, match, write_snapshot
from tests.case_files import Case, load_cases

#: Spark carries only text that can be encoded.
UNSENT = {"lone surrogate in a subscription"}
ANSWERED = [case for case in load_cases() if case.schema is not None and case.expected is not None]
REFUSED = [case for case in load_cases() if case.schema is not None and case.error is not None]
FILES = sorted({case.file for case in ANSWERED})


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
    if isinstance(kind, Number):
        return number_type(value)
    names = {String: "string", Boolean: "boolean", Timestamp: "timestamp", Region: "binary", Vector: "array<double>"}
    return names[type(kind)]


def plain(value: Any, kind: Any) -> Any:
    """Return a canonical value as Spark's rows want it."""
    if isinstance(value, int) and number_type(value).startswith("decimal"):
        return Decimal(value)
    if isinstance(kind, Timestamp):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
    if isinstance(kind, Region):
        return shapely.to_wkb(value)
    return value.tolist() if isinstance(kind, Vector) else value


def by_types(cases: list[Case]) -> dict[tuple[tuple[str, str], ...], list[tuple[str, dict[str, Any]]]]:
    """Group events whose values fit the same Spark types; the first of a group decides, absent ones fit any."""
    groups: dict[tuple[tuple[str, str], ...], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for case in cases:
        assert case.schema is not None
        event = case.schema.event(case.event)
        raw = {name: value for name, value in case.event.items() if isinstance(value, Decimal)}
        values = {name: plain(raw.get(name, value), case.schema[name]) for name, value in event.items()}
        types = {name: kind_of(raw.get(name, value), case.schema[name]) for name, value in event.items()}
        groups[tuple(sorted(types.items()))].append((case.name, values))
    return groups


@pytest.fixture
def exact_names(spark: Any) -> Iterator[None]:
    """Attributes may differ in case alone; Spark's columns may not unless it is told so."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.usefixtures("exact_names")
@pytest.mark.parametrize("file", FILES)
def test_answers(spark: Any, tmp_path: Path, file: str) -> None:
    cases = [case for case in ANSWERED if case.file == file]
    schema = cases[0].schema
    assert schema is not None
    subscriptions = spark.createDataFrame([(case.name, text_of(case)) for case in cases], "id string, filter string")
    accepted, rejected = compile_subscriptions(subscriptions, schema=schema)
    assert rejected.collect() == []
    write_snapshot(accepted, tmp_path / "snapshot", schema=schema)
    expected = {case.name for case in cases if case.expected}
    own: set[str] = set()
    for types, events in by_types(cases).items():
        if not types:
            continue  # an event without a value has no column to stand in; the next test has one
        columns = ", ".join(["event_id string", *(f"`{name}` {kind}" for name, kind in types)])
        frame = spark.createDataFrame([(name, *(row.get(key) for key, _ in types)) for name, row in events], columns)
        found = match(frame, tmp_path / "snapshot").where("event_id = subscription_id")
        own |= {row["event_id"] for row in found.collect()}
    empty = {case.name for case in cases if not case.schema.event(case.event)}  # type: ignore[union-attr]
    assert own == expected - empty


def test_refusals_go_to_quarantine(spark: Any) -> None:
    of_texts = ("SubscriptionError", "SubscriptionSyntaxError", "LimitError")
    texts = [case for case in REFUSED if case.error in of_texts and case.name not in UNSENT]
    assert len(texts) > 50
    for file in sorted({case.file for case in texts}):
        cases = [case for case in texts if case.file == file]
        rows = [(case.name, text_of(case)) for case in cases]
        frame = spark.createDataFrame(rows, "id string, filter string")
        accepted, rejected = compile_subscriptions(frame, schema=cases[0].schema)
        assert accepted.collect() == []
        reasons = {row["id"]: row["reason"] for row in rejected.collect()}
        for case in cases:
            assert all(word in reasons[case.name] for word in case.mentions), case.name
