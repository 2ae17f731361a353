"""Canonical text: exact strings, and what cannot be written."""

from __future__ import annotations

import pytest
import shapely
from hypothesis import given

from tamis.errors import LimitError, SubscriptionError
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.literals import region_text
from tamis.model.language.nodes import And, Compare, Constant, Instant, Node, Not, Or, SpatialTest, WithinBall
from tamis.model.language.parse import parse
from tests.unit.language.strategies import polygons

CASES = [
    ("a=1 and(b)", "a = 1 AND b = TRUE"),
    ("100>a", "a < 100"),
    ("a IN('x','it''s')", "a IN ('x', 'it''s')"),
    ("a not in(1,2)", "a NOT IN (1, 2)"),
    ("a between 1 and 1e22", "a BETWEEN 1 AND 1e+22"),
    ("a is not null", "a IS NOT NULL"),
    ("a like 'x\\_%'", "a LIKE 'x\\_%'"),
    ("not(not(a=1))", "NOT NOT a = 1"),
    ("not(a=1 and b=2)", "NOT (a = 1 AND b = 2)"),
    ("(a=1 and b=2) or (c=3)", "a = 1 AND b = 2 OR c = 3"),
    ("(a=1 or b=2) and (c=3)", "(a = 1 OR b = 2) AND c = 3"),
    ("a=1 and (b=2 and c=3)", "a = 1 AND (b = 2 AND c = 3)"),
    ("a=1 or (b=2 or c=3)", "a = 1 OR (b = 2 OR c = 3)"),
    ('"in" = 1 and "a b" = 2 and "c" = 3', '"in" = 1 AND "a b" = 2 AND c = 3'),
    ("a > DATE('2026-01-31')", "a > TIMESTAMP('2026-01-31T00:00:00.000000Z')"),
    ("a = .1", "a = 0.1"),
    ("s_within(BBOX(0,0,1,1), a)", "S_CONTAINS(a, BBOX(0, 0, 1, 1))"),
    ("v_within(a,(1,0.5),2)", "V_WITHIN(a, (1.0, 0.5), 2.0)"),
    ("true or FALSE", "TRUE OR FALSE"),
]


@pytest.mark.parametrize(("text", "canonical"), CASES)
def test_canonical_text(text: str, canonical: str) -> None:
    assert format_node(parse(text)) == canonical
    assert format_node(parse(canonical)) == canonical


@given(polygons())
def test_regions_keep_every_bit(polygon: shapely.Polygon) -> None:
    node = SpatialTest("S_WITHIN", "a", polygon)
    assert parse(format_node(node)) == node
    assert from_json(to_json(node)) == node


def test_wkt_keeps_what_geos_would_cut() -> None:
    polygon = shapely.Polygon([(-0.0002072179058609398, 0), (1, 0), (1, 1)])
    assert shapely.from_wkt(region_text(polygon)) == polygon


def test_a_rectangle_that_starts_elsewhere_is_no_bbox() -> None:
    assert region_text(shapely.Polygon([(0, 0), (1, 0), (1, 1), (0, 1)])) == "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))"
    assert region_text(shapely.box(0, 0, 1, 1)) == "BBOX(0, 0, 1, 1)"


@pytest.mark.parametrize(
    "node",
    [Compare("a", "<", float("inf")), WithinBall("a", (float("nan"),), 1.0), Compare("a", "<", Instant(2**62))],
)
def test_values_that_no_text_can_hold(node: Node) -> None:
    with pytest.raises(SubscriptionError, match="cannot be written"):
        format_node(node)


def test_trees_deeper_than_can_be_read_are_not_written() -> None:
    node: Node = Constant(True)
    for _ in range(100_000):
        node = And((node, node)) if isinstance(node, Not | Constant) else Not(node)
    for write in (format_node, to_json):
        with pytest.raises(LimitError, match="nesting"):
            write(node)
    _take_apart(node)


def _take_apart(node: Node) -> None:
    """Free a deep tree from the top: Python would free it by recursion (guarded, but slowly)."""
    while isinstance(node, And | Or | Not):
        node = node.part if isinstance(node, Not) else node.parts[0]
