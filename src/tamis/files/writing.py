"""Writes rows to JSONL, CSV or Parquet, completely or not at all.

Rows go to a file beside the target that takes its name at the end; a run that fails leaves the old file, or
none. Spreadsheets run cells that start like a formula, so such CSV cells get an apostrophe (promise S13).
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.errors import TableError

__all__ = ["RowsWriter", "open_rows_writer", "safe_cell"]

#: Writes columns as rows. Every call has the same columns, all of the same length.
RowsWriter = Callable[[Mapping[str, Sequence[Any]]], None]

_RISKY = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(value: object) -> object:
    """Return a value as a safe CSV cell: text that a spreadsheet would run as a formula gets an apostrophe.

    >>> safe_cell("=1+1"), safe_cell(-5)
    ("'=1+1", -5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value


@contextmanager
def open_rows_writer(path: str, columns: Mapping[str, pa.DataType]) -> Iterator[RowsWriter]:
    """Open a writer by the suffix of ``path``; the file exists when the block ends without an error."""
    opened = next((writer for suffix, writer in _WRITERS.items() if path.lower().endswith(suffix)), None)
    if opened is None:
        raise TableError(f"{path}: unknown file type; tamis writes .jsonl, .csv and .parquet")
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise TableError(f"{path}: there is no directory {directory}")
    handle, building = tempfile.mkstemp(prefix=".building-", dir=directory)
    os.close(handle)
    try:
        with opened(building, columns) as write:
            yield write
        os.chmod(building, 0o666 & ~_umask())
        os.replace(building, path)
    except BaseException:
        os.unlink(building)
        raise


@contextmanager
def _jsonl(path: str, columns: Mapping[str, pa.DataType]) -> Iterator[RowsWriter]:
    encoder = msgspec.json.Encoder()
    with open(path, "wb") as file:

        def write(rows: Mapping[str, Sequence[Any]]) -> None:
            values = zip(*(rows[name] for name in columns), strict=True)
            file.write(encoder.encode_lines([dict(zip(columns, row, strict=True)) for row in values]))

        yield write


@contextmanager
def _csv(path: str, columns: Mapping[str, pa.DataType]) -> Iterator[RowsWriter]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)

        def write(rows: Mapping[str, Sequence[Any]]) -> None:
            writer.writerows(zip(*(map(safe_cell, rows[name]) for name in columns), strict=True))

        yield write


@contextmanager
def _parquet(path: str, columns: Mapping[str, pa.DataType]) -> Iterator[RowsWriter]:
    schema = pa.schema(list(columns.items()))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def write(rows: Mapping[str, Sequence[Any]]) -> None:
            writer.write_table(pa.table([_array(rows[name], kind) for name, kind in columns.items()], schema=schema))

        yield write


_WRITERS = {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet}


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():  # a column of text takes whole numbers, too: ids may be of both kinds
        values = [value if value is None else str(value) for value in values]
    return pa.array(values, kind)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
