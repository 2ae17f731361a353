"""Folding: the functions on strings behind CASEI and ACCENTI.

CASEI is Unicode's full case folding (`str.casefold`), so 'Straße' equals 'STRASSE'. ACCENTI decomposes a string, drops
its nonspacing marks and composes the rest, so 'débárquér' equals 'debarquer'; an iota subscript becomes an iota, as it
does in case folding. Each function is idempotent, and both together give the same in either order.

No folding touches or makes ``%``, ``_`` or a backslash, so a LIKE pattern is folded like any other string.
Folding changes the length of a string, so a wildcard counts folded characters. There is no Turkish i. The Unicode
tables are those of the Python in use.
"""

from __future__ import annotations

import enum
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["Fold", "escape_like", "fold_pairs", "fold_text"]


_IOTA_SUBSCRIPT, _IOTA = "\u0345", "\u03b9"


class Fold(enum.IntFlag):
    """The differences that a comparison of strings ignores."""

    NONE = 0
    CASE = 1
    ACCENTS = 2


def fold_text(text: str, fold: Fold) -> str:
    """Return a string without the differences that ``fold`` ignores.

    >>> fold_text("Straße", Fold.CASE), fold_text("Débárquér", Fold.ACCENTS), fold_text("É", Fold.CASE | Fold.ACCENTS)
    ('strasse', 'Debarquer', 'e')
    """
    if text.isascii():
        return text.lower() if int(fold) & 1 else text  # Fold.CASE: an operator of enum takes 2 us
    if not fold & Fold.ACCENTS:
        return text.casefold() if fold else text
    return _without_accents(text.casefold() if fold & Fold.CASE else text)


def _without_accents(text: str) -> str:
    marked = _ordered("".join(map(_decomposed, text))).replace(_IOTA_SUBSCRIPT, _IOTA)
    marks = [ord(c) for c in set(marked) if unicodedata.category(c) == "Mn"]
    return unicodedata.normalize("NFC", _ordered(marked.translate(dict.fromkeys(marks))))


@lru_cache(maxsize=65_536)
def _decomposed(character: str) -> str:
    return unicodedata.normalize("NFD", character)


def _ordered(text: str) -> str:
    """Return a decomposed string with the marks of each character in canonical order.

    `unicodedata.normalize` does that, too, but in the square of the time: forty thousand marks in a row take 1.4 s.
    It is quick with marks that are in order already.
    """
    marks = "".join(c for c in set(text) if unicodedata.combining(c))
    if len(marks) < 2:
        return text
    return re.sub(f"[{marks}]{{2,}}", lambda run: "".join(sorted(run[0], key=unicodedata.combining)), text)


def escape_like(text: str) -> str:
    r"""Return the LIKE pattern that matches only this string.

    >>> escape_like("50%")
    '50\\%'
    """
    return "".join(f"\\{c}" if c in "%_\\" else c for c in text)


@lru_cache(maxsize=4)
def fold_pairs(fold: Fold) -> tuple[tuple[int, int], ...]:
    """Return the code points that fold to one other code point, with that one (about 0.3 s, once)."""
    return tuple(_pairs(fold))


def _pairs(fold: Fold) -> Iterator[tuple[int, int]]:
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            folded = fold_text(chr(code), fold)
            if len(folded) == 1 and ord(folded) != code:
                yield code, ord(folded)
