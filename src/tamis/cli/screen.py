"""Output to the terminal: foreign text is never interpreted as markup or control characters.

A filter, a place name or an id may contain brackets that rich would take for a style, or an escape sequence that a
terminal would execute. Consoles here read no markup, and `plain` shows characters that are not printable as escapes.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "Screen",
    "errors",
    "jsonable",
    "make_table",
    "output",
    "plain",
    "program",
    "shown",
    "write_json",
    "write_json_lines",
]


class Screen(Console):
    """A console that takes text as text; a closed pipe is left to the caller."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        """Let the command line end quietly."""
        raise BrokenPipeError

    def say(self, text: str, style: str = "") -> None:
        """Print a line without wrapping it, so that carets point to the right column."""
        self.print(Text(plain(text), style), soft_wrap=True)


def output() -> Screen:
    """Return the console for results (standard output)."""
    return Screen()


def errors() -> Screen:
    """Return the console for everything else (standard error)."""
    return Screen(stderr=True)


def program() -> str:
    """Return how this command is called from here: ``tamis`` if it is on the PATH, else by its path."""
    if shutil.which("tamis"):
        return "tamis"
    return os.path.relpath(Path(sys.executable).with_name("tamis"))


def plain(text: str) -> str:
    r"""Return text that is safe to print: characters that are not printable, except line feeds, become escapes.

    >>> plain("red \x1b[31m")
    'red \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character) for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shown(value: object, width: int = 60) -> str:
    """Return a value for a table cell: one line, truncated if it is long."""
    usable = jsonable(value)
    text = plain(usable if isinstance(usable, str) else json.dumps(usable, ensure_ascii=False))
    text = text.replace("\n", "\\n")
    return text if len(text) <= width else f"{text[: width - 3]}..."


def jsonable(value: Any) -> Any:
    """Return a value that JSON can represent: moments as RFC 3339, geometry as WKT, NaN as null.

    >>> jsonable({"at": dt.datetime(2018, 2, 1, tzinfo=dt.UTC), "n": 1})
    {'at': '2018-02-01T00:00:00Z', 'n': 1}
    """
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, dt.datetime):
        text = value.isoformat()
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text
    if isinstance(value, bytes):
        return _bytes_as_text(value)
    if hasattr(value, "geom_type"):
        import shapely

        return shapely.to_wkt(value, rounding_precision=-1)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _bytes_as_text(value: bytes) -> str:
    from tamis.model.geometry_text import read_wkb

    try:
        return str(jsonable(read_wkb(value)))
    except ValueError:  # no WKB, or more than is read
        return base64.b64encode(value).decode()


def make_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return a table with these columns, one line per row; those named in ``right`` hold numbers."""
    from rich import box

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(Text(plain(name)), justify=justify, no_wrap=True, overflow="ellipsis")
    return table


def write_json(document: object) -> None:
    """Print one JSON document, in UTF-8 whatever the encoding of the terminal is."""
    # UTF-8 has no lone surrogates: they are written as JSON escapes.
    text = json.dumps(jsonable(document), ensure_ascii=False, indent=2, allow_nan=False)
    _write(text.encode("utf-8", "backslashreplace") + b"\n")


def write_json_lines(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one JSON document per line; the values are plain already."""
    _write(msgspec.json.Encoder().encode_lines(rows))


def _write(data: bytes) -> None:
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # under PYTHONUNBUFFERED a write may be partial
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()
