"""Strict JSON (promise S14): no NaN or Infinity, no number beyond float64, no key twice; and events in it.

Python's own reader accepts NaN and Infinity, turns ``1e999`` into infinity and keeps the last of two equal keys; in
each case the result is not what the author meant.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from tamis.errors import EventError, LimitError
from tamis.model.schema import MAX_ATTRIBUTES

__all__ = [
    "BOUNDS",
    "DECODER",
    "MAX_CONTAINERS",
    "MAX_DEPTH",
    "MAX_EVENT",
    "MAX_KEYS",
    "Bound",
    "Object",
    "StrictJsonError",
    "checked_object",
    "count_keys",
    "count_marks",
    "count_outside_strings",
    "excess",
    "lower",
    "read_event",
    "read_flat",
    "read_object",
    "read_value",
]

#: Objects and lists inside one another.
MAX_DEPTH = 32

#: Objects and lists in one object: two regions of the largest size. A parser takes half a second for 600,000.
MAX_CONTAINERS: Final = 40_000

#: Keys of one object and of the objects inside it. No event of 256 KiB and no filter within its limits has more; a
#: parser takes 80 ms for the 200,000 that 2 MiB may have, and lets no other thread compute meanwhile.
MAX_KEYS: Final = 50_000

#: Lists inside one another, deeper than allowed, as a text begins that is nothing else.
_NESTED = "[" * (MAX_DEPTH + 1)

#: Characters of a text from which on it is looked at before it is parsed; and marks of a long one that is not flat.
_LONG, _FLAT_MARKS = 16 * 1024, 1_000

_CONTAINERS, _KEYS = "[{", ":"

#: All bytes but quotation marks and those that begin objects and lists, or follow keys.
_OTHERS = {marks: bytes(byte for byte in range(256) if chr(byte) not in f'"{marks}') for marks in (_CONTAINERS, _KEYS)}

#: Bytes of an event.
MAX_EVENT: Final = 1 << 20

#: Digits of a whole number.
_MAX_DIGITS: Final = 400

Object = dict[str, Any]


class StrictJsonError(ValueError):
    """JSON that is well formed and still not accepted."""


class Bound(NamedTuple):
    """How many of something one object may have, and the characters of its text that are counted for that."""

    what: str
    most: int
    marks: str

    def __str__(self) -> str:
        return f"more than {self.most:,} {self.what} in one object"


#: What is counted before an object is parsed.
BOUNDS: Final = (Bound("objects and lists", MAX_CONTAINERS, _CONTAINERS), Bound("keys", MAX_KEYS, _KEYS))


def read_event(data: bytes | bytearray | memoryview | str) -> Object:
    """Return the event that JSON denotes; `EventError` for what `read_object` refuses, `LimitError` for too much of it.

    >>> read_event(b'{"mag": 4.5}')
    {'mag': 4.5}
    """
    if not isinstance(data, bytes | str):
        if not isinstance(data, bytearray | memoryview):
            raise EventError("", data, "an event in JSON is bytes or text")
        data = bytes(data)
    if len(data) > MAX_EVENT:
        raise LimitError("bytes of an event", len(data), MAX_EVENT)
    event = read_flat(data)
    if event is not None:
        return event
    try:
        return read_object(data if isinstance(data, str) else data.decode())
    except UnicodeDecodeError as error:
        raise EventError("", data, f"not UTF-8 text ({error.reason})") from None
    except ValueError as error:
        raise EventError("", data, str(error)) from None


def read_flat(data: bytes | str) -> Object | None:
    """Return a flat object of numbers, strings and booleans, ten times as fast; None if it may be something else.

    The quick reader keeps the last of two equal keys. An object has a colon for each key, so one that has as many keys
    as there are colons has none twice.
    """
    if len(data) > _LONG and (count_marks(data) > _FLAT_MARKS or count_marks(data, _KEYS) > MAX_ATTRIBUTES):
        return None
    try:
        event = _DECODE(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the strict reader raises the error
        return None
    if type(event) is not dict or not _FLAT.issuperset(map(type, event.values())):
        return None
    colons = data.count(":") if isinstance(data, str) else data.count(b":")
    if colons != len(event) or colons > MAX_ATTRIBUTES:
        return None
    is_short = len(data) <= _MAX_DIGITS or not any(type(value) is int and abs(value) >> 64 for value in event.values())
    return event if is_short else None


def read_object(text: str) -> Object:
    """Return the object that a text contains, or raise ValueError with a message for users.

    >>> read_object('{"mag": 1e999}')
    Traceback (most recent call last):
    ValueError: 1e999 is beyond the range of numbers
    """
    if (bound := excess(text)) is not None:
        if _NESTED in text:
            raise StrictJsonError(f"nested more than {MAX_DEPTH} deep")
        raise StrictJsonError(str(bound))
    return checked_object(read_value(text))


def excess(text: str) -> Bound | None:
    """Return the bound that the object in a text exceeds, if any; nothing is parsed for that."""
    for bound in BOUNDS:
        is_near = len(text) > bound.most and count_marks(text, bound.marks) > bound.most
        if is_near and count_outside_strings(text, bound.marks) > bound.most:
            return bound
    return None


def count_marks(text: str | bytes, marks: str = _CONTAINERS, start: int = 0, stop: int | None = None) -> int:
    """Return how many characters of a text may begin an object or a list, or be other marks; some may be in strings."""
    if isinstance(text, str):
        return sum(text.count(mark, start, stop) for mark in marks)
    return sum(text.count(mark.encode(), start, stop) for mark in marks)


def count_keys(text: str) -> int:
    r"""Return how many keys the objects in JSON text have together, without parsing it.

    >>> count_keys(r'{"a": {"b:": "\":"}, "c": [{"d": 1}]}')
    4
    """
    return count_outside_strings(text, _KEYS)


def count_outside_strings(text: str, marks: str) -> int:
    r"""Return how many of the marks ``[{`` or ``:`` JSON text has outside strings, without parsing it.

    >>> count_outside_strings(r'{"a": [{}, "[{", "\\\"[", "\\"]}', "[{")
    3
    """
    data = text.encode("utf-8", "surrogatepass")
    if "\\" in text:  # first what may escape a quotation mark
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return len(b"".join(data.translate(None, _OTHERS[marks]).split(b'"')[::2]))


def read_value(text: str) -> object:
    """Return what a text holds, be it an object or not; see `read_object`."""
    try:
        value = DECODER.decode(text)
        if _is_deeper(value, MAX_DEPTH + 1):
            raise StrictJsonError(f"nested more than {MAX_DEPTH} deep")
        return value
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {lower(error.msg)} at column {error.colno}") from None
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        raise ValueError(str(error)) from None


def checked_object(value: object) -> Object:
    """Return a value that is an object of bounded size, or raise `StrictJsonError`."""
    if not isinstance(value, dict):
        raise StrictJsonError(f'expected an object {{"name": value, ...}}, not {_WORDS[type(value)]}')
    if len(value) > MAX_ATTRIBUTES:
        raise StrictJsonError(f"{len(value)} attributes are more than the {MAX_ATTRIBUTES} accepted")
    if _is_deeper(value, MAX_DEPTH):
        raise StrictJsonError(f"nested more than {MAX_DEPTH} deep")
    return value


_WORDS = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(child, levels - 1) for child in inner if isinstance(child, dict | list))


def _unique(pairs: list[tuple[str, Any]]) -> Object:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise StrictJsonError(f"duplicate key {twice!r}")
    return members


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise StrictJsonError(f"{text} is beyond the range of numbers")
    return value


def _no_constant(text: str) -> NoReturn:
    raise StrictJsonError(f"{text} is not JSON; leave a missing value out")


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise StrictJsonError(f"a number of more than {_MAX_DIGITS} digits")
    return int(text)


def lower(message: str) -> str:
    """Return a message of the decoder as the middle of a sentence."""
    return message[:1].lower() + message[1:]


DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_whole, parse_constant=_no_constant
)

_DECODE = msgspec.json.Decoder().decode
#: The types of values that need no further look.
_FLAT: Final = frozenset({float, int, str, bool, type(None)})
