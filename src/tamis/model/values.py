"""Canonical values: the one internal form of an attribute's value, whatever its input form.

A user's value may be a NumPy scalar, a decimal, an RFC 3339 string or a GeoJSON dict. Inside there is
one form per type, and only canonical values are ever compared:

========= =========================================================================
number    ``int`` (within int64 or uint64), ``float`` (finite, never -0.0), ``Fraction``
string    ``str`` without lone surrogates; ordered by code point
boolean   ``bool``
timestamp ``int``, microseconds since 1970-01-01 UTC, within int64
region    shapely ``Polygon`` (simple, no holes) or ``Point``
vector    read-only ``float64[n]``, finite
========= =========================================================================

Python compares int, float and Fraction exactly with one another, so large integers need no care here.
A decimal that prints like a float64 *is* that float64: ``Decimal("99.95")`` and the literal ``99.95``
are the same number to every user. A longer decimal becomes a fraction between two neighbouring float64s, in
the proportion in which the decimal lies between their printed forms: the order of decimals is kept.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import shapely

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "UINT64_MAX",
    "Number",
    "UnfitError",
    "Value",
    "boolean",
    "decimal_number",
    "has_lone_surrogate",
    "is_null",
    "moment",
    "number",
    "single",
    "string",
    "vector",
    "words_for",
]

#: A canonical number; Python compares the three exactly with one another.
Number = int | float | Fraction
#: A canonical value of any attribute.
Value = bool | int | float | Fraction | str | shapely.Polygon | shapely.Point | npt.NDArray[np.float64]

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_OUTSIDE_YEARS = "a time outside the years 1 to 9999"
_NOT_A_TIME = "NaT is not a time; leave a missing value out"


#: How messages call values by their Python type, in the words of JSON.
_KINDS = {
    "str": "a string",
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "Decimal": "a number",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "NoneType": "null",
}


class UnfitError(ValueError):
    """A value does not fit its type. Its text is the problem; the caller knows the attribute."""


def words_for(value: object) -> str:
    """Return the name of a value for messages: the word of JSON, or the Python type if JSON has none.

    >>> words_for("x"), words_for(object())
    ('a string', 'object')
    """
    name = type(value).__name__
    return _KINDS.get(name, name)


def single(value: npt.NDArray[Any]) -> object:
    """Return the scalar that an array without dimensions holds, or raise `UnfitError`.

    >>> single(np.array(5)), single(np.array("1970-01-01", "datetime64[D]"))
    (np.int64(5), np.datetime64('1970-01-01'))
    """
    if np.ma.is_masked(value):
        raise UnfitError("a masked value; leave a missing value out")
    held = value[()] if value.ndim == 0 else value
    if isinstance(held, np.ndarray):
        raise UnfitError(f"expected a single value, not {words_for(value)}")
    return cast(object, held)


def is_null(value: object) -> bool:
    """Whether a value of a NumPy, pandas or Arrow column stands for nothing: None, NaT, pd.NA or masked."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def has_lone_surrogate(text: str) -> bool:
    """Whether a string holds half of a surrogate pair, which no encoding of text can write."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def number(value: object) -> Number:
    """Return the canonical number, or raise `UnfitError`.

    >>> number(np.float32(0.5)), number(Decimal("99.95")), number(-0.0)
    (0.5, 99.95, 0.0)
    """
    if type(value) is float and math.isfinite(value):  # the common case, before the tests for all other types
        return value + 0.0
    if isinstance(value, bool | np.bool_):
        raise UnfitError("a boolean is not a number")
    if isinstance(value, int | np.integer):
        return _integer(int(value))
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise UnfitError("NaN and infinity are not numbers; leave a missing value out")
        return float(value) + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits
    if isinstance(value, Decimal):
        return decimal_number(value)
    if isinstance(value, np.ndarray):
        return number(single(value))
    raise UnfitError(f"expected a number, not {words_for(value)}")


def decimal_number(value: Decimal) -> Number:
    """Return the int or float that a decimal denotes, or a fraction when it has more digits.

    A float64 stands for the decimal it prints as, except where every float64 is a whole number and integers
    fall between them (2**53 to 2**64): there it stands for itself. The map is monotone.

    >>> decimal_number(Decimal("0.1")), decimal_number(Decimal("0.10000000000000000001")) > 0.1
    (0.1, True)
    """
    if not value.is_finite():
        raise UnfitError("NaN and infinity are not numbers; leave a missing value out")
    if abs(value.adjusted()) > 400 or len(value.as_tuple().digits) > 400:
        raise UnfitError("a decimal beyond the range of float64 or of 400 digits")
    if value == value.to_integral_value() and INT64_MIN <= value <= UINT64_MAX:
        return int(value)
    nearest = float(value)
    if not math.isfinite(nearest):
        raise UnfitError("a decimal beyond the range of float64 or of 400 digits")
    exact = Fraction(value)
    if _meaning(nearest) == exact:
        return nearest
    low = nearest if _meaning(nearest) < exact else math.nextafter(nearest, -math.inf)
    high = math.nextafter(low, math.inf)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UnfitError("a decimal beyond the range of float64 or of 400 digits")
    share = (exact - _meaning(low)) / (_meaning(high) - _meaning(low))
    return Fraction(low) + share * (Fraction(high) - Fraction(low))


def _meaning(value: float) -> Fraction:
    """Return the number a float64 stands for among decimals."""
    return Fraction(value) if 2**53 <= abs(value) <= 2**64 else Fraction(repr(value))


def _integer(value: int) -> int:
    if INT64_MIN <= value <= UINT64_MAX:
        return value
    raise UnfitError("an integer outside int64 and uint64")


def string(value: object) -> str:
    """Return the canonical string, or raise `UnfitError`."""
    if isinstance(value, np.ndarray):
        value = single(value)
    if not isinstance(value, str):
        raise UnfitError(f"expected a string, not {words_for(value)}")
    if has_lone_surrogate(value):
        raise UnfitError("a lone surrogate is not text")
    return str(value)


def boolean(value: object) -> bool:
    """Return the canonical boolean, or raise `UnfitError`."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.ndarray):
        return boolean(single(value))
    raise UnfitError(f"expected true or false, not {words_for(value)}")


