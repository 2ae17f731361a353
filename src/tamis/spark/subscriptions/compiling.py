"""Inside the workers: prepared rows of subscriptions in, accepted and rejected ones out.

A batch is compiled as columns: its texts are checked together, each shape and each repeated text once, and what is
accepted is taken from the batch as it came. Only rejected rows become Python objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.algebra.compiling_texts import TextReader
from tamis.errors import ModelError, TableError, TamisError
from tamis.model.language.bind import learn_from_node
from tamis.model.language.nodes import Calculated, Constant, Node, TextTest, leaves
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.types import ScalarType, String
from tamis.model.values import UnfitError, moment
from tamis.spark.functions.worker_task import WorkerTask
from tamis.spark.subscriptions.rule_texts import reader_of
from tamis.spark.subscriptions.typed import TypedColumns, TypedTexts, box_problem, boxes_of, texts_of

__all__ = ["LEARNED", "Compile", "compile_batches", "end_of", "learn_batches"]

#: What `learn_batches` returns.
LEARNED = "attribute string, type string"

#: Texts that a task remembers: many people ask the same, and parsing is what compiling costs.
_REMEMBERED = 100_000

#: Characters of a text up to which it is within every limit if its conditions are.
_USUAL = 2_000

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Compile(WorkerTask):
    """What the workers need to know; it travels pickled inside Spark."""

    schema: str
    typed: TypedColumns | None


def compile_batches(batches: Iterator[pa.RecordBatch], *, task: Compile, form: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Compile batches of prepared rows."""
    compiler = _Compiler(reader_of(task.schema), form)
    for batch in batches:
        if task.typed is None:
            yield from compiler.texts(batch)
        elif task.typed.is_box(batch, compiler.schema):
            yield from compiler.boxes(batch, task.typed)
        else:
            yield from compiler.typed(batch, texts_of(batch, task.typed, compiler.schema))


def learn_batches(batches: Iterator[pa.RecordBatch], *, task: Compile) -> Iterator[pa.RecordBatch]:
    """Yield the attributes that texts name and the schema has not, each with the schema of it alone, or null.

    Those that are asked for the text of any value are among them, also where the schema has another scalar type.
    A text that cannot be read, or that contradicts an earlier one, teaches nothing.
    """
    declared = schema = Schema.from_json(task.schema)
    named: set[str] = set()
    for batch in batches:
        for text in batch.column("filter").drop_null().to_pylist():
            with suppress(TamisError):
                node = parse(text)
                named.update(leaf.attribute for leaf in leaves(node) if not isinstance(leaf, Calculated | Constant))
                schema = learn_from_node(as_text(schema, node), node)
    names = sorted(name for name in named | set(schema) if name not in declared or schema[name] != declared[name])
    types = [Schema({name: schema[name]}).to_json() if name in schema else None for name in names]
    columns = [pa.array(names, pa.string()), pa.array(types, pa.string())]
    yield pa.RecordBatch.from_arrays(columns, ["attribute", "type"])


def as_text(schema: Schema, node: Node) -> Schema:
    """Return a schema in which what a filter asks for the text of any value is a string that reads any value.

    >>> from tamis.model.types import Number
    >>> as_text(Schema({"n": Number(), "m": Number()}), parse("n ILIKE '5%' AND m > 3"))
    Schema({'n': String(coerce=True), 'm': Number(lo=None, hi=None)})
    """
    text = String(coerce=True)
    text_attributes = {leaf.attribute for leaf in leaves(node) if isinstance(leaf, TextTest)}
    changed = {
        name: text for name in text_attributes if isinstance(schema.get(name), ScalarType) and schema[name] != text
    }
    return Schema({**schema, **changed}) if changed else schema


