"""Reading text: every operator, precedence, names, literals, spans, round trips."""

from __future__ import annotations

import subprocess
import sys

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import SubscriptionError, TamisError
from tamis.model import shapes
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
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
from tamis.model.language.parse import parse
from tests.unit.language.strategies import AWKWARD_NAMES, assert_same, every_node, nodes

A, B, C = (Compare(name, "=", True) for name in "abc")
TRIANGLE = shapely.Polygon([(0, 0), (4, 0), (0, 4), (0, 0)])
UNIT = shapes.bbox_polygon(0, 0, 1, 1)
NOON = Instant(1_769_860_800_000_000)

CASES: list[tuple[str, Node]] = [
    # comparisons, also with the literal on the left
    ("price = 100", Compare("price", "=", 100)),
    ("price<>100", Compare("price", "<>", 100)),
    ("price < 100", Compare("price", "<", 100)),
    ("price <=100", Compare("price", "<=", 100)),
    ("price> 100", Compare("price", ">", 100)),
    ("\tprice\n>=\r\n100 ", Compare("price", ">=", 100)),
    ("100 = price", Compare("price", "=", 100)),
    ("100 <> price", Compare("price", "<>", 100)),
    ("100 > price", Compare("price", "<", 100)),
    ("100 >= price", Compare("price", "<=", 100)),
    ("100 < price", Compare("price", ">", 100)),
    ("100 <= price", Compare("price", ">=", 100)),
    ("'IBM' = symbol", Compare("symbol", "=", "IBM")),
    ("TRUE = halted", Compare("halted", "=", True)),
    ("DATE('1970-01-01') < at", Compare("at", ">", Instant(0))),
    # numbers
    ("a = 9223372036854775807", Compare("a", "=", 9223372036854775807)),
    ("a = -9223372036854775808", Compare("a", "=", -9223372036854775808)),
    ("a = 18446744073709551615", Compare("a", "=", 18446744073709551615)),
    ("a = 9007199254740993", Compare("a", "=", 9007199254740993)),
    ("a = +5", Compare("a", "=", 5)),
    ("a=-5", Compare("a", "=", -5)),
    ("a = 007", Compare("a", "=", 7)),
    ("a = -" + "0" * 60 + "7", Compare("a", "=", -7)),
    ("a = " + "0" * 60, Compare("a", "=", 0)),
    ("a = 99.95", Compare("a", "=", 99.95)),
    ("a = 5.", Compare("a", "=", 5.0)),
    ("a = .5", Compare("a", "=", 0.5)),
    ("a = -.5e-3", Compare("a", "=", -0.0005)),
    ("a = 1E3", Compare("a", "=", 1000.0)),
    ("a = -0.0", Compare("a", "=", 0.0)),
    ("a = 1e-999", Compare("a", "=", 0.0)),
    # strings: a quote is written twice, a backslash is a backslash
    ("a = ''", Compare("a", "=", "")),
    ("a = 'it''s'", Compare("a", "=", "it's")),
    ("a = ''''", Compare("a", "=", "'")),
    ("a = 'c:\\'", Compare("a", "=", "c:\\")),
    ("a = 'AND (b OR'", Compare("a", "=", "AND (b OR")),
    ("a = 'größer 價格 \U0001f600'", Compare("a", "=", "größer 價格 \U0001f600")),
    ("a = 'two\nlines'", Compare("a", "=", "two\nlines")),
    # booleans, moments
    ("a = true", Compare("a", "=", True)),
    ("a <> False", Compare("a", "<>", False)),
    ("at > TIMESTAMP('2026-01-31T12:00:00Z')", Compare("at", ">", NOON)),
    ("at > timestamp ( '2026-01-31T13:00:00.000000+01:00' )", Compare("at", ">", NOON)),
    ("at >= DATE('2026-01-31')", Compare("at", ">=", Instant(NOON.microseconds - 12 * 3_600_000_000))),
    # the other conditions
    ("a BETWEEN 1 AND 2.5", Between("a", 1, 2.5)),
    ("a not between 'x' and 'y'", Between("a", "x", "y", negated=True)),
    ("a IN (1)", IsIn("a", (1,))),
    ("a IN(1,2 , 3.5)", IsIn("a", (1, 2, 3.5))),
    ("a NOT IN ('x', 'it''s')", IsIn("a", ("x", "it's"), negated=True)),
    ("a IN (TRUE, false)", IsIn("a", (True, False))),
    ("a IN (1, 'x', DATE('1970-01-01'))", IsIn("a", (1, "x", Instant(0)))),
    ("a LIKE 'x\\%%'", IsLike("a", "x\\%%")),
    ("a NOT LIKE '_'", IsLike("a", "_", negated=True)),
    ("a IS NULL", IsNull("a")),
    ("a is  not\nnull", IsNull("a", negated=True)),
    ("TRUE", Constant(True)),
    ("false", Constant(False)),
    ("a", A),
    # regions and balls
    ("S_WITHIN(area, POLYGON((0 0, 4 0, 0 4, 0 0)))", SpatialTest("S_WITHIN", "area", TRIANGLE)),
    ("s_within ( area , polygon ((0 0,4 0,0 4,0 0)) )", SpatialTest("S_WITHIN", "area", TRIANGLE)),
    ("S_TOUCHES(area, BBOX(0, 0, 1, 1.0))", SpatialTest("S_TOUCHES", "area", UNIT)),
    (
        'S_EQUALS(area, {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]})',
        SpatialTest("S_EQUALS", "area", TRIANGLE),
    ),
    ("V_WITHIN(look, (0.5, -1), 2)", WithinBall("look", (0.5, -1.0), 2.0)),
    ("v_within(look,(1),0)", WithinBall("look", (1.0,), 0.0)),
    # precedence, chains and parentheses
    ("a OR b AND c", Or((A, And((B, C))))),
    ("a AND b OR c", Or((And((A, B)), C))),
    ("a AND b AND c", And((A, B, C))),
    ("a OR b OR c", Or((A, B, C))),
    ("a AND b OR b AND c OR a", Or((And((A, B)), And((B, C)), A))),
    ("(a OR b) AND c", And((Or((A, B)), C))),
    ("a AND (b AND c)", And((A, And((B, C))))),
    ("(a OR b) OR c", Or((Or((A, B)), C))),
    ("((a))", A),
    ("NOT a AND b", And((Not(A), B))),
    ("NOT (a AND b)", Not(And((A, B)))),
    ("NOT NOT a", Not(Not(A))),
    ("NOT a IN (1)", Not(IsIn("a", (1,)))),
    ("not a = 1 or b", Or((Not(Compare("a", "=", 1)), B))),
    ("a BETWEEN 1 AND 2 AND b", And((Between("a", 1, 2), B))),
    ("(100 > price)AND(a)", And((Compare("price", "<", 100), A))),
    ("a='x'OR'y'=b", Or((Compare("a", "=", "x"), Compare("b", "=", "y")))),
    # names
    ("_a.b:c9 = 1", Compare("_a.b:c9", "=", 1)),
    ("größe = 1", Compare("größe", "=", 1)),
    ("價格 = 1", Compare("價格", "=", 1)),
    ('"price" = 1', Compare("price", "=", 1)),
    ('"in" = 1', Compare("in", "=", 1)),
    ('"a ""b""" = 1', Compare('a "b"', "=", 1)),
    ("android = 1 AND organ = 2", And((Compare("android", "=", 1), Compare("organ", "=", 2)))),
    (
        "date = 1 AND polygon = 2 AND bbox = 3",
        And(tuple(Compare(n, "=", i + 1) for i, n in enumerate(["date", "polygon", "bbox"]))),
    ),
    ("ıs = 1", Compare("ıs", "=", 1)),
    ("a\u00a0=\u30001", Compare("a", "=", 1)),
    ("V_WITHIN(a, (5\x1c,\x851), 1)", WithinBall("a", (5.0, 1.0), 1.0)),
    ("a IN (5\x1c,\x851)", IsIn("a", (5, 1))),
]


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[text[:40] for text, _ in CASES])
def test_cases(text: str, wanted: Node) -> None:
    assert_same(parse(text), wanted)


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[text[:40] for text, _ in CASES])
def test_every_span_reads_as_its_node(text: str, wanted: Node) -> None:
    _assert_spans(text)
    _assert_spans(f"  ( ({text}) OR {text}) ")


