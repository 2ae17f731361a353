"""From meaning back to syntax: filters become a tree that reads well and compiles to the same filters."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.errors import SubscriptionError, shorten
from tamis.model.language.format import format_node
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.pattern import prefix_stop
from tamis.model.schema import Schema
from tamis.model.spatial_functions import ALL_RELATIONS, SPATIAL_FUNCTIONS
from tamis.model.subscription import AllOf, AnyOf, Constraint, Filter, Like, Predicate, Spatial, Values
from tamis.model.text.folding import escape_like
from tamis.model.types import AttributeType, Boolean, String, Timestamp
from tamis.model.value_set import Cut, ValueSet

__all__ = ["format_filters", "unbind"]


def format_filters(filters: Sequence[Filter], schema: Schema) -> str:
    """Return CQL2 text that compiles to these filters."""
    return format_node(unbind(filters, schema))


def unbind(filters: Sequence[Filter], schema: Schema) -> Node:
    """Return a syntax tree that compiles to these filters."""
    return _any([_filter_node(one, schema) for one in filters])


def _filter_node(one: Filter, schema: Schema) -> Node:
    if one.rest is not None:  # the constraints are only the hull of the rest and what was joined to it
        return _all([*(_constraint_node(c, schema) for c in one.constraints), _predicate_node(one.rest, schema)])
    return _all([_constraint_node(constraint, schema) for constraint in one.constraints])


def _predicate_node(predicate: Predicate, schema: Schema) -> Node:
    if isinstance(predicate, AllOf):
        return _all([_predicate_node(part, schema) for part in predicate.parts])
    if isinstance(predicate, AnyOf):
        return _any([_predicate_node(part, schema) for part in predicate.parts])
    return _constraint_node(predicate, schema)


def _constraint_node(constraint: Constraint, schema: Schema) -> Node:
    if isinstance(constraint, Values):
        return _values_node(constraint, schema.get(constraint.attribute))
    if isinstance(constraint, Like) and (constraint.fold or constraint.is_regex):
        op = "MATCHES" if constraint.is_regex else "LIKE"
        return TextTest(constraint.attribute, op, (constraint.pattern,), constraint.fold, constraint.negated)
    if isinstance(constraint, Like):
        return IsLike(constraint.attribute, constraint.pattern, constraint.negated)
    if isinstance(constraint, Spatial):
        return _spatial_node(constraint)
    within = WithinBall(constraint.attribute, constraint.center, constraint.radius)
    return Not(within) if constraint.negated else within


def _spatial_node(constraint: Spatial) -> Node:
    names = {relations: name for name, relations in reversed(SPATIAL_FUNCTIONS.items())}

    def test(name: str) -> Node:
        return SpatialTest(name, constraint.attribute, constraint.region)

    if constraint.relations in names:
        return test(names[constraint.relations])
    if ALL_RELATIONS - constraint.relations in names:
        return Not(test(names[ALL_RELATIONS - constraint.relations]))
    if constraint.relations == ALL_RELATIONS:
        return IsNull(constraint.attribute, negated=True)
    return _any([test(f"RCC_{one.value.upper()}") for one in sorted(constraint.relations)])


def _values_node(constraint: Values, kind: AttributeType | None) -> Node:
    name, allowed = constraint.attribute, constraint.allowed
    parts: list[Node] = [IsNull(name)] if allowed.missing else []
    if not allowed.has_values:
        return _any(parts)
    if not allowed.cuts:
        return Constant(True) if allowed.missing else IsNull(name, negated=True)
    points, ranges = _split(allowed, kind)
    if ranges and ranges[0][0] is None and ranges[-1][1] is None:  # open at both ends: maybe it has holes only
        holes, others = _split(allowed.negated(), kind)
        if not others:  # everything but some values
            parts.append(Compare(name, "<>", holes[0]) if len(holes) == 1 else IsIn(name, tuple(holes), negated=True))
            return _any(parts)
    if points:
        parts.append(Compare(name, "=", points[0]) if len(points) == 1 else IsIn(name, tuple(points)))
    parts += [_range_node(name, kind, start, stop) for start, stop in ranges]
    return _any(parts)


Interval = tuple[Cut | None, Cut | None]


def _split(allowed: ValueSet, kind: AttributeType | None) -> tuple[list[Literal], list[Interval]]:
    """Part a set into the single values in it and the real ranges."""
    points: list[Literal] = []
    ranges: list[Interval] = []
    for start, stop in allowed.intervals():
        low, high = _lower(start, kind), _upper(stop, kind)
        if low is not None and high is not None and low == (high[0], ">=") and high[1] == "<=":
            points.append(low[0])
        else:
            ranges.append((start, stop))
    return points, ranges


def _range_node(name: str, kind: AttributeType | None, start: Cut | None, stop: Cut | None) -> Node:
    prefix = _prefix(kind, start, stop)
    if prefix is not None:
        return IsLike(name, f"{escape_like(prefix)}%")
    low, high = _lower(start, kind), _upper(stop, kind)
    if low and high and low[1] == ">=" and high[1] == "<=":
        return Between(name, low[0], high[0])
    return _all([Compare(name, op, value) for value, op in (end for end in (low, high) if end)])


def _prefix(kind: AttributeType | None, start: Cut | None, stop: Cut | None) -> str | None:
    if isinstance(kind, String) and start and stop and prefix_stop(start[0]) == stop[0]:
        return str(start[0])
    return None


def _lower(cut: Cut | None, kind: AttributeType | None) -> tuple[Literal, str] | None:
    """Return (value, ">=" or ">") for the lower end of an interval; None when it is open."""
    if cut is None:
        return (False, ">=") if isinstance(kind, Boolean) else None
    value, side = cut
    if isinstance(kind, String) and value.endswith("\0"):
        return value[:-1], ">"
    return _literal(value, kind), ">" if side else ">="


def _upper(cut: Cut | None, kind: AttributeType | None) -> tuple[Literal, str] | None:
    """Return (value, "<=" or "<") for the upper end of an interval; None when it is open."""
    if cut is None:
        return (True, "<=") if isinstance(kind, Boolean) else None
    value, side = cut
    if isinstance(kind, Boolean):
        return False, "<="
    if isinstance(kind, String):
        return (value[:-1], "<=") if value.endswith("\0") else (value, "<")
    if isinstance(kind, Timestamp):
        return Instant(value - 1), "<="
    return _literal(value, kind), "<=" if side else "<"


def _literal(value: object, kind: AttributeType | None) -> Literal:
    if isinstance(kind, Timestamp) and isinstance(value, int):
        return Instant(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise SubscriptionError(f"{shorten(value)} cannot be written as a literal")


def _all(parts: list[Node]) -> Node:
    return Constant(True) if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _any(parts: list[Node]) -> Node:
    return Constant(False) if not parts else parts[0] if len(parts) == 1 else Or(tuple(parts))
