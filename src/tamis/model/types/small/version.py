"""Semantic versions (semver.org), in the order of their precedence: 1.0.0-alpha < 1.0.0-alpha.1 < 1.0.0-rc.1 < 1.0.0.

A version is held as a text whose order by code point is that precedence. A number is its count of digits, as one
character, and the digits. A release ends with ``~``, which comes after the ``-`` of a pre-release. Every version has a
next one (that of 1.0.0 is 1.0.1-0, that of 1.0.0-rc is 1.0.0-rc.0), so that sets of versions are exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tamis.errors import shorten
from tamis.model.language.nodes import Literal
from tamis.model.types.base import AttributeType, Form, ScalarType
from tamis.model.types.string import KEY_BYTES, String
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["Version"]

#: Digits of a number, and characters of a version without its build.
_MOST_DIGITS, _LONGEST = 16, 200
_NUMBER = rf"(0|[1-9][0-9]{{0,{_MOST_DIGITS - 1}}})"
_IDENTIFIER = rf"(?:{_NUMBER.replace('(', '(?:', 1)}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_TEXT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class _Parts(NamedTuple):
    """The three numbers of a version, and the identifiers of a pre-release; a release has none."""

    numbers: tuple[int, ...]
    identifiers: tuple[str, ...]


@dataclass(frozen=True)
class Version(ScalarType):
    """A semantic version such as 1.4.0 or 2.0.0-rc.1; the build after a ``+`` is ignored in the order."""

    name: ClassVar[str] = "version"
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"text"})
    form: ClassVar[Form] = Form.TEXT

    @property
    def domain(self) -> tuple[float, float]:
        """The numbers that the first bytes of the texts can be."""
        return 0.0, 2.0 ** (8 * KEY_BYTES)

    def canonical(self, value: object) -> str:
        """Return the text that has the place of a version in the order of all."""
        read = _TEXT.fullmatch(value) if isinstance(value, str) and len(value) <= 2 * _LONGEST else None
        if read is None or len(read[0].partition("+")[0]) > _LONGEST:
            raise UnfitError(f"expected a version such as 1.4.0 or 2.0.0-rc.1, not {shorten(value)}")
        identifiers = tuple(read[4].split(".")) if read[4] else ()
        return _key(_Parts(tuple(map(int, read.group(1, 2, 3))), identifiers))

    def to_json(self, value: Any) -> str:
        """Return the version as it is written, without its build."""
        numbers, identifiers = _parts(value)
        return ".".join(map(str, numbers)) + (f"-{'.'.join(identifiers)}" if identifiers else "")

    def to_wire(self, value: Any) -> str:
        """Return the version as text."""
        return self.to_json(value)

    def before(self, value: Value) -> Cut | None:
        """Return the cut just before a version; nothing lies before 0.0.0-0."""
        return None if value == _FIRST else (value, 0)

    def after(self, value: Value) -> Cut | None:
        """Return the cut before the next version."""
        return (_key(_next(_parts(str(value)))), 0)

    def lower(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (version, ">=") for the lower end of an interval, or (version, ">") if no literal is long enough."""
        if cut is None:
            return None
        last, text = _previous(_parts(cut[0])), self.to_json(cut[0])
        is_readable = len(text) <= _LONGEST and _TEXT.fullmatch(text) is not None
        return (text, ">=") if last is None or is_readable else (self.to_json(_key(last)), ">")

    def upper(self, cut: Cut | None) -> tuple[Literal, str] | None:
        """Return (version, "<=") for the upper end of an interval where the version before the cut is known."""
        if cut is None:
            return None
        last = _previous(_parts(cut[0]))
        return (self.to_json(cut[0]), "<") if last is None else (self.to_json(_key(last)), "<=")

    def samples(self, allowed: ValueSet) -> Iterator[str]:
        """Yield the versions at the ends of each interval, then small and large ones."""
        for key, _ in allowed.cuts:
            last = _previous(_parts(key))
            yield from (key,) if last is None else (key, _key(last))
        yield from map(self.canonical, ("1.0.0", "0.0.0", "0.0.0-0", "0.0.1-a", "9999.0.0"))

    def agrees_with(self, other: AttributeType) -> bool:
        """Whether the other is a version; text that literals show may be one, too."""
        return type(other) in (Version, String)


def _counted(digits: str) -> str:
    return f"{chr(ord('0') + len(digits))}{digits}"


def _key(parts: _Parts) -> str:
    numbers = "".join(_counted(str(number)) for number in parts.numbers)
    if not parts.identifiers:
        return f"{numbers}~"
    return f"{numbers}-" + "".join(
        f"#{_counted(identifier)}" if identifier.isdigit() else f"a{identifier}!" for identifier in parts.identifiers
    )


def _parts(key: str) -> _Parts:
    """Return the parts of a version by its key.

    >>> _parts(Version().canonical("1.20.3-rc.1+build"))
    _Parts(numbers=(1, 20, 3), identifiers=('rc', '1'))
    """
    numbers: list[int] = []
    at = 0
    for _ in range(3):
        end = at + 1 + ord(key[at]) - ord("0")
        numbers.append(int(key[at + 1 : end]))
        at = end
    identifiers: list[str] = []
    at += 1
    while at < len(key):
        end = at + 2 + ord(key[at + 1]) - ord("0") if key[at] == "#" else key.index("!", at)
        identifiers.append(key[at + 2 : end] if key[at] == "#" else key[at + 1 : end])
        at = end if key[at] == "#" else end + 1
    return _Parts(tuple(numbers), tuple(identifiers))


def _next(parts: _Parts) -> _Parts:
    if parts.identifiers:
        return _Parts(parts.numbers, (*parts.identifiers, "0"))
    major, minor, patch = parts.numbers
    return _Parts((major, minor, patch + 1), ("0",))


def _previous(parts: _Parts) -> _Parts | None:
    """Return the version of which this is the next one; None if there is none."""
    if len(parts.identifiers) > 1 and parts.identifiers[-1] == "0":
        return _Parts(parts.numbers, parts.identifiers[:-1])
    major, minor, patch = parts.numbers
    return _Parts((major, minor, patch - 1), ()) if parts.identifiers == ("0",) and patch else None


_FIRST = _key(_Parts((0, 0, 0), ("0",)))
