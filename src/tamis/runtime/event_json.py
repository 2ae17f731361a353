"""Events for people: canonical values as JSON has them, and as `Schema.event` reads them again."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import shapely

from tamis.errors import EventError, LimitError, TamisError
from tamis.model.geometry_text import read_wkb
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Instant
from tamis.model.schema import Event, Schema
from tamis.model.types import AttributeType, Timestamp
from tamis.model.values import UnfitError

__all__ = ["event_as_json", "payload_as_json"]


def payload_as_json(payload: bytes, schema: Schema) -> dict[str, Any]:
    """Return the values of an event under way as JSON has them; what the schema does not know stays as it is."""
    event = msgspec.msgpack.decode(payload, type=dict[str, Any])
    return {name: _read(name, value, schema.get(name)) for name, value in event.items()}


def event_as_json(event: Event, schema: Schema) -> dict[str, Any]:
    """Return an event's values as JSON: moments as RFC 3339, regions as WKT, a long decimal as a string.

    >>> from tamis.model.types import Number, Timestamp
    >>> event_as_json({"at": 0, "price": 99.5}, Schema({"at": Timestamp(), "price": Number()}))
    {'at': '1970-01-01T00:00:00Z', 'price': 99.5}
    """
    return {name: _plain(value, schema.get(name)) for name, value in event.items()}


def _read(name: str, value: Any, kind: AttributeType | None) -> Any:
    if isinstance(value, dict) and value.keys() == {"/"}:
        return value["/"]
    if not isinstance(value, bytes):
        return _plain(value, kind)
    try:
        return _plain(read_wkb(value), kind)
    except (UnfitError, LimitError) as error:
        raise EventError(name, value, str(error)) from None


def _plain(value: Any, kind: AttributeType | None) -> Any:
    if isinstance(kind, Timestamp) and isinstance(value, int):
        try:
            return instant_text(Instant(value)).replace(".000000Z", "Z")
        except TamisError:  # beyond the calendar
            return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, shapely.Geometry):
        return shapely.to_wkt(value, rounding_precision=-1)
    return dict(value) if isinstance(value, Mapping) else value
