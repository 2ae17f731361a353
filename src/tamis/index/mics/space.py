"""The content space: the axes that are indexed, their cells, and the Hilbert curve through them.

A subscription becomes ranges of keys, an event a key; both through the same cells. Attributes that have no axis here
are ignored (content space projection): nothing is lost, more is forwarded. An event whose value takes part of an axis,
as a region does, becomes ranges of keys itself.

A space is a plain description (`to_json`), and `version` is its name: two nodes that speak of keys must use the same
space, and one that gets keys of another version must forward (promise R10).

Implements: [mics] section 3 (representation), section 5 (content space projection).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from tamis.curves.cells import DEFAULT_BITS, Cells
from tamis.curves.hilbert import MAX_RANGES, HilbertCurve
from tamis.curves.runs import NO_RUNS, Runs, coarsened, merged
from tamis.errors import ModelError, SchemaError
from tamis.index.mics.spans import boxes_of_cells
from tamis.index.packed.axes import AttributePart, Axes, Axis
from tamis.index.packed.points_of import points_of
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable
from tamis.model.types import Form

__all__ = ["ContentSpace", "SpaceAxis"]

#: An axis and its cells.
SpaceAxis = tuple[Axis, Cells]

#: Which side of an attribute has cells, by the form of its values.
_PARTS = {Form.NUMBER: AttributePart.NUMBER, Form.TEXT: AttributePart.KEY}


class ContentSpace:
    """Axes with their cells, at most eight and 62 bits in all; without axes every event has the one key 0.

    Examples
    --------
    >>> from tamis.model.types import Number
    >>> space = ContentSpace.from_schema(Schema({"x": Number(0, 8), "y": Number(0, 8)}), bits=3)
    >>> space.key_of({"x": 5.0, "y": 2.5}), space.key_of({"x": 5.0}), space.n_keys
    (52, 59, 64)
    """

    def __init__(self, axes: Sequence[SpaceAxis]) -> None:
        self.axes: tuple[SpaceAxis, ...] = tuple(axes)
        bits = {cells.bits for _, cells in self.axes}
        if len(bits) > 1:
            raise ModelError(f"the axes of a content space have equally many cells, not {sorted(bits)} bits")
        if len({axis for axis, _ in self.axes}) < len(self.axes):
            raise ModelError("duplicate axis in a content space")
        self._curve = HilbertCurve(len(self.axes), bits.pop()) if self.axes else None
        if self._curve is not None and self._curve.key_bits > 62:
            raise ModelError(f"{self._curve.key_bits} bits are too many for a key: take fewer attributes or bits (62)")
        #: The axes as events are laid on them.
        self._places = Axes()
        for axis, _ in self.axes:
            self._places.number(axis.attribute, axis.part, axis.i)

    @classmethod
    def from_schema(
        cls, schema: Schema, attributes: Sequence[str] | None = None, bits: int = DEFAULT_BITS, *, null: bool = True
    ) -> ContentSpace:
        """Return equal cells over the domains of a schema, on the named attributes or all that have a domain.

        Numbers need a domain, ``Number(lo, hi)``; booleans and strings bring their own. Without a cell for missing
        values (``null=False``) the cells are those of the paper.
        """
        axes = []
        for name in schema if attributes is None else attributes:
            kind = schema.get(name)
            domain = None if kind is None else kind.domain
            if kind is not None and domain is not None and kind.form in _PARTS:
                axes.append((Axis(name, _PARTS[kind.form]), Cells.equal(*domain, bits, null=null)))
            elif attributes is not None:
                raise SchemaError(name, "a content space needs a Number(lo, hi), a string or a boolean here")
        return cls(axes)

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return self._curve.n_keys if self._curve is not None else 1

    @property
    def everything(self) -> Runs:
        """All keys; the ranges of a subscription without constraints on these axes."""
        return np.array([[0, self.n_keys - 1]], dtype=np.int64)

    @cached_property
    def version(self) -> str:
        """The name of this space; equal spaces have equal names."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def ranges_of(self, subscription: Subscription, most: int = MAX_RANGES) -> Runs:
        """Return the ranges of keys in which every event lies that a subscription matches; none if it matches nothing.

        More than ``most`` are coarsened outward. Implements: [mics] section 3.3, Subscription Representation.
        """
        if self._curve is None:
            return self.everything if subscription.filters else NO_RUNS
        boxes = [box for filter in subscription.filters for box in boxes_of_cells(filter, self.axes)]
        if not boxes:
            return NO_RUNS
        ranges = self._curve.ranges_of(boxes, most)[1]
        return ranges if len(boxes) == 1 else coarsened(merged(ranges), most)

    def corners_of(self, subscription: Subscription) -> Runs:
        """Return two keys in the cells of a subscription, as ranges: of a low corner and of the high corner opposite.

        What covers the subscription has both. Nothing is returned for a subscription that matches nothing.
        """
        if self._curve is None:
            return self.everything if subscription.filters else NO_RUNS
        boxes = [box for filter in subscription.filters for box in boxes_of_cells(filter, self.axes)]
        if not boxes:
            return NO_RUNS
        keys = self._curve.keys(np.array([boxes[0][0], boxes[-1][1]]))
        return np.column_stack([keys, keys])

    def key_of(self, event: Event) -> int:
        """Return the key of an event; of one that is spread over cells (a region) the key of its low corner.

        Implements: [mics] section 3.3, Publication Representation.
        """
        low, _, _ = self._places.place(event, len(self.axes))
        return self._key(low)

    def ranges_of_event(self, event: Event) -> Runs:
        """Return the keys that an event may have: one range of one key unless it is spread over cells."""
        low, high, _ = self._places.place(event, len(self.axes))
        if high is low:
            return np.array([[self._key(low)] * 2], dtype=np.int64)
        return self._ranges_between(np.array([low]), np.array([high]))

    def keys_of_table(self, events: EventTable) -> tuple[npt.NDArray[np.int64], dict[int, Runs]]:
        """Return the keys of all events, and by row the ranges of those that are spread over several cells."""
        points = points_of(events, self._places, len(self.axes))
        keys = self._keys(points.low)
        if points.high is points.low:
            return keys, {}
        apart = np.flatnonzero((self._cells(points.low) != self._cells(points.high)).any(axis=1))
        return keys, {
            row: self._ranges_between(points.low[row : row + 1], points.high[row : row + 1]) for row in apart.tolist()
        }

    def to_json(self) -> str:
        """Return the space as JSON text that `from_json` reads."""
        plain = [[*axis[:1], axis.part.value, axis.i, cells.bits, cells.null, cells.cuts] for axis, cells in self.axes]
        return msgspec.json.encode({"axes": plain}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ContentSpace:
        """Read a space that `to_json` wrote; raise `ModelError` if it is not valid."""
        try:
            read = msgspec.json.decode(text, type=dict[str, list[tuple[str, str, int, int, bool, tuple[float, ...]]]])
            axes = [
                (Axis(name, AttributePart(part), i), Cells(cuts, bits, null))
                for name, part, i, bits, null, cuts in read["axes"]
            ]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, ValueError) as error:
            raise ModelError(f"a content space is JSON text as to_json writes it: {error}") from None
        return cls(axes)

    def _key(self, point: Sequence[float]) -> int:
        """Return the key of one point; a loop over axes is faster than arrays of one row."""
        if self._curve is None:
            return 0
        cells = [cells.cell(value) for (_, cells), value in zip(self.axes, point, strict=True)]
        return int(self._curve.keys(np.array([cells]))[0])

    def _cells(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        columns = [cells.cells(points[:, i]) for i, (_, cells) in enumerate(self.axes)]
        return np.column_stack(columns)

    def _keys(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        if self._curve is None:
            return np.zeros(len(points), np.int64)
        return self._curve.keys(self._cells(points))

    def _ranges_between(self, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]) -> Runs:
        if self._curve is None:
            return self.everything
        return self._curve.ranges(self._cells(low)[0], self._cells(high)[0])
