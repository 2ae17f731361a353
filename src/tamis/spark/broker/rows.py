"""Rows of Spark and events of a broker: what a broker's log says becomes columns, what columns say becomes events.

A column is the attribute of its name. Names that begin with an underscore are the log's own:

================== ======================================================
``_cursor``        the place of the message in the log
``_event_id``      the id of the event
``_event``         the whole event, as JSON text
``_subscriptions`` the subscriptions of the log's owner that it matches
================== ======================================================
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pyarrow as pa
import shapely
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tamis.errors import EventError, LimitError, SchemaError
from tamis.model.geometry_text import read_wkb, read_wkt
from tamis.model.values import UnfitError

__all__ = ["LOG_COLUMNS", "batch_of", "check_columns", "event_of"]

#: The default columns of a log.
LOG_COLUMNS = T.StructType(
    [
        T.StructField("_cursor", T.StringType(), nullable=False),
        T.StructField("_event_id", T.StringType(), nullable=False),
        T.StructField("_event", T.StringType(), nullable=False),
        T.StructField("_subscriptions", T.ArrayType(T.StringType()), nullable=False),
    ]
)


def check_columns(columns: T.StructType) -> None:
    """Raise `SchemaError` for a column that no log can fill."""
    own = {field.name: field.dataType for field in LOG_COLUMNS}
    for field in columns:
        if field.name.startswith("_") and own.get(field.name) != field.dataType:
            own_columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in own.items())
            raise SchemaError(
                field.name, f"the log has no such column; it has {own_columns}, and the attributes of events"
            )
        if not field.name.startswith("_"):
            _reader(field)


def batch_of(messages: Sequence[Mapping[str, Any]], columns: T.StructType) -> pa.RecordBatch:
    """Return deliveries of a log as a batch; `EventError` names the value that does not fit its column."""
    schema = to_arrow_schema(columns, timezone="UTC")
    arrays = []
    for field, kind in zip(columns, schema.types, strict=True):
        values = _own(field.name, messages) if field.name.startswith("_") else _attribute(field, messages)
        arrays.append(pa.array(values, type=kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as an event: what is null and the log's own columns are left out.

    >>> event_of({"price": 9.5, "note": None, "_cursor": "7-1", "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)})
    {'price': 9.5, 'at': '2026-01-01T00:00:00+00:00'}
    """
    return {name: _plain(name, value) for name, value in row.items() if value is not None and not name.startswith("_")}


def _own(name: str, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    if name == "_cursor":
        return [message["cursor"] for message in messages]
    if name == "_event_id":
        return [message["id"] for message in messages]
    if name == "_event":
        return [msgspec.json.encode(message["event"]).decode() for message in messages]
    return [[str(id) for id in message["subscriptions"]] for message in messages]


def _attribute(field: T.StructField, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    read, values = _reader(field), []
    for message in messages:
        value = message["event"].get(field.name)
        try:
            values.append(None if value is None else read(value))
        except (TypeError, ValueError, OverflowError, ArithmeticError, shapely.errors.ShapelyError):
            expected = f"expected {field.dataType.simpleString()} in event {message['id']}"
            raise EventError(field.name, value, expected) from None
    return values


def _reader(field: T.StructField) -> Callable[[Any], Any]:
    """Return what makes a value of a column from JSON."""
    kind = field.dataType
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.DoubleType | T.FloatType):
        return lambda value: [_float(element) for element in value]
    for type_class, read in _READERS:
        if isinstance(kind, type_class):
            return read
    raise SchemaError(field.name, f"events have no values of type {kind.simpleString()}")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or value != int(value):
        raise ValueError
    if not -(2**63) <= value < 2**63:
        raise OverflowError
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(Fraction(value))


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError
    exact = Fraction(str(value))
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        raise ValueError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _moment(value: Any) -> dt.datetime:
    moment = dt.datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError
    return moment


def _binary(value: Any) -> bytes:
    """Return a region as WKB."""
    return bytes(shapely.to_wkb(read_wkt(value)))


_READERS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((T.StringType,), _text),
    ((T.LongType, T.IntegerType, T.ShortType, T.ByteType), _whole),
    ((T.DoubleType, T.FloatType), _float),
    ((T.DecimalType,), _decimal),
    ((T.BooleanType,), _truth),
    ((T.TimestampType,), _moment),
    ((T.BinaryType,), _binary),
)


def _wkt(name: str, value: bytes) -> str:
    try:
        return str(shapely.to_wkt(read_wkb(value), rounding_precision=-1))
    except (UnfitError, LimitError) as error:
        raise EventError(name, value, str(error)) from None


def _plain(name: str, value: Any) -> Any:
    """Return a value of Arrow as JSON has it; `EventError` when JSON has none."""
    if isinstance(value, float) and not math.isfinite(value):
        raise EventError(name, value, "not a number; leave a missing value null")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise EventError(name, value, "a moment without a zone; cast the column to timestamp")
        return value.isoformat()
    if isinstance(value, bytes):
        return _wkt(name, value)
    if isinstance(value, list):
        return [_plain(name, element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(name, element) for key, element in value.items()}
    return value
