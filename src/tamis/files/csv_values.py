"""What the cells of a CSV column mean: numbers, booleans, or the text itself.

A cell is text until something says otherwise: a schema, the literals of the filters, or else the cells of the
first batch. What cannot be read as its column's type stays text, so that the engine refuses that row and no
other. Digits with leading zeros (``00123``) are a code and not a number, unless a filter says number.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tamis.model.types import AttributeType, Boolean, Number, String

__all__ = ["learned_kind", "typed_column", "typed_value"]

_PLAIN_WHOLE = r"^-?(0|[1-9][0-9]{0,18})$"
_PLAIN_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_TRUTH = r"^(?i:true|false)$"
_WHOLE = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def learned_kind(texts: pa.Array) -> AttributeType | None:
    """Return the type that all cells of a column can be read as; None when there is nothing to read yet.

    >>> learned_kind(pa.array(["1", None, "2.5"])), learned_kind(pa.array(["007"]))
    (Number(lo=None, hi=None), String())
    """
    if texts.null_count == len(texts):
        return None
    trimmed = pc.utf8_trim_whitespace(texts)
    if _all(trimmed, _PLAIN_NUMBER):
        return Number()
    return Boolean() if _all(trimmed, _TRUTH) else String()


def typed_column(texts: pa.Array, kind: AttributeType) -> Any:
    """Return the cells as an Arrow array of their type, or as a list in which the misfits are text."""
    if not isinstance(kind, Number | Boolean):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    if isinstance(kind, Number):
        try:
            if _all(trimmed, _PLAIN_WHOLE):
                return trimmed.cast(pa.int64())
            # A float64 holds every whole number of fifteen digits.
            if _all(trimmed, _PLAIN_NUMBER) and not _any(trimmed, r"[0-9]{16}"):
                return _finite(trimmed.cast(pa.float64()))
        except pa.ArrowInvalid:
            pass
    return [typed_value(text, kind) for text in texts.to_pylist()]


def typed_value(text: str | None, kind: AttributeType) -> object:
    """Return the value of one cell, the text itself when it does not fit.

    >>> typed_value(" +4.50", Number()), typed_value("1e999", Number()), typed_value("TRUE", Boolean())
    (4.5, '1e999', True)
    """
    if text is None:
        return None
    trimmed = text.strip()
    if not trimmed and isinstance(kind, Number | Boolean):
        return None
    if isinstance(kind, Boolean):
        return _BOOLEANS.get(trimmed.lower(), text)
    if not isinstance(kind, Number):
        return text
    if _WHOLE.fullmatch(trimmed):
        return int(trimmed)
    value = float(trimmed) if _NUMBER.fullmatch(trimmed) else math.inf
    return value if math.isfinite(value) else text


def _finite(numbers: pa.Array) -> pa.Array:
    if pc.any(pc.is_inf(numbers)).as_py():
        raise pa.ArrowInvalid("beyond the range of numbers")
    return numbers


def _all(texts: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def _any(texts: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(texts, pattern)).as_py() is True
