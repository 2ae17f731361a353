"""Compiles many texts at once, with the results of `tamis.algebra.compiling.compile_source` but faster.

Texts are compiled in order, because each may teach types that the next one needs. A conjunction of ranges is read
without a parser once the words between its literals are known (`tamis.model.language.templates.conjunctions`). Of all
others, the first two texts of a shape are parsed, and the second one becomes a template
(`tamis.model.language.templates.texts`). Further texts of that shape wait, and their literals are filled into the
template together. Neither teaches types: their attributes are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from tamis.algebra.compiling import CompiledSource, compile_source
from tamis.algebra.simplify import simplify_regions
from tamis.errors import ModelError
from tamis.model.language.templates.columns import TextColumns, can_be_columns, columns_of
from tamis.model.language.templates.conjunctions import Conjunctions
from tamis.model.language.templates.texts import Parts, Template, make_template, split_text
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["BadText", "CompiledTexts", "TextReader", "TextTemplates", "compile_texts"]

#: Texts whose literals wait to be filled in at once: about 100 MB.
_BATCH = 65_536
#: Least number of texts of a shape for a column; building its arrays costs as much as filling a few single texts.
_COLUMN = 16
#: The text of a shape that becomes its template; building a template costs as much as parsing a text.
_MANY = 2
#: Shapes of which a reader makes templates, which later readings use, before it reads conjunctions by their words.
_TEMPLATES = 256
#: The conjunction of a shape in a batch from which on a template reads the shape, faster than word by word.
_FREQUENT = 256
#: Shapes in the cache; when it is full, it is cleared.
_REMEMBERED = 4_096
#: Characters of the texts without a template that a reader remembers: their filters take about 30 MB.
_CHARACTERS_REMEMBERED = 2_000_000


class BadText(NamedTuple):
    """The first text that cannot be compiled, and the error."""

    row: int
    error: ModelError


@dataclass
class CompiledTexts:
    """Compiled texts: rows that are boxes as columns, the filters of the other rows, and the extended schema.

    With a ``bad`` text nothing else is of use.
    """

    schema: Schema
    columns: list[TextColumns] = field(default_factory=list)
    #: (row, filters), ascending by row.
    others: list[tuple[int, tuple[Filter, ...]]] = field(default_factory=list)
    bad: BadText | None = None


class _Waiting(NamedTuple):
    """The texts of a shape whose literals have not been filled into the template yet."""

    template: Template
    rows: list[int]
    literals: list[list[str]]


def compile_texts(texts: Iterable[str], schema: Schema, *, learns: bool = False, columns: bool = True) -> CompiledTexts:
    """Compile CQL2 texts, in order, under a schema, which they extend if it ``learns``.

    Without ``columns`` all rows get filters.

    >>> compiled = compile_texts(["price < 100", "price < 200"], Schema(), learns=True)
    >>> len(compiled.others), compiled.schema
    (1, Schema({'price': Number(lo=None, hi=None)}))
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
    """Compiles single texts and parses each shape once; for texts that arrive one at a time."""

    def __init__(self) -> None:
        self._schema: Schema | None = None
        #: None for a shape that has no template.
        self._shapes: dict[tuple[str, ...], Template | None] = {}
        #: Shapes that were seen once.
        self._seen: set[tuple[str, ...]] = set()

    def compile(self, text: str, schema: Schema, *, learns: bool = False) -> CompiledSource:
        """Return the result of `tamis.algebra.compiling.compile_source` for a text."""
        if schema is not self._schema or len(self._seen) >= _REMEMBERED:
            self._shapes.clear()
            self._seen.clear()
            self._schema = schema
        parts = split_text(text)
        template = None if parts is None else self._shapes.get(parts[0])
        filters = None if template is None or parts is None else _filters_of(template, parts[1])
        if filters is not None:
            return CompiledSource(filters, schema, text)
        compiled = compile_source(text, schema, learns=learns)
        if parts is not None and compiled.schema is schema and parts[0] not in self._shapes:
            if parts[0] in self._seen:
                self._shapes[parts[0]] = make_template(text, parts, schema, open=learns)
            self._seen.add(parts[0])
        return compiled


