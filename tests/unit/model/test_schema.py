"""Schemas: JSON, Arrow, learning, and what is wrong with a wrong one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

import tamis
from tamis.errors import LimitError, SchemaError
from tamis.model.schema import MAX_DECLARED, learn_from_event
from tamis.model.types.registry import _OWN, find_type

FULL = tamis.Schema(
    {
        "symbol": tamis.String(),
        "price": tamis.Number(0, 10_000),
        "plain": tamis.Number(),
        "halted": tamis.Boolean(),
        "at": tamis.Timestamp(),
        "local": tamis.Timestamp(zone="Europe/Berlin"),
        "area": tamis.Region(),
        "look": tamis.Vector(384),
    }
)


def test_json_round_trip() -> None:
    assert tamis.Schema.from_json(FULL.to_json()) == FULL
    assert list(tamis.Schema.from_json(FULL.to_json())) == list(FULL)


#: Each type with the options it has by default, as brokers and snapshots of before write and read it.
BY_DEFAULT = {
    "boolean": (tamis.Boolean(), '{"type":"boolean"}'),
    "number": (tamis.Number(), '{"type":"number"}'),
    "string": (tamis.String(), '{"type":"string"}'),
    "timestamp": (tamis.Timestamp(), '{"type":"timestamp"}'),
    "region": (tamis.Region(), '{"type":"region"}'),
    "vector": (tamis.Vector(3), '{"type":"vector","n":3}'),
    "date": (tamis.Date(), '{"type":"date"}'),
    "ip": (tamis.Ip(), '{"type":"ip"}'),
    "uuid": (tamis.Uuid(), '{"type":"uuid"}'),
    "version": (tamis.Version(), '{"type":"version"}'),
    "decimal": (tamis.Decimal(), '{"type":"decimal","scale":2}'),
    "mixed": (tamis.Mixed(), '{"type":"mixed"}'),
    "many": (tamis.Many(tamis.String()), '{"type":"many","of":{"type":"string"}}'),
}


@pytest.mark.parametrize("name", BY_DEFAULT)
def test_options_that_were_added_are_not_written_by_default(name: str) -> None:
    kind, description = BY_DEFAULT[name]
    assert tamis.Schema({"a": kind}).to_json() == f'{{"attributes":{{"a":{description}}}}}'
    assert find_type(name) is type(kind)


def test_each_type_has_its_description_above() -> None:
    assert {kind.name for kind in _OWN} == set(BY_DEFAULT)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a schema is JSON text"),
        ("[]", '"attributes"'),
        ('{"attributes": {"a": {"type": "colour"}}}', "'a': expected"),
        ('{"attributes": {"a": 5}}', "'a': expected"),
        ('{"attributes": {"a": {"type": ["number"]}}}', "'a': expected"),
        ('{"attributes": {"a": {}}}', "'a': expected"),
        ('{"attributes": {"a": {"type": "vector"}}}', "'a': a vector does not take"),
        ('{"attributes": {"a": {"type": "vector", "n": 0}}}', "'a': a vector has 1 to"),
        ('{"attributes": {"a": {"type": "number", "lo": 3}}}', "'a': a domain needs both ends"),
        ('{"attributes": {"a": {"type": "number", "lo": 3, "hi": 1}}}', "'a': an empty domain"),
        ('{"attributes": {"a": {"type": "number", "size": 1}}}', "'a': a number does not take size"),
        ('{"attributes": {"a": {"type": "timestamp", "zone": "Mars/Base"}}}', "no time zone 'Mars/Base'"),
        ('{"attributes": {"": {"type": "number"}}}', "a name is a string"),
    ],
)
def test_bad_json(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        tamis.Schema.from_json(text)


@pytest.mark.parametrize(
    ("lo", "hi", "kept"),
    [
        (np.float64(0), np.float64(3), (0.0, 3.0)),
        (np.int8(-1), np.uint64(2**64 - 1), (-1, 2**64 - 1)),
        (Decimal("0.5"), Decimal(3), (0.5, 3)),
        (Decimal("0.1000000000000000000001"), 1, (0.1, 1)),
    ],
)
def test_a_domain_of_any_numbers_is_kept_as_int_and_float(lo: Any, hi: Any, kept: tuple[object, object]) -> None:
    kind = tamis.Number(lo, hi)
    assert (kind.lo, kind.hi) == kept
    assert (type(kind.lo), type(kind.hi)) == tuple(map(type, kept))
    schema = tamis.Schema({"x": kind})
    assert tamis.Schema.from_json(schema.to_json()) == schema


def test_wrong_declarations() -> None:
    with pytest.raises(SchemaError, match="'x': expected a type such as"):
        tamis.Schema({"x": tamis.Number})  # type: ignore[dict-item]
    with pytest.raises(LimitError, match="attributes of a schema: 1,025 is more than the 1,024"):
        tamis.Schema({f"a{i}": tamis.Number() for i in range(MAX_DECLARED + 1)})
    assert len(tamis.Schema({f"a{i}": tamis.Number() for i in range(MAX_DECLARED)})) == MAX_DECLARED


def test_from_arrow() -> None:
    wkb = [None, shapely.Point(1, 2).wkb]
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.uint8()),
            "f": [1.0, 2.0],
            "d": pa.array([1, 2], pa.decimal128(10, 2)),
            "s": pa.array(["a", "b"]).dictionary_encode(),
            "b": [True, False],
            "t": pa.array([0, 1], pa.timestamp("ms", "UTC")),
            "v": pa.array([[1.0], [2.0]], pa.list_(pa.float32(), 1)),
            "l": [None, [1.0, 2.0]],
            "g": wkb,
            "blob": [b"x", b"y"],
            "struct": [{"a": 1}, {"a": 2}],
        }
    )
    number, text = tamis.Number(), tamis.String()
    assert dict(tamis.Schema.from_arrow(table)) == {
        "i": number,
        "f": number,
        "d": number,
        "s": text,
        "b": tamis.Boolean(),
        "t": tamis.Timestamp(),
        "v": tamis.Vector(1),
        "l": tamis.Vector(2),
        "g": tamis.Region(),
    }
    assert "l" not in tamis.Schema.from_arrow(table.schema)
    with pytest.raises(SchemaError, match="expected an Arrow table or schema, not int"):
        tamis.Schema.from_arrow(5)


def test_events_are_canonical_and_partial() -> None:
    event = FULL.event({"price": 5, "symbol": None, "unknown": object()})
    assert event == {"price": 5}
    with pytest.raises(tamis.EventError, match=r"attribute 'price': expected a number, not a string \(got 'x'\)"):
        FULL.event({"price": "x"})
    with pytest.raises(tamis.EventError, match="an event must be a mapping"):
        FULL.event([("price", 5)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("plain", np.array(5), 5),
        ("symbol", np.array("IBM"), "IBM"),
        ("halted", np.array(True), True),
        ("local", np.array("1970-01-01T01:00", "datetime64[ns]"), 0),
        ("area", np.array(shapely.Point(1, 2)), shapely.Point(1, 2)),
    ],
)
def test_an_array_without_dimensions_is_its_scalar(name: str, value: object, canonical: object) -> None:
    assert FULL.event({name: value}) == {name: canonical}
    learnt = learn_from_event(tamis.Schema(), {name: value})
    assert learnt[name].agrees_with(FULL[name])


@pytest.mark.parametrize("name", list(FULL))
@pytest.mark.parametrize(
    "value", [np.array(None), np.array(1j), np.ma.masked, np.ones((2, 2)), np.ma.array([1.0, 2.0], mask=[0, 1]), pd.NaT]
)
def test_no_array_is_worse_than_an_event_error(name: str, value: object) -> None:
    with pytest.raises(tamis.EventError, match="attribute '"):
        FULL.event({name: value})
    learn_from_event(tamis.Schema(), {name: value})


def test_nothing_is_learnt_from_what_is_missing_or_too_long() -> None:
    event = {"a": pd.NaT, "b": np.ma.masked, "c": pd.NA, "d": np.array(None), "e": [0.0] * 65_537, "f": [[[]]]}
    assert not learn_from_event(tamis.Schema(), event)


def test_learning_names_both_sides() -> None:
    schema = learn_from_event(tamis.Schema(), {"a": 1, "b": float("nan"), "c": None, "d": object()})
    assert dict(schema) == {"a": tamis.Number()}
    with pytest.raises(SchemaError, match="'a': known as a number, but the file uses it as a string"):
        schema.extended({"a": tamis.String()}, "the file")
    with pytest.raises(SchemaError, match="a vector of 2, but the file uses it as a vector of 3"):
        tamis.Schema({"v": tamis.Vector(2)}).extended({"v": tamis.Vector(3)}, "the file")


def test_a_schema_is_a_value() -> None:
    assert hash(FULL) == hash(tamis.Schema(dict(FULL)))
    assert repr(tamis.Schema({"x": tamis.Vector(2)})) == "Schema({'x': Vector(n=2)})"
