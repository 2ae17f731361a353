"""Trees of conditions on axes, decided for blocks of events at once.

A tree is a list of steps. A step tests whether an event lies between two ends on an axis, and names the steps that
follow if it does and if it does not. Steps lead forward only. A block of `BLOCK` events goes through a tree as a mask:
each step splits the events that reach it between the two steps that follow.

An axis has the mask of its k lowest events for each k, so the events between two ends are those up to the upper end
without those below the lower one: two rows of a table. The *rank* of an end, its position among the events, is computed
once per block for each distinct end, however many trees use it. All comparisons are those of float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel
from tamis.kernels.emit import lowest_bit

__all__ = ["ACCEPT", "BLOCK", "REJECT", "TreeColumns", "TreeEnds", "decide_trees", "match_trees"]

#: Events that go through a tree together, and the words of their mask.
BLOCK = 512
_WORDS = BLOCK // 64

#: Where a tree ends: it holds, or it does not.
ACCEPT = -1
REJECT = -2

_Masks = npt.NDArray[np.uint64]
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Shorts = npt.NDArray[np.int16]

#: A block of events: the masks of its lowest events on each axis, by their low and their high ends, and the ranks
#: uint16[2, ends]: how many events lie below an end with all they have, and how many reach down to it.
_Block = tuple[_Masks, _Masks, npt.NDArray[np.uint16]]


class TreeColumns(NamedTuple):
    """Tree t belongs to ``row[t]`` and has the steps ``step_at[t]:step_at[t + 1]``.

    A step tests for a value between the ends ``lower`` and ``upper`` of an axis; ``~lower``: for a value outside them.
    ``yes`` and ``no`` count from the first step of the tree; -1: the tree holds, -2: it does not.
    """

    row: _Ints
    living: npt.NDArray[np.uint8]
    step_at: _Longs
    lower: _Ints
    upper: _Ints
    yes: _Shorts
    no: _Shorts


class TreeEnds(NamedTuple):
    """The different ends of all steps: an axis and a value each; ``order`` sorts them by axis and value.

    The ends of the k-th axis that has any are ``order[axis_at[k]:axis_at[k + 1]]``; ``place`` is the k of each end.
    """

    axis: _Ints
    value: _Floats
    order: _Longs
    axis_at: _Longs
    place: _Ints


@kernel
def _lay_axis(values: _Floats, lowest: _Masks) -> _Longs:
    """Write the masks of the lowest events of an axis; return the events that have a value, in its order."""
    present = np.flatnonzero(~np.isnan(values))
    order = present[np.argsort(values[present])]
    lowest[0, :] = 0
    for n in range(len(order)):
        for w in range(_WORDS):
            lowest[n + 1, w] = lowest[n, w]
        lowest[n + 1, order[n] >> 6] |= np.uint64(1) << np.uint64(order[n] & 63)
    return order


@hot_kernel
def _rank(values: _Floats, order: _Longs, ends: TreeEnds, k: Int, ranks: npt.NDArray[np.uint16], below: Int) -> None:
    """Write for each end of an axis how many events lie up to it or, ``below``, below it."""
    rank = 0
    for i in range(ends.axis_at[k], ends.axis_at[k + 1]):
        end = ends.value[ends.order[i]]
        while rank < len(order) and (values[order[rank]] < end or (not below and values[order[rank]] == end)):
            rank += 1
        ranks[ends.order[i]] = rank


@kernel
def _lay_block(
    points: tuple[_Floats, _Floats, bool], ends: TreeEnds, lows: _Masks, highs: _Masks, ranks: npt.NDArray[np.uint16]
) -> None:
    """Lay the events of a block on all axes that have ends."""
    low, high, is_point = points
    for k in range(len(ends.axis_at) - 1):
        axis = ends.axis[ends.order[ends.axis_at[k]]]
        values = low[:, axis]
        order = _lay_axis(values, lows[k])
        _rank(values, order, ends, k, ranks[1], False)
        if not is_point:
            values = high[:, axis]
            order = _lay_axis(values, highs[k])
        _rank(values, order, ends, k, ranks[0], True)


@hot_kernel
def _take_all(trees: TreeColumns, t: Int, axis_of: _Ints, block: _Block, mask: _Masks) -> Int:
    """Apply the leading steps of a tree that must all hold to ``mask``.

    Return how many there are; -1 if no event is left. Most trees end here, so this does not need the masks of `_take`.
    """
    lows, highs, ranks = block
    first, last = trees.step_at[t], trees.step_at[t + 1] - 1
    i = first
    while i <= last and trees.no[i] == REJECT and trees.yes[i] == (ACCEPT if i == last else i - first + 1):
        lower, upper = trees.lower[i], trees.upper[i]
        turned = np.uint64(0)
        if lower < 0:
            lower, turned = ~lower, ~np.uint64(0)
        above, up_to = highs[axis_of[upper], ranks[0, lower]], lows[axis_of[upper], ranks[1, upper]]
        any_event = np.uint64(0)
        for w in range(_WORDS):
            passed = mask[w] & ((up_to[w] & ~above[w]) ^ turned)
            mask[w] = passed
            any_event |= passed
        if any_event == 0:
            return -1
        i += 1
    return i - first


@hot_kernel
def _take(trees: TreeColumns, t: Int, axis_of: _Ints, block: _Block, masks: _Masks) -> Int:
    """Apply a tree to the events of ``masks[0]``; return the row of ``masks`` with its matches, -1: it has none."""
    lows, highs, ranks = block
    first = trees.step_at[t]
    n = trees.step_at[t + 1] - first
    begin = _take_all(trees, t, axis_of, block, masks[0])
    if begin < 0 or begin == n:
        return -1 if begin < 0 else 0
    for i in range(1, n + 2):
        for w in range(_WORDS):
            masks[i, w] = masks[0, w] if i == begin else np.uint64(0)
    for i in range(begin, n):
        any_event = np.uint64(0)
        for w in range(_WORDS):
            any_event |= masks[i, w]
        if any_event == 0:
            continue
        lower, upper = trees.lower[first + i], trees.upper[first + i]
        turned = np.uint64(0)
        if lower < 0:
            lower, turned = ~lower, ~np.uint64(0)
        above, up_to = highs[axis_of[upper], ranks[0, lower]], lows[axis_of[upper], ranks[1, upper]]
        yes, no = trees.yes[first + i], trees.no[first + i]
        yes, no = yes if yes >= 0 else n - 1 - yes, no if no >= 0 else n - 1 - no
        for w in range(_WORDS):
            reached = masks[i, w]
            passed = reached & ((up_to[w] & ~above[w]) ^ turned)
            masks[yes, w] |= passed
            masks[no, w] |= reached ^ passed
    return n


@hot_kernel
def _all_events(n: Int, mask: _Masks) -> None:
    """Set the mask of a block with n events."""
    for w in range(_WORDS):
        n_bits = max(0, min(64, n - 64 * w))
        mask[w] = ~np.uint64(0) if n_bits == 64 else (np.uint64(1) << np.uint64(n_bits)) - np.uint64(1)


@kernel
def match_trees(
    trees: TreeColumns, ends: TreeEnds, points: tuple[_Floats, _Floats, bool], longest: Int
) -> tuple[_Ints, _Ints]:
    """Return event and row of each match. Events lie between low and high float64[n, axes], NaN without a value.

    ``points`` are both and whether they are the same; ``longest`` is the number of steps of the longest tree. An event
    that is not a point meets a step if it may.
    """
    low, high, is_point = points
    lows = np.empty((len(ends.axis_at) - 1, BLOCK + 1, _WORDS), np.uint64)
    highs = lows if is_point else np.empty_like(lows)
    ranks, masks = np.empty((2, len(ends.axis)), np.uint16), np.empty((longest + 2, _WORDS), np.uint64)
    events, rows, count = np.empty(4096, np.int32), np.empty(4096, np.int32), 0
    for begin in range(0, len(low), BLOCK):
        n = min(BLOCK, len(low) - begin)
        _lay_block((low[begin : begin + n], high[begin : begin + n], is_point), ends, lows, highs, ranks)
        for t in range(len(trees.row)):
            if not trees.living[t]:
                continue
            _all_events(n, masks[0])
            mask_row = _take(trees, t, ends.place, (lows, highs, ranks), masks)
            if mask_row < 0:
                continue
            if count + BLOCK > len(rows):
                events, rows = np.append(events, events), np.append(rows, rows)
            for w in range(_WORDS):
                word = masks[mask_row, w]
                while word:
                    events[count], rows[count] = begin + 64 * w + lowest_bit(word), trees.row[t]
                    count += 1
                    word &= word - np.uint64(1)
    return events[:count], rows[:count]


@kernel
def decide_trees(
    trees: TreeColumns, ends: TreeEnds, low: _Floats, high: _Floats, pairs: tuple[_Longs, _Longs]
) -> npt.NDArray[np.bool_]:
    """Return for each pair of event and tree whether the tree holds."""
    events, numbers = pairs
    holds = np.empty(len(events), np.bool_)
    for p in range(len(events)):
        event, t = events[p], numbers[p]
        first = trees.step_at[t]
        i: Int = 0
        while i >= 0:
            lower, upper = trees.lower[first + i], trees.upper[first + i]
            is_inside_wanted = lower >= 0
            lower = lower if is_inside_wanted else ~lower
            axis = ends.axis[upper]
            inside = low[event, axis] <= ends.value[upper] and high[event, axis] >= ends.value[lower]
            i = trees.yes[first + i] if inside == is_inside_wanted else trees.no[first + i]
        holds[p] = i == ACCEPT and trees.living[t] != 0
    return holds