class TextReader:
    """Compiles texts under one schema, batch by batch.

    It parses a shape twice at most, and a text that has no template once, as long as it remembers them.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._compiler = self._new_compiler()

    def _new_compiler(self) -> _Compiler:
        compiler = _Compiler(CompiledTexts(self.schema), learns=False, columns=True)
        compiler.memory = {}
        return compiler

    def find_bad(self, texts: Iterable[str]) -> dict[int, ModelError]:
        """Return the errors of the texts that cannot be compiled, by position.

        >>> from tamis.model.types import Number
        >>> list(TextReader(Schema({"price": Number()})).find_bad(["price < 1", "price >>", "prise < 1"]))
        [1, 2]
        """
        errors: dict[int, ModelError] = {}
        for compiler in self._added(texts, errors, columns=True):
            compiler.result.columns.clear()
            compiler.result.others.clear()
        return errors

    def read(self, texts: Iterable[str], *, columns: bool = True) -> CompiledTexts:
        """Return what `compile_texts` says of texts.

        >>> from tamis.model.types import Number
        >>> reader = TextReader(Schema({"price": Number()}))
        >>> [(row, len(filters)) for row, filters in reader.read(["price < 1", "price < 2"]).others]
        [(0, 1), (1, 1)]
        """
        for compiler in self._added(texts, None, columns=columns):
            if compiler.result.bad is not None:
                break
        compiled = self._compiler.result
        compiled.others.sort(key=lambda row: row[0])
        return compiled

    def _added(
        self, texts: Iterable[str], errors: dict[int, ModelError] | None, *, columns: bool
    ) -> Iterator[_Compiler]:
        """Yield the compiler after each batch of texts."""
        if self._compiler.is_full:
            self._compiler = self._new_compiler()
        compiler, rows = self._compiler, enumerate(texts)
        compiler.result, compiler.errors, compiler.columns = CompiledTexts(self.schema), errors, columns
        while batch := list(islice(rows, _BATCH)):
            compiler.add(batch)
            yield compiler


class _Compiler:
    """Compiles batch after batch and keeps the templates, the schema and the errors between them."""

    def __init__(self, result: CompiledTexts, learns: bool, columns: bool) -> None:
        self.result = result
        self.columns = columns
        self._learns = learns
        self._shapes: dict[tuple[str, ...], _Waiting] = {}
        self._conjunctions = Conjunctions()
        #: How often a shape was seen that has no template.
        self._seen: Counter[tuple[str, ...]] = Counter()
        #: The errors of all bad texts by row; None if compiling stops at the first error.
        self.errors: dict[int, ModelError] | None = None
        #: Filters of texts that were compiled the ordinary road; None when they are not remembered.
        self.memory: dict[str, tuple[Filter, ...]] | None = None
        #: The characters of the texts in ``memory``.
        self._remembered = 0

    @property
    def is_full(self) -> bool:
        """Whether `_REMEMBERED` shapes are known, and it is time to forget them."""
        return len(self._seen) >= _REMEMBERED

    @property
    def _reads_words(self) -> bool:
        """Whether conjunctions need no template: where columns are wanted, and other readings will not need filters."""
        return self.columns and (self.memory is None or len(self._seen) >= _TEMPLATES)

    def add(self, batch: Sequence[tuple[int, str]]) -> None:
        shapes, texts = self._shapes, dict(batch)
        conjunctions: Counter[tuple[str, ...]] = Counter()
        for row, text in batch:
            parts = split_text(text)
            waiting = None if parts is None else shapes.get(parts[0])
            if waiting is not None and parts is not None:
                waiting.rows.append(row)
                waiting.literals.append(parts[1])
            elif parts is not None and self._reads_words and self._conjunctions.add(row, parts, self.result.schema):
                conjunctions[parts[0]] += 1
                if conjunctions[parts[0]] == _FREQUENT:
                    self._make_template(text, parts)
            elif self._compile(row, text):
                if parts is not None:
                    self._learn_shape(text, parts)
            elif self.errors is None:
                break
        unusual = [row for waiting in shapes.values() if waiting.rows for row in self._fill(waiting)]
        columns, left_out = self._conjunctions.take_columns()
        self.result.columns += columns
        unusual += left_out
        for row in sorted(unusual):
            if not self._compile(row, texts[row]) and self.errors is None:
                return

    def _learn_shape(self, text: str, parts: Parts) -> None:
        """Make a template of a compiled text if it is the second text of its shape."""
        self._seen[parts[0]] += 1
        if self._seen[parts[0]] == _MANY:
            self._make_template(text, parts)

    def _make_template(self, text: str, parts: Parts) -> None:
        template = make_template(text, parts, self.result.schema, open=self._learns)
        if template is not None:
            self._shapes[parts[0]] = _Waiting(template, [], [])

    def _compile(self, row: int, text: str) -> bool:
        """Parse and compile a text; return False and record the error if it is bad and no earlier text was."""
        result = self.result
        remembered = None if self.memory is None else self.memory.get(text)
        if remembered is not None:
            result.others.append((row, remembered))
            return True
        try:
            filters, result.schema, _ = compile_source(text, result.schema, learns=self._learns)
        except ModelError as error:
            if self.errors is not None:
                self.errors[row] = error
            elif result.bad is None or row < result.bad.row:
                result.bad = BadText(row, error)
            return False
        result.others.append((row, filters))
        if self.memory is not None and self._remembered + len(text) <= _CHARACTERS_REMEMBERED:
            self.memory[text] = filters
            self._remembered += len(text)
        return True

    def _fill(self, waiting: _Waiting) -> list[int]:
        """Fill the waiting literals into their templates; return the rows that must be parsed instead."""
        template, rows, literals = waiting.template, waiting.rows.copy(), waiting.literals.copy()
        waiting.rows.clear()
        waiting.literals.clear()
        if self.columns and len(rows) >= _COLUMN and can_be_columns(template):
            columns, left_out = columns_of(template, rows, literals)
            self.result.columns.append(columns)
            rows, literals = [rows[i] for i in left_out], [literals[i] for i in left_out]
        filled = [(row, _filters_of(template, written)) for row, written in zip(rows, literals, strict=True)]
        self.result.others += [(row, filters) for row, filters in filled if filters is not None]
        return [row for row, filters in filled if filters is None]


def _filters_of(template: Template, written: Sequence[str]) -> tuple[Filter, ...] | None:
    """Return the filters of a text of a known shape; None if it must be parsed."""
    filters = template.fill(written)
    return filters if filters is None or not template.has_geometry else simplify_regions(filters)
