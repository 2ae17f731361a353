"""The calls of functions in CQL2 text: their pieces in, one piece out. See `parse._Builder`."""

from __future__ import annotations

from tamis.model.derived.spatial_functions import constant_relation
from tamis.model.language.folded_text import leaf
from tamis.model.language.functions import temporal
from tamis.model.language.lexer import TURNED, Piece
from tamis.model.language.literals import MeaningError, check_cosine, check_distance, fitting
from tamis.model.language.nodes import Constant, CosineTest, DistanceTest, NetworkTest, SpatialTest, WithinBall

__all__ = ["FunctionCalls"]


def _time(piece: Piece) -> temporal.Time:
    """Return what stands on one side of a relation of time."""
    if piece.type == "interval":
        interval: temporal.Time = piece.value
        return interval
    return temporal.instant_time(temporal.end_of(piece.type, piece.value))


class FunctionCalls:
    """The alternatives of the grammar for spatial, vector and temporal functions."""

    def spatial_test(self, pieces: list[Piece]) -> Piece:
        """Read a spatial function such as ``S_INTERSECTS(name, geometry)``."""
        function, _, name, _, geometry, closed = pieces
        node = SpatialTest(function.value, name.value, geometry.value, (function.start, closed.end))
        return leaf(node, function, closed)

    def turned_spatial_test(self, pieces: list[Piece]) -> Piece:
        """Read a spatial function whose geometry comes first."""
        function, _, geometry, _, name, closed = pieces
        turned = TURNED.get(function.value, function.value)
        node = SpatialTest(turned, name.value, geometry.value, (function.start, closed.end))
        return leaf(node, function, closed)

    def constant_spatial_test(self, pieces: list[Piece]) -> Piece:
        """Read a spatial function of two geometries, which is TRUE or FALSE."""
        function, _, first, _, second, closed = pieces
        value = fitting(constant_relation, function.start, function.value, first.value, second.value)
        return leaf(Constant(value, (function.start, closed.end)), function, closed)

    def within_distance(self, pieces: list[Piece]) -> Piece:
        """Read ``S_DWITHIN(name, geometry, distance[, 'unit'])``, in either order."""
        function, closed, distance = pieces[0], pieces[-1], pieces[6]
        name, geometry = (pieces[2], pieces[4]) if pieces[2].type == "NAME" else (pieces[4], pieces[2])
        unit = pieces[8].value if len(pieces) == 10 else None
        check_distance(distance.value, unit, distance.start)
        span = (function.start, closed.end)
        return leaf(DistanceTest(name.value, geometry.value, float(distance.value), unit, span), function, closed)

    def interval(self, pieces: list[Piece]) -> Piece:
        """Read ``INTERVAL(start, end)``."""
        _, _, start, _, stop, closed = pieces
        ends = (temporal.end_of(start.type, start.value), temporal.end_of(stop.type, stop.value))
        return Piece("interval", temporal.interval(*ends), pieces[0].start, closed.end)

    def temporal_test(self, pieces: list[Piece]) -> Piece:
        """Read ``T_AFTER(time, time)`` and the other relations of time."""
        function, _, first, _, second, closed = pieces
        span = (function.start, closed.end)
        return leaf(temporal.relate(function.value, _time(first), _time(second), span), function, closed)

    def clock_test(self, pieces: list[Piece]) -> Piece:
        """Read ``T_TIME(name, 'from', 'to', 'zone')`` or ``T_WEEKDAY(name, 'days', 'zone')``."""
        function, closed = pieces[0], pieces[-1]
        texts = tuple(piece.value for piece in pieces[4:-1:2])
        span = (function.start, closed.end)
        return leaf(temporal.clock_test(function.value, pieces[2].value, texts, span), function, closed)

    def network_test(self, pieces: list[Piece]) -> Piece:
        """Read ``IP_WITHIN(name, 'network')``."""
        function, _, name, _, network, closed = pieces
        return leaf(NetworkTest(name.value, network.value, (function.start, closed.end)), function, closed)

    def cosine_test(self, pieces: list[Piece]) -> Piece:
        """Read ``V_COSINE(name, (...), least)``."""
        function, _, name, _, direction, _, least, closed = pieces
        check_cosine(direction.value, least.value, least.start)
        span = (function.start, closed.end)
        return leaf(CosineTest(name.value, direction.value, float(least.value), span), function, closed)

    def vector(self, pieces: list[Piece]) -> Piece:
        """Read a vector that did not come as one piece."""
        center = tuple(float(piece.value) for piece in pieces[1::2])
        return Piece("VECTOR", center, pieces[0].start, pieces[-1].end)

    def within_ball(self, pieces: list[Piece]) -> Piece:
        """Read ``V_WITHIN(name, (...), radius)``."""
        function, _, name, _, center, _, radius, closed = pieces
        if radius.value < 0:
            raise MeaningError("a radius must not be negative", radius.start, radius.value, name.value)
        span = (function.start, closed.end)
        return leaf(WithinBall(name.value, center.value, float(radius.value), span), function, closed)
