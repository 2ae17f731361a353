"""The canonical text of documents that differ in their literals only: what stands between them is written once."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.model.language.arithmetic.writing import literal_text
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Instant, Literal, Node
from tamis.model.language.templates.texts import literals_of, with_values

__all__ = ["filled_words", "words_between"]

#: The integer that marks the place of the first number, and the character around the mark of a string.
_FIRST_NUMBER, _PRIVATE = 1 << 62, "\ue000"


def words_between(node: Node) -> tuple[str, ...] | None:
    """Return what `format_node` writes before, between and behind the literals of a tree; None if it cannot be told.

    >>> from tamis.model.language.parse import parse
    >>> words_between(parse("price < 100 AND symbol = 'IBM'"))
    ('price < ', ' AND symbol = ', '')
    """
    known = list(literals_of(node))
    if not all(isinstance(value, str | int | float) and not isinstance(value, Instant) for value in known):
        return None
    marks = [_mark(value, place) for place, value in enumerate(known)]
    rest, words = format_node(with_values(node, iter(marks))), list[str]()
    for mark in marks:
        before, found, rest = rest.partition(literal_text(mark))
        if not found:
            return None
        words.append(before)
    words.append(rest)
    return tuple(words) if filled_words(words, [one for one in known if one is not None]) == format_node(node) else None


def filled_words(words: Sequence[str], values: Sequence[Literal]) -> str:
    """Return the text with other literals.

    >>> filled_words(("price < ", " AND symbol = ", ""), (99.5, "O'B"))
    "price < 99.5 AND symbol = 'O''B'"
    """
    pieces = [""] * (2 * len(values) + 1)
    pieces[::2], pieces[1::2] = words, map(literal_text, values)
    return "".join(pieces)


def _mark(value: Literal | None, place: int) -> Literal:
    """Return a literal whose text no other part of a filter is likely to have."""
    return f"{_PRIVATE}{place}{_PRIVATE}" if isinstance(value, str) else _FIRST_NUMBER + place
