"""Events for people: canonical values as JSON has them, and as `Schema.event` reads them again."""

from __future__ import annotations

from typing import Any

import msgspec

from tamis.errors import EventError, LimitError
from tamis.model.schema import Event, Schema
from tamis.model.types import Region, String
from tamis.model.types.paths import Lookups, nested, value_at
from tamis.model.types.value_text import is_plain
from tamis.model.values import UnfitError

__all__ = ["event_as_json", "payload_as_json"]


def payload_as_json(payload: bytes, schema: Schema) -> dict[str, Any]:
    """Return the values of an event under way as JSON has them; what the schema does not know stays as it is.

    Bytes are the one exception: on the wire only regions are bytes.
    """
    event: dict[str, Any] = msgspec.msgpack.decode(payload, type=dict[str, Any])
    for name, value in event.items():
        kind = schema.get(name, Region() if isinstance(value, bytes) else None)
        if kind is None or value is None:
            continue
        try:
            event[name] = kind.wire_to_json(value)
        except (UnfitError, LimitError) as error:
            if not is_plain(value):  # else it was published before a filter gave the attribute its type
                raise EventError(name, value, str(error)) from None
    lookups = Lookups()
    paths = (name for name in schema.paths if name not in event and not isinstance(schema[name], String))
    found = {name: value_at(event, name, lookups) for name in paths}
    inside = {name: value for name, value in found.items() if value is not None}
    shown = {name: schema[name].wire_to_json(value) for name, value in inside.items()}
    return nested(event | shown, event) if shown else event


def event_as_json(event: Event, schema: Schema) -> dict[str, Any]:
    """Return an event's values as JSON: moments as RFC 3339, regions as WKT, a long decimal as a string.

    >>> from tamis.model.types import Number, Timestamp
    >>> event_as_json({"at": 0, "price": 99.5}, Schema({"at": Timestamp(), "price": Number()}))
    {'at': '1970-01-01T00:00:00Z', 'price': 99.5}
    """
    return {name: schema[name].to_json(value) if name in schema else value for name, value in event.items()}
