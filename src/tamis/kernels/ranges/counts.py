"""How many ranges lie over each key, as a function with steps, in a B+-tree.

The keys 0 to ``top - 1`` fall into *steps* of equal count; an entry of the tree is the first key of a step, its value
the count. Neighbouring steps differ, so a step of count 0 is a whole *gap* between ranges that overlap or touch, and
the merged ranges are what lies between gaps. Entries at 0 and at ``top`` are always there; ``top`` has count 0.

Adding a range raises the counts over it by one. What was a gap there is *new* to the union; taking a range away, what
had count 1 is *lost*. Both are found by the least count of subtrees, one look-up for each, and told together with the
gaps that close or open: with imperfect merging a gap of at most ``gap`` keys between two ranges belongs to the union.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, atomic_kernel, hot_kernel, inline_kernel
from tamis.kernels.ranges.btree import (
    FANOUT,
    HEIGHT,
    N_ENTRIES,
    N_FREE,
    NO_KEY,
    ROOT,
    SPARSE,
    BTree,
    delete_here,
    descend,
    insert_entry,
    insert_here,
    least_of,
    nodes_needed,
    shift_entries,
)

__all__ = ["NODES_SHORT", "OUTPUT_SHORT", "counts_at", "find_gaps", "move_counts", "start_counts"]

#: Why `move_counts` stopped: no free nodes, no room for output.
NODES_SHORT: Final = 1
OUTPUT_SHORT: Final = 2

Step = tuple[Int, Int, Int]


@atomic_kernel
def start_counts(tree: BTree, top: Int) -> None:
    """Make an empty tree the function that is 0 on all keys below ``top``."""
    insert_entry(tree, 0, 0, 0)
    insert_entry(tree, top, 0, 0)


@inline_kernel
def _next_key(tree: BTree, leaf: Int, at: Int) -> Int:
    """Return the key of the entry after one that is not the last."""
    if at + 1 < tree.size[leaf]:
        return tree.key[leaf, at + 1]
    return tree.key[tree.next[leaf], 0]


@hot_kernel
def _step_at(tree: BTree, key: Int) -> Step:
    """Return the step that contains a key below ``top``: (first key, last key, count)."""
    path = tree.path[1]
    added = descend(tree, key, 0, path)
    leaf, at = path[tree.state[HEIGHT], 0], path[tree.state[HEIGHT], 1]
    return tree.key[leaf, at], _next_key(tree, leaf, at) - 1, added + tree.low[leaf, at]


@hot_kernel
def _seek(tree: BTree, key: Int, most: Int) -> tuple[Int, Int]:
    """Return the first step that ends at or after a key and has a count of at most ``most``: (first key, last key)."""
    path = tree.path[1]
    height = tree.state[HEIGHT]
    added = descend(tree, key, 0, path)
    depth = height
    node, at = path[depth, 0], path[depth, 1]
    while added + tree.low[node, at] > most or depth < height:
        if added + tree.low[node, at] <= most:  # somewhere below
            path[depth, 1] = at
            added += tree.add[node, at]
            node = np.int64(tree.child[node, at])
            depth += 1
            at = np.int64(0)
            path[depth, 0] = node
            continue
        at += 1
        while at == tree.size[node]:  # the end of a node: the entry at ``top`` has count 0, so the root never ends
            depth -= 1
            node = path[depth, 0]
            added -= tree.add[node, path[depth, 1]]
            at = path[depth, 1] + 1
    if tree.next[node] < 0 and at + 1 == tree.size[node]:
        return tree.key[node, at], tree.key[node, at]
    return tree.key[node, at], _next_key(tree, node, at) - 1


@inline_kernel
def _is_closed(first: Int, last: Int, top: Int, gap: Int) -> bool:
    """Whether a gap is merged over: short enough, and between two ranges."""
    return bool(first > 0 and last < top - 1 and last - first < gap)


@hot_kernel
def _tell_new(step: Step, bounds: Step, gap: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Write what the union gains when ``bounds`` = (first, last, top) is laid over the gap ``step``."""
    first, last, top = bounds
    start, stop = step[0], step[1]
    if _is_closed(start, stop, top, gap):
        return count
    out[count, 0], out[count, 1] = max(first, start), min(last, stop)
    if start < first and _is_closed(start, first - 1, top, gap):
        out[count, 0] = start
    if last < stop and _is_closed(last + 1, stop, top, gap):
        out[count, 1] = stop
    return count + 1