def _assert_spans(text: str) -> None:
    for node in every_node(parse(text)):
        assert node.span is not None
        start, stop = node.span
        assert text[start:stop] == text[start:stop].strip() != ""
        assert_same(parse(text[start:stop]), node)


@pytest.mark.parametrize("function", sorted(SPATIAL_FUNCTIONS))
def test_regions_may_come_first_and_the_function_is_turned(function: str) -> None:
    turned = {
        "S_WITHIN": "S_CONTAINS",
        "S_CONTAINS": "S_WITHIN",
        "RCC_INSIDE": "RCC_CONTAINS",
        "RCC_CONTAINS": "RCC_INSIDE",
        "RCC_COVERS": "RCC_COVERED_BY",
        "RCC_COVERED_BY": "RCC_COVERS",
    }
    assert_same(parse(f"{function}(x, BBOX(0,0,1,1))"), SpatialTest(function, "x", UNIT))
    assert_same(parse(f"{function}(BBOX(0,0,1,1), x)"), SpatialTest(turned.get(function, function), "x", UNIT))


@pytest.mark.parametrize("literal", ["1", "-1.5", "'x'", "'it''s'", "TRUE", "false"])
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_a_comparison_lexed_at_once_is_the_one_read_by_the_finer_rules(operator: str, literal: str) -> None:
    """A quoted name is never part of a COMPARISON piece, so that its text takes the other road."""
    assert_same(parse(f"name {operator} {literal}"), parse(f'"name" {operator} {literal}'))


