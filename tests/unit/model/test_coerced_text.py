"""Strings that read values of any type: one text per value, in events, tables and on the wire."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tamis
from tamis.model.columns import column_from
from tamis.model.tables import EventTable
from tamis.node.content import Content
from tamis.runtime.event_json import payload_as_json

TEXT = tamis.String(coerce=True)

TEXTS: list[tuple[Any, str]] = [
    ("x", "x"),
    ("", ""),
    (4688, "4688"),
    (4688.0, "4688"),
    (-0.0, "0"),
    (0.1, "0.1"),
    (1e21, "1000000000000000000000"),
    (1.5e-7, "0.00000015"),
    (float("inf"), "Infinity"),
    (float("nan"), "NaN"),
    (2**70, str(2**70)),
    (Decimal("1.50"), "1.5"),
    (Decimal("1e-999"), "1E-999"),
    (True, "true"),
    (False, "false"),
    (np.int64(5), "5"),
    (np.float32(0.5), "0.5"),
    (np.bool_(True), "true"),
    (np.array(7), "7"),
    (np.array([1, 2]), "[1,2]"),
    ([4688], "4688"),
    ([["a"]], "a"),
    ([], "[]"),
    (["a", 1, None], '["a",1,null]'),
    ({}, "{}"),
    ({"a": {"b": [True, 0.5]}, "ä": "ö"}, '{"a":{"b":[true,0.5]},"ä":"ö"}'),
    ({1: Decimal(2)}, '{"1":"2"}'),
    ({"a": float("nan")}, '{"a":"NaN"}'),
    (b"raw\xff", "raw\ufffd"),
    ("a\ud800b", "a\ufffdb"),
    ({"k": "\udfff"}, '{"k":"\ufffd"}'),
    (dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), "2026-01-31T12:00:00+00:00"),
    (dt.date(2026, 1, 31), "2026-01-31"),
    (object, "<class 'object'>"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[repr(value)[:40] for value, _ in TEXTS])
def test_every_value_has_a_text(value: Any, text: str) -> None:
    assert TEXT.canonical(value) == text
    assert column_from("a", TEXT, [value]).values.to_pylist() == [text]


COLUMNS: list[Any] = [
    pa.array([4688, None, -1]),
    pa.array([4688.0, None, 0.1]),
    pa.array([True, None, False]),
    pa.array(["a", None, "b"]).dictionary_encode(),
    pa.array([1, None, 200], pa.uint8()),
    pa.array([Decimal("1.50"), None, Decimal("2.00")]),
    pa.array([dt.datetime(2026, 1, 1), None, dt.datetime(2026, 1, 2)]),
    pa.array([[1], None, [1, 2]]),
    pa.array([{"a": 1}, None, {"a": None}]),
    pa.chunked_array([[4688, None], [5]]),
    pd.Series([4688, None, 5]),
    pd.Series(["x", None, 5], dtype=object),
    np.array([1.0, np.nan, 2.5]),
    np.ma.masked_array([1, 2, 3], [False, True, False]),
    ["x", None, 5],
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(getattr(column, "type", type(column)))[:40])
def test_a_column_says_what_its_values_say(column: Any) -> None:
    read = column_from("a", TEXT, column)
    values = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)
    assert not read.bad
    assert read.present.tolist() == [True, False, True]
    for row in (0, 2):
        assert read.value(row) == TEXT.canonical(values[row])


def test_a_declared_string_stays_strict() -> None:
    engine = tamis.Engine(tamis.Schema({"a": tamis.String()}))
    engine.subscribe("a ILIKE '5%'", id="s")
    with pytest.raises(tamis.EventError, match="expected a string, not a number"):
        engine.match({"a": 5})


def test_only_conditions_on_text_read_any_value() -> None:
    strict = tamis.Engine()
    strict.subscribe("a LIKE '5%' OR a = '6'", id="s")
    with pytest.raises(tamis.EventError, match="expected a string, not a number"):
        strict.match({"a": 5})
    strict.subscribe("a MATCHES '^[0-9]+$'", id="t")  # from now on the attribute is read as text
    assert strict.match({"a": 5}) == ["s", "t"]
    assert strict.match({"a": "6"}) == ["s", "t"]


def test_a_number_is_not_asked_for_its_text() -> None:
    engine = tamis.Engine(tamis.Schema({"a": tamis.Number()}))
    with pytest.raises(tamis.SubscriptionError, match=r"to compare its text, declare it as String\(coerce=True\)"):
        engine.subscribe("a ILIKE '5%'", id="s")


def test_the_schema_survives_json() -> None:
    schema = tamis.Schema({"a": TEXT, "b": tamis.String()})
    assert tamis.Schema.from_json(schema.to_json()) == schema
    assert json.loads(schema.to_json())["attributes"]["a"] == {"type": "string", "coerce": True}


def test_what_is_published_arrives_as_it_was_and_reads_the_same() -> None:
    content = Content()
    for text in ("CASEI(EventID) = '4688'", "req ILIKE '%cidr%'", "CASEI(req.items.cidr) = '0.0.0.0/0'", "n ILIKE '5'"):
        content.compile(text)
    events: list[dict[str, Any]] = [
        {"EventID": 4688, "req": {"items": [{"cidr": "0.0.0.0/0"}], "x": 1}},
        {"EventID": "4688", "req": [1, {"a": None}], "n": {"m": {"o": 5}}},
        {"EventID": True, "req": None, "n": 2.5},
    ]
    for event in events:
        payload = content.write_event(event)
        written = content.read_event(payload)
        fresh = Content(content.schema)
        assert fresh.read_event(payload) == {name: value for name, value in written.items() if value is not True}
        assert payload_as_json(payload, content.schema) == {k: v for k, v in event.items() if v is not None}
    odd = content.write_event({"EventID": 2**70, "n": float("nan"), "req": "\ud800"})
    assert payload_as_json(odd, content.schema) == {"EventID": str(2**70), "n": "NaN", "req": "\ufffd"}


def test_all_strings_of_a_table_stay_in_their_rows() -> None:
    """Arrow leaves a row out in which all texts are null; here it is a row without strings."""
    engine = tamis.Engine()
    engine.subscribe("\"*\" ILIKE '%b%'", id="s")
    columns = {"x": ["a", None, "b", 5, None], "y": [None, None, "c", "b", None], "n": [1, 2, 3, 4, 5]}
    table = EventTable.of(columns, engine.schema)
    assert engine.match_table(table).event.tolist() == [2, 3]
    assert [event.get("*") for event in table] == ["a", None, "b\nc", "b", None]


def test_what_no_filter_asks_for_may_have_any_type() -> None:
    engine = tamis.Engine()
    engine.subscribe("a ILIKE 'x%'", id="s")
    for value in (5, "five", [1, 2], {"b": 5}, {"b": "five"}, True):
        assert engine.match({"a": "x", "other": value, "nested": {"value": value}}) == ["s"]
    assert engine.match_table({"a": ["x", "y"], "mixed": [5, "five"], "other": ["six", 7]}).event.tolist() == [0]
    engine.subscribe("other > 3 AND nested.value IS NOT NULL", id="t")  # now both have the types that they had first
    assert engine.match({"other": 4, "nested": {"value": 1}}) == ["t"]
    with pytest.raises(tamis.EventError, match="'other': expected a number, not a string"):
        engine.match({"a": "x", "other": "five"})


def test_a_type_that_only_events_have_shown_gives_way_to_text() -> None:
    engine = tamis.Engine()
    engine.match({"id": 4688, "size": 5, "flag": True})
    engine.subscribe("CASEI(id) = '4688' AND CASEI(flag) = 'true'", id="s")
    assert engine.match({"id": "4688", "flag": "True"}) == engine.match({"id": 4688, "flag": True}) == ["s"]
    with pytest.raises(tamis.SubscriptionError, match="'size': it is a number, and 'large' does not fit"):
        engine.subscribe("size = 'large'", id="t")
    engine.subscribe("size > 3", id="u")
    with pytest.raises(tamis.SubscriptionError, match="to compare its text"):
        engine.subscribe("size ILIKE '5%'", id="v")


def test_what_no_filter_asks_for_arrives_as_it_was_published() -> None:
    content = Content()
    content.compile("a ILIKE 'x%'")
    for value in (5, "five", [1, "b"], {"c": None}):
        event = {"a": 1, "other": value}
        payload = content.write_event(event)
        reopened = tamis.Schema.from_json(content.schema.to_json())  # as after a restart
        assert payload_as_json(payload, reopened) == event
        assert reopened.event_from_wire(event)["a"] == "1"


def test_whether_a_value_is_there_is_asked_of_any_type() -> None:
    values: list[Any] = [5, "a", True, [1.0, 2.0], ["q"], {"k": 1}, "POINT(1 2)"]
    for first in values:
        engine = tamis.Engine()
        for i in range(150):
            engine.subscribe(f"x IS NOT NULL AND y{i % 7} IS NULL", id=i)
        engine.subscribe("x IS NULL", id="none")
        engine.match({"x": first})
        for value in values:
            assert len(engine.match({"x": value})) == 150
            table = engine.match_table({"x": [value, None]})
            assert [(table.event == row).sum() for row in (0, 1)] == [150, 1]


def _nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize("value", [10**399, float("nan"), "\ud800", b"bytes", [2**64], _nested(100_000)])
def test_what_no_message_can_hold_is_refused_though_no_filter_asks_for_it(value: object) -> None:
    content = Content()
    content.write_event({"other": True})
    with pytest.raises(tamis.EventError, match="other"):
        content.write_event({"other": value})