@hot_kernel
def _tell_lost(tree: BTree, step: Step, bounds: Step, gap: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Write what the union loses when ``bounds`` is removed from ``step``, where it is the last range."""
    first, last, top = bounds
    start, stop = max(first, step[0]), min(last, step[1])
    if gap == 0:
        out[count, 0], out[count, 1] = start, stop
        return count + 1
    low, high = start, stop
    if start == first and first > 0:
        step_before = _step_at(tree, first - 1)
        low = step_before[0] if step_before[2] == 0 else start
    if stop == last and last < top - 1:
        step_after = _step_at(tree, last + 1)
        high = step_after[1] if step_after[2] == 0 else stop
    if _is_closed(low, high, top, gap):
        return count
    out[count, 0], out[count, 1] = start, stop
    if low < start and _is_closed(low, start - 1, top, gap):
        out[count, 0] = low
    if stop < high and _is_closed(stop + 1, high, top, gap):
        out[count, 1] = high
    return count + 1


@hot_kernel
def _tell(tree: BTree, bounds: Step, change: Int, gap: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Write what the union gains or loses by a range; return the new count, -1 when there is no room."""
    limit = np.int64(0) if change > 0 else np.int64(1)
    key = bounds[0]
    while key <= bounds[1]:
        start, stop = _seek(tree, key, limit)
        if start > bounds[1]:
            break
        if count == out.shape[0]:
            return -1
        step = (start, stop, limit)
        if change > 0:
            count = _tell_new(step, bounds, gap, out, count)
        else:
            count = _tell_lost(tree, step, bounds, gap, out, count)
        key = stop + 1
    return count


@hot_kernel
def _cut(tree: BTree, key: Int) -> None:
    """Let a step begin at a key."""
    path = tree.path[0]
    descend(tree, key, 0, path)
    leaf, at = path[tree.state[HEIGHT], 0], path[tree.state[HEIGHT], 1]
    if tree.key[leaf, at] != key:
        insert_here(tree, key, 0, tree.low[leaf, at])


@hot_kernel
def _heal(tree: BTree, key: Int) -> None:
    """Join the step that begins at a key with the one before when their counts are equal."""
    path = tree.path[0]
    count = descend(tree, key, 0, path)
    leaf, at = path[tree.state[HEIGHT], 0], path[tree.state[HEIGHT], 1]
    if tree.key[leaf, at] != key or key == 0:
        return
    count += tree.low[leaf, at]
    if at > 0:
        equal = tree.low[leaf, at - 1] == tree.low[leaf, at]
    else:
        equal = _step_at(tree, key - 1)[2] == count
    if equal:
        delete_here(tree)


@hot_kernel
def _shift_in_leaf(tree: BTree, after: Int, change: Int) -> tuple[bool, bool]:
    """Change the counts of the steps of one leaf from the end of the first path to the one before ``after``.

    Return whether the step at the end of the path, and the one at ``after``, may be equal to the one before it.
    """
    path, depth = tree.path[0], tree.state[HEIGHT]
    leaf, start = path[depth, 0], path[depth, 1]
    stop = start
    while tree.key[leaf, stop] != after:
        tree.low[leaf, stop] += change
        stop += 1
    for above in range(depth - 1, -1, -1):
        node, place = path[above, 0], path[above, 1]
        tree.low[node, place] = tree.add[node, place] + least_of(tree, path[above + 1, 0])
    first_is_equal = start == 0 or tree.low[leaf, start] == tree.low[leaf, start - 1]
    return first_is_equal, tree.low[leaf, stop] == tree.low[leaf, stop - 1]


@hot_kernel
def _shift(tree: BTree, first: Int, after: Int, change: Int) -> tuple[bool, bool]:
    """Change the counts of all steps from the one that begins at ``first`` to the one before ``after``.

    Return whether these two may have become equal to the steps before them.
    """
    left, right = tree.path[0], tree.path[1]
    descend(tree, first, 0, left)
    height = tree.state[HEIGHT]
    leaf = left[height, 0]
    if after <= tree.key[leaf, tree.size[leaf] - 1]:  # the usual case: one leaf holds both
        return _shift_in_leaf(tree, after, change)
    descend(tree, after, 0, right)
    for depth in range(height, -1, -1):
        is_leaf = depth == height
        node, start = left[depth, 0], left[depth, 1]
        right_node, stop = right[depth, 0], right[depth, 1]
        if not is_leaf:
            tree.low[node, start] = tree.add[node, start] + least_of(tree, left[depth + 1, 0])
            tree.low[right_node, stop] = tree.add[right_node, stop] + least_of(tree, right[depth + 1, 0])
            start += 1
        if node == right_node:
            shift_entries(tree, node, start, stop, change, is_leaf)
        else:
            shift_entries(tree, node, start, np.int64(tree.size[node]), change, is_leaf)
            shift_entries(tree, right_node, np.int64(0), stop, change, is_leaf)
    return True, True


@hot_kernel
def _tell_in_leaf(tree: BTree, bounds: Step, limit: Int, stop: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Write what the union gains or loses by a range that lies in the steps before place ``stop`` of a leaf."""
    leaf, at = tree.path[0, tree.state[HEIGHT], 0], tree.path[0, tree.state[HEIGHT], 1]
    for i in range(at, stop):
        if tree.low[leaf, i] == limit:
            out[count, 0] = max(bounds[0], tree.key[leaf, i])
            out[count, 1] = min(bounds[1], tree.key[leaf, i + 1] - 1)
            count += 1
    return count


@hot_kernel
def _rewrite_leaf(tree: BTree, bounds: Step, change: Int, stop: Int) -> None:
    """Change the counts over a range and let steps begin and end where it does, in the leaf of the first path."""
    first, after = bounds[0], bounds[1] + 1
    leaf, at = tree.path[0, tree.state[HEIGHT], 0], tree.path[0, tree.state[HEIGHT], 1]
    key, low, keys, lows, n = tree.key[leaf], tree.low[leaf], tree.spare[0], tree.spare[1], np.int64(0)
    if key[at] != first:  # the step is cut where the range begins
        keys[0], lows[0], keys[1], lows[1] = key[at], low[at], first, low[at] + change
        n = np.int64(2)
    elif low[at] + change != low[at - 1]:  # otherwise it becomes a part of the step before
        keys[0], lows[0] = first, low[at] + change
        n = np.int64(1)
    for i in range(at + 1, stop):
        keys[n], lows[n] = key[i], low[i] + change
        n += 1
    if key[stop] != after:
        keys[n], lows[n] = after, low[stop - 1]
        n += 1
    elif low[stop] == low[stop - 1] + change and after < bounds[2]:
        stop += 1
    for i in range(stop, tree.size[leaf]):
        keys[n], lows[n] = key[i], low[i]
        n += 1
    for i in range(n):
        key[at + i], low[at + i] = keys[i], lows[i]
    for i in range(at + n, tree.size[leaf]):
        key[i] = NO_KEY
    tree.state[N_ENTRIES] += at + n - tree.size[leaf]
    tree.size[leaf] = at + n


@hot_kernel
def _move_in_leaf(tree: BTree, bounds: Step, change: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Do what `move_counts` does for a range that lies in one leaf with room; return the new count, -1 if it does not.

    That is the usual case, and takes one way down the tree instead of five.
    """
    path, depth = tree.path[0], tree.state[HEIGHT]
    added = descend(tree, bounds[0], 0, path)
    leaf, at = path[depth, 0], path[depth, 1]
    size = np.int64(tree.size[leaf])
    if tree.key[leaf, size - 1] <= bounds[1] or size + 2 > FANOUT or (depth > 0 and size < SPARSE + 2):
        return -1
    if at == 0 and tree.key[leaf, 0] == bounds[0]:  # the step before is in another leaf
        return -1
    stop = at + 1
    while tree.key[leaf, stop] <= bounds[1]:
        stop += 1
    if count + stop - at > out.shape[0]:
        return -1
    limit = (np.int64(0) if change > 0 else np.int64(1)) - added
    count = _tell_in_leaf(tree, bounds, limit, stop, out, count)
    _rewrite_leaf(tree, bounds, change, stop)
    for above in range(depth - 1, -1, -1):
        node, place = path[above, 0], path[above, 1]
        least = tree.add[node, place] + least_of(tree, path[above + 1, 0])
        if tree.low[node, place] == least:
            break
        tree.low[node, place] = least
    return count


@atomic_kernel
def move_counts(
    tree: BTree,
    ranges: npt.NDArray[np.int64],
    change: Int,
    top: Int,
    gap: Int,
    out: npt.NDArray[np.int64],
    cursor: npt.NDArray[np.int64],
) -> Int:
    """Change the counts over ranges int64[n, 2] by +1 or -1 and tell what the union gains or loses; return 0 if done.

    ``cursor`` is [the next range, how many lines of ``out`` are written]; it and the tree are left as they are before
    a range that needs more room, and `NODES_SHORT` or `OUTPUT_SHORT` says which.
    """
    while cursor[0] < ranges.shape[0]:
        first, last = ranges[cursor[0], 0], ranges[cursor[0], 1]
        if tree.state[N_FREE] < 2 * nodes_needed(tree) + 2:
            return NODES_SHORT
        if gap == 0:
            count = _move_in_leaf(tree, (first, last, np.int64(top)), change, out, cursor[1])
            if count >= 0:
                cursor[0] += 1
                cursor[1] = count
                continue
        count = _tell(tree, (first, last, np.int64(top)), change, gap, out, cursor[1])
        if count < 0:
            return OUTPUT_SHORT
        _cut(tree, first)
        _cut(tree, last + 1)
        first_is_equal, next_is_equal = _shift(tree, first, last + 1, change)
        if next_is_equal and last + 1 < top:
            _heal(tree, last + 1)
        if first_is_equal:
            _heal(tree, first)
        cursor[0] += 1
        cursor[1] = count
    return 0


@inline_kernel
def _place_of(tree: BTree, node: Int, key: Int) -> Int:
    """Return the place of the last entry of a node at or before a key that is not below the first."""
    place = np.int64(-1)
    for i in range(FANOUT):
        place += tree.key[node, i] <= key
    return place


@atomic_kernel
def counts_at(tree: BTree, keys: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
    """Write how many ranges lie over each key, which is not negative; `descend` without a path to remember."""
    for i in range(keys.size):
        node = tree.state[ROOT]
        count = np.int64(0)
        for _ in range(tree.state[HEIGHT]):
            place = _place_of(tree, node, keys[i])
            count += tree.add[node, place]
            node = np.int64(tree.child[node, place])
        counts[i] = count + tree.low[node, _place_of(tree, node, keys[i])]


@atomic_kernel
def find_gaps(tree: BTree, first: Int, last: Int, out: npt.NDArray[np.int64]) -> Int:
    """Write the gaps that meet ``first`` to ``last``, whole; return how many, or as many as ``out`` holds."""
    count = 0
    key = first
    while key <= last and count < out.shape[0]:
        start, stop = _seek(tree, key, 0)
        if start > last:
            break
        out[count, 0], out[count, 1] = start, stop
        count += 1
        key = stop + 1
    return count
