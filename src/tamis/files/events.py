"""A file of events, opened by its suffix and read batch by batch."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from tamis.errors import TableError
from tamis.files.batches import BATCH_ROWS, Batch, GroupedRows, TextRow, grouped, tight_column
from tamis.files.csv_values import learned_kind, typed_column, typed_value
from tamis.files.strict_json import Object, json_items, line_items
from tamis.files.text import MAX_LINE, STDIN, decoded, lines, shown_name
from tamis.model.types import AttributeType, String

__all__ = ["EventFile"]

Kinds = Mapping[str, AttributeType]

#: Largest number of names that are remembered for hints, for a file without a header.
_REMEMBERED = 1_000


class EventFile:
    """Rows of a JSONL, JSON, CSV or Parquet file; ``-`` is JSONL on standard input.

    Examples
    --------
    >>> EventFile("quakes.txt")
    Traceback (most recent call last):
    tamis.errors.TableError: quakes.txt: unknown file type; tamis reads .jsonl, .json, .csv and .parquet
    """

    def __init__(self, path: str, *, skip: bool = False) -> None:
        self.path = path
        self.name = shown_name(path)
        #: Whether a row that cannot be read is noted in its batch; otherwise it raises.
        self.skip = skip
        #: The names seen so far; all of them as soon as `has_header` holds and the first batch was read.
        self.names: dict[str, None] = {}
        self._format = _format(path)

    @property
    def has_header(self) -> bool:
        """Whether the first batch shows every name that can ever come."""
        return self._format in ("csv", "parquet")

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if the file format states it."""
        return self._parquet().metadata.num_rows if self._format == "parquet" else None

    def batches(
        self, names: Collection[str] | None = None, kinds: Kinds | None = None, *, whole: bool = False
    ) -> Iterator[Batch]:
        """Yield the rows, batch by batch.

        ``names`` are the columns wanted (all when None), ``kinds`` what CSV cells have to be. `Batch.event` gives
        all of a row of a text file, and of a Parquet file when ``whole`` is set; what is wanted otherwise.
        """
        if self._format == "parquet":
            return self._parquet_batches(names, whole)
        if self._format == "csv":
            return self._csv_batches(names, kinds or {})
        items = json_items(self.path) if self._format == "json" else line_items(self.path)
        return self._json_batches(items, names)

    def _json_batches(self, items: Iterator[TextRow[Object]], names: Collection[str] | None) -> Iterator[Batch]:
        for group in grouped(items, self.name, skip=self.skip):
            keys = dict.fromkeys(key for value in group.values for key in value)
            if len(self.names) < _REMEMBERED:
                self.names |= keys
            wanted = [name for name in keys if names is None or name in names]
            columns = {name: tight_column([value.get(name) for value in group.values]) for name in wanted}
            yield Batch(group.rows, group.lines, columns, group.values.__getitem__, group.bad)

    def _csv_batches(self, names: Collection[str] | None, kinds: Kinds) -> Iterator[Batch]:
        reader = _CsvReader(self.path)
        header = reader.header()
        self.names = dict.fromkeys(header)
        wanted = [name for name in header if names is None or name in names]
        known_kinds = {name: kinds[name] for name in header if name in kinds}
        for group in grouped(reader.items(len(header)), self.name, skip=self.skip):
            texts = _text_columns(header, group, {*wanted, *(set(header) - known_kinds.keys())})
            for name in texts.keys() - known_kinds.keys():
                kind = learned_kind(texts[name])
                if kind is not None:
                    known_kinds[name] = kind
            columns = {name: typed_column(texts[name], known_kinds.get(name, String())) for name in wanted}
            yield Batch(group.rows, group.lines, columns, partial(_csv_event, header, known_kinds, group), group.bad)

    def _parquet_batches(self, names: Collection[str] | None, whole: bool) -> Iterator[Batch]:
        file = self._parquet()
        self.names = dict.fromkeys(file.schema_arrow.names)
        wanted = [name for name in self.names if names is None or name in names]
        start = 0
        try:
            for read in file.iter_batches(BATCH_ROWS, columns=None if whole else wanted, use_threads=False):
                rows = range(start, start + read.num_rows)
                start = rows.stop
                all_columns = {name: _moments(read.column(i)) for i, name in enumerate(read.schema.names)}
                columns = {name: all_columns[name] for name in wanted}
                yield Batch(rows, None, columns, partial(_arrow_event, all_columns))
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name}: damaged after row {start} ({_first_line(error)})") from None

    def _parquet(self) -> pq.ParquetFile:
        with open(self.path, "rb"):  # a missing file is the system's error, not Arrow's
            pass
        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name}: not a Parquet file ({_first_line(error)})") from None


class _CsvReader:
    """The records of a CSV file: a header, then rows with as many cells."""

    def __init__(self, path: str) -> None:
        self._name = shown_name(path)
        text = (decoded(path, number, line) for number, line in lines(path))
        if csv.field_size_limit() < MAX_LINE:  # a polygon is longer than the 128 KiB of the standard library
            csv.field_size_limit(MAX_LINE)
        self._reader = csv.reader(text, strict=True)

    def header(self) -> list[str]:
        """Read the names of the columns."""
        names = self._next()
        if not names:
            raise TableError(f"{self._name}: empty; the first line of a CSV file names its columns")
        for name in names:
            if not name.strip() or names.count(name) > 1:
                problem = f"duplicate column {name!r}" if name.strip() else "a column has no name"
                raise TableError(f"{self._name}, line 1: {problem}")
        return names

    def items(self, width: int) -> Iterator[TextRow[list[str]]]:
        """Yield the rows; one with another number of cells is an item with its problem."""
        line = self._reader.line_num + 1
        while (cells := self._next()) is not None:
            size = sum(map(len, cells)) + width
            if len(cells) == width:
                yield TextRow(line, size, cells)
            elif cells:
                yield TextRow(line, size, None, f"{len(cells)} cells, but the header names {width} columns")
            line = self._reader.line_num + 1

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise TableError(f"{self._name}, line {self._reader.line_num}: not CSV ({error})") from None


def _text_columns(header: list[str], group: GroupedRows[list[str]], wanted: Collection[str]) -> dict[str, pa.Array]:
    cells = zip(*group.values, strict=True) if group.values else ((),) * len(header)
    return {
        name: pa.array([text or None for text in column], pa.large_string())
        for name, column in zip(header, cells, strict=True)
        if name in wanted
    }


def _csv_event(header: list[str], kinds: Kinds, group: GroupedRows[list[str]], i: int) -> dict[str, Any]:
    cells = zip(header, group.values[i], strict=True)
    return {name: typed_value(text, kinds.get(name, String())) for name, text in cells if text}


def _arrow_event(columns: Mapping[str, pa.Array], i: int) -> dict[str, Any]:
    return {name: column[i].as_py() for name, column in columns.items() if column[i].is_valid}


def _moments(column: pa.Array) -> pa.Array:
    """Return a column of dates as timestamps of their start in UTC, like DATE literals."""
    return column.cast(pa.timestamp("us", "UTC")) if pat.is_date(column.type) else column


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


_FORMATS: dict[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def _format(path: str) -> str:
    if path == STDIN:
        return "jsonl"
    plain = path.removesuffix(".gz")
    suffix = plain[plain.rfind(".") :].lower() if "." in plain else ""
    format = _FORMATS.get(suffix)
    if format is None or (format == "parquet" and plain != path):
        raise TableError(f"{path}: unknown file type; tamis reads .jsonl, .json, .csv and .parquet")
    return format
