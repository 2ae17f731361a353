"""Subsumption by several, and perfect merges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tamis.algebra.covers import equivalent
from tamis.errors import ModelError
from tamis.model.language.compiler import compile_text
from tamis.reduction import merge, subsumed


def test_covered_by_two_together() -> None:
    answer = subsumed("x BETWEEN 2 AND 8", {1: "x < 5", "b": "x >= 5", "unused": "x > 7", "other": "y = 1"})
    assert answer
    assert answer.by == (1, "b")
    assert not answer.unknown


def test_a_single_coverer_is_enough() -> None:
    assert subsumed("x = 3", {"low": "x < 5", "high": "x > 2", "all": "TRUE"}).by in {("all",), ("high",), ("low",)}


def test_the_ids_named_are_needed_and_enough() -> None:
    stripes = {f"s{i}": f"x >= {i} AND x < {i + 1} AND y < 10" for i in range(9)}
    answer = subsumed("x BETWEEN 2 AND 4.5 AND y < 3", stripes)
    assert answer.by == ("s2", "s3", "s4")


def test_a_gap_is_shown() -> None:
    answer = subsumed("x BETWEEN 2 AND 8", {"low": "x < 5", "high": "x > 5"})
    assert not answer
    assert answer.witness == {"x": 5}
    assert answer.by == ()
    assert "none of the others" in answer.reason


def test_a_filter_without_other_subscriptions() -> None:
    assert not subsumed("x = 1", {})
    assert subsumed("x < 1 AND x > 2", {}).by == ()
    assert subsumed("x < 1 AND x > 2", {})


def test_a_list_of_compiled_subscriptions() -> None:
    others = [compile_text("x < 5", id="low"), compile_text("x >= 5", id=7)]
    assert subsumed("x IS NOT NULL", others).by == (7, "low")


@pytest.mark.parametrize(
    ("a", "b", "union", "id"),
    [
        ("x < 5", "x < 9", "x < 9", "b"),
        ("x < 9", "x < 5", "x < 9", "a"),
        ("x < 9", "9 > x", "x < 9", "a"),
        ("x < 5 AND y = 1", "x >= 5 AND y = 1", "x IS NOT NULL AND y = 1", "a+b"),
        ("s = 'IBM' AND x < 5", "s = 'HAL' AND x < 5", "s IN ('IBM', 'HAL') AND x < 5", "a+b"),
        ("x < 5", "x IS NULL", "x < 5 OR x IS NULL", "a+b"),
        ("V_WITHIN(v, (0, 0), 2)", "V_WITHIN(v, (1, 0), 1)", "V_WITHIN(v, (0, 0), 2)", "a"),
        ("x < 1 OR y < 1", "y < 1", "x < 1 OR y < 1", "a"),
    ],
)
def test_perfect_merges(a: str, b: str, union: str, id: str) -> None:
    result = merge(a, b)
    assert result is not None
    assert equivalent(result, union)
    assert result.id == id


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x < 5 AND y < 5", "x > 5 AND y > 5"),
        ("x < 5", "y < 5"),
        ("V_WITHIN(v, (0, 0), 1)", "V_WITHIN(v, (1, 0), 1)"),
        ("s LIKE '%a%'", "s LIKE '%b%'"),
    ],
)
def test_what_would_match_more_is_not_merged(a: str, b: str) -> None:
    assert merge(a, b) is None


def test_never_across_namespaces_nor_beyond_a_life() -> None:
    a, b = compile_text("x < 9", id="a"), compile_text("x < 5", id="b")
    assert merge(a, replace(b, namespace="other")) is None
    assert merge(replace(a, expires=10), b) is None
    merged = merge(a, replace(b, expires=10))
    assert merged is not None
    assert merged.id == "a"


@pytest.mark.parametrize("wrong", ["x < 2", b"x", 7])
def test_others_are_several(wrong: Any) -> None:
    with pytest.raises(ModelError, match="expected the others as a list or as a mapping"):
        subsumed("x < 1", wrong)
    with pytest.raises(ModelError, match="a subscription id is a string or an int64"):
        subsumed("x < 1", {True: "x < 2"})
