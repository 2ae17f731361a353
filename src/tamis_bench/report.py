"""Rows as tables, for terminals and for ``docs/benchmarks.md``."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from tamis_bench.rows import MEASURES, Row

__all__ = ["Sheet", "human", "machine", "markdown", "markdown_lines", "notes", "sheets", "size_name"]

#: Marks a rate that was timed on fewer events than the others.
FEWER_EVENTS = "\u00b0"


def human(number: float) -> str:
    """Write a number with three digits.

    >>> [human(number) for number in (2_530_000, 15_240, 999_700, 96.8, 1.234, 0.0123)]
    ['2.53M', '15.2k', '1.00M', '96.8', '1.23', '0.012']
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= 0.9995 * size:
            return _three_digits(number / size) + unit
    return _three_digits(number)


def _three_digits(number: float) -> str:
    size = abs(number)
    return f"{number:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3}f}"


def size_name(n: int) -> str:
    """Write a size as ``--size`` reads it.

    >>> [size_name(n) for n in (500, 10_000, 1_500, 1_000_000)]
    ['500', '10k', '1500', '1M']
    """
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if n and n % size == 0:
            return f"{n // size}{unit}"
    return str(n)


def machine() -> str:
    """Say where and when numbers were taken, and with what."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pyarrow"))
    cores = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    return f"{dt.date.today():%Y-%m-%d}, {cores}, Python {platform.python_version()}, {packages}."


@dataclass(frozen=True)
class Sheet:
    """A table: a line of names, lines of cells. ``left`` columns hold words, the others numbers."""

    names: list[str]
    lines: list[list[str]]
    left: int = 1


def sheets(rows: Sequence[Row], goals: bool = True) -> list[Sheet]:
    """Return all tables: the systems side by side for each work, then everything about tamis itself."""
    works = list(dict.fromkeys(row.work for row in rows))
    tables = [_systems_sheet(work, [row for row in rows if row.work == work], goals) for work in works]
    tables.append(_own_sheet([row for row in rows if row.system == "ours" and row.what != "match"], works, goals))
    return [sheet for sheet in tables if sheet.lines]


def notes(rows: Sequence[Row]) -> list[str]:
    """Return the reasons for missing numbers, and what the mark at some numbers means."""
    cells_of: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in rows:
        if row.rate is None:
            cells_of.setdefault((row.work, row.what, row.note), {})[f"{row.system} at {size_name(row.n)}"] = None
    lines = [f"{work}, {what}, {', '.join(cells)}: {note}" for (work, what, note), cells in cells_of.items()]
    if any("timed on" in row.note for row in rows):
        lines.append(f"{FEWER_EVENTS} timed on fewer events, as many as there was time for")
    return lines


def markdown(rows: Sequence[Row]) -> str:
    """Return all tables and notes as Markdown."""
    parts = ["\n".join(markdown_lines(sheet)) for sheet in sheets(rows)]
    items = [f"- {note}" for note in notes(rows)]
    return "\n\n".join([*parts, *(["\n".join(items)] if items else [])]) + "\n"


def markdown_lines(sheet: Sheet) -> Iterator[str]:
    """Yield the lines of a table as Markdown."""
    yield f"| {' | '.join(sheet.names)} |"
    yield "|---" * sheet.left + "|--:" * (len(sheet.names) - sheet.left) + "|"
    for line in sheet.lines:
        yield f"| {' | '.join(line)} |"


def _systems_sheet(work: str, rows: Sequence[Row], goals: bool) -> Sheet:
    """Events per second by system and size, with the ratio to the scan; the goal below."""
    matched = {(row.system, row.n): row for row in rows if row.what == "match"}
    sizes = sorted({n for _, n in matched})
    names = dict.fromkeys(system for system, _ in matched)
    systems = sorted(names, key=lambda name: (name != "ours", name != "scan"))
    lines = [[system, *(_rate_cell(matched.get((system, n))) for n in sizes)] for system in systems]
    aims = [row.goal if (row := matched.get(("ours", n))) else None for n in sizes]
    if goals and any(aims):
        lines.append(["goal for ours", *("" if aim is None else f">= {human(aim)}" for aim in aims)])
    return Sheet([f"{work}, events/s", *map(size_name, sizes)], lines)


def _rate_cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.rate is None:
        return "left out"
    ratio = "" if row.ratio is None else f" ({_times(row.ratio)}x)"
    return human(row.rate) + ratio + (FEWER_EVENTS if "timed on" in row.note else "")


def _times(ratio: float) -> str:
    """Write a ratio.

    >>> _times(1688.2), _times(12.34), _times(0.0451)
    ('1,688', '12.3', '0.045')
    """
    return f"{ratio:,.0f}" if ratio >= 100 else _three_digits(ratio)


def _own_sheet(rows: Sequence[Row], works: Sequence[str], goals: bool) -> Sheet:
    """All other measures of tamis, one line for each measure and size."""
    rows_by_cell = {(row.what, row.n, row.work): row for row in rows}
    lines = []
    for what, measure in MEASURES.items():
        for n in sorted({row.n for row in rows if row.what == what}):
            cells = (_own_cell(rows_by_cell.get((what, n, work)), goals) for work in works)
            lines.append([f"{what}, {measure.unit}", size_name(n), *cells])
    return Sheet(["ours", "n", *works], lines, left=2)


def _own_cell(row: Row | None, goals: bool) -> str:
    if row is None or row.rate is None:
        return ""
    sign = ">=" if MEASURES[row.what].more_is_better else "<="
    return human(row.rate) + (f" (goal {sign} {human(row.goal)})" if goals and row.goal is not None else "")