def moment(value: object, zone: str | None = None) -> int:
    """Return microseconds since 1970 UTC, or raise `UnfitError`.

    Digits below a microsecond are cut. A time without a zone is refused unless ``zone`` names one.

    >>> moment("1970-01-01T00:00:01.5Z"), moment("1970-01-01T01:00:00", zone="Europe/Berlin")
    (1500000, 0)
    """
    if isinstance(value, np.ndarray):
        value = single(value)
    if isinstance(value, bool | np.bool_):
        raise UnfitError("expected a timestamp, not a boolean")
    if isinstance(value, int | np.integer):
        return _moment_in_range(int(value))
    if isinstance(value, str):
        value = _rfc3339(value)
    elif isinstance(value, np.datetime64):
        value = _from_datetime64(value)
    if not isinstance(value, dt.datetime):
        raise UnfitError(f"expected a timestamp, not {words_for(value)}")
    return _since_epoch(value, zone)


def _since_epoch(value: dt.datetime, zone: str | None) -> int:
    if is_null(value):  # pandas makes NaT a datetime
        raise UnfitError(_NOT_A_TIME)
    try:
        if value.tzinfo is None:
            if zone is None:
                raise UnfitError("a time without a zone; add an offset or declare Timestamp(zone=...)")
            value = value.replace(tzinfo=zoneinfo.ZoneInfo(zone))
        return (value - _EPOCH) // _MICROSECOND
    except UnfitError:
        raise
    except (ValueError, OverflowError):  # a pandas Timestamp may lie where no datetime can
        raise UnfitError(_OUTSIDE_YEARS) from None


def _moment_in_range(value: int) -> int:
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise UnfitError("a timestamp outside int64 microseconds")


def _rfc3339(text: str) -> dt.datetime:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise UnfitError("expected a timestamp such as 2026-01-31T12:00:00Z")
    day, clock, fraction, offset = match.groups()
    offset = "+00:00" if offset in ("Z", "z") else offset or ""
    try:
        return dt.datetime.fromisoformat(f"{day}T{clock}.{(fraction or '').ljust(6, '0')[:6]}{offset}")
    except ValueError as error:
        reason = "an offset is less than 24 hours" if "timedelta" in str(error) else str(error)
        raise UnfitError(f"not a valid time: {reason}") from None


def _from_datetime64(value: np.datetime64) -> dt.datetime:
    if np.isnat(value):
        raise UnfitError(_NOT_A_TIME)
    microseconds = value.astype("datetime64[us]")
    finer = np.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as")
    wrapped = not finer and microseconds.astype(value.dtype) != value  # NumPy overflows without an error
    converted = microseconds.item()
    if wrapped or not isinstance(converted, dt.datetime):
        raise UnfitError(_OUTSIDE_YEARS)
    return converted


def vector(value: object, n: int) -> npt.NDArray[np.float64]:
    """Return a read-only ``float64[n]``, or raise `UnfitError`."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = single(value)
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__len__"):
        raise UnfitError(f"expected {n} numbers, not {words_for(value)}")
    try:
        array = np.asarray(value)
    except ValueError:
        raise UnfitError(f"expected {n} numbers") from None
    if array.dtype.kind not in "iuf":
        raise UnfitError(f"expected {n} numbers")
    if np.ma.is_masked(value):
        raise UnfitError("a masked coordinate")
    if array.shape != (n,):
        raise UnfitError(f"expected {n} numbers, got {' x '.join(map(str, array.shape))}")
    result = array.astype(np.float64)
    if not np.isfinite(result).all():
        raise UnfitError("NaN and infinity are not coordinates")
    result.setflags(write=False)
    return result
