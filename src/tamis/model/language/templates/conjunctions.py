"""Conjunctions of ranges, of any shape, as columns: no two of the texts need to have the same shape.

A template (`texts`) stands for the texts of one shape. Where nearly each text has a shape of its own, what repeats are
the words before a literal: ``price < `` at the beginning of a text, `` AND symbol = `` further on. They are parsed
once, as a part of a small text around them, so that the parser alone says what they mean. A text whose words are all
known is then a list of conditions and literals, and the bounds of many such texts are computed together.

As with templates, a text with something else in it, or with an unusual literal, takes the ordinary road.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError
from tamis.model.language.nodes import And, Between, Compare, Node
from tamis.model.language.parse import parse
from tamis.model.language.templates.columns import TextColumns, number_ends, read_numbers, read_strings
from tamis.model.language.templates.texts import Parts
from tamis.model.schema import COMPUTED, Schema
from tamis.model.types import Number, String

__all__ = ["Conjunctions"]

_OPERATORS = frozenset({"=", "<", "<=", ">", ">="})
#: A condition that stands before words that are not the first of a text.
_FIRST, _FIRST_TEXT = Compare("x", "<", 1), "x < 1"
_RANGE = Between("x", 1, 2)
#: Words that are parsed at most before a text can be read with them; each text that is read allows one more.
_UNPAID = 1_024
#: Conditions that are remembered; if there are more, all are forgotten.
_REMEMBERED = 4_096
#: float64 values of one side of the columns that are made at once, but at least ``_LEAST_ROWS`` rows.
_MOST_SIDES, _LEAST_ROWS = 1 << 21, 256


class _Condition(NamedTuple):
    """A condition on an attribute that takes one literal."""

    attribute: str
    op: str
    is_string: bool


class _Texts(NamedTuple):
    """Texts that were read: their rows, how many conditions each has, and all conditions with their literals."""

    rows: list[int]
    lengths: list[int]
    conditions: list[int]
    literals: list[str]


class _Words:
    """What words between literals mean under one schema: conditions by number, one or, for BETWEEN, two; or none."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.at_start: dict[str, tuple[int, ...]] = {}
        self.later: dict[str, tuple[int, ...]] = {}
        #: Whether words are the AND of a BETWEEN, and whether they may follow the last literal.
        self.inside: dict[str, bool] = {}
        self.at_end: dict[str, bool] = {}


class Conjunctions:
    """Reads conjunctions of comparisons and BETWEEN on numbers, and of equated strings.

    >>> from tamis.model.language.templates.texts import split_text
    >>> conjunctions, schema = Conjunctions(), Schema({"x": Number(), "y": Number()})
    >>> [conjunctions.add(row, split_text(text), schema) for row, text in enumerate(["x < 5", "y > 1 AND x < 2", "x"])]
    [True, True, False]
    >>> columns, left_out = conjunctions.take_columns()
    >>> columns[0].rows.tolist(), sorted(columns[0].ranges), left_out
    ([0, 1], ['x', 'y'], [])
    """

    def __init__(self) -> None:
        self._conditions: list[_Condition] = []
        self._words = _Words(Schema())
        self._texts = _Texts([], [], [], [])
        #: How many words may still be parsed; texts whose words never repeat would cost more here than they gain.
        self._room = _UNPAID

    def add(self, row: int, parts: Parts, schema: Schema) -> bool:
        """Keep a text for `take_columns`; False if it is not a conjunction that can be read here."""
        if schema is not self._words.schema:
            self._words = _Words(schema)
        conditions = self._read(parts[0])
        if not conditions:
            return False
        texts = self._texts
        texts.rows.append(row)
        texts.lengths.append(len(conditions))
        texts.conditions.extend(conditions)
        texts.literals.extend(parts[1])
        self._room += 1
        return True

    def take_columns(self) -> tuple[list[TextColumns], list[int]]:
        """Return the columns of the texts that were added, and the rows that are left out; forget the texts."""
        texts, self._texts = self._texts, _Texts([], [], [], [])
        columns, left_out = list[TextColumns](), list[int]()
        for some in _in_steps(texts, len({condition.attribute for condition in self._conditions})):
            usual, unusual = _columns(some, self._conditions)
            columns.append(usual)
            left_out += unusual
        if len(self._conditions) > _REMEMBERED:
            self._conditions, self._words = [], _Words(self._words.schema)
        return columns, left_out

    def _read(self, pieces: tuple[str, ...]) -> list[int]:
        """Return the conditions of a text in the order of its literals; none for any other text."""
        words, conditions = self._words, list[int]()
        conditions_of, following = words.at_start, iter(pieces[:-1])
        for piece in following:
            meaning = conditions_of.get(piece)
            if meaning is None:
                before = "" if conditions_of is words.at_start else _FIRST_TEXT
                meaning = conditions_of[piece] = self._learn(piece, before)
            if not meaning:
                return []
            conditions += meaning
            if len(meaning) > 1 and not self._fits(words.inside, next(following, ""), "x BETWEEN 1{}2", _RANGE):
                return []
            conditions_of = words.later
        return conditions if self._fits(words.at_end, pieces[-1], "x < 1{}", _FIRST) else []

    def _learn(self, piece: str, before: str) -> tuple[int, ...]:
        """Return the conditions that words before a literal express."""
        node = self._parsed(f"{before}{piece}1")
        if node is None:
            node = self._parsed(f"{before}{piece}1 AND 2")
        if before:
            is_pair = isinstance(node, And) and len(node.parts) == 2 and node.parts[0] == _FIRST
            node = node.parts[1] if is_pair and isinstance(node, And) else None
        if isinstance(node, Compare) and node == Compare(node.attribute, node.op, 1) and node.op in _OPERATORS:
            return self._numbered(node.attribute, [node.op])
        if isinstance(node, Between) and node == Between(node.attribute, 1, 2):
            return self._numbered(node.attribute, [">=", "<="])
        return ()

    def _numbered(self, attribute: str, operators: Sequence[str]) -> tuple[int, ...]:
        """Return new numbers for the conditions on an attribute; none if its type cannot be in columns."""
        schema = self._words.schema
        kind = None if attribute in schema.unasked or attribute.startswith(COMPUTED) else schema.get(attribute)
        is_string = type(kind) is String and operators == ["="]
        if not is_string and type(kind) is not Number:
            return ()
        first = len(self._conditions)
        self._conditions += [_Condition(attribute, op, is_string) for op in operators]
        return tuple(range(first, first + len(operators)))

    def _fits(self, verdicts: dict[str, bool], piece: str, frame: str, wanted: Node) -> bool:
        """Whether the text that the words make in a frame is parsed as ``wanted``."""
        fits = verdicts.get(piece)
        if fits is None:
            fits = verdicts[piece] = self._parsed(frame.format(piece)) == wanted
        return fits

    def _parsed(self, text: str) -> Node | None:
        """Return the tree of a text; None if it has none, or too much was parsed for too few texts."""
        self._room -= 1
        try:
            return parse(text) if self._room >= 0 else None
        except ModelError:
            return None


