"""Texts of documents, and documents of texts, that differ in their literals only: the rest is written once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tamis.model.language.arithmetic.writing import literal_text
from tamis.model.language.cql2_json import to_json
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Instant, Literal, Node
from tamis.model.language.templates.alike import filled, numbers_between, with_words
from tamis.model.language.templates.texts import Template, literals_of, make_template, split_text, with_values
from tamis.model.schema import Schema

__all__ = ["TextDocuments", "filled_words", "words_between"]

#: Shapes of texts that are remembered before all are forgotten.
_REMEMBERED = 4_096

#: Shapes that are tried on many texts before those are split one by one, and texts that are not worth it.
_USUAL, _FEW = 8, 16

#: The integer that marks the place of the first number, and the character around the mark of a string.
_FIRST_NUMBER, _PRIVATE = 1 << 62, "\ue000"


def words_between(node: Node) -> tuple[str, ...] | None:
    """Return what `format_node` writes before, between and behind the literals of a tree; None if it cannot be told.

    >>> from tamis.model.language.parse import parse
    >>> words_between(parse("price < 100 AND symbol = 'IBM'"))
    ('price < ', ' AND symbol = ', '')
    """
    node_literals = list(literals_of(node))
    if not all(isinstance(value, str | int | float) and not isinstance(value, Instant) for value in node_literals):
        return None
    marks = [_mark(value, position) for position, value in enumerate(node_literals)]
    rest, words = format_node(with_values(node, iter(marks))), list[str]()
    for mark in marks:
        before, separator, rest = rest.partition(literal_text(mark))
        if not separator:
            return None
        words.append(before)
    words.append(rest)
    return (
        tuple(words)
        if filled_words(words, [value for value in node_literals if value is not None]) == format_node(node)
        else None
    )


def filled_words(words: Sequence[str], values: Sequence[Literal]) -> str:
    """Return the text with other literals.

    >>> filled_words(("price < ", " AND symbol = ", ""), (99.5, "O'B"))
    "price < 99.5 AND symbol = 'O''B'"
    """
    pieces = [""] * (2 * len(values) + 1)
    pieces[::2], pieces[1::2] = words, map(literal_text, values)
    return "".join(pieces)


class TextDocuments:
    """Writes CQL2 text as CQL2-JSON without parsing it, if texts of the same shape came before.

    >>> documents = TextDocuments()
    >>> [documents.find(f"price < {limit}") for limit in (1, 2, 3.5)]
    [None, None, b'{"op":"<","args":[{"property":"price"},3.5]}']
    """

    def __init__(self) -> None:
        #: None for a shape that was seen once, or that has no words.
        self._shapes: dict[tuple[str, ...], tuple[Template, tuple[bytes, ...]] | None] = {}
        self._seen: set[tuple[str, ...]] = set()
        #: Shapes of texts with numbers alone, the last one first.
        self._usual: list[tuple[str, ...]] = []

    def find(self, text: str) -> bytes | None:
        """Return the document of a text; None when it is to be parsed."""
        parts = split_text(text)
        if parts is None:
            return None
        shape, written = parts
        if shape not in self._shapes:
            self._note(text, shape, written)
            return None
        words = self._shapes[shape]
        values = None if words is None else words[0].read(written)
        if words is None or values is None:
            return None
        pieces = [b""] * (2 * len(values) + 1)
        pieces[::2], pieces[1::2] = words[1], map(msgspec.json.encode, values)
        return b"".join(pieces)

    def find_many(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return `find` of each text; those of shapes that came lately are written together."""
        documents: list[bytes | None] = [None] * len(texts)
        rows = list(range(len(texts)))
        for shape in list(self._usual):
            words = self._shapes.get(shape)
            own_rows, others = with_words(shape, texts, rows)
            chosen = [texts[row] for row in own_rows]
            numbers = numbers_between(shape, chosen) if words is not None and len(own_rows) >= _FEW else None
            if words is not None and numbers is not None:
                for row, document in zip(own_rows, filled(words[1], numbers), strict=True):
                    documents[row] = document
                rows = others
        for row in rows:
            documents[row] = self.find(texts[row])
        return documents

    def _note(self, text: str, shape: tuple[str, ...], written: list[str]) -> None:
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
            self._shapes.clear()
            self._usual.clear()
        if shape in self._seen:
            template = make_template(text, (shape, written), Schema())
            words = None if template is None else _json_words(template.node)
            self._shapes[shape] = None if template is None or words is None else (template, words)
            if template is not None and words is not None and all(map(_is_number, literals_of(template.node))):
                self._usual = [shape, *self._usual[: _USUAL - 1]]
        self._seen.add(shape)


def _is_number(value: Literal | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | Instant)


def _json_words(node: Node) -> tuple[bytes, ...] | None:
    """Return what stands between the literals of the document of a tree; None if it cannot be told."""
    node_literals = list(literals_of(node))
    if not all(isinstance(value, str | int | float) and not isinstance(value, Instant) for value in node_literals):
        return None
    marks = [_mark(value, position) for position, value in enumerate(node_literals)]
    rest, words = msgspec.json.encode(to_json(with_values(node, iter(marks)))), list[bytes]()
    for mark in marks:
        before, separator, rest = rest.partition(msgspec.json.encode(mark))
        if not separator:
            return None
        words.append(before)
    return (*words, rest)


def _mark(value: Literal | None, position: int) -> Literal:
    """Return a literal whose text no other part of a filter is likely to have."""
    return f"{_PRIVATE}{position}{_PRIVATE}" if isinstance(value, str) else _FIRST_NUMBER + position
