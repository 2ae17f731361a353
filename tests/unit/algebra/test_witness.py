"""Values for witnesses: they belong to their set, and people can read them."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tamis.algebra.proofs.facts import Facts
from tamis.algebra.proofs.witness import event_for, value_for
from tamis.model.subscription import Ball, Like, Relation, Spatial
from tamis.model.types import AttributeType, Boolean, Number, Region, String, Timestamp, Vector
from tamis.model.value_set import ANYTHING, EMPTY, MISSING, PRESENT, ValueSet
from tamis.model.values import INT64_MAX, INT64_MIN


@pytest.mark.parametrize(
    ("start", "stop", "value"),
    [
        (None, None, 0),
        (None, (100, 0), 0),
        ((100, 0), None, 200),
        ((99, 1), (100.5, 0), 100),
        ((0.1, 1), (0.2, 0), 0.15),
        ((5, 0), (5, 1), 5),
        ((0.1, 1), (0.10000000000000002, 0), Decimal("0.10000000000000001")),
        ((2**53, 1), (2**53 + 2, 0), 2**53 + 1),
        ((1e300, 1), None, 2e300),
        ((1.7976931348623157e308, 0), None, 1.7976931348623157e308),
    ],
)
def test_numbers_are_round(start: Any, stop: Any, value: Any) -> None:
    witness = value_for(Facts(ValueSet.between(start, stop)), Number())
    assert witness == value
    assert type(witness) is type(value)


ends = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(-1e300, 1e300), st.decimals(-1, 1, places=25))


@given(ends, ends, st.integers(0, 1), st.integers(0, 1))
def test_every_interval_of_numbers_has_a_value(a: Any, b: Any, s: int, t: int) -> None:
    kind = Number()
    low, high = sorted([(kind.canonical(a), s), (kind.canonical(b), t)])
    for start, stop in ((low, high), (None, low), (high, None)):
        allowed = ValueSet.between(start, stop)
        value = value_for(Facts(allowed), kind)
        assert (value is not None) == allowed.has_values
        assert value is None or kind.canonical(value) in allowed


moments = st.one_of(st.integers(INT64_MIN, INT64_MAX), st.sampled_from([INT64_MIN, INT64_MAX, 0, 1]))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=3)


@given(moments, moments)
def test_every_interval_of_moments_has_a_value(a: int, b: int) -> None:
    kind = Timestamp()
    allowed = ValueSet.between(kind.before(min(a, b)), kind.after(max(a, b)))
    assert value_for(Facts(allowed), kind) in allowed
    outside = allowed.negated()
    assert (value_for(Facts(outside), kind) is not None) == outside.has_values


@given(texts, texts)
def test_every_interval_of_strings_has_a_value(a: str, b: str) -> None:
    kind = String()
    allowed = ValueSet.between(kind.before(min(a, b)), kind.after(max(a, b)))
    for values in (allowed, allowed.negated()):
        assert value_for(Facts(values), kind) in values


def test_every_set_of_booleans_has_a_value() -> None:
    kind = Boolean()
    for cut, from_below in itertools.product(((), ((True, 0),)), (False, True)):
        allowed = ValueSet(cut, from_below)
        value = value_for(Facts(allowed), kind)
        assert (value is not None) == allowed.has_values
        assert value is None or value in allowed


@pytest.mark.parametrize("kind", [Number(), String(), Boolean(), Timestamp(), Region(), Vector(3), None])
def test_present_has_a_value_of_every_type(kind: AttributeType | None) -> None:
    for allowed in (PRESENT, ANYTHING):
        value = value_for(Facts(allowed), kind)
        assert value is not None
        assert kind is None or kind.canonical(value) is not None
    assert value_for(Facts(MISSING), kind) is None
    assert value_for(Facts(EMPTY), kind) is None


def test_an_event_leaves_out_what_must_be_missing() -> None:
    piece = {"gone": Facts(MISSING), "x": Facts(PRESENT)}
    assert event_for(piece, {"x": Number()}) == {"x": 0}
    assert event_for({"x": Facts(EMPTY)}, {}) is None


def test_conditions() -> None:
    square = shapely.box(0, 0, 1, 1)
    region = value_for(Facts(PRESENT, (Spatial("r", frozenset({Relation.EQUALS}), square),)), Region())
    assert region == square
    vector: Any = value_for(Facts(PRESENT, (Ball("v", (1.0, 2.0), 0.0),)), Vector(2))
    assert np.array_equal(vector, [1.0, 2.0])
    assert not vector.flags.writeable
    assert value_for(Facts(PRESENT, (Like("s", "%ab%"),)), String()) == "ab"


YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999


@pytest.mark.parametrize(
    ("start", "stop", "inside"),
    [
        (None, (YEAR_1, 0), False),
        (None, (YEAR_1 + 1, 0), True),
        ((YEAR_1 - 5, 0), None, True),
        ((YEAR_9999 + 1, 0), None, False),
        ((YEAR_9999, 0), None, True),
        (None, None, True),
    ],
)
def test_moments_have_a_text_if_possible(start: Any, stop: Any, inside: bool) -> None:
    allowed = ValueSet.between(start, stop)
    moment = value_for(Facts(allowed), Timestamp())
    assert moment in allowed
    assert (YEAR_1 <= moment <= YEAR_9999) == inside


def test_moments_of_a_later_interval_may_be_better() -> None:
    apart = ValueSet.any_of([ValueSet.between(None, (YEAR_1 - 9, 0)), ValueSet.between((50, 0), (60, 0))])
    assert 50 <= value_for(Facts(apart), Timestamp()) < 60


def test_a_plain_number_is_better_than_a_long_decimal() -> None:
    narrow = ValueSet.between((0.1, 0), (0.10000000000000002, 0))
    assert value_for(Facts(narrow), Number()) == 0.1
    inner = ValueSet.between((0.1, 1), (0.10000000000000002, 0))
    apart = ValueSet.any_of([inner, ValueSet.between((5, 0), (6, 0))])
    assert isinstance(value_for(Facts(inner), Number()), Decimal)
    assert value_for(Facts(apart), Number()) == 5.5
