"""Reads the fields of a JSON object or of a TOML table; an error names the field, what was expected and what came.

Bodies of requests, configurations and settings of links are `msgspec` structs. msgspec's own messages name Python's
types and a path; here they become sentences (`read_fields`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from tamis.errors import ModelError, shorten

__all__ = ["read_fields"]

Fields = TypeVar("Fields", bound=msgspec.Struct)

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_NAMED_FIELD = re.compile(r"field `(.*)`$", re.DOTALL)


def read_fields(document: Mapping[str, Any], kind: type[Fields]) -> Fields:
    """Return a document as a ``kind``; otherwise raise `ModelError` with the field, what was expected and what came.

    >>> class Take(msgspec.Struct, forbid_unknown_fields=True):
    ...     consumer: str
    ...     limit: int = 1
    >>> read_fields({"consumer": "a"}, Take)
    Take(consumer='a', limit=1)
    >>> read_fields({"consumer": "a", "limit": "ten"}, Take)
    Traceback (most recent call last):
    tamis.errors.ModelError: limit: expected a whole number, got 'ten'
    >>> read_fields({}, Take)
    Traceback (most recent call last):
    tamis.errors.ModelError: the field 'consumer' is missing
    >>> read_fields({"consumer": "a", "limits": 2}, Take)
    Traceback (most recent call last):
    tamis.errors.ModelError: unknown field 'limits', did you mean 'limit'? (known fields: consumer, limit)
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ModelError(_in_words(str(error), document, kind)) from None


def _in_words(problem: str, document: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    message, _, location = problem.partition(" - at ")
    name, expected, value, has_value = _walk(location.strip("`").removeprefix("$"), document, inspect.type_info(kind))
    where = f"{name}: " if name else ""
    if field := _NAMED_FIELD.search(message):
        if "missing" in message:
            return f"{where}the field {field[1]!r} is missing"
        struct = _alternative(expected, inspect.StructType)
        fields = [entry.encode_name for entry in struct.fields]
        near = difflib.get_close_matches(field[1], fields, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        return f"{where}unknown field {shorten(field[1])}{hint} (known fields: {', '.join(fields)})"
    if not has_value:
        return f"{where}expected {_words(expected)} as every value"
    return f"{where}expected {_words(expected)}, got {_shown(value)}"


def _shown(value: object) -> str:
    """Return a value as a message shows it: lists and objects may be long."""
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float | str):
        return shorten(value)
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _walk(path: str, value: Any, expected: Any) -> tuple[str, Any, Any, bool]:
    """Return the name, type and value of the place that a path of msgspec names, and whether the value is known."""
    name, has_value = "", True
    for step in _STEP.finditer(path):
        expected = _alternative(expected, inspect.StructType if step[1] else inspect.DictType | _LISTS)
        if step[1] is not None:
            name = f"{name}.{step[1]}" if name else step[1]
            expected = next((entry.type for entry in expected.fields if entry.encode_name == step[1]), expected)
            value = value[step[1]] if has_value else None
        elif step[2] is not None:
            name += f"[{step[2]}]"
            expected = expected.item_type if hasattr(expected, "item_type") else expected
            value = value[int(step[2])] if has_value else None
        else:
            expected, has_value = expected.value_type, False
    return name, expected, value, has_value


_LISTS = inspect.ListType | inspect.VarTupleType | inspect.SetType


def _alternative(expected: Any, kinds: Any) -> Any:
    """Return the alternative of a union that has inner places."""
    types = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    return next((alternative for alternative in types if isinstance(alternative, kinds)), expected)


def _words(expected: Any) -> str:
    """Return what is expected of a field, as the part of a sentence."""
    match expected:
        case inspect.UnionType(types=types):
            words = dict.fromkeys(map(_words, types))
            if "a number" in words:
                words.pop("a whole number", None)
            return " or ".join(words)
        case inspect.LiteralType(values=values):
            return " or ".join(map(repr, values))
        case inspect.IntType():
            return f"a whole number{_bounds(expected)}"
        case inspect.FloatType():
            return f"a number{_bounds(expected)}"
        case inspect.StrType(min_length=least, max_length=most):
            return f"text{_lengths(least, most, 'characters')}"
        case (
            inspect.ListType(min_length=least, max_length=most)
            | inspect.VarTupleType(min_length=least, max_length=most)
        ):
            return f"a list{_lengths(least, most, 'items')}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.DictType() | inspect.StructType():
            return "an object"
    return "another value"


def _bounds(number: Any) -> str:
    if number.ge is not None and number.le is not None:
        return f" from {number.ge:,g} to {number.le:,g}"
    lower = f"above {number.gt:,g}" if number.gt is not None else ""
    lower = f"of at least {number.ge:,g}" if number.ge is not None else lower
    upper = f"at most {number.le:,g}" if number.le is not None else ""
    bounds = " and ".join(filter(None, (lower, upper)))
    return f" {bounds}" if bounds else ""


def _lengths(least: int | None, most: int | None, unit: str) -> str:
    if least and most:
        return f" of {least:,} to {most:,} {unit}"
    return f" of at least {least:,} {unit}" if least else f" of at most {most:,} {unit}" if most else ""
