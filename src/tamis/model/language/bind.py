"""From syntax to meaning: a tree and a schema give a predicate of typed constraints.

NOT is pushed down to the conditions on the way (De Morgan holds in three-valued logic), where it becomes
another constraint on the same attribute: ``NOT price < 100`` is ``price >= 100``, and a missing price
satisfies neither. What remains is AND and OR over constraints that hold or do not.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import shapely

from tamis.errors import LimitError, SubscriptionError, shorten
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Leaf,
    Literal,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
    leaves,
)
from tamis.model.pattern import like_pattern, prefix_stop
from tamis.model.schema import Schema
from tamis.model.shapes import Operand, is_simple, parts_of
from tamis.model.spatial_functions import ALL_RELATIONS, SPATIAL_FUNCTIONS
from tamis.model.subscription import AllOf, AnyOf, Ball, Like, Predicate, Relation, Spatial, Values
from tamis.model.text.folding import escape_like
from tamis.model.text.patterns import reading_of
from tamis.model.types import AttributeType, Boolean, Number, Region, ScalarType, String, Timestamp, Vector
from tamis.model.value_set import EMPTY, MISSING, PRESENT, ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["bind", "learn_from_node"]

TRUE, FALSE = AllOf(()), AnyOf(())


def bind(node: Node, schema: Schema, text: str | None = None, *, open: bool = False) -> Predicate:
    """Return the predicate a tree means under a schema, or raise `SubscriptionError`.

    An attribute that the schema does not know is an error that names it and the nearest known name; when
    the schema is ``open``, still learning, it may stand in ``IS NULL``, which needs no type. ``text`` is
    quoted in errors.
    """
    return _Binder(schema, text, open).bind(node, negated=False)


def learn_from_node(schema: Schema, node: Node) -> Schema:
    """Return the schema extended by the attributes that only the literals of a tree know."""
    found: dict[str, AttributeType] = {}
    for leaf in leaves(node):
        kind = None if isinstance(leaf, Constant) or leaf.attribute in schema else _shown_type(leaf)
        if kind is not None and not isinstance(leaf, Constant):
            found.setdefault(leaf.attribute, kind)
    return schema.extended(found, "the subscription")


def _shown_type(leaf: Leaf) -> AttributeType | None:
    if isinstance(leaf, SpatialTest):
        return Region()
    if isinstance(leaf, WithinBall):
        return Vector(len(leaf.center))
    if isinstance(leaf, IsLike | TextTest):
        return String()
    if isinstance(leaf, Compare):
        return _literal_type(leaf.value)
    if isinstance(leaf, Between):
        return _literal_type(leaf.lo)
    return _literal_type(leaf.values[0]) if isinstance(leaf, IsIn) else None


def _literal_type(value: Literal) -> AttributeType:
    if isinstance(value, bool):
        return Boolean()
    if isinstance(value, str):
        return String()
    return Timestamp() if isinstance(value, Instant) else Number()


class _Binder:
    """Walks a tree once; the fields are what every step needs."""

    def __init__(self, schema: Schema, text: str | None, open: bool) -> None:
        self.schema = schema
        self.text = text
        self.open = open

    def bind(self, node: Node, *, negated: bool) -> Predicate:
        if isinstance(node, Not):
            return self.bind(node.part, negated=not negated)
        if isinstance(node, And | Or):
            join = AllOf if isinstance(node, And) != negated else AnyOf
            return _flat(join, [self.bind(part, negated=negated) for part in node.parts])
        if isinstance(node, Constant):
            return TRUE if node.value != negated else FALSE
        try:
            return _BINDERS[type(node)](self, node, negated)
        except (UnfitError, LimitError) as error:
            raise self.error(node, str(error)) from None

    def error(self, leaf: Leaf, problem: str) -> SubscriptionError:
        attribute = "" if isinstance(leaf, Constant) else leaf.attribute
        position = leaf.span[0] if leaf.span else None
        return SubscriptionError(f"attribute {attribute!r}: {problem}", attribute, None, self.text, position)

    def known(self, leaf: Leaf) -> AttributeType:
        assert not isinstance(leaf, Constant)
        kind = self.schema.get(leaf.attribute)
        if kind is not None:
            return kind
        near = difflib.get_close_matches(leaf.attribute, self.schema, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self.schema) or 'none'}"
        raise self.error(leaf, f"unknown ({hint})")

    def scalar(self, leaf: Leaf) -> ScalarType:
        kind = self.known(leaf)
        if isinstance(kind, ScalarType):
            return kind
        use = "a spatial function such as S_INTERSECTS" if isinstance(kind, Region) else "V_WITHIN"
        raise self.error(leaf, f"it is a {kind.name}, which is asked with {use}")

    def value(self, leaf: Leaf, kind: ScalarType, literal: Literal) -> Value:
        if isinstance(literal, Instant):
            if not isinstance(kind, Timestamp):
                raise self.error(leaf, f"it is a {kind.name}, and a timestamp is compared with it")
            return literal.microseconds
        try:
            return kind.canonical(literal)
        except UnfitError as error:
            raise self.error(leaf, f"it is a {kind.name}, and {shorten(literal)} does not fit: {error}") from None

    def compare(self, leaf: Compare, negated: bool) -> Predicate:
        kind = self.scalar(leaf)
        return _values(leaf.attribute, _RANGES[leaf.op](kind, self.value(leaf, kind, leaf.value)), negated)

    def between(self, leaf: Between, negated: bool) -> Predicate:
        kind = self.scalar(leaf)
        lo, hi = self.value(leaf, kind, leaf.lo), self.value(leaf, kind, leaf.hi)
        return _values(leaf.attribute, _at_least(kind, lo) & _at_most(kind, hi), negated != leaf.negated)

    def is_in(self, leaf: IsIn, negated: bool) -> Predicate:
        kind = self.scalar(leaf)
        values = [self.value(leaf, kind, one) for one in leaf.values]
        points = ((kind.before(one), kind.after(one)) for one in values)
        return _values(leaf.attribute, ValueSet.from_intervals(points), negated != leaf.negated)

    def is_like(self, leaf: IsLike, negated: bool) -> Predicate:
        kind = self.known(leaf)
        if not isinstance(kind, String):
            raise self.error(leaf, f"it is a {kind.name}, and LIKE asks for a string")
        pattern, negated = like_pattern(leaf.pattern), negated != leaf.negated
        if pattern.exact is not None:
            return _values(leaf.attribute, _equal(kind, pattern.exact), negated)
        if pattern.prefix is not None:
            return _values(leaf.attribute, _starting_with(kind, pattern.prefix), negated)
        return Like(leaf.attribute, leaf.pattern, negated)

    def text_test(self, leaf: TextTest, negated: bool) -> Predicate:
        kind = self.known(leaf)
        if not isinstance(kind, String):
            raise self.error(leaf, f"it is a {kind.name}, and {leaf.op} of text asks for a string")
        negated, is_regex = negated != leaf.negated, leaf.op == "MATCHES"
        patterns = leaf.operands if leaf.op in ("LIKE", "MATCHES") else [escape_like(one) for one in leaf.operands]
        for pattern in patterns:
            reading_of(pattern, leaf.fold, is_regex)
        likes: list[Predicate] = [Like(leaf.attribute, one, negated, leaf.fold, is_regex) for one in patterns]
        return _flat(AllOf if negated else AnyOf, likes)

    def is_null(self, leaf: IsNull, negated: bool) -> Predicate:
        if not self.open:
            self.known(leaf)
        return Values(leaf.attribute, MISSING if leaf.negated == negated else PRESENT)

    def spatial(self, leaf: SpatialTest, negated: bool) -> Predicate:
        kind = self.known(leaf)
        if not isinstance(kind, Region):
            raise self.error(leaf, f"it is a {kind.name}, and {leaf.function} asks for a region")
        relations = SPATIAL_FUNCTIONS[leaf.function]
        wanted = ALL_RELATIONS - relations if negated else relations
        if isinstance(leaf.geometry, shapely.Polygon) and is_simple(leaf.geometry):
            return Spatial(leaf.attribute, wanted, leaf.geometry)
        if leaf.function not in ("S_INTERSECTS", "S_DISJOINT"):
            problem = f"{leaf.function} compares with a simple polygon; holes and several parts are understood by"
            raise self.error(leaf, f"{problem} S_INTERSECTS and S_DISJOINT only")
        return _of_parts(leaf.attribute, leaf.geometry, apart=Relation.DISJOINT in wanted)

    def ball(self, leaf: WithinBall, negated: bool) -> Predicate:
        kind = self.known(leaf)
        if not isinstance(kind, Vector) or kind.n != len(leaf.center):
            held = f"a vector of {kind.n}" if isinstance(kind, Vector) else f"a {kind.name}"
            raise self.error(leaf, f"it is {held}, and V_WITHIN gives {len(leaf.center)} coordinates")
        return Ball(leaf.attribute, leaf.center, leaf.radius, negated)


_BINDERS: dict[type, Callable[..., Predicate]] = {
    Compare: _Binder.compare,
    Between: _Binder.between,
    IsIn: _Binder.is_in,
    IsLike: _Binder.is_like,
    TextTest: _Binder.text_test,
    IsNull: _Binder.is_null,
    SpatialTest: _Binder.spatial,
    WithinBall: _Binder.ball,
}


def _flat(join: type[AllOf] | type[AnyOf], parts: list[Predicate]) -> Predicate:
    """Join parts, taking in the parts of a part of the same kind."""
    taken: list[Predicate] = []
    for part in parts:
        taken.extend(part.parts if isinstance(part, AllOf | AnyOf) and type(part) is join else (part,))
    return taken[0] if len(taken) == 1 else join(tuple(taken))


def _of_parts(attribute: str, geometry: Operand, *, apart: bool) -> Predicate:
    """Return "intersects" (or, ``apart``, "is disjoint from") polygons with holes, by simple polygons.

    A region or point is connected. So it intersects a polygon with holes iff it intersects the outer ring and does
    not lie wholly inside a hole, the hole's boundary belonging to the polygon.
    """
    parts: list[Predicate] = []
    for outer, holes in parts_of(geometry):
        out, inside = frozenset({Relation.DISJOINT}), frozenset({Relation.INSIDE})
        if apart:
            ways = [Spatial(attribute, out, outer), *(Spatial(attribute, inside, one) for one in holes)]
            parts.append(_flat(AnyOf, [*ways]))
        else:
            needs = [Spatial(attribute, ALL_RELATIONS - out, outer)]
            needs += [Spatial(attribute, ALL_RELATIONS - inside, one) for one in holes]
            parts.append(_flat(AllOf, [*needs]))
    return _flat(AllOf if apart else AnyOf, parts)


def _values(attribute: str, allowed: ValueSet, negated: bool) -> Predicate:
    allowed = allowed.negated() if negated else allowed
    return Values(attribute, allowed) if allowed else FALSE


# A cut that is None lies beyond all values: as a lower end it leaves nothing above it ("> the greatest"),
# as an upper end nothing below it ("< the least"). ValueSet.between reads None as an open end instead.


def _below(kind: ScalarType, value: Value) -> ValueSet:
    cut = kind.before(value)
    return EMPTY if cut is None else ValueSet.between(None, cut)


def _at_most(kind: ScalarType, value: Value) -> ValueSet:
    return ValueSet.between(None, kind.after(value))


def _above(kind: ScalarType, value: Value) -> ValueSet:
    cut = kind.after(value)
    return EMPTY if cut is None else ValueSet.between(cut, None)


def _at_least(kind: ScalarType, value: Value) -> ValueSet:
    return ValueSet.between(kind.before(value), None)


def _equal(kind: ScalarType, value: Value) -> ValueSet:
    return ValueSet.between(kind.before(value), kind.after(value))


def _starting_with(kind: ScalarType, prefix: str) -> ValueSet:
    stop = prefix_stop(prefix)
    return ValueSet.between(kind.before(prefix), None if stop is None else (stop, 0))


_RANGES: dict[str, Callable[[ScalarType, Value], ValueSet]] = {
    "<": _below,
    "<=": _at_most,
    ">": _above,
    ">=": _at_least,
    "=": _equal,
    "<>": lambda kind, value: _equal(kind, value).negated(),
}
