"""From meaning back to syntax: filters become a tree that reads well and compiles to the same filters."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.errors import SubscriptionError
from tamis.model.derived.formulas import formula_of, is_formula
from tamis.model.derived.functions import find_function
from tamis.model.derived.spatial_functions import ALL_RELATIONS, SPATIAL_FUNCTIONS
from tamis.model.language.arithmetic.writing import with_expression, written_form
from tamis.model.language.format import format_node
from tamis.model.language.functions.temporal import DAYS, WEEK
from tamis.model.language.nodes import (
    And,
    ArrayTest,
    Between,
    Call,
    ClockTest,
    Compare,
    Constant,
    CosineTest,
    DistanceTest,
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
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Clock,
    Constraint,
    Cosine,
    Filter,
    Geometric,
    Like,
    Predicate,
    Some,
    Spatial,
    Values,
)
from tamis.model.text.folding import escape_like
from tamis.model.types import AttributeType, Number, ScalarType, String, type_of_value
from tamis.model.value_set import PRESENT, Cut, ValueSet

__all__ = ["format_filters", "unbind"]

_DAY = WEEK // 7


def format_filters(filters: Sequence[Filter], schema: Schema) -> str:
    """Return CQL2 text that compiles to these filters."""
    return format_node(unbind(filters, schema))


def unbind(filters: Sequence[Filter], schema: Schema) -> Node:
    """Return a syntax tree that compiles to these filters."""
    return _any([_filter_node(filter, schema) for filter in filters])


def _filter_node(filter: Filter, schema: Schema) -> Node:
    if filter.rest is not None:  # the constraints are only the hull of the rest and what was joined to it
        rest = filter.rest.parts if isinstance(filter.rest, AllOf) else (filter.rest,)
        repeated = {part.attribute for part in rest if isinstance(part, Some)}
        constraints = [
            c for c in filter.constraints if not (c.attribute in repeated and c == Values(c.attribute, PRESENT))
        ]
        return _all(
            [*(_constraint_node(c, schema) for c in constraints), *(_predicate_node(part, schema) for part in rest)]
        )
    return _all([_constraint_node(constraint, schema) for constraint in filter.constraints])


def _predicate_node(predicate: Predicate, schema: Schema) -> Node:
    if isinstance(predicate, AllOf):
        return _all([_predicate_node(part, schema) for part in predicate.parts])
    if isinstance(predicate, AnyOf):
        return _any([_predicate_node(part, schema) for part in predicate.parts])
    if isinstance(predicate, Some):
        return _some_node(predicate, schema)
    return _constraint_node(predicate, schema)


def _some_node(element_test: Some, schema: Schema) -> Node:
    """Return a condition on a repeated attribute as one leaf: what an element must satisfy is not joined by AND."""
    name, condition = element_test.attribute, element_test.condition
    kind = schema.get(name)
    element = Schema({} if kind is None else {name: kind.element})
    if not isinstance(condition, Values):
        node = _predicate_node(condition, element)
        return Not(node) if element_test.negated else node
    scalar = _scalar(element.get(name), condition.allowed)
    holes, ranges = _split(condition.allowed.negated(), scalar)
    if not ranges and (element_test.negated or len(holes) != 1):  # all values but these
        only = ArrayTest("A_CONTAINEDBY", name, tuple(holes))
        return only if element_test.negated else Not(only)
    node = _values_node(condition, scalar)
    if isinstance(node, And | Or):  # two conditions could be met by two elements
        raise SubscriptionError(f"attribute {name!r}: no single condition says what an element must satisfy")
    return Not(node) if element_test.negated else node


def _constraint_node(constraint: Constraint, schema: Schema) -> Node:
    if isinstance(constraint, Values) and is_formula(constraint.attribute):
        return _formula_node(constraint)
    if isinstance(constraint, Values):
        return _values_node(constraint, _scalar(schema.get(constraint.attribute), constraint.allowed))
    if isinstance(constraint, Like) and (constraint.fold or constraint.is_regex):
        op = "MATCHES" if constraint.is_regex else "LIKE"
        return TextTest(constraint.attribute, op, (constraint.pattern,), constraint.fold, constraint.negated)
    if isinstance(constraint, Like):
        return IsLike(constraint.attribute, constraint.pattern, constraint.negated)
    if isinstance(constraint, Spatial):
        return _spatial_node(constraint)
    if isinstance(constraint, Clock):
        return _clock_node(constraint)
    if isinstance(constraint, Geometric):
        test = _geometric_node(constraint)
    elif isinstance(constraint, Cosine):
        test = CosineTest(constraint.attribute, constraint.direction, constraint.least)
    else:
        test = WithinBall(constraint.attribute, constraint.center, constraint.radius)
    return Not(test) if constraint.negated else test


def _clock_node(constraint: Clock) -> Node:
    """Return the days and hours of a set, one condition for each day on which it has some."""
    nodes: list[Node] = []
    for start, stop in constraint.allowed.intervals():
        first, last = (0 if start is None else start[0]), (WEEK if stop is None else stop[0])
        for day in range(first // _DAY, (last - 1) // _DAY + 1):
            begin, end = max(first - day * _DAY, 0), min(last - day * _DAY, _DAY)
            only = ClockTest("T_WEEKDAY", constraint.attribute, (DAYS[day],), constraint.zone)
            hours = ClockTest("T_TIME", constraint.attribute, (_clock(begin), _clock(end)), constraint.zone)
            nodes.append(only if end - begin == _DAY else _all([only, hours]))
    return _any(nodes)


def _clock(microseconds: int) -> str:
    minutes, seconds = divmod(microseconds // 1_000_000, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def _geometric_node(constraint: Geometric) -> Node:
    if constraint.function == "S_DWITHIN":
        unit = "m" if constraint.on_sphere else None
        return DistanceTest(constraint.attribute, constraint.geometry, constraint.distance, unit)
    return SpatialTest(constraint.function, constraint.attribute, constraint.geometry)


def _spatial_node(constraint: Spatial) -> Node:
    names = {relations: name for name, relations in reversed(SPATIAL_FUNCTIONS.items()) if relations}

    def test(name: str) -> Node:
        return SpatialTest(name, constraint.attribute, constraint.region)

    if constraint.relations in names:
        return test(names[constraint.relations])
    if ALL_RELATIONS - constraint.relations in names:
        return Not(test(names[ALL_RELATIONS - constraint.relations]))
    if constraint.relations == ALL_RELATIONS:
        return IsNull(constraint.attribute, negated=True)
    return _any([test(f"RCC_{relation.value.upper()}") for relation in sorted(constraint.relations)])


def _values_node(constraint: Values, kind: ScalarType) -> Node:
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


def _split(allowed: ValueSet, kind: ScalarType) -> tuple[list[Literal], list[Interval]]:
    """Part a set into the single values in it and the real ranges."""
    points: list[Literal] = []
    ranges: list[Interval] = []
    for start, stop in allowed.intervals():
        low, high = kind.lower(start), kind.upper(stop)
        if low is not None and high is not None and low == (high[0], ">=") and high[1] == "<=":
            points.append(low[0])
        else:
            ranges.append((start, stop))
    return points, ranges


def _formula_node(constraint: Values) -> Node:
    """Return conditions on the expression of a computed value."""
    expression = written_form(formula_of(constraint.attribute).expression)
    function = find_function(expression.name) if isinstance(expression, Call) else None
    kind = Number() if function is None else function.returns
    return with_expression(_values_node(constraint, kind), expression)


def _range_node(name: str, kind: ScalarType, start: Cut | None, stop: Cut | None) -> Node:
    prefix = None if is_formula(name) else _prefix(kind, start, stop)
    if prefix is not None:
        return IsLike(name, f"{escape_like(prefix)}%")
    low, high = kind.lower(start), kind.upper(stop)
    if low and high and low[1] == ">=" and high[1] == "<=":
        return Between(name, low[0], high[0])
    return _all([Compare(name, op, value) for value, op in (end for end in (low, high) if end)])


def _prefix(kind: ScalarType, start: Cut | None, stop: Cut | None) -> str | None:
    if isinstance(kind, String) and start and stop and prefix_stop(start[0]) == stop[0]:
        return str(start[0])
    return None


def _scalar(kind: AttributeType | None, allowed: ValueSet) -> ScalarType:
    """Return the type by which a set is written; its values show one where the schema knows none."""
    if isinstance(kind, ScalarType):
        return kind
    shown = type_of_value(allowed.cuts[0][0]) if allowed.cuts else None
    return shown if isinstance(shown, ScalarType) else Number()


def _all(parts: list[Node]) -> Node:
    return Constant(True) if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _any(parts: list[Node]) -> Node:
    return Constant(False) if not parts else parts[0] if len(parts) == 1 else Or(tuple(parts))
