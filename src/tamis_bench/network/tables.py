"""The rows of networks as tables: speed and processor time in one, latency, bytes and memory in the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tamis_bench.report import Sheet, human, size_name
from tamis_bench.rows import Row

__all__ = ["network_notes", "network_sheets"]

#: The columns of both tables: a title and the measures whose figures stand in a cell.
_SPEED: Final = (
    ("subscriptions/s", ("network load",)),
    ("CPU us/subscription", ("network subscribing",)),
    ("inner", ("network subscribing inner",)),
    ("home", ("network subscribing home",)),
    ("events/s", ("network",)),
    ("CPU us/event", ("network cpu",)),
    ("inner", ("network cpu inner",)),
    ("home", ("network cpu home",)),
)
_COST: Final = (
    *((f"p50, p99 ms, {n} hops", (f"network p50 {n} hops", f"network p99 {n} hops")) for n in range(4)),
    ("B/subscription", ("network bytes subscription",)),
    ("B/event", ("network bytes event",)),
    ("MB", ("network memory",)),
    ("inner", ("network memory inner",)),
    ("home", ("network memory home",)),
)
#: Measures whose ratio to one broker is shown.
_WITH_RATIO: Final = ("network", "network cpu")


def network_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Return two tables for each kind and size, a line for each system; columns without a figure are left out."""
    groups = dict.fromkeys((row.work, row.n) for row in rows)
    sheets: list[Sheet] = []
    for work, n in groups:
        mine = [row for row in rows if (row.work, row.n) == (work, n)]
        title = f"{work}, {size_name(n)}" if n else work
        sheets += [_sheet(title, mine, columns) for columns in (_SPEED, _COST)]
    return [sheet for sheet in sheets if len(sheet.names) > 1]


def network_notes(rows: Sequence[Row]) -> list[str]:
    """Return why figures are missing."""
    missing = [row for row in rows if row.rate is None]
    return [f"{row.work}{f', {size_name(row.n)}' * bool(row.n)}, {row.system}: {row.note}" for row in missing]


def _sheet(title: str, rows: Sequence[Row], columns: Sequence[tuple[str, Sequence[str]]]) -> Sheet:
    figures = {(row.system, row.what): row for row in rows if row.rate is not None}
    used = [column for column in columns if any(what in column[1] for _, what in figures)]
    systems = dict.fromkeys(row.system for row in rows)
    lines = [[system, *(_cell(figures, system, measures) for _, measures in used)] for system in systems]
    return Sheet([title, *(name for name, _ in used)], lines)


def _cell(figures: dict[tuple[str, str], Row], system: str, measures: Sequence[str]) -> str:
    rows = [figures[system, what] for what in measures if (system, what) in figures]
    cell = ", ".join(human(row.rate) for row in rows if row.rate is not None)
    if len(rows) == 1 and rows[0].what in _WITH_RATIO and rows[0].ratio not in (None, 1.0):
        cell += f" ({human(rows[0].ratio or 0.0)}x)"
    return cell
