"""From found literals to the entries that match: postings, sides of boxes, patterns.

An *entry* is what an index has to decide: sides of a box on some axes, and LIKE programs on some strings. It is tested
when one of its literals is found in an event's string, and kept if the event lies in its box and fits its programs.

Entries share tests, so the results of the current row are cached: ``memo[test]`` is ``2 * (epoch + row)``, plus one if
the test holds. Rows count on from the epoch, which the caller raises from table to table, so nothing is ever cleared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel
from tamis.kernels.text.interning import StoredTests
from tamis.kernels.text.like import fits_like
from tamis.kernels.text.machine import IS_MACHINE, fits_machine

__all__ = ["EntryColumns", "Memo", "Strings", "TextTreeColumns", "keep_all", "keep_found"]

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
#: The position of an event on the axes, from low to high.
_Point = tuple[_Floats, _Floats]


class TextTreeColumns(NamedTuple):
    """The steps of all trees, and the choices (sides) that they test; see `EntryColumns`."""

    step_at: _Longs
    step: _Ints
    yes: _Ints
    no: _Ints
    choice_axis: _Ints
    choice_low: _Floats
    choice_high: _Floats
    choice_not: _Bytes


class EntryColumns(NamedTuple):
    """Entry e has the sides ``side_at[e]:side_at[e + 1]`` and the tests ``test_at[e]:test_at[e + 1]``.

    A side is an axis and its closed ends. A test is a view (`Strings`), a program and a mode: 0, a string fits it; 1, a
    string does not fit it; 2, that, or there is no string. An entry also has the steps ``step_at[e]:step_at[e + 1]`` of
    a tree, maybe none: each runs a test, or, ``~i``, a choice (a side that must or must not hold), and continues at the
    step ``yes`` or ``no``, counted from the first one; -1: the tree holds, -2: it does not.
    """

    living: _Bytes
    side_at: _Longs
    axis: _Ints
    low: _Floats
    high: _Floats
    test_at: _Longs
    test: _Ints
    tests: StoredTests
    tree: TextTreeColumns


class Strings(NamedTuple):
    """The strings of events: those of view v and row r are ``text[offsets[v, r]:offsets[v, r + 1]]``, if present."""

    text: _Bytes
    offsets: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]


class Memo(NamedTuple):
    """The answers of tests for one row, and scratch of `fits_like`; see the module's text."""

    answers: npt.NDArray[np.int64]
    masks: npt.NDArray[np.uint64]
    epoch: int


@hot_kernel
def _holds(columns: EntryColumns, test: Int, strings: Strings, row: Int, masks: npt.NDArray[np.uint64]) -> Int:
    """Whether the string of a row passes a test; a missing string passes only in mode 2."""
    view = columns.tests.views[test]
    if not strings.present[view, row]:
        return columns.tests.modes[test] == 2
    start, stop = strings.offsets[view, row], strings.offsets[view, row + 1]
    begin, end = columns.tests.program_at[test], columns.tests.program_at[test + 1]
    if end > begin and columns.tests.program[begin] == IS_MACHINE:
        fits = fits_machine(columns.tests.program, begin, end, strings.text, start, stop)
    else:
        fits = fits_like(columns.tests.program, begin, end, strings.text, start, stop, masks)
    return fits != (columns.tests.modes[test] != 0)


@hot_kernel
def _answer(columns: EntryColumns, test: Int, strings: Strings, row: Int, memo: Memo) -> Int:
    """Whether the string of a row passes a test, computed once per row."""
    if memo.answers[test] >> 1 != memo.epoch + row:
        memo.answers[test] = (memo.epoch + row) << 1 | _holds(columns, test, strings, row, memo.masks)
    return memo.answers[test] & 1 != 0


@hot_kernel
def _has_way(columns: EntryColumns, e: Int, strings: Strings, row: Int, point: _Point, memo: Memo) -> Int:
    """Whether the steps of an entry's tree lead to its acceptance; an entry without steps is accepted."""
    low, high = point
    first = columns.tree.step_at[e]
    i: Int = 0
    n = columns.tree.step_at[e + 1] - first
    while 0 <= i < n:
        condition = columns.tree.step[first + i]
        if condition >= 0:
            holds: Int = _answer(columns, condition, strings, row, memo)
        else:
            axis = columns.tree.choice_axis[~condition]
            inside = (
                low[axis] <= columns.tree.choice_high[~condition] and high[axis] >= columns.tree.choice_low[~condition]
            )
            holds = inside != (columns.tree.choice_not[~condition] != 0)
        i = columns.tree.yes[first + i] if holds else columns.tree.no[first + i]
    return i != -2


