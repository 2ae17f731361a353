"""The three rules: fewer words, the same events, one of equals stays."""

from __future__ import annotations

import pytest

from tamis.algebra.covers import equivalent
from tamis.algebra.evaluate import matches_subscription
from tamis.algebra.simplify import join_filters, simplify, simplify_filters
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import EVERYTHING, AnyOf, Filter, Subscription, Values
from tamis.model.types import Number, Region, String, Vector
from tamis.model.value_set import MISSING, PRESENT

SCHEMA = Schema({"x": Number(), "y": Number(), "s": String(), "r": Region(), "v": Vector(2)})
SQUARE = "POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))"
OTHERS = ("S_DISJOINT", "RCC_OVERLAPS", "RCC_INSIDE", "RCC_CONTAINS", "RCC_COVERS", "RCC_COVERED_BY")
ONLY_EQUALS_OR_MEETS = "NOT (" + " OR ".join(f"{name}(r, {SQUARE})" for name in OTHERS) + ")"
SAME = "POLYGON((2 2, 2 0, 1 0, 0 0, 0 2, 2 2))"


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("x < 1 AND x > 2", "FALSE"),
        ("s LIKE '%a' AND s LIKE '%b'", "FALSE"),
        ("V_WITHIN(v, (0, 0), 1) AND V_WITHIN(v, (9, 0), 1)", "FALSE"),
        (f"S_WITHIN(r, {SQUARE}) AND S_DISJOINT(r, {SAME})", "FALSE"),
        ("x < 1 OR x >= 1", "x IS NOT NULL"),
        ("x IS NULL OR x IS NOT NULL", "TRUE"),
        ("s IN ('abc', 'xyz') AND s LIKE '%b%'", "s = 'abc'"),
        ("s LIKE '%ab%' AND s LIKE '%a%'", "s LIKE '%ab%'"),
        ("s LIKE '%a%' OR s LIKE '%ab%'", "s LIKE '%a%'"),
        ("s LIKE '%a%' OR s NOT LIKE '%a%'", "s IS NOT NULL"),
        ("s LIKE '%a%' AND s IS NOT NULL", "s LIKE '%a%'"),
        ("V_WITHIN(v, (0, 0), 3) AND V_WITHIN(v, (1, 0), 1)", "V_WITHIN(v, (1, 0), 1)"),
        ("V_WITHIN(v, (0, 0), 3) OR V_WITHIN(v, (1, 0), 1)", "V_WITHIN(v, (0, 0), 3)"),
        ("V_WITHIN(v, (0, 0), 1) AND NOT V_WITHIN(v, (9, 0), 1)", "V_WITHIN(v, (0, 0), 1)"),
        (f"S_INTERSECTS(r, {SQUARE}) AND S_WITHIN(r, {SQUARE})", f"S_WITHIN(r, {SQUARE})"),
        (f"S_INTERSECTS(r, {SQUARE}) OR S_DISJOINT(r, {SQUARE})", "r IS NOT NULL"),
        (f"S_EQUALS(r, {SQUARE}) AND x = 1 OR S_TOUCHES(r, {SQUARE}) AND x = 1",
         f"{ONLY_EQUALS_OR_MEETS} AND x = 1"),
        ("x < 5 AND y = 1 OR x >= 5 AND y = 1", "x IS NOT NULL AND y = 1"),
        ("x < 5 AND y = 1 OR x < 5 AND y = 2 OR x < 5 AND y = 3", "x < 5 AND y IN (1, 2, 3)"),
        ("x = 1 AND y = 1 OR x = 1 AND y = 2 OR x = 2 AND y = 1 OR x = 2 AND y = 2", "x IN (1, 2) AND y IN (1, 2)"),
        ("x < 5 OR y < 5 OR (x > 2 AND x < 4 AND y > 7)", "y < 5 OR x < 5"),
        ("(x <= 5 AND y <= 9) OR (x >= 5 AND y <= 9) OR (x BETWEEN 4 AND 6 AND y BETWEEN 0 AND 1)",
         "x IS NOT NULL AND y <= 9"),
    ],
)  # fmt: skip
def test_long_and_short(long: str, short: str) -> None:
    result = simplify(long, SCHEMA)
    assert result.filters == simplify(short, SCHEMA).filters
    assert equivalent(result, short, SCHEMA)
    assert simplify(result).filters == result.filters


def test_what_is_not_the_question_stays() -> None:
    original = Subscription("me", compile_text("x < 1 OR x < 2").filters, "text", "tenant", 77, {"k": "v"})
    result = simplify(original)
    assert (result.id, result.text, result.namespace, result.expires) == ("me", "text", "tenant", 77)
    assert result.metadata == {"k": "v"}


def test_of_identical_filters_one_stays() -> None:
    """Erratum S.3.6: they cover each other, and dropping both would match nothing, or everything."""
    [only] = compile_text("x < 1").filters
    assert simplify_filters([only, only, only]) == (only,)
    assert simplify_filters([EVERYTHING, EVERYTHING]) == (EVERYTHING,)
    equal_but_different = compile_text("x < 1 AND s LIKE '%ab%' OR x < 1 AND s LIKE '%ab%' AND s LIKE '%a%'")
    assert len(simplify(equal_but_different).filters) == 1


def test_two_that_need_each_other_are_not_both_dropped() -> None:
    """Each of the first two lies in the union of the other three; at (5, 5, 1) one of them is needed."""
    first = "x BETWEEN 0 AND 10 AND y BETWEEN 4 AND 6 AND z = 1"
    second = "x BETWEEN 0 AND 10 AND y = 5 AND z BETWEEN 0 AND 2"
    text = f"({first}) OR ({second}) OR y <> 5 OR z <> 1"
    result = simplify(text)
    assert len(result.filters) == 3
    assert matches_subscription({"x": 5, "y": 5, "z": 1}, result)
    assert equivalent(result, text)


def test_the_order_of_writing_does_not_matter() -> None:
    parts = ["x < 1 AND y > 2", "s LIKE '%a%'", "V_WITHIN(v, (0, 0), 1)", "x IS NULL"]
    results = {simplify(" OR ".join(f"({p})" for p in (*parts[i:], *parts[:i])), SCHEMA).filters for i in range(4)}
    assert len(results) == 1


def test_a_tree_is_left_alone_or_dropped() -> None:
    tree = AnyOf((Values("x", PRESENT), Values("y", PRESENT)))
    kept = Filter((), tree)
    assert simplify_filters([kept]) == (kept,)
    impossible = Filter((Values("x", MISSING), Values("y", MISSING)), tree)
    assert simplify_filters([impossible]) == ()


def test_join_refuses_what_is_not_a_box() -> None:
    a, b = (compile_text(text).filters[0] for text in ("x < 1 AND y < 1", "x > 1 AND y > 1"))
    assert join_filters(a, b) is None
    assert join_filters(a, Filter((), AnyOf(()))) is None
