"""Events for people: canonical values as JSON has them, and as `Schema.event` reads them again."""

from __future__ import annotations

from typing import Any

import msgspec

from tamis.errors import EventError, LimitError
from tamis.model.schema import Schema
from tamis.model.types import AttributeType, Region, String
from tamis.model.types.paths import Lookups, nested, value_at
from tamis.model.types.value_text import is_plain
from tamis.model.values import UnfitError

__all__ = ["payload_as_json"]


def payload_as_json(payload: bytes, schema: Schema) -> dict[str, Any]:
    """Return the values of an encoded event as JSON has them; attributes without a type in the schema stay as they are.

    Bytes are the one exception: on the wire only regions are bytes.
    """
    event: dict[str, Any] = msgspec.msgpack.decode(payload, type=dict[str, Any])
    for name, value in event.items():
        kind = schema.get(name, Region() if isinstance(value, bytes) else None)
        if kind is not None and value is not None:
            event[name] = _shown(name, kind, value)
    lookups = Lookups()
    paths = (name for name in schema.paths if name not in event and not isinstance(schema[name], String))
    values = {name: value_at(event, name, lookups) for name in paths}
    shown = {name: _shown(name, schema[name], value) for name, value in values.items() if value is not None}
    return nested(event | shown, event) if shown else event


def _shown(name: str, kind: AttributeType, value: Any) -> Any:
    """Return a value as JSON has it; one that was published before the attribute had its type stays as it is."""
    try:
        return kind.wire_to_json(value)
    except (UnfitError, LimitError) as error:
        if is_plain(value):
            return value
        raise EventError(name, value, str(error)) from None
