"""Hypothesis strategies for syntax trees, and what tests need to compare them strictly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import shapely
from hypothesis import strategies as st

from tamis.errors import LimitError
from tamis.model import shapes
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language.arithmetic.reading import condition_of
from tamis.model.language.limits import check_nesting
from tamis.model.language.nodes import (
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    Constant,
    Expression,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    Property,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.text.folding import Fold, fold_text
from tamis.model.values import INT64_MIN, UINT64_MAX, UnfitError

YEAR_1, YEAR_9999_END = -62_135_596_800_000_000, 253_402_300_799_999_999
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
AWKWARD_NAMES = (
    *("in", "AND", "Null", "true", "2nd", "a b", "", 'say "x"', "größe", "ıs", "價格", "a.b:c", "_", "DATE", "POLYGON"),
    *(
        "S_WITHIN",
        "v_within",
        "bbox",
        "point",
        "e\u0301",
        "\U0001f600",
        "a\u00a0b",
        "a\nb",
        "'",
        "-1",
        "{",
        "TIMESTAMP",
    ),
)


def names() -> st.SearchStrategy[str]:
    """Names: plain ones mostly, then those that need care, then anything."""
    awkward = st.sampled_from([name for name in AWKWARD_NAMES if name])
    return st.one_of(st.sampled_from(["a", "price", "symbol"]), awkward, st.text(min_size=1, max_size=8))


def numbers() -> st.SearchStrategy[int | float]:
    """Exact integers of int64 and uint64, and every finite float."""
    return st.one_of(
        st.integers(-5, 5),
        st.integers(INT64_MIN, UINT64_MAX),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0),
    )


def instants() -> st.SearchStrategy[Instant]:
    return st.builds(Instant, st.integers(YEAR_1, YEAR_9999_END))


def literals() -> st.SearchStrategy[Literal]:
    return st.one_of(
        numbers(), st.text(max_size=10), st.sampled_from(["it's", "'", "\\'", "%_"]), st.booleans(), instants()
    )


@st.composite
def polygons(draw: st.DrawFn) -> shapely.Polygon:
    """Simple polygons: boxes, and stars around a point, of every scale."""
    scale = draw(st.sampled_from([1.0, 1e-9, 1e9, math.pi, 1e300]))
    x, y = (draw(st.integers(-1000, 1000)) * scale for _ in range(2))
    if draw(st.booleans()):
        width, height = (draw(st.integers(1, 1000)) * scale for _ in range(2))
        return shapes.bbox_polygon(x, y, x + width, y + height)
    count = draw(st.integers(3, 8))
    radii = draw(st.lists(st.floats(0.5, 2), min_size=count, max_size=count))
    turns = [2 * math.pi * i / count for i in range(count)]
    ring = [(x + scale * r * math.cos(t), y + scale * r * math.sin(t)) for r, t in zip(radii, turns, strict=True)]
    try:
        return shapes.polygon(shapely.Polygon([*ring, ring[0]]))
    except UnfitError:  # rounding has made two of its points one
        return shapes.bbox_polygon(0, 0, scale, scale)


@st.composite
def text_tests(draw: st.DrawFn) -> TextTest:
    """Tests of folded text, and of regular expressions on any text."""
    op = draw(st.sampled_from(["=", "IN", "LIKE", "MATCHES"]))
    fold = draw(st.sampled_from([Fold.CASE, Fold.ACCENTS, Fold.CASE | Fold.ACCENTS]))
    if op == "MATCHES":
        return TextTest(draw(names()), op, (draw(st.text(max_size=10)),), draw(st.sampled_from([Fold.NONE, fold])))
    texts = draw(st.lists(st.text(max_size=10), min_size=1, max_size=4 if op == "IN" else 1))
    operands = tuple(fold_text(text, fold) for text in texts)
    return TextTest(draw(names()), op, operands, fold, draw(st.booleans()))


def expressions() -> st.SearchStrategy[Expression]:
    """Numbers to calculate with, and calls of the function that every process has."""

    def larger(smaller: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        calls = st.builds(Call, st.just("COMPARE"), st.tuples(smaller, smaller))
        operators = st.sampled_from(["+", "-", "*", "/", "%", "div", "^"])
        return st.one_of(calls, st.builds(Arithmetic, operators, smaller, smaller))

    return st.recursive(st.one_of(st.builds(Property, names()), numbers()), larger, max_leaves=6)


@st.composite
def calculated(draw: st.DrawFn) -> Node:
    """Conditions on expressions; those on an attribute and literals are the ordinary ones."""
    op = draw(st.sampled_from([*OPERATORS, "BETWEEN", "IN", "NULL"]))
    count = {"BETWEEN": 3, "NULL": 1}.get(op, 2) if op != "IN" else draw(st.integers(2, 4))
    operands = [draw(st.one_of(expressions(), literals()) if i else expressions()) for i in range(count)]
    return condition_of(op, tuple(operands), None, draw(st.booleans()) if op in ("BETWEEN", "IN", "NULL") else False)


def leaves() -> st.SearchStrategy[Node]:
    """Conditions of every kind."""
    values = st.lists(literals(), min_size=1, max_size=5).map(tuple)
    coordinates = numbers().map(float)
    return st.one_of(
        st.builds(Compare, names(), st.sampled_from(OPERATORS), literals()),
        st.builds(Between, names(), literals(), literals(), st.booleans()),
        st.builds(IsIn, names(), values, st.booleans()),
        st.builds(IsLike, names(), st.text(max_size=10), st.booleans()),
        text_tests(),
        st.builds(IsNull, names(), st.booleans()),
        st.builds(SpatialTest, st.sampled_from(sorted(SPATIAL_FUNCTIONS)), names(), polygons()),
        st.builds(WithinBall, names(), st.lists(coordinates, min_size=1, max_size=4).map(tuple), coordinates.map(abs)),
        st.builds(Constant, st.booleans()),
        calculated(),
    )


def nodes(max_leaves: int = 8) -> st.SearchStrategy[Node]:
    """Every tree that `parse` may return, without spans and within the limits."""

    def larger(smaller: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        parts = st.lists(smaller, min_size=2, max_size=4).map(tuple)
        return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, smaller))

    return st.recursive(leaves(), larger, max_leaves=max_leaves).filter(_is_shallow)


def _is_shallow(node: Node) -> bool:
    try:
        check_nesting(node)
    except LimitError:
        return False
    return True


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a tree in which ``change`` was applied to each node, the parts of a node before itself."""
    if isinstance(node, And | Or):
        node = dataclasses.replace(node, parts=tuple(rebuilt(part, change) for part in node.parts))
    elif isinstance(node, Not):
        node = dataclasses.replace(node, part=rebuilt(node.part, change))
    return change(node)


def without_spans(node: Node) -> Node:
    return rebuilt(node, lambda part: dataclasses.replace(part, span=None))


def assert_same(node: Node, wanted: Node) -> None:
    """Assert that two trees are equal, with 1, 1.0 and TRUE told apart (which ``==`` does not)."""
    assert node == wanted
    assert repr(without_spans(node)) == repr(without_spans(wanted))


def every_node(node: Node) -> Iterator[Node]:
    yield node
    parts = node.parts if isinstance(node, And | Or) else (node.part,) if isinstance(node, Not) else ()
    for part in parts:
        yield from every_node(part)
