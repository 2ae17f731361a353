"""The text of a value of any type, for attributes with values of mixed types, as loggers write them."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np

from tamis.model.types.column import Unreadable
from tamis.model.values import INT64_MIN, UINT64_MAX, has_lone_surrogate

__all__ = ["is_plain", "text_of"]

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Python refuses to write whole numbers of thousands of digits.
_LARGE: Final = 10**300
#: Digits that a number is written out with; larger and smaller ones keep their exponent.
_MOST_DIGITS: Final = 400


def text_of(value: object) -> str:
    """Return the text of a value; equal numbers have one text, and nothing is refused.

    A list of one value is that value. Other lists, and objects, are compact JSON. What is not text in a string is
    replaced by U+FFFD.

    >>> text_of(4688), text_of(4688.0), text_of(0.5), text_of(True), text_of(["a"]), text_of({"a": [1, None]})
    ('4688', '4688', '0.5', 'true', 'a', '{"a":[1,null]}')
    """
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
        return value if isinstance(value, str) else text_of(value)
    if isinstance(value, list | tuple) and len(value) == 1:
        return text_of(value[0])
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _json_text(value)
    return _scalar_text(value) or _LONE_SURROGATE.sub("\ufffd", str(value))


def is_plain(value: object) -> bool:
    r"""Whether JSON and MessagePack hold a value as it is, so that its text is the same after a journey.

    >>> is_plain({"a": [1, "x", None]}), is_plain(2**64), is_plain(float("nan")), is_plain("\ud800")
    (True, False, False, False)
    """
    try:
        return _is_plain(value)
    except RecursionError:
        return False


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(key) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return not has_lone_surrogate(value)
    if isinstance(value, int):
        return INT64_MIN <= value <= UINT64_MAX
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _scalar_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -_LARGE < value < _LARGE else _digits(Decimal(value))
    if isinstance(value, float):
        return _digits(Decimal(repr(value)))
    if isinstance(value, Decimal):
        return _digits(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return None


def _digits(number: Decimal) -> str:
    """Return a number in plain digits, without zeros at the end of a fraction."""
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return str(number)
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _json_text(value: object) -> str:
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        text = str(value)
    return _LONE_SURROGATE.sub("\ufffd", text)


def _plain(value: Any) -> Any:
    """Return a value with what JSON does not know replaced by its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Unreadable):
        return str(value)
    return _scalar_text(value) or str(value)
