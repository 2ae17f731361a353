"""Canonical values: one form per type, and everything else refused with a reason."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.model.types import Boolean, Many, Number, String, Timestamp, Vector, type_of_value
from tamis.model.values import (
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    UnfitError,
    decimal_number,
    has_lone_surrogate,
    moment,
    number,
)

TENTHS = st.sampled_from([Decimal("0.1"), Decimal("0.3"), Decimal("1e-320"), Decimal(2**53), Decimal("-7.7")])
CLOSE = st.integers(-3, 3).flatmap(
    lambda k: st.sampled_from([Decimal(k).scaleb(-p) for p in (14, 16, 17, 18, 25, 340)])
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20) | st.builds(
    lambda a, b: _sum(a, b), TENTHS, CLOSE
)


def _sum(a: Decimal, b: Decimal) -> Decimal:
    with localcontext(prec=400):
        return a + b


class TestNumber:
    @pytest.mark.parametrize(
        ("value", "canonical"),
        [
            (5, 5),
            (2**53 + 1, 2**53 + 1),
            (UINT64_MAX, UINT64_MAX),
            (INT64_MIN, INT64_MIN),
            (np.int8(-3), -3),
            (np.float32(0.1), float(np.float32(0.1))),
            (Decimal("5.00"), 5),
            (Decimal("99.95"), 99.95),
            (Decimal(2**63), 2**63),
            (Decimal("1e30"), 1e30),
        ],
    )
    def test_accepted(self, value: object, canonical: object) -> None:
        assert number(value) == canonical
        assert type(number(value)) is type(canonical)

    def test_minus_zero_is_zero(self) -> None:
        assert math.copysign(1, number(-0.0)) == 1
        assert math.copysign(1, number(Decimal("-0.0"))) == 1

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            *((value, "boolean is not a number") for value in (True, np.True_)),
            *((value, "NaN and infinity") for value in (math.nan, math.inf, Decimal("NaN"), Decimal("inf"))),
            ("5", "not a string"),
            (None, "not NoneType"),
            (2**64, "outside int64 and uint64"),
            (1j, "not complex"),
            (Fraction(1, 3), "not Fraction"),
        ],
    )
    def test_refused(self, value: object, words: str) -> None:
        with pytest.raises(
            UnfitError, match="expected a number, not|boolean is not a number|NaN and infinity|outside int64 and uint64"
        ):
            number(value)

    @given(st.lists(DECIMALS, min_size=2, max_size=2))
    def test_the_order_of_decimals_is_kept(self, pair: list[Decimal]) -> None:
        a, b = pair
        assert (a < b) == (decimal_number(a) < decimal_number(b))
        assert (a == b) == (decimal_number(a) == decimal_number(b))

    @given(st.floats(min_value=-(2**53), max_value=2**53))  # beyond, a whole decimal is the exact integer
    def test_a_float_written_as_decimal_is_itself(self, value: float) -> None:
        assert decimal_number(Decimal(repr(value))) == value

    def test_a_decimal_with_a_huge_exponent_is_refused_quickly(self) -> None:
        with pytest.raises(UnfitError, match="a decimal beyond"):
            decimal_number(Decimal("1e999999"))
        with pytest.raises(UnfitError, match="a decimal beyond"):
            decimal_number(Decimal("1e-999999"))


class TestTimestamp:
    @pytest.mark.parametrize(
        ("value", "microseconds"),
        [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t01:00:00+01:00", 0),
            ("1970-01-01 00:00:00.123456789Z", 123456),
            ("1969-12-31T23:59:59.9Z", -100000),
            (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), 0),
            (dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), 0),
            (17, 17),
        ],
    )
    def test_accepted(self, value: object, microseconds: int) -> None:
        assert Timestamp().canonical(value) == microseconds

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("yesterday", "expected a timestamp such as"),
            ("2026-02-30T00:00:00Z", "not a valid time"),
            ("2026-01-01T00:00:00", "without a zone"),
            (dt.datetime(2026, 1, 1), "without a zone"),
            (np.datetime64("2026-01-01"), "without a zone"),
            (np.datetime64("NaT"), "NaT"),
            (pd.NaT, "NaT is not a time"),
            (np.datetime64(2**62, "s"), "outside the years 1 to 9999"),
            (np.datetime64(-(2**62), "s"), "outside the years 1 to 9999"),
            (np.datetime64(2**62, "Y"), "outside the years 1 to 9999"),
            (np.datetime64(2**62, "ms"), "outside the years 1 to 9999"),
            (np.datetime64("10000-01-01"), "outside the years 1 to 9999"),
            (True, "not a boolean"),
            (1.5, "not a number"),
            (INT64_MAX + 1, "outside int64"),
            ("٢٠٢٦-01-01T00:00:00Z", "expected a timestamp such as"),
        ],
    )
    def test_refused(self, value: object, problem: str) -> None:
        with pytest.raises(UnfitError, match=problem):
            Timestamp().canonical(value)

    def test_a_zone_gives_meaning_to_times_without_one(self) -> None:
        berlin = Timestamp(zone="Europe/Berlin")
        assert berlin.canonical("2026-07-01T12:00:00") == berlin.canonical("2026-07-01T10:00:00Z")
        assert berlin.canonical(np.datetime64("2026-07-01T12:00")) == berlin.canonical("2026-07-01T10:00:00Z")
        assert berlin.canonical(np.datetime64("1970-01-01T01:00:00.000000999")) == 0
        assert berlin.canonical(np.datetime64(-1, "as")) == -3_600_000_001
        assert berlin.canonical(np.datetime64("2026", "Y")) == berlin.canonical("2026-01-01T00:00:00")
        assert moment(dt.datetime(2026, 1, 1), "UTC") == moment("2026-01-01T00:00:00Z")

    def test_a_pandas_time_beyond_datetime_is_refused(self) -> None:
        with pytest.raises(UnfitError, match="outside the years 1 to 9999"):
            moment(pd.Timestamp(np.datetime64("20000-01-01", "s")), "Europe/Berlin")


class TestOthers:
    def test_lone_surrogates(self) -> None:
        assert [has_lone_surrogate(text) for text in ("", "a", "é\U0001f600", "a\udfff")] == [False, False, False, True]

    def test_strings_refuse_lone_surrogates(self) -> None:
        assert String().canonical("\U0001f600") == "\U0001f600"
        with pytest.raises(UnfitError, match="lone surrogate"):
            String().canonical("\ud800")
        with pytest.raises(UnfitError, match="expected a string, not a number"):
            String().canonical(5)

    def test_booleans_refuse_numbers(self) -> None:
        assert Boolean().canonical(np.True_) is True
        with pytest.raises(UnfitError, match="expected true or false, not a number"):
            Boolean().canonical(1)

    def test_vectors(self) -> None:
        vector = Vector(2).canonical(np.array([1, 2], np.float32))
        assert vector.dtype == np.float64
        assert not vector.flags.writeable
        for wrong in (
            [1],
            [1, 2, 3],
            "ab",
            5,
            [1, "a"],
            [math.nan, 1],
            [[1, 2]],
            [True, False],
            [None, 1],
            [[1], [2, 3]],
        ):
            with pytest.raises(UnfitError, match="expected 2 numbers|not coordinates"):
                Vector(2).canonical(wrong)

    def test_the_type_of_a_first_value(self) -> None:
        assert type_of_value(np.float32(1)) == Number()
        assert type_of_value(True) == Boolean()
        assert type_of_value(dt.datetime(2026, 1, 1)) == Timestamp()
        assert type_of_value({"type": "Point", "coordinates": [0, 0]}).name == "region"
        assert type_of_value(np.zeros(3)) == Vector(3)
        assert type_of_value(["a"]) == Many(String())
        assert type_of_value(object()) is None
