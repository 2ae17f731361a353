"""Events for people: canonical values as JSON has them, and as `Schema.event` reads them again."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import shapely

from tamis.errors import TamisError
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Instant
from tamis.model.schema import Event, Schema
from tamis.model.types import AttributeType, Timestamp

__all__ = ["event_as_json"]


def event_as_json(event: Event, schema: Schema) -> dict[str, Any]:
    """Return an event's values as JSON: moments as RFC 3339, regions as WKT, a long decimal as a string.

    >>> from tamis.model.types import Number, Timestamp
    >>> event_as_json({"at": 0, "price": 99.5}, Schema({"at": Timestamp(), "price": Number()}))
    {'at': '1970-01-01T00:00:00.000000Z', 'price': 99.5}
    """
    return {name: _plain(value, schema.get(name)) for name, value in event.items()}


def _plain(value: Any, kind: AttributeType | None) -> Any:
    if isinstance(kind, Timestamp) and isinstance(value, int):
        try:
            return instant_text(Instant(value))
        except TamisError:  # before the year 1 or after 9999
            return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, shapely.Geometry):
        return shapely.to_wkt(value, rounding_precision=-1)
    return dict(value) if isinstance(value, Mapping) else value
