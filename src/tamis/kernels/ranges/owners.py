"""Whose ranges lie over a key: ranges by start and owner, in a B+-tree that knows how far each subtree reaches.

An entry is (start, owner) with ``low = -end``. The ranges over a key are those with ``start <= key`` and
``end >= key``: every subtree whose least ``low`` says that it reaches the key holds one of them, but for the last,
so an answer of m owners takes O((m + 1) log n).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, atomic_kernel, hot_kernel
from tamis.kernels.ranges.btree import HEIGHT, N_FREE, ROOT, BTree, delete_entry, insert_entry, nodes_needed

__all__ = ["add_ranges", "owners_between", "owners_of_keys", "remove_ranges"]


@atomic_kernel
def add_ranges(tree: BTree, ranges: npt.NDArray[np.int64], owner: Int, begin: Int) -> Int:
    """Insert ranges int64[n, 2] of one owner from number ``begin`` on; return the first that found no free nodes."""
    for i in range(begin, ranges.shape[0]):
        if tree.state[N_FREE] < nodes_needed(tree):
            return i
        insert_entry(tree, ranges[i, 0], owner, -ranges[i, 1])
    return ranges.shape[0]


@atomic_kernel
def remove_ranges(tree: BTree, ranges: npt.NDArray[np.int64], owner: Int) -> Int:
    """Delete ranges of one owner by their starts; return how many were there."""
    count = 0
    for i in range(ranges.shape[0]):
        count += delete_entry(tree, ranges[i, 0], owner)
    return count


@hot_kernel
def _owners(tree: BTree, first: Int, last: Int, out: npt.NDArray[np.int64], count: Int) -> Int:
    """Append the owners of the ranges that meet ``first`` to ``last``; return the count, -1 when there is no room."""
    path = tree.path[1]
    height = tree.state[HEIGHT]
    depth = np.int64(0)
    path[0, 0] = tree.state[ROOT]
    path[0, 1] = 0
    while depth >= 0:
        node, at = path[depth, 0], path[depth, 1]
        is_leaf = depth == height
        if at == tree.size[node] or tree.key[node, at] > last:
            depth -= 1
            continue
        path[depth, 1] = at + 1
        if -tree.low[node, at] < first:
            continue
        if not is_leaf:
            depth += 1
            path[depth, 0] = tree.child[node, at]
            path[depth, 1] = 0
        elif count == out.size:
            return -1
        else:
            out[count] = tree.tie[node, at]
            count += 1
    return count


@atomic_kernel
def owners_between(tree: BTree, ranges: npt.NDArray[np.int64], out: npt.NDArray[np.int64]) -> Int:
    """Write the owners of the ranges that meet any of ``ranges``, one for each meeting; -1 when there is no room."""
    count = np.int64(0)
    for i in range(ranges.shape[0]):
        count = _owners(tree, ranges[i, 0], ranges[i, 1], out, count)
        if count < 0:
            return -1
    return count


@atomic_kernel
def owners_of_keys(
    tree: BTree, keys: npt.NDArray[np.int64], begin: Int, offsets: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
) -> Int:
    """Write the owners of the ranges over each key from number ``begin`` on; return the first key that did not fit.

    Those of key i are ``out[offsets[i]:offsets[i + 1]]``.
    """
    for i in range(begin, keys.size):
        count = _owners(tree, keys[i], keys[i], out, offsets[i])
        if count < 0:
            return i
        offsets[i + 1] = count
    return keys.size