def _in_steps(texts: _Texts, n_attributes: int) -> Iterator[_Texts]:
    """Yield all texts in parts whose columns have at most ``_MOST_SIDES`` lower bounds, or few rows."""
    step = max(_LEAST_ROWS, _MOST_SIDES // max(n_attributes, 1))
    start = 0
    for first in range(0, len(texts.rows), step):
        lengths = texts.lengths[first : first + step]
        stop = start + sum(lengths)
        rows = texts.rows[first : first + step]
        yield _Texts(rows, lengths, texts.conditions[start:stop], texts.literals[start:stop])
        start = stop


def _columns(texts: _Texts, conditions: Sequence[_Condition]) -> tuple[TextColumns, list[int]]:
    """Return the columns of the texts without unusual literals, and the rows of the others."""
    n, numbers = len(texts.rows), np.array(texts.conditions, np.intp)
    position = np.repeat(np.arange(n), texts.lengths)
    is_string = np.array([condition.is_string for condition in conditions])[numbers]
    values = np.full(len(numbers), math.nan)
    values[~is_string] = read_numbers(list(compress(texts.literals, (~is_string).tolist())))
    table = _Table(n)
    order = np.argsort(numbers, kind="stable")
    used, starts = np.unique(numbers[order], return_index=True)
    for number, members in zip(used.tolist(), np.split(order, starts[1:]), strict=True):
        condition = conditions[number]
        if condition.is_string:
            table.equate(condition.attribute, position[members], [texts.literals[i] for i in members.tolist()])
        else:
            table.bound(condition, position[members], values[members])
    return table.columns(np.array(texts.rows, np.int32))


class _Table:
    """The sides of n texts by attribute, while they are made."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._ranges: dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = {}
        self._strings: dict[str, list[str]] = {}
        self._free: dict[str, npt.NDArray[np.bool_]] = {}
        self._usual = np.ones(n, np.bool_)

    def bound(self, condition: _Condition, position: npt.NDArray[np.intp], values: npt.NDArray[np.float64]) -> None:
        """Let a condition hold for the texts at some positions, one of which may occur twice."""
        if condition.attribute not in self._ranges:
            self._ranges[condition.attribute] = np.full(self._n, -math.inf), np.full(self._n, math.inf)
            self._free[condition.attribute] = np.ones(self._n, np.bool_)
        lo, hi = self._ranges[condition.attribute]
        low, high = number_ends(condition.op, values)
        with np.errstate(invalid="ignore"):  # NaN stays NaN
            np.maximum.at(lo, position, low)
            np.minimum.at(hi, position, high)
        self._free[condition.attribute][position] = False

    def equate(self, attribute: str, position: npt.NDArray[np.intp], written: Sequence[str]) -> None:
        """Let an attribute be a string; a text that demands two strings is unusual."""
        column = self._strings.setdefault(attribute, [""] * self._n)
        free = self._free.setdefault(attribute, np.ones(self._n, np.bool_))
        strings, is_usual = read_strings(written)
        for i, text in zip(position.tolist(), strings, strict=True):
            column[i] = text
        self._usual[position[~(is_usual & free[position])]] = False
        self._usual[np.bincount(position, minlength=self._n) > 1] = False
        free[position] = False

    def columns(self, rows: npt.NDArray[np.int32]) -> tuple[TextColumns, list[int]]:
        """Return the columns of all usual texts, and the rows of the others."""
        for lo, hi in self._ranges.values():
            self._usual &= lo <= hi  # false for NaN, which stands for an unusual literal
        free = {name: mask for name, mask in self._free.items() if mask.any()}
        columns = TextColumns(rows, self._ranges, self._strings, free=free)
        if self._usual.all():
            return columns, []
        chosen = np.flatnonzero(self._usual)
        return columns.take(chosen, rows[chosen]), rows[~self._usual].tolist()
