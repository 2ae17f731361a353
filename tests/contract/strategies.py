"""Small worlds: few attributes, few values, so that random subscriptions and events meet often.

Subscriptions come as syntax trees; `compiled` gives the subscription and keeps the tree, which the naive
evaluator reads. Every kind of constraint is there, with missing values, equal and open bounds, unions and
contradictions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import shapely
from hypothesis import settings
from hypothesis import strategies as st

from tamis.model.language.arithmetic.reading import condition_of
from tamis.model.language.compiler import compile_node
from tamis.model.language.nodes import (
    And,
    Arithmetic,
    Between,
    Compare,
    Constant,
    Expression,
    IsIn,
    IsLike,
    IsNull,
    Node,
    Not,
    Or,
    Property,
    SpatialTest,
    WithinBall,
)
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector

SCHEMA = Schema(
    {
        "x": Number(0, 3),
        "y": Number(),
        "name": String(),
        "on": Boolean(),
        "at": Timestamp(),
        "area": Region(),
        "look": Vector(2),
    }
)

NUMBERS = [0, 1, 2, 2.5, 2**53, 2**53 + 1]
STRINGS = ["", "a", "ab", "b", "ba"]
MOMENTS = [0, 1, 2]
POLYGONS = [
    shapely.box(0, 0, 2, 2),
    shapely.box(1, 1, 3, 3),
    shapely.box(2, 0, 4, 2),
    shapely.box(0, 0, 1, 1),
    shapely.Polygon([(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)]),
    shapely.box(6, 6, 7, 7),
    shapely.box(-1, -1, 9, 9),
]
VECTORS = [(0.0, 0.0), (1.0, 0.0), (3.0, 4.0)]

OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
FUNCTIONS = ["S_INTERSECTS", "S_DISJOINT", "S_WITHIN", "S_CONTAINS", "RCC_MEETS", "RCC_OVERLAPS", "RCC_COVERED_BY"]
PATTERNS = ["a%", "%b", "_", "%a%", "ab", "%", "b_", ""]


def _scalar(name: str, values: list[Any]) -> st.SearchStrategy[Node]:
    literal = st.sampled_from(values)
    return st.one_of(
        st.builds(Compare, st.just(name), st.sampled_from(OPERATORS), literal),
        st.builds(Between, st.just(name), literal, literal, st.booleans()),
        st.builds(IsIn, st.just(name), st.lists(literal, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(name), st.booleans()),
    )


scalar_leaves = st.one_of(
    _scalar("x", NUMBERS),
    _scalar("y", NUMBERS),
    _scalar("name", STRINGS),
    _scalar("on", [False, True]),
    st.builds(IsLike, st.just("name"), st.sampled_from(PATTERNS), st.booleans()),
)
two_regions = st.builds(
    lambda a, b: And((a, b)),
    *2 * [st.builds(SpatialTest, st.sampled_from(FUNCTIONS), st.just("area"), st.sampled_from(POLYGONS))],
)
_X, _Y = Property("x"), Property("y")
FORMS: list[Expression] = [
    Arithmetic("-", _X, _Y),
    Arithmetic("-", _Y, Arithmetic("*", 2, _X)),
    Arithmetic("+", _X, Arithmetic("*", 2, _Y)),
    Arithmetic("*", _X, _Y),
    Arithmetic("/", _X, _Y),
    Arithmetic("%", _X, 2),
    Arithmetic("div", _Y, _X),
    Arithmetic("^", _X, 2),
    _Y,
]
#: Conditions on values computed from two attributes.
sum_leaves = st.builds(
    lambda form, op, other: condition_of(op, (form, other), None),
    st.sampled_from(FORMS),
    st.sampled_from(OPERATORS),
    st.sampled_from([*NUMBERS, _X]),
)
spatial_leaves = st.one_of(
    two_regions,
    st.builds(SpatialTest, st.sampled_from(FUNCTIONS), st.just("area"), st.sampled_from(POLYGONS)),
    st.builds(WithinBall, st.just("look"), st.sampled_from(VECTORS), st.sampled_from([0.0, 1.0, 5.0])),
    st.builds(IsNull, st.sampled_from(["area", "look", "at"]), st.booleans()),
)
leaves = st.one_of(scalar_leaves, scalar_leaves, spatial_leaves, sum_leaves, st.builds(Constant, st.booleans()))


def _joined(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


nodes = st.recursive(leaves, _joined, max_leaves=5)
scalar_nodes = st.recursive(scalar_leaves, _joined, max_leaves=5)

events = st.fixed_dictionaries(
    {},
    optional={
        "x": st.sampled_from([*NUMBERS, -1, 0.5, 1.5]),
        "y": st.sampled_from([*NUMBERS, -1, 0.5]),
        "name": st.sampled_from([*STRINGS, "c", "aab"]),
        "on": st.booleans(),
        "at": st.sampled_from(MOMENTS),
        "area": st.sampled_from([*POLYGONS, shapely.Point(1, 1), shapely.Point(2, 1), shapely.Point(9, 9)]),
        "look": st.sampled_from(VECTORS),
    },
)


def few(examples: int) -> int:
    """Return how many examples to try: these, or those of the profile where they are fewer (`make check`)."""
    return min(examples, settings.default.max_examples)


def compiled(node: Node, id: int = 0) -> Subscription:
    """Return the subscription a tree means in the small world."""
    return Subscription(id, compile_node(node, SCHEMA))


def scalar_world() -> Iterator[dict[str, Any]]:
    """Yield an event for every cell that the scalar literals cut the world into."""
    xs = [None, -1, 0, 0.5, 1, 1.5, 2, 2.25, 2.5, 3, 2**53, 2**53 + 1, 2**54]
    names = [None, "", "a", "aa", "ab", "aba", "b", "ba", "bb", "c", "cab"]
    for x, y, name, on in itertools.product(xs, [None, -1, *NUMBERS, 2**54], names, [None, False, True]):
        values = {"x": x, "y": y, "name": name, "on": on}
        yield {key: value for key, value in values.items() if value is not None}