@hot_kernel
def _is_met(columns: EntryColumns, e: Int, strings: Strings, row: Int, point: _Point, memo: Memo) -> Int:
    """Whether the event of a row lies in an entry's box and fits its programs."""
    low, high = point
    if not columns.living[e]:
        return False
    for s in range(columns.side_at[e], columns.side_at[e + 1]):
        axis = columns.axis[s]
        if not (low[axis] <= columns.high[s] and high[axis] >= columns.low[s]):
            return False
    for t in range(columns.test_at[e], columns.test_at[e + 1]):
        if not _answer(columns, columns.test[t], strings, row, memo):
            return False
    return _has_way(columns, e, strings, row, point, memo)


@kernel
def _by_row(hits: tuple[_Ints, _Ints], n_rows: Int) -> tuple[_Longs, _Ints]:
    """Return where the hits of each row start, and the literals in the order of the rows."""
    rows, literals = hits
    starts, ordered = np.zeros(n_rows + 2, np.int64), np.empty_like(literals)
    for row in rows:
        starts[row + 2] += 1
    starts = np.cumsum(starts)
    for h in range(len(rows)):
        ordered[starts[rows[h] + 1]] = literals[h]
        starts[rows[h] + 1] += 1
    return starts[:-1], ordered


@kernel
def keep_found(
    hits: tuple[_Ints, _Ints],
    postings: tuple[_Longs, _Ints, _Ints, _Ints],
    columns: EntryColumns,
    strings: Strings,
    view: Int,
    points: tuple[_Floats, _Floats],
    memo: Memo,
) -> tuple[_Ints, _Ints]:
    """Return row and entry of each entry that is met, among those posted under the literals that were found in a view.

    The entries of literal i are ``posted[at[i]:at[i + 1]]``, each with the first test that the literal leaves open, or
    -1: most are rejected by it, without reading the entry. If literal i is found, the test ``implied_test[i]`` holds.
    """
    at, posted, first_test, implied_test = postings
    lows, highs = points
    starts, literals = _by_row(hits, len(lows))
    kept_rows, kept_entries, n = np.empty(1024, np.int32), np.empty(1024, np.int32), 0
    for row in range(len(lows)):
        if not strings.present[view, row]:
            continue
        for h in range(starts[row], starts[row + 1]):
            if implied_test[literals[h]] >= 0:
                memo.answers[implied_test[literals[h]]] = (memo.epoch + row) << 1 | 1
            for p in range(at[literals[h]], at[literals[h] + 1]):
                if first_test[p] >= 0 and not _answer(columns, first_test[p], strings, row, memo):
                    continue
                e = posted[p]
                if _is_met(columns, e, strings, row, (lows[row], highs[row]), memo):
                    if n == len(kept_entries):
                        kept_rows, kept_entries = np.append(kept_rows, kept_rows), np.append(kept_entries, kept_entries)
                    kept_rows[n], kept_entries[n] = row, e
                    n += 1
    return kept_rows[:n], kept_entries[:n]


@kernel
def keep_all(
    entries: _Ints, columns: EntryColumns, strings: Strings, points: tuple[_Floats, _Floats], memo: Memo
) -> tuple[_Ints, _Ints]:
    """Return row and entry of each of ``entries`` that is met, for all events."""
    lows, highs = points
    kept_rows, kept_entries, n = np.empty(1024, np.int32), np.empty(1024, np.int32), 0
    for row in range(len(lows)):
        for e in entries:
            if _is_met(columns, e, strings, row, (lows[row], highs[row]), memo):
                if n == len(kept_entries):
                    kept_rows, kept_entries = np.append(kept_rows, kept_rows), np.append(kept_entries, kept_entries)
                kept_rows[n], kept_entries[n] = row, e
                n += 1
    return kept_rows[:n], kept_entries[:n]
