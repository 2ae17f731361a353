"""SQL's three-valued logic: trees as written, predicates and filters say the same of every event.

tamis has no "unknown" inside: NOT is pushed into the conditions, and a condition holds or it does not. That
is right when a tree holds exactly where the textbook says true, and its negation where it says false.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.algebra.evaluate import holds, matches
from tamis.model.language.bind import bind
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
    Node,
    Not,
    Or,
    SpatialTest,
    WithinBall,
)
from tamis.model.language.normalise import MAX_FILTERS, normalise
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector
from tests import naive

SCHEMA = Schema(
    {
        "x": Number(),
        "y": Number(0, 10),
        "s": String(),
        "b": Boolean(),
        "at": Timestamp(),
        "area": Region(),
        "v": Vector(2),
        **{f"n{i}": Number() for i in range(18)},
    }
)

OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2, 5e-324, 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 2**64 - 1, 1e300])
STRINGS = st.sampled_from(["", "a", "a\0", "aa", "ab", "b", "B", "\ud7ff", "\uffff", "\U00010000", "\U0010ffff"])
PATTERNS = st.text("ab%_\U00010000", max_size=4) | st.sampled_from(["\\%", "a\\_%", "\\\\%", "\uffff%", "\U0010ffff%"])
MOMENTS = st.sampled_from([-(10**15), -1, 0, 1, 10**15])
SHAPES = [
    shapely.box(0, 0, 4, 4),
    shapely.box(4, 0, 8, 4),
    shapely.box(1, 1, 2, 2),
    shapely.box(0, 0, 2, 2),
    shapely.box(2, 2, 6, 6),
    shapely.Polygon([(0, 0), (6, 0), (6, 6), (4, 6), (4, 2), (2, 2), (2, 6), (0, 6)]),
]
POLYGONS = st.sampled_from(SHAPES)
POINTS = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: shapely.Point(pair[0] / 2, pair[1] / 2))
VECTORS = st.sampled_from([(0.0, 0.0), (3.0, 4.0), (3.0, 4.000000000000001), (1e200, 1e200), (1e-200, 0.0)])
RADII = st.sampled_from([0.0, 1e-200, 1.0, 5.0, 1.5e200])


def conditions(attribute: str, literals: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    """Every condition that a scalar attribute can stand in."""
    name = st.just(attribute)
    return st.one_of(
        st.builds(Compare, name, OPERATORS, literals),
        st.builds(Between, name, literals, literals, st.booleans()),
        st.builds(IsIn, name, st.lists(literals, min_size=1, max_size=4).map(tuple), st.booleans()),
    )


leaves = st.one_of(
    conditions("x", NUMBERS),
    conditions("y", NUMBERS),
    conditions("s", STRINGS),
    conditions("b", st.booleans()),
    conditions("at", MOMENTS.map(Instant)),
    st.builds(IsLike, st.just("s"), PATTERNS, st.booleans()),
    st.builds(SpatialTest, st.sampled_from(sorted(naive.FUNCTIONS)), st.just("area"), POLYGONS),
    st.builds(WithinBall, st.just("v"), VECTORS, RADII),
    st.builds(IsNull, st.sampled_from(["x", "y", "s", "b", "at", "area", "v"]), st.booleans()),
    st.builds(Constant, st.booleans()),
)


def combined(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


nodes = st.recursive(leaves, combined, max_leaves=10)

events = st.fixed_dictionaries(
    {},
    optional={
        "x": NUMBERS,
        "y": NUMBERS,
        "s": STRINGS | st.text("ab%_\\", max_size=3),
        "b": st.booleans(),
        "at": MOMENTS,
        "area": POLYGONS | POINTS,
        "v": VECTORS,
    },
)


@st.composite
def large_nodes(draw: st.DrawFn) -> Node:
    """Nine pairs of alternatives, each on attributes of its own: 512 filters if it were multiplied out."""

    def comparison(place: int) -> Node:
        return draw(st.builds(Compare, st.just(f"n{place}"), OPERATORS, st.integers(0, 3)))

    tree = And(tuple(Or((comparison(2 * pair), comparison(2 * pair + 1))) for pair in range(9)))
    return draw(st.sampled_from([tree, And((draw(leaves), tree)), Not(Or(tuple(Not(part) for part in tree.parts)))]))


#: Mostly present, so that all nine pairs have a chance.
large_events = st.builds(
    lambda numbers, more: {**{f"n{i}": n for i, n in enumerate(numbers) if n is not None}, **more},
    st.lists(st.sampled_from([0, 1, 2, 3, None]), min_size=18, max_size=18),
    events,
)


def check(node: Node, raw: dict[str, Any]) -> None:
    event = SCHEMA.event(raw)
    outcome = naive.evaluate(node, event)
    predicate, negation = bind(node, SCHEMA), bind(Not(node), SCHEMA)
    assert holds(event, predicate) is (outcome is True)
    assert holds(event, negation) is (outcome is False)
    assert any(matches(event, filter) for filter in normalise(predicate)) is (outcome is True)
    assert any(matches(event, filter) for filter in normalise(negation)) is (outcome is False)


#: A hundred in `make test`; a profile for soaking has more.
EXAMPLES = settings.default.max_examples


@settings(max_examples=6 * EXAMPLES)
@given(nodes, events)
def test_trees_predicates_and_filters_agree(node: Node, raw: dict[str, Any]) -> None:
    check(node, raw)


@pytest.mark.parametrize("function", sorted(naive.FUNCTIONS))
def test_every_spatial_function_on_every_pair_of_regions(function: str) -> None:
    for region, operand in itertools.product([None, *SHAPES, shapely.Point(4, 2), shapely.Point(3, 3)], SHAPES):
        check(SpatialTest(function, "area", operand), {"area": region})


@settings(max_examples=EXAMPLES // 2)
@given(large_nodes(), large_events)
def test_predicates_too_large_to_expand_agree(node: Node, raw: dict[str, Any]) -> None:
    check(node, raw)
    filters = normalise(bind(node, SCHEMA))
    assert len(filters) <= MAX_FILTERS
    assert all(filter.rest is not None for filter in filters)


@settings(max_examples=2 * EXAMPLES)
@given(nodes, st.lists(events, max_size=3))
def test_text_keeps_the_outcome(node: Node, some: list[dict[str, Any]]) -> None:
    again = parse(format_node(node))
    for raw in some:
        event = SCHEMA.event(raw)
        assert naive.evaluate(again, event) is naive.evaluate(node, event)


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4))
def test_de_morgan_holds_for_the_naive_logic(outcomes: list[bool | None]) -> None:
    turned = [naive.negation(outcome) for outcome in outcomes]
    assert naive.negation(naive.conjunction(outcomes)) is naive.disjunction(turned)
    assert naive.negation(naive.disjunction(outcomes)) is naive.conjunction(turned)