class _Compiler:
    """Compiles batch after batch of one task."""

    def __init__(self, reader: TextReader, form: pa.Schema) -> None:
        self.schema = reader.schema
        self._form = form
        self._reader = reader
        self._accepted_texts: set[str] = set()

    def texts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield accepted and rejected rows whose filters are texts."""
        texts = batch.column("filter")
        sources = texts.to_pylist()
        errors = self._bad_texts(sources)
        problems = {row: errors[text] for row, text in enumerate(sources) if text in errors} if errors else {}
        yield from self._split_by_problem(batch, texts, problems)

    def typed(self, batch: pa.RecordBatch, typed: TypedTexts) -> Iterator[pa.RecordBatch]:
        """Yield accepted and rejected rows whose filters were written from typed columns."""
        problems, longest = dict(typed.errors), pc.max(pc.utf8_length(typed.texts)).as_py() or 0
        if longest > _USUAL or self._bad_texts(list(typed.parts)):
            sources = typed.texts.to_pylist()
            errors = self._bad_texts(sources)
            problems |= {row: errors[text] for row, text in enumerate(sources) if text in errors}
        yield from self._split_by_problem(batch, typed.texts, problems)

    def _split_by_problem(
        self, batch: pa.RecordBatch, texts: pa.Array, problems: Mapping[int, ModelError]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose texts have no problem, and the others with their reasons."""
        table_rows = _Rows(batch)
        is_good = np.array(texts.is_valid())
        is_good[list(problems)] = False
        accepted = table_rows.is_plain & is_good
        texts = texts.cast(pa.string())
        yield self._accepted(table_rows, accepted, {"filter": texts})
        yield from self._rejected(table_rows, ~accepted, problems, texts)

    def boxes(self, batch: pa.RecordBatch, typed: TypedColumns) -> Iterator[pa.RecordBatch]:
        """Yield accepted and rejected rows that are boxes."""
        lo, hi, is_wrong = boxes_of(batch, typed, self.schema)
        table_rows = _Rows(batch)
        accepted = table_rows.is_plain & ~is_wrong
        yield self._accepted(table_rows, accepted, {"lo": _lists(lo), "hi": _lists(hi)})
        rejected = np.flatnonzero(~accepted)
        if len(rejected):
            checked = {row: box_problem(lo[row], hi[row], self.schema) for row in rejected.tolist()}
            problems = {row: problem for row, problem in checked.items() if problem is not None}
            yield from self._rejected(table_rows, ~accepted, problems, texts_of(batch, typed, self.schema).texts)

    def _bad_texts(self, sources: Sequence[str | None]) -> dict[str, ModelError]:
        """Return the errors of the texts that mean nothing."""
        new = [text for text in dict.fromkeys(sources) if text is not None and text not in self._accepted_texts]
        errors = {new[index]: error for index, error in self._reader.find_bad(new).items()}
        if len(self._accepted_texts) < _REMEMBERED:
            self._accepted_texts.update(text for text in new if text not in errors)
        return errors

    def _accepted(self, table_rows: _Rows, chosen: Mask, more: Mapping[str, pa.Array]) -> pa.RecordBatch:
        columns, rows = {**table_rows.columns, **more}, pa.array(np.flatnonzero(chosen))
        arrays = [
            columns[field.name].take(rows) if field.name in columns else pa.nulls(len(rows), field.type)
            for field in self._form
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._form)

    def _rejected(
        self, table_rows: _Rows, chosen: Mask, problems: Mapping[int, ModelError], texts: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen rows with their reasons; ``problems`` says what is wrong with filters."""
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        errors = [
            table_rows.find_problem(row) or problems.get(row) or TableError("there is no filter")
            for row in rows.tolist()
        ]
        reasons = pa.array([str(error) for error in errors], pa.string())
        positions = pa.array([getattr(error, "position", None) for error in errors], pa.int32())
        columns = {**table_rows.columns, "filter": texts}
        selected = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        selected |= {"reason": reasons, "position": positions}
        yield pa.RecordBatch.from_arrays(
            [selected.get(field.name, pa.nulls(len(rows), field.type)) for field in self._form], schema=self._form
        )


class _Rows:
    """What a batch says of its rows besides their filters."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        ends = pc.dictionary_encode(batch.column("expires"))
        moments = [end_of(text) for text in ends.dictionary.to_pylist()]
        expires = pa.array([moment if isinstance(moment, int) else None for moment in moments], pa.int64()).take(
            ends.indices
        )
        names = ("id", "namespace", "metadata")
        self.columns = {**{name: batch.column(name) for name in names}, "expires": expires}
        self._conflict = np.asarray(batch.column("conflict").fill_null(False))
        self._end_errors = {
            text: moment
            for text, moment in zip(ends.dictionary.to_pylist(), moments, strict=True)
            if isinstance(moment, TableError)
        }
        self._ends = batch.column("expires")
        unread = np.asarray(pc.and_(self._ends.is_valid(), expires.is_null()))
        #: Rows without a problem of their own, whatever their filters are.
        self.is_plain: Mask = np.asarray(batch.column("id").is_valid()) & ~self._conflict & ~unread

    def find_problem(self, row: int) -> ModelError | None:
        """Return what is wrong with a row besides its filter, if anything."""
        if self._conflict[row]:
            return TableError("differing rows have this id; which one is meant?")
        if not self.columns["id"][row].is_valid:
            return TableError("there is no id")
        return self._end_errors.get(self._ends[row].as_py())


def _lists(sides: npt.NDArray[np.float64]) -> pa.Array:
    offsets = np.arange(0, sides.size + 1, sides.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, sides.ravel())


#: A whole number that may be one of 64 bits.
_MICROSECONDS = re.compile(r"-?[0-9]{1,20}")


def end_of(text: str | None) -> int | TableError | None:
    """Return the end of a subscription in microseconds, or why its text is none; None without a text."""
    if text is None:
        return None
    try:
        return moment(int(text)) if _MICROSECONDS.fullmatch(text) else moment(text)
    except UnfitError as error:
        return TableError(f"expires: {error}")
