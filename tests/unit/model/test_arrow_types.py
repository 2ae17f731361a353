"""Which Arrow columns can hold an attribute: what the types declare is what reading a column of samples does."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import tamis
from tamis.errors import TableError
from tamis.model.arrow_types import check_columns, fits_column
from tamis.model.columns import column_from
from tamis.model.schema import Schema
from tamis.model.types import Mixed, Version

_TEXTS = ["a", "1.5", "1.2.3", "POINT(0 0)", "2020-01-01T00:00:00Z", "2020-01-01", "127.0.0.1"]
_TEXTS += ["00000000-0000-0000-0000-000000000000"]
_POINT = bytes.fromhex("0101000000000000000000F03F000000000000F03F")
#: A column of each kind, with samples of everything that types read from it.
COLUMNS = {
    "boolean": pa.array([True]),
    "integer": pa.array([1]),
    "float": pa.array([1.5]),
    "decimal": pa.array([decimal.Decimal("1.5")]),
    "text": pa.array(_TEXTS),
    "dictionary": pa.array(_TEXTS).dictionary_encode(),
    "binary": pa.array([bytes(16), _POINT]),
    "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
    "local": pa.array([0], pa.timestamp("us")),
    "date": pa.array([0], pa.date32()),
    "time": pa.array([0], pa.time64("us")),
    "numbers": pa.array([[1.5, 2.5]]),
    "integers": pa.array([[1, 2]]),
    "texts": pa.array([[text] for text in _TEXTS]),
    "moments": pa.array([[dt.datetime(2020, 1, 1)]], pa.list_(pa.timestamp("us", "UTC"))),
    "objects": pa.array([[{"a": 1}]]),
    "struct": pa.array([{"type": "Point", "coordinates": [0.0, 1.0]}]),
    "nothing": pa.nulls(1),
}
TYPES: list[tamis.AttributeType] = [
    tamis.Number(),
    tamis.String(),
    tamis.String(coerce=True),
    tamis.Boolean(),
    tamis.Timestamp(),
    tamis.Timestamp("Europe/Berlin"),
    tamis.Region(),
    tamis.Vector(2),
    tamis.Date(),
    tamis.Decimal(),
    tamis.Ip(),
    tamis.Uuid(),
    Version(),
    Mixed(),
    *(tamis.Many(of) for of in (tamis.String(), tamis.Number(), tamis.Timestamp(), tamis.Boolean())),
]


@pytest.mark.parametrize("kind", TYPES, ids=repr)
def test_a_column_fits_if_one_of_its_values_is_read(kind: tamis.AttributeType) -> None:
    read = {name for name, values in COLUMNS.items() if len(column_from("x", kind, values).bad) < len(values)}
    assert {name for name, values in COLUMNS.items() if fits_column(kind, values.type)} == read


def test_a_type_of_a_user_may_read_other_columns_than_the_class_it_extends() -> None:
    @dataclass(frozen=True)
    class Price(tamis.Number):
        """A number that is also read from text such as '5 EUR'."""

        name: ClassVar[str] = "price"

        def canonical(self, value: object) -> Any:
            return super().canonical(float(value.removesuffix(" EUR")) if isinstance(value, str) else value)

    assert fits_column(Price(), pa.string())
    assert not fits_column(tamis.Number(), pa.string())


@pytest.mark.parametrize(
    ("path", "kind", "column", "problem"),
    [
        (
            "price",
            tamis.Number(),
            pa.string(),
            r"'price' is a number, but its column has the type 'string',.*as a string",
        ),
        (
            "price",
            tamis.String(),
            pa.int32(),
            r"type 'int32', .*; cast the column, or declare the attribute as a number",
        ),
        ("at", tamis.Timestamp(), pa.timestamp("us"), r"or declare the zone: Timestamp\(zone='Europe/Berlin'\)"),
        ("a.b", tamis.Number(), pa.struct({"b": pa.string()}), "attribute 'a.b' is a number, .* type 'string'"),
        ("a.b", tamis.Number(), pa.map_(pa.string(), pa.string()), "attribute 'a.b'"),
        ("a.b", tamis.Many(tamis.Number()), pa.list_(pa.struct({"b": pa.string()})), r"type 'list<item: string>'"),
        (
            "a.b",
            tamis.String(),
            pa.list_(pa.struct({"b": pa.string()})),
            r"type 'list<item: string>'.* many of a string",
        ),
        ("a", tamis.Number(), pa.struct({"b": pa.int64()}), r"type 'struct<b: int64>'"),
    ],
)
def test_a_column_that_cannot_hold_the_attribute_is_named(
    path: str, kind: tamis.AttributeType, column: pa.DataType, problem: str
) -> None:
    with pytest.raises(TableError, match=problem):
        check_columns(pa.schema({path.partition(".")[0]: column}), Schema({path: kind}))


def test_columns_that_can_hold_their_attributes() -> None:
    schema = Schema({"a.b": tamis.Number(), "a.c.d": tamis.Many(tamis.String()), "absent": tamis.Number()})
    inner = pa.struct({"b": pa.float32(), "c": pa.list_(pa.struct({"d": pa.string()}))})
    check_columns(pa.schema({"a": inner, "other": pa.string()}), schema)
    learned = Schema({"price": tamis.Number()}, unasked=frozenset({"price"}))
    check_columns(pa.schema({"price": pa.string()}), learned)  # rules only ask whether it is there
