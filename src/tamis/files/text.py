"""Reads a text file in pieces of bounded size, whatever the file contains.

What gzip unpacks is counted as it comes out (promise S15): a small file may hold a very large one.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tamis.errors import LimitError, TableError

__all__ = ["CHUNK", "MAX_LINE", "STDIN", "chunks", "decoded", "lines", "shown_name"]

#: The name of standard input.
STDIN = "-"
#: Bytes of one line, or of one object of a JSON array (promise S14: a message with a region).
MAX_LINE = 1 << 20
#: Bytes read at a time where lines do not help.
CHUNK = 1 << 20
#: Bytes that one gzipped file may give.
MAX_UNPACKED = 8 << 30


def shown_name(path: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path == STDIN else path


def lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line with its end); a line of more than `MAX_LINE` bytes raises `LimitError`."""
    name = shown_name(path)
    with _opened(path) as file:
        total = number = 0
        while line := _read(name, lambda: file.readline(MAX_LINE + 1)):
            number += 1
            if len(line) > MAX_LINE:
                raise LimitError(f"{name}, line {number}: bytes of a line", len(line), MAX_LINE)
            total += len(line)
            _check_total(path, total)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def chunks(path: str) -> Iterator[bytes]:
    """Yield the bytes of a file, `CHUNK` at a time."""
    name = shown_name(path)
    with _opened(path) as file:
        total = 0
        while chunk := _read(name, lambda: file.read(CHUNK)):
            total += len(chunk)
            _check_total(path, total)
            yield chunk.removeprefix(b"\xef\xbb\xbf") if total == len(chunk) else chunk


def decoded(path: str, number: int, line: bytes) -> str:
    """Return a line as text, or raise `TableError`: it must be UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{shown_name(path)}, line {number}: not UTF-8 text ({error.reason})") from None


def _check_total(path: str, total: int) -> None:
    if total > MAX_UNPACKED and path.endswith(".gz"):
        raise LimitError(f"{path}: bytes after unpacking (unpack it first to read all of it)", total, MAX_UNPACKED)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDIN:
        if sys.stdin is None:  # started with its standard input closed
            raise TableError("standard input is closed; pass the name of a file")
        yield sys.stdin.buffer
    elif path.endswith(".gz"):
        with gzip.open(path, "rb") as packed:
            yield packed  # type: ignore[misc]
    else:
        with open(path, "rb") as file:
            yield file


def _read(name: str, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{name}: not a complete gzip file ({error})") from None