@pytest.mark.parametrize("name", [name for name in AWKWARD_NAMES if name])
def test_any_name_can_be_written(name: str) -> None:
    for node in (Compare(name, "=", 1), IsNull(name), IsIn(name, ("x",)), SpatialTest("S_WITHIN", name, UNIT)):
        assert_same(parse(format_node(node)), node)


@given(nodes())
def test_what_is_written_reads_as_the_same_tree(node: Node) -> None:
    text = format_node(node)
    assert_same(parse(text), node)
    assert format_node(parse(text)) == text


@given(nodes(max_leaves=4))
def test_space_and_needless_parentheses_change_nothing(node: Node) -> None:
    text = f"\n(( {format_node(node)}\t) )"
    assert_same(parse(text), node)
    _assert_spans(text)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except TamisError:
        return
    assert_same(parse(format_node(node)), node)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SubscriptionError, match="a lone surrogate is not text: character 6"):
        parse("a = '\ud800'")


@pytest.mark.parametrize("source", [None, 5, b"a = 1", ["a"]])
def test_other_sources_are_refused(source: object) -> None:
    with pytest.raises(SubscriptionError, match="expected CQL2 as text or as JSON, not"):
        parse(source)  # type: ignore[arg-type]


def test_threads_may_parse_at_once_and_the_first_ones_too() -> None:
    """In a fresh process, so that the parser is not there yet."""
    code = """
import threading
from tamis.model.language import parse as module
assert module._built is None, "importing must not build the parser"
found, made = [], []
build = module.Lark
module.Lark = lambda *args, **options: made.append(1) or build(*args, **options)
def work(n):
    found.extend(module.parse(f"a = {n} AND (b < {i} OR c)").parts[0].value == n for i in range(50))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
assert found == [True] * 400 and made == [1]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)})
