"""Binds a syntax tree to a schema: returns a predicate of typed constraints.

NOT is pushed down to the conditions on the way (De Morgan holds in three-valued logic), where it becomes
another constraint on the same attribute: ``NOT price < 100`` is ``price >= 100``, and a missing price
satisfies neither. What remains is AND and OR over constraints that hold or do not.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import shapely

from tamis.errors import LimitError, SubscriptionError, list_names, shorten
from tamis.model.derived.spatial_functions import ALL_RELATIONS, BY_DIMENSION, METRES, SPATIAL_FUNCTIONS
from tamis.model.language.arithmetic.binding import UnknownAttributeError, bind_calculated, learned_types
from tamis.model.language.arithmetic.sets import (
    FALSE,
    RANGES,
    TRUE,
    at_least,
    at_most,
    equal_to,
    joined,
    starting_with,
    values_in,
)
from tamis.model.language.foreign.corrections import quoted_name, requoted
from tamis.model.language.functions.temporal import clock_set
from tamis.model.language.limits import DISTANCE_DEGREES, DISTANCE_VERTICES, REGIONS, VERTICES, LimitBudget
from tamis.model.language.nodes import (
    And,
    ArrayTest,
    Between,
    Calculated,
    ClockTest,
    Compare,
    Constant,
    CosineTest,
    DistanceTest,
    IsIn,
    IsLike,
    IsNull,
    Leaf,
    Literal,
    NetworkTest,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
    leaves,
)
from tamis.model.pattern import like_pattern
from tamis.model.schema import COMPUTED, Schema, asked_by_filter
from tamis.model.shapes import Operand, is_polygonal, is_simple, n_rings
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Ball,
    Clock,
    Cosine,
    Geometric,
    Like,
    Predicate,
    Some,
    Spatial,
    Values,
)
from tamis.model.text.folding import escape_like
from tamis.model.text.patterns import reading_of
from tamis.model.types import (
    AttributeType,
    Form,
    Ip,
    Many,
    Mixed,
    Region,
    ScalarType,
    String,
    Timestamp,
    Vector,
    type_of_value,
)
from tamis.model.types.small.ip import network_ends
from tamis.model.value_set import MISSING, PRESENT, ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["bind", "learn_from_node"]

#: Characters of a name up to which it is compared with others for a proposal.
_LONGEST_COMPARED = 256


def bind(node: Node, schema: Schema, text: str | None = None, *, open: bool = False) -> Predicate:
    """Return the predicate of a tree under a schema, or raise `SubscriptionError`.

    An attribute that the schema does not know is an error that names it and the nearest known name; when
    the schema is ``open``, still learning, it may stand in ``IS NULL``, which needs no type. ``text`` is
    quoted in errors.
    """
    return _Binder(schema, text, open).bind(node, negated=False)


def learn_from_node(schema: Schema, node: Node) -> Schema:
    """Return the schema extended by the attributes that only the literals of a tree know."""
    types: dict[str, AttributeType] = {}
    expressions: list[Calculated] = []
    for leaf in leaves(node):
        if isinstance(leaf, Calculated):
            expressions.append(leaf)
            continue
        if isinstance(leaf, Constant):
            continue
        known_type = types.get(leaf.attribute) or schema.get(leaf.attribute)
        if known_type is not None and not (
            type(leaf) is TextTest and (type(known_type) is String or leaf.attribute in schema.unasked)
        ):
            continue
        kind = _shown_type(leaf)
        if kind is not None:
            types[leaf.attribute] = kind
    schema = schema.extended(types, "the subscription")
    if schema.unasked:
        schema = asked_by_filter(schema, (name for leaf in leaves(node) for name in _names(leaf)))
    for expression in expressions:  # last: types known from literals determine those of others
        schema = schema.extended(learned_types(expression, schema), "the subscription")
    return schema


def _names(leaf: Leaf) -> tuple[str, ...]:
    if isinstance(leaf, Calculated):
        return leaf.attributes
    return () if isinstance(leaf, Constant) else (leaf.attribute,)


def _shown_type(leaf: Leaf) -> AttributeType | None:
    if isinstance(leaf, Compare):  # first, because most conditions are comparisons
        return type_of_value(leaf.value)
    if isinstance(leaf, SpatialTest | DistanceTest):
        return Region(geodetic=isinstance(leaf, DistanceTest) and leaf.unit is not None)
    if isinstance(leaf, WithinBall | CosineTest):
        return Vector(len(leaf.center if isinstance(leaf, WithinBall) else leaf.direction))
    if isinstance(leaf, TextTest):
        return String(coerce=True)
    if isinstance(leaf, IsLike):
        return String()
    if isinstance(leaf, ArrayTest):
        shown = {type_of_value(value) for value in leaf.values}
        element = Mixed() if len(shown) > 1 else next(iter(shown), None)
        return None if element is None else Many(element)
    if isinstance(leaf, ClockTest):
        return Timestamp()
    if isinstance(leaf, NetworkTest):
        return Ip()
    if isinstance(leaf, Between):
        return type_of_value(leaf.lo)
    return type_of_value(leaf.values[0]) if isinstance(leaf, IsIn) else None


def _near(name: str, names: Iterable[str]) -> list[str]:
    """Return the name that was probably meant, if there is one; long names take too long to compare."""
    if len(name) > _LONGEST_COMPARED:
        return []
    return difflib.get_close_matches(name, [other for other in names if len(other) <= _LONGEST_COMPARED], n=1)


class _Binder:
    """Binds one tree in a single walk."""

    def __init__(self, schema: Schema, text: str | None, open: bool) -> None:
        self.schema = schema
        self.text = text
        self.open = open
        self.budget = LimitBudget()

    def bind(self, node: Node, *, negated: bool) -> Predicate:
        bind_leaf = _BINDERS.get(type(node))
        if bind_leaf is None:
            return _bind_joint(self, node, negated)
        assert not isinstance(node, _JOINTS)
        try:
            kind = self.schema.get(node.attribute)
            if kind is not None and kind.form is Form.MANY and not isinstance(node, _OF_SETS):
                assert isinstance(kind, Many)
                return _bind_some(self, node, kind, negated)
            return bind_leaf(self, node, negated)
        except (UnfitError, LimitError) as error:
            refusal = self.error(node, str(error))
            if isinstance(error, UnknownAttributeError) and self.text is not None and error.text is not None:
                refusal.corrected = requoted(self.text) or quoted_name(self.text, error.text)
            raise refusal from None

    def error(self, leaf: Leaf, problem: str) -> SubscriptionError:
        attribute = "" if isinstance(leaf, Constant) else leaf.attribute
        position = leaf.span[0] if leaf.span else None
        message = f"attribute {shorten(attribute)}: {problem}" if attribute else problem
        return SubscriptionError(message, attribute, None, self.text, position)

    def type_of(self, leaf: Leaf) -> AttributeType:
        assert not isinstance(leaf, Constant)
        kind = self.schema.get(leaf.attribute)
        if kind is not None:
            return kind
        near = _near(leaf.attribute, self.schema)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {list_names(self.schema)}"
        raise self.error(leaf, f"unknown ({hint})")

    def scalar(self, leaf: Leaf) -> ScalarType:
        kind = self.type_of(leaf)
        if isinstance(kind, ScalarType):
            return kind
        use = "a spatial function such as S_INTERSECTS" if isinstance(kind, Region) else "V_WITHIN"
        raise self.error(leaf, f"it is a {kind.name}; test it with {use}")

    def value(self, leaf: Leaf, kind: ScalarType, literal: Literal) -> Value:
        try:
            return kind.from_literal(literal)
        except UnfitError as error:
            hint = "; an attribute alone is a condition only if it is a boolean" if literal is True else ""
            raise self.error(leaf, f"{error}{hint}") from None

    def compare(self, leaf: Compare, negated: bool) -> Predicate:
        kind = self.scalar(leaf) if leaf.op in ("=", "<>") else _ordered(self, leaf)
        return values_in(leaf.attribute, RANGES[leaf.op](kind, self.value(leaf, kind, leaf.value)), negated)

    def between(self, leaf: Between, negated: bool) -> Predicate:
        kind = _ordered(self, leaf)
        lo, hi = self.value(leaf, kind, leaf.lo), self.value(leaf, kind, leaf.hi)
        return values_in(leaf.attribute, at_least(kind, lo) & at_most(kind, hi), negated != leaf.negated)

    def is_in(self, leaf: IsIn, negated: bool) -> Predicate:
        kind = self.scalar(leaf)
        values = [self.value(leaf, kind, value) for value in leaf.values]
        points = ((kind.before(value), kind.after(value)) for value in values)
        return values_in(leaf.attribute, ValueSet.from_intervals(points), negated != leaf.negated)

    def is_like(self, leaf: IsLike, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, String):
            raise self.error(leaf, f"it is {kind.words}, but LIKE needs a string{_as_text(kind)}")
        pattern, negated = like_pattern(leaf.pattern), negated != leaf.negated
        if pattern.exact is not None:
            return values_in(leaf.attribute, equal_to(kind, pattern.exact), negated)
        if pattern.prefix is not None:
            return values_in(leaf.attribute, starting_with(kind, pattern.prefix), negated)
        return Like(leaf.attribute, leaf.pattern, negated)

    def text_test(self, leaf: TextTest, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, String):
            raise self.error(leaf, f"it is {kind.words}, but {leaf.op} needs a string{_as_text(kind)}")
        negated, is_regex = negated != leaf.negated, leaf.op == "MATCHES"
        patterns = (
            leaf.operands if leaf.op in ("LIKE", "MATCHES") else [escape_like(operand) for operand in leaf.operands]
        )
        for pattern in patterns:
            reading_of(pattern, leaf.fold, is_regex)
        likes: list[Predicate] = [Like(leaf.attribute, pattern, negated, leaf.fold, is_regex) for pattern in patterns]
        return joined(AllOf if negated else AnyOf, likes)

    def is_null(self, leaf: IsNull, negated: bool) -> Predicate:
        if not self.open or leaf.attribute.startswith(COMPUTED):
            self.type_of(leaf)
        return Values(leaf.attribute, MISSING if leaf.negated == negated else PRESENT)

    def spatial(self, leaf: SpatialTest, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, Region):
            raise self.error(leaf, f"it is a {kind.name}, but {leaf.function} needs a region")
        geometry = _fitted(leaf.geometry, kind, self.budget)
        if leaf.function in BY_DIMENSION or not is_simple(geometry):
            return self.geometric(leaf, geometry, negated)
        relations = SPATIAL_FUNCTIONS[leaf.function]
        return Spatial(leaf.attribute, ALL_RELATIONS - relations if negated else relations, geometry)

    def geometric(self, leaf: SpatialTest, geometry: Operand, negated: bool) -> Predicate:
        function = _OGC_NAMES.get(leaf.function, leaf.function)
        if leaf.function.startswith("RCC_") and not is_polygonal(geometry):
            problem = f"{leaf.function} compares with polygons, not with a {geometry.geom_type}"
            raise self.error(leaf, f"{problem}; the functions S_* take every geometry")
        if function == "S_DISJOINT":
            function, negated = "S_INTERSECTS", not negated
        return Geometric(leaf.attribute, function, geometry, negated)

    def distance(self, leaf: DistanceTest, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, Region):
            raise self.error(leaf, f"it is a {kind.name}, but S_DWITHIN needs a region")
        if kind.geodetic and leaf.unit is None:
            raise self.error(leaf, f"its coordinates are degrees; give the distance a unit: {_UNITS}")
        if leaf.unit is not None and not kind.geodetic:
            problem = "its distances are in the unit of its coordinates; leave the unit out, or declare"
            raise self.error(leaf, f"{problem} Region(geodetic=True) for degrees of longitude and latitude")
        geometry = _fitted(leaf.geometry, kind, self.budget)
        if kind.geodetic:
            DISTANCE_VERTICES.check(int(shapely.get_num_coordinates(geometry)))
            DISTANCE_DEGREES.check(math.ceil(geometry.length))
        metres = leaf.distance * METRES[leaf.unit] if leaf.unit is not None else leaf.distance
        return Geometric(leaf.attribute, "S_DWITHIN", geometry, negated, metres, kind.geodetic)

    def clock(self, leaf: ClockTest, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, Timestamp):
            raise self.error(leaf, f"it is {kind.words}, but {leaf.function} needs a timestamp")
        allowed = clock_set(leaf)
        return Clock(leaf.attribute, leaf.zone, allowed.negated() if negated else allowed)

    def network(self, leaf: NetworkTest, negated: bool) -> Predicate:
        kind = self.type_of(leaf)
        if not isinstance(kind, Ip):
            raise self.error(leaf, f"it is {kind.words}, but IP_WITHIN needs an ip; declare tamis.Ip()")
        first, last = map(kind.canonical, network_ends(leaf.network))
        return values_in(leaf.attribute, at_least(kind, first) & at_most(kind, last), negated)

    def cosine(self, leaf: CosineTest, negated: bool) -> Predicate:
        self.vector(leaf, "V_COSINE", len(leaf.direction))
        return Cosine(leaf.attribute, leaf.direction, leaf.least, negated)

    def vector(self, leaf: WithinBall | CosineTest, function: str, n: int) -> None:
        kind = self.type_of(leaf)
        if not isinstance(kind, Vector) or kind.n != n:
            raise self.error(leaf, f"it is {kind.words}, and {function} gives {n} coordinates")

    def ball(self, leaf: WithinBall, negated: bool) -> Predicate:
        self.vector(leaf, "V_WITHIN", len(leaf.center))
        return Ball(leaf.attribute, leaf.center, leaf.radius, negated)


def _as_text(kind: AttributeType) -> str:
    """Return how values of a type can be compared as text, as the end of a message."""
    return "; to compare its text, declare it as String(coerce=True)" if isinstance(kind, ScalarType) else ""


def _fitted(geometry: Operand, kind: Region, budget: LimitBudget) -> Operand:
    """Return an operand as its type has it; a repair must not make more of it than a filter may hold."""
    fitted = kind.fitted(geometry)
    if fitted is not geometry:
        budget.spend(REGIONS, max(0, n_rings(fitted) - n_rings(geometry)))
        n_more = shapely.get_num_coordinates(fitted) - shapely.get_num_coordinates(geometry)
        budget.spend(VERTICES, max(0, int(n_more)))
    return fitted


def _bind_joint(binder: _Binder, node: Node, negated: bool) -> Predicate:
    if isinstance(node, Not):
        return binder.bind(node.part, negated=not negated)
    if isinstance(node, Constant):
        return TRUE if node.value != negated else FALSE
    assert isinstance(node, And | Or)
    join = AllOf if isinstance(node, And) != negated else AnyOf
    return joined(join, [binder.bind(part, negated=negated) for part in node.parts])


def _bind_calculated(binder: _Binder, leaf: Calculated, negated: bool) -> Predicate:
    return bind_calculated(binder.schema, leaf, negated, lambda part: binder.bind(part, negated=False))


def _ordered(binder: _Binder, leaf: Leaf) -> ScalarType:
    """Return the type of an attribute in a range condition."""
    kind = binder.scalar(leaf)
    if isinstance(kind, Mixed):
        raise binder.error(leaf, "values of several types have no order; compare them with =, <>, IN or A_*")
    return kind


def _bind_some(binder: _Binder, leaf: Leaf, kind: Many, negated: bool) -> Predicate:
    """Return "some element satisfies the condition"; NOT IN, NOT BETWEEN and NOT LIKE say that none does."""
    assert not isinstance(leaf, Constant)
    if isinstance(leaf, Between | IsIn | IsLike) or (isinstance(leaf, TextTest) and leaf.op != "="):
        negated = negated != leaf.negated
        leaf = replace(leaf, negated=False)
    inner = _Binder(Schema({leaf.attribute: kind.of}), binder.text, binder.open).bind(leaf, negated=False)
    return _some(leaf.attribute, inner, negated)


def _bind_array_test(binder: _Binder, leaf: ArrayTest, negated: bool) -> Predicate:
    """Return the predicate of an A_ function, as conditions on some element."""
    kind = binder.type_of(leaf)
    if not isinstance(kind, Many):
        raise binder.error(leaf, f"it is {kind.words}, but {leaf.function} needs several values: declare tamis.Many")
    assert isinstance(kind.of, ScalarType)
    element, name = kind.of, leaf.attribute
    values = [binder.value(leaf, element, value) for value in leaf.values]
    among = ValueSet.from_intervals((element.before(value), element.after(value)) for value in values)
    if leaf.function == "A_OVERLAPS":
        return _some(name, values_in(name, among, negated=False), negated)
    parts: list[Predicate] = []
    if leaf.function in ("A_CONTAINS", "A_EQUALS"):
        parts += [_some(name, Values(name, equal_to(element, value)), negated) for value in values]
    if leaf.function in ("A_CONTAINEDBY", "A_EQUALS"):
        parts.append(_some(name, values_in(name, among, negated=True), not negated))
    if not parts:
        parts = [FALSE if negated else Values(name, PRESENT)]
    return joined(AnyOf if negated else AllOf, parts)


def _some(attribute: str, condition: Predicate, negated: bool) -> Predicate:
    if condition == FALSE:  # no element can: negated, any value of the attribute is enough
        return Values(attribute, PRESENT) if negated else FALSE
    return Some(attribute, condition, negated)


_BINDERS: dict[type, Callable[..., Predicate]] = {
    Compare: _Binder.compare,
    Between: _Binder.between,
    IsIn: _Binder.is_in,
    IsLike: _Binder.is_like,
    TextTest: _Binder.text_test,
    IsNull: _Binder.is_null,
    SpatialTest: _Binder.spatial,
    DistanceTest: _Binder.distance,
    WithinBall: _Binder.ball,
    ArrayTest: _bind_array_test,
    CosineTest: _Binder.cosine,
    ClockTest: _Binder.clock,
    NetworkTest: _Binder.network,
    Calculated: _bind_calculated,
}
_JOINTS = (And, Or, Not, Constant)
#: Conditions that mean a repeated attribute as a whole, or, as `Calculated`, name their attributes themselves.
_OF_SETS = (IsNull, ArrayTest, Calculated)

#: Strict relations to polygons that OGC has names for, too.
_OGC_NAMES = {"RCC_DISJOINT": "S_DISJOINT", "RCC_MEETS": "S_TOUCHES", "RCC_EQUALS": "S_EQUALS"}
_UNITS = ", ".join(map(repr, METRES))
