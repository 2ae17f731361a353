"""Subscriptions that consist of one ball, for the packed matcher.

They have a `BallIndex` of their own for each vector attribute instead of a box: the balls around an event's vector are
the balls that cover the point. So no candidate is asked in Python, in two dimensions or in a thousand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.geometry.spaces import as_ball, derived_of, vector_of, vectors_of_column
from tamis.index.balls.ball_index import BallIndex
from tamis.index.balls.projections import Projections
from tamis.index.protocols import NO_ROWS, Rows
from tamis.index.saved_arrays import SavedArrays
from tamis.model.schema import Event
from tamis.model.subscription import Ball, Cosine, Subscription
from tamis.model.tables import EventTable

__all__ = ["PackedBalls", "only_ball"]

_FloatArray = npt.NDArray[np.float64]

#: Events that are matched together: the pairs found so far are all that grows with a table.
_CHUNK = 4_096


class _Key(NamedTuple):
    """The attribute and dimension that all balls of an index share."""

    attribute: str
    dimension: int


def only_ball(subscription: Subscription) -> Ball | None:
    """Return the ball of a subscription that consists of one ball."""
    if len(subscription.filters) != 1:
        return None
    [filter] = subscription.filters
    if filter.rest is not None or len(filter.constraints) != 1:
        return None
    [constraint] = filter.constraints
    return as_ball(constraint) if isinstance(constraint, Ball | Cosine) and not constraint.negated else None


class PackedBalls:
    """Balls by row; finds those around the vectors of events. EXACT."""

    def __init__(self) -> None:
        self._indexes: dict[_Key, BallIndex] = {}

    def __len__(self) -> int:
        return sum(len(index) for index in self._indexes.values()) if self._indexes else 0

    def add(self, row: int, ball: Ball) -> None:
        """Add a ball under a row that is free."""
        self._index_of(_Key(ball.attribute, len(ball.center))).add(row, ball.center, ball.radius)

    def add_many(self, rows: Rows, attribute: str, centers: _FloatArray, radii: _FloatArray) -> None:
        """Add balls of one attribute, float64[n, d] and float64[n], under rows that are free."""
        self._index_of(_Key(attribute, centers.shape[1])).add_many(rows, centers, radii)

    def remove(self, row: int) -> bool:
        """Remove a row; return False if it is absent."""
        for index in self._indexes.values():
            if row in index:
                index.remove(row)
                return True
        return False

    def find(self, row: int) -> Ball | None:
        """Return the ball of a row; None if it is absent, or if it represents another kind of condition."""
        for key, index in list(self._indexes.items()):
            ball = index.ball(row)
            if ball is not None and derived_of(key.attribute) is None:
                return Ball(key.attribute, tuple(ball[0].tolist()), ball[1])
        return None

    def match(self, event: Event) -> Rows:
        """Return the rows of the balls around an event's vectors, in any order."""
        rows = [NO_ROWS]
        for key, index in list(self._indexes.items()):
            point = vector_of(event, key.attribute)
            if point is not None and len(point) == key.dimension:
                rows.append(index.find_pairs(point[None], np.zeros(1))[1])
        return np.concatenate(rows)

    def pairs(self, events: EventTable) -> tuple[Rows, Rows]:
        """Return the events and rows of all matches, int32 each, in any order."""
        pairs = [(NO_ROWS, NO_ROWS)]
        for key, index in list(self._indexes.items()):
            read = vectors_of_column(events.columns, key.attribute)
            if read is None or read[0].shape[1:] != (key.dimension,):
                continue
            vectors, present = read[0], np.flatnonzero(read[1])
            for begin in range(0, len(present), _CHUNK):
                chunk = present[begin : begin + _CHUNK]
                numbers, rows = index.find_pairs(vectors[chunk], np.zeros(len(chunk)))
                pairs.append((chunk[numbers].astype(np.int32), rows))
        return np.concatenate([array for array, _ in pairs]), np.concatenate([array for _, array in pairs])

    def _index_of(self, key: _Key) -> BallIndex:
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = BallIndex(Projections.drawn(key.dimension), points=True)
        return index

    def statistics(self) -> dict[str, int | float | str]:
        """Return the number of balls, and the statistics of each index."""
        details: dict[str, int | float | str] = {"balls": len(self)} if self._indexes else {}
        for key, index in self._indexes.items():
            details |= {f"balls.{key.attribute}.{name}": value for name, value in index.statistics().items()}
        return details

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(index.statistics()["bytes"]) for index in self._indexes.values())

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as named arrays, the vectors of the projections too."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for i, (key, index) in enumerate(self._indexes.items()):
            arrays[f"{i}.attribute"] = np.frombuffer(key.attribute.encode(), np.uint8)
            arrays |= {f"{i}.{name}": array for name, array in index.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_rows: int) -> PackedBalls:
        """Rebuild the indexes from the arrays of `to_arrays`, after checking them."""
        balls = cls()
        for i in range(sum(name.endswith(".attribute") for name in arrays)):
            own = arrays.under(f"{i}.")
            index = BallIndex.from_arrays(own, n_rows=n_rows, points=True)
            key = _Key(own.text("attribute"), index.projections.d)
            if key in balls._indexes:
                own.refuse("attribute", f"names {key.attribute!r} a second time")
            balls._indexes[key] = index
        return balls

    def rows(self) -> Rows:
        """Return all rows; one that stands in two indexes comes twice."""
        return np.concatenate([NO_ROWS, *(index.rows() for index in self._indexes.values())])

    def dimensions(self) -> list[tuple[str, int]]:
        """Return the attribute and dimension of every index."""
        return list(self._indexes)
