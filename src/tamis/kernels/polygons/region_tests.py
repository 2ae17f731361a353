"""Decides candidates with conditions on regions, many at a time.

A candidate is an entry whose box contains an event, and that event. Its remaining tests are in `RegionColumns`; the
results go into a column of verdicts. Nothing is allocated per candidate, and Python's lock is released meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.emit import prefetch_row
from tamis.kernels.polygons.flat_rings import Corners, Rings
from tamis.kernels.polygons.polygon import ALL, narrow, relation_of_point

__all__ = [
    "ANY",
    "NO",
    "OPEN",
    "YES",
    "RegionColumns",
    "decide_points",
    "decide_regions",
    "mark_axes",
    "take_met",
    "take_met_once",
]

#: Whether the relation of ring i of a to ring j of b is in a wanted set.
_Holds = Callable[[Rings, Int, Rings, Int, Int, Corners], bool]

#: Verdicts: undecided here, the candidate does not match, it matches.
OPEN, NO, YES = -1, 0, 1

#: An axis that stands for all of them.
ANY: Final = -1

#: How many candidates ahead polygons are prefetched, how many cache lines of each, and the vertices of a line.
_AHEAD: Final = 8
_LINES: Final = 4
_LINE: Final = 4


class RegionColumns(NamedTuple):
    """The tests of entries: entry e has the tests ``first[e]`` to ``first[e] + n_tests[e] - 1``.

    Attributes
    ----------
    first, n_tests
        int32[entries] and uint8[entries]; none for an entry that also has other remaining tests.
    axis, wanted
        int32[tests], the number of the axis whose attribute is meant, and uint8[tests], the set of relations wanted.
    rings
        The polygon of each test.
    """

    first: npt.NDArray[np.int32]
    n_tests: npt.NDArray[np.uint8]
    axis: npt.NDArray[np.int32]
    wanted: npt.NDArray[np.uint8]
    rings: Rings


@hot_kernel
def mark_axes(tests: RegionColumns, entries: npt.NDArray[np.int32], n: Int, is_asked: npt.NDArray[np.bool_]) -> None:
    """Mark the axes of the tests of the entries; there are at most n."""
    for k in range(entries.size):
        first = np.int64(tests.first[entries[k]])
        for test in range(first, first + tests.n_tests[entries[k]]):
            n -= not is_asked[tests.axis[test]]
            is_asked[tests.axis[test]] = True
        if n == 0:
            return


@hot_kernel
def decide_regions(
    tests: RegionColumns,
    entries: npt.NDArray[np.int32],
    events: Rings,
    event: npt.NDArray[np.int64],
    axis: Int,
    verdicts: npt.NDArray[np.int8],
    corners: Corners,
) -> Int:
    """Turn YES into NO where region ``event[k]`` of events fails a test of ``entries[k]`` on an axis (`ANY`: on all).

    It becomes OPEN if the entry has no tests at all; returns how many are open. It is fastest if candidates near each
    other are adjacent.
    """
    n_open = np.int64(0)
    for k in range(entries.size):
        _ask_ahead(tests, entries, k, False)
        if verdicts[k] == YES:
            verdicts[k] = _verdict(tests, entries[k], events, event[k], axis, corners, _holds_of_region)
        n_open += verdicts[k] == OPEN
    return n_open


@hot_kernel
def decide_points(
    tests: RegionColumns,
    entries: npt.NDArray[np.int32],
    events: Rings,
    event: npt.NDArray[np.int64],
    axis: Int,
    verdicts: npt.NDArray[np.int8],
    corners: Corners,
) -> Int:
    """Do the same as `decide_regions` for events that are points: a short loop, half again as fast."""
    n_open = np.int64(0)
    for k in range(entries.size):
        _ask_ahead(tests, entries, k, True)
        if verdicts[k] == YES:
            verdicts[k] = _verdict(tests, entries[k], events, event[k], axis, corners, _holds_of_point)
        n_open += verdicts[k] == OPEN
    return n_open


@inline_kernel
def _ask_ahead(tests: RegionColumns, entries: npt.NDArray[np.int32], k: Int, points: bool) -> None:
    """Prefetch a polygon of a later candidate: it is seldom cached, and the current ones leave time to load it."""
    prefetch_row(tests.first, entries[min(k + 2 * _AHEAD, entries.size - 1)])
    rings, test = tests.rings, np.int64(tests.first[entries[min(k + _AHEAD, entries.size - 1)]])
    if test >= tests.wanted.size:  # neither this entry nor any after it has tests
        return
    if not points:
        prefetch_row(rings.bounds, test)
        prefetch_row(rings.inner, test)
        prefetch_row(rings.blocks, rings.block_start[test])
    for line in range(_LINES):
        prefetch_row(rings.xy, rings.start[test] + _LINE * line)


@inline_kernel
def _verdict(
    tests: RegionColumns, entry: Int, events: Rings, i: Int, axis: Int, corners: Corners, holds: _Holds
) -> Int:
    count, first = np.int64(tests.n_tests[entry]), np.int64(tests.first[entry])
    if count == 0:
        return OPEN
    for test in range(first, first + count):
        wanted = np.int64(tests.wanted[test])
        if wanted == ALL or (axis != ANY and tests.axis[test] != axis):
            continue
        if wanted == 0 or not holds(events, i, tests.rings, test, wanted, corners):
            return NO
    return YES


@inline_kernel
def _holds_of_region(a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> bool:
    return bool(narrow(a, i, b, j, wanted, corners) & wanted != 0)


@inline_kernel
def _holds_of_point(a: Rings, i: Int, b: Rings, j: Int, wanted: Int, corners: Corners) -> bool:
    return bool(relation_of_point(a, i, b, j, corners) & wanted != 0)


@hot_kernel
def take_met(
    verdicts: npt.NDArray[np.int8],
    event: npt.NDArray[np.int64],
    entries: npt.NDArray[np.int32],
    row: npt.NDArray[np.int32],
    met_event: npt.NDArray[np.int32],
    met_row: npt.NDArray[np.int32],
) -> Int:
    """Write event and ``row`` of the candidates that match, one after the other; return how many there are."""
    n = np.int64(0)
    for k in range(verdicts.size):
        met_event[n] = event[k]  # written always, overwritten if it is not a match: the branch is not predictable
        met_row[n] = row[entries[k]]
        n += verdicts[k] == YES
    return n


@hot_kernel
def take_met_once(
    verdicts: npt.NDArray[np.int8],
    event: npt.NDArray[np.int64],
    entries: npt.NDArray[np.int32],
    row: npt.NDArray[np.int32],
    latest: npt.NDArray[np.int32],
    met: npt.NDArray[np.int32],
) -> Int:
    """Write as `take_met` into ``met`` int32[2, n], a row with several entries once for each event.

    The candidates of an event follow each other; ``latest`` int32[rows] holds -1.
    """
    n = np.int64(0)
    for k in range(verdicts.size):
        number, owner = np.int32(event[k]), row[entries[k]]
        if verdicts[k] == YES and latest[owner] != number:
            latest[owner] = number
            met[0, n], met[1, n] = number, owner
            n += 1
    return n
