"""Many texts to filters at once: what `tamis.algebra.compiling.compile_source` says of each, sooner.

Texts are taken in their order, for each may teach types that the next one needs. The first two texts of a shape go the
ordinary road, and the second one leaves a template (`tamis.model.language.templates`); the others of that shape wait,
and are filled in together. They teach nothing, because the first one knew their attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from tamis.algebra.compiling import Compiled, compile_source
from tamis.algebra.simplify import simplify_regions
from tamis.errors import ModelError
from tamis.model.language.templates.columns import TextColumns, can_be_columns, columns_of
from tamis.model.language.templates.texts import Parts, Template, make_template, split_text
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["BadText", "CompiledTexts", "TextChecker", "TextTemplates", "compile_texts"]

#: Texts whose literals wait to be filled in at once: about 100 MB.
_BATCH = 65_536
#: Texts of a shape that are worth a column; the arrays of a column cost as much as filling a few texts one by one.
_COLUMN = 16
#: Texts of a shape from which on it gets a template, which costs as much as parsing one.
_MANY = 2
#: Shapes that are remembered before all are forgotten.
_REMEMBERED = 4_096


class BadText(NamedTuple):
    """The first text that means nothing, and why."""

    row: int
    error: ModelError


@dataclass
class CompiledTexts:
    """What texts mean: rows that are boxes as columns, the filters of the others, and the schema with what they taught.

    With a ``bad`` text nothing else is of use.
    """

    schema: Schema
    columns: list[TextColumns] = field(default_factory=list)
    #: (row, filters), ascending by row.
    others: list[tuple[int, tuple[Filter, ...]]] = field(default_factory=list)
    bad: BadText | None = None


class _Waiting(NamedTuple):
    """The texts of a shape whose literals are not filled in yet."""

    template: Template
    rows: list[int]
    literals: list[list[str]]


def compile_texts(texts: Iterable[str], schema: Schema, *, learns: bool = False, columns: bool = True) -> CompiledTexts:
    """Compile CQL2 texts, in order, under a schema, which they extend if it ``learns``.

    Without ``columns`` all rows get filters.

    >>> compiled = compile_texts(["price < 100", "price < 200"], Schema(), learns=True)
    >>> len(compiled.others), compiled.schema
    (2, Schema({'price': Number(lo=None, hi=None)}))
    """
    compiler = _Compiler(CompiledTexts(schema), learns, columns)
    rows = enumerate(texts)
    while batch := list(islice(rows, _BATCH)):
        compiler.add(batch)
        if compiler.result.bad is not None:
            break
    compiler.result.others.sort(key=lambda row: row[0])
    return compiler.result


class TextTemplates:
    """Compiles texts one by one, each shape once; for texts that come in no particular order, or late."""

    def __init__(self) -> None:
        self._schema: Schema | None = None
        #: None for a shape that has no template.
        self._shapes: dict[tuple[str, ...], Template | None] = {}
        #: Shapes that were seen once.
        self._seen: set[tuple[str, ...]] = set()

    def compile(self, text: str, schema: Schema, *, learns: bool = False) -> Compiled:
        """Return what `tamis.algebra.compiling.compile_source` says of a text."""
        if schema is not self._schema or len(self._seen) >= _REMEMBERED:
            self._shapes.clear()
            self._seen.clear()
            self._schema = schema
        parts = split_text(text)
        template = None if parts is None else self._shapes.get(parts[0])
        filters = None if template is None or parts is None else _filters_of(template, parts[1])
        if filters is not None:
            return Compiled(filters, schema, text)
        compiled = compile_source(text, schema, learns=learns)
        if parts is not None and compiled.schema is schema and parts[0] not in self._shapes:
            if parts[0] in self._seen:
                self._shapes[parts[0]] = make_template(text, parts, schema, open=learns)
            self._seen.add(parts[0])
        return compiled


class TextChecker:
    """Finds the texts that mean nothing under a schema, batch by batch; each shape is parsed once or twice in all."""

    def __init__(self, schema: Schema) -> None:
        self._compiler = _Compiler(CompiledTexts(schema), learns=False, columns=True)
        self._compiler.errors = {}

    def find_bad(self, texts: Iterable[str]) -> dict[int, ModelError]:
        """Return the errors of the texts that mean nothing, by their place.

        >>> from tamis.model.types import Number
        >>> list(TextChecker(Schema({"price": Number()})).find_bad(["price < 1", "price >>", "prise < 1"]))
        [1, 2]
        """
        compiler, rows = self._compiler, enumerate(texts)
        errors = compiler.errors = {}
        while batch := list(islice(rows, _BATCH)):
            compiler.add(batch)
            compiler.result.columns.clear()
            compiler.result.others.clear()
        return errors


class _Compiler:
    """Compiles batch after batch; the fields are what a text may need."""

    def __init__(self, result: CompiledTexts, learns: bool, columns: bool) -> None:
        self.result = result
        self._learns = learns
        self._columns = columns
        self._shapes: dict[tuple[str, ...], _Waiting] = {}
        #: How often a shape was seen that has no template.
        self._seen: Counter[tuple[str, ...]] = Counter()
        #: The errors of all bad texts by row; None when the first one ends everything.
        self.errors: dict[int, ModelError] | None = None

    def add(self, batch: Sequence[tuple[int, str]]) -> None:
        shapes, texts = self._shapes, dict(batch)
        for row, text in batch:
            parts = split_text(text)
            waiting = None if parts is None else shapes.get(parts[0])
            if waiting is not None and parts is not None:
                waiting.rows.append(row)
                waiting.literals.append(parts[1])
            elif self._compile(row, text):
                if parts is not None:
                    self._learn_shape(text, parts)
            elif self.errors is None:
                break
        unusual = [row for waiting in shapes.values() if waiting.rows for row in self._fill(waiting)]
        for row in sorted(unusual):
            if not self._compile(row, texts[row]) and self.errors is None:
                return

    def _learn_shape(self, text: str, parts: Parts) -> None:
        """Make a template of a text that was compiled, if it is the second of its shape."""
        self._seen[parts[0]] += 1
        if self._seen[parts[0]] == _MANY:
            template = make_template(text, parts, self.result.schema, open=self._learns)
            if template is not None:
                self._shapes[parts[0]] = _Waiting(template, [], [])

    def _compile(self, row: int, text: str) -> bool:
        """Compile a text by the ordinary road; False if it is bad, which counts unless an earlier one was."""
        result = self.result
        try:
            filters, result.schema, _ = compile_source(text, result.schema, learns=self._learns)
        except ModelError as error:
            if self.errors is not None:
                self.errors[row] = error
            elif result.bad is None or row < result.bad.row:
                result.bad = BadText(row, error)
            return False
        result.others.append((row, filters))
        return True

    def _fill(self, waiting: _Waiting) -> list[int]:
        """Fill in what waits; return the rows that need the ordinary road."""
        template, rows, literals = waiting.template, waiting.rows.copy(), waiting.literals.copy()
        waiting.rows.clear()
        waiting.literals.clear()
        if self._columns and len(rows) >= _COLUMN and can_be_columns(template):
            columns, left_out = columns_of(template, rows, literals)
            self.result.columns.append(columns)
            return [rows[i] for i in left_out]
        filled = [(row, _filters_of(template, written)) for row, written in zip(rows, literals, strict=True)]
        self.result.others += [(row, filters) for row, filters in filled if filters is not None]
        return [row for row, filters in filled if filters is None]


def _filters_of(template: Template, written: Sequence[str]) -> tuple[Filter, ...] | None:
    """Return the filters of a text of a known shape; None when it needs the ordinary road."""
    filters = template.fill(written)
    return filters if filters is None or not template.has_geometry else simplify_regions(filters)
