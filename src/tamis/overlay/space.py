"""The space of the peers' boxes: one axis per attribute, and a box around each subscription.

Every axis is the unit interval. A number with a domain lies at its share of the domain, what is outside at the nearer
end; a number without one lies where its float64 stands among all float64. Both maps keep the order (not strictly), so
a box that contains a value contains its place: boxes may say too much, never too little, and the raw values decide at
the peer. The missing value has a place of its own, -1. An axis that is not asked about is [-1, 1]; one on which any
value will do is [0, 1]. So there is no infinity anywhere, and nothing that subtracts two of them.

A region is its bounding box, a ball the cube around it on its first coordinates, a string its first six bytes.
Conditions that far away regions meet, patterns and NULL say nothing: the axis is free, or wants any value.

Implements: [drtree] section 3.1, subscriptions as poly-rectangles; an undefined attribute is an unbounded side.
Deviation: areas of unbounded sides are those of the domain (erratum D.3.6), for infinity minus infinity compares to
nothing; != and patterns are not boxes, so they stay with the peer, which decides exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import ModelError
from tamis.index.dominance.outline import Outline, outline_of
from tamis.index.packed.axes import COORDINATES, string_key
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Spatial
from tamis.model.types import AttributeType, Form, Vector
from tamis.model.values import Value

__all__ = ["FREE", "MISSING", "Box", "Space"]

#: float64[2, axes]: low ends, then high ends.
Box = npt.NDArray[np.float64]

#: Where a missing value lies.
MISSING: Final = -1.0
#: The side of an unconstrained axis.
FREE: Final = (MISSING, 1.0)

_LARGEST: Final = float(np.finfo(np.float64).max)

Side = tuple[float, float]


class _Axis(NamedTuple):
    """One axis: a part of an attribute ("" the value, "x" and "y" of a region, a coordinate), and its domain."""

    attribute: str
    part: str
    domain: Side | None


class Space:
    """The axes of a schema. All peers of a network have the same.

    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.model.types import Number, String
    >>> space = Space(Schema({"price": Number(0, 200), "symbol": String()}))
    >>> space.box_of(compile_text("price < 100").filters)
    array([[ 0. , -1. ],
           [ 0.5,  1. ]])
    >>> space.box_of_event({"price": 150.0})
    array([[ 0.75, -1.  ],
           [ 0.75, -1.  ]])
    """

    def __init__(self, schema: Schema) -> None:
        self.axes = [axis for name, kind in schema.items() for axis in _axes_of(name, kind)]
        if not self.axes:
            raise ModelError("a network of peers needs a schema with at least one attribute")

    def __len__(self) -> int:
        return len(self.axes)

    def box_of(self, filters: Sequence[Filter]) -> Box | None:
        """Return a box around everything a disjunction of filters matches; None when nothing can match."""
        boxes = [box for filter in filters if (box := self._box_of_filter(filter)) is not None]
        if not boxes:
            return None
        stacked = np.array(boxes)
        return np.stack([stacked[:, 0].min(axis=0), stacked[:, 1].max(axis=0)])

    def box_of_event(self, event: Mapping[str, Value]) -> Box:
        """Return the box of an event: a point, except for regions."""
        box = np.full((2, len(self)), MISSING)
        for column, axis in enumerate(self.axes):
            value = event.get(axis.attribute)
            if value is not None:
                low, high = _interval(axis, value)
                box[:, column] = _unit(low, axis.domain), _unit(high, axis.domain)
        return box

    def read(self, data: bytes) -> Box:
        """Return the box that is encoded as bytes; raise `ModelError` if it is not valid."""
        if len(data) != 16 * len(self):
            raise ModelError(f"expected a box of {16 * len(self)} bytes, got {len(data)}")
        box = np.frombuffer(data).reshape(2, len(self))
        if not ((box[0] >= MISSING) & (box[0] <= box[1]) & (box[1] <= 1.0)).all():
            raise ModelError(f"invalid box: {box.tolist()}")
        return box

    def _box_of_filter(self, filter: Filter) -> Box | None:
        outline = outline_of((filter,))
        if outline is None:
            return None
        regions = {
            constraint.attribute: constraint for constraint in filter.constraints if isinstance(constraint, Spatial)
        }
        box = np.empty((2, len(self)))
        for column, axis in enumerate(self.axes):
            box[:, column] = _side(axis, outline, regions.get(axis.attribute))
        return box


def _axes_of(name: str, kind: AttributeType) -> list[_Axis]:
    if kind.form is Form.REGION:
        return [_Axis(name, "x", None), _Axis(name, "y", None)]
    if kind.form is Form.MANY:  # several points: the peer decides
        return []
    if isinstance(kind, Vector):
        return [_Axis(name, str(i), None) for i in range(min(kind.n, COORDINATES))]
    return [_Axis(name, "", kind.domain)]


def _side(axis: _Axis, outline: Outline, region: Spatial | None) -> Side:
    """Return the side of a box on one axis."""
    if region is not None and Relation.DISJOINT not in region.relations:
        bounds = shapely.bounds(region.region)
        low, high = (bounds[0], bounds[2]) if axis.part == "x" else (bounds[1], bounds[3])
        return _unit(float(low), None), _unit(float(high), None)
    side = outline.outer.get((axis.attribute, axis.part))
    if side is None:
        return (0.0, 1.0) if (axis.attribute, "") in outline.outer else FREE
    return _unit(side[0], axis.domain), _unit(side[1], axis.domain)


def _interval(axis: _Axis, value: Value) -> Side:
    if isinstance(value, shapely.Geometry):
        bounds = shapely.bounds(value)
        low, high = (bounds[0], bounds[2]) if axis.part == "x" else (bounds[1], bounds[3])
        return float(low), float(high)
    if isinstance(value, np.ndarray):
        return float(value[int(axis.part)]), float(value[int(axis.part)])
    number = string_key(value) if isinstance(value, str) else _nearest(value)
    return number, number


def _nearest(value: Value) -> float:
    """Return the nearest float64 of a number, as in the ends of a box; this keeps the order."""
    try:
        return float(value)
    except OverflowError:
        return _LARGEST if value > 0 else -_LARGEST


def _unit(value: float, domain: Side | None) -> float:
    """Return the position of a number on its axis.

    >>> _unit(5.0, (0.0, 10.0)), _unit(99.0, (0.0, 10.0)), _unit(0.0, None)
    (0.5, 1.0, 0.5)
    """
    if domain is not None:
        low, high = domain
        return (min(max(value, low), high) - low) / (high - low)
    (bits,) = struct.unpack("<q", struct.pack("<d", abs(value)))
    rank = float(bits / 2.0**63)
    return 0.5 + rank / 2 if value >= 0 else 0.5 - rank / 2
