"""Subscription indexing: finds the subscriptions whose ranges contain a key, as candidates for exact algorithms.

Every range is kept with its owner, ordered by its start. A key finds the owners of the ranges over it, ranges find the
owners they meet. Both are candidates: owners of none of the keys are out, the others are tested exactly. So a match
of the first phase is COMPLETE and not SOUND, and the second phase makes it EXACT.

Implements: [mics] section 5, Subscription Indexing.
Deviation: a leaf holds a range as it came and its owner, where [mics] lists at a merged range all owners that went
into it. Merged ranges grow until a list names nearly every owner; ranges as they came name only those at the key.
Deviation: all ranges of a new subscription are looked up, not their starts alone: starts find every coverer, but miss
one in seven of those that overlap and could merge or subsume (erratum M.3.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tamis.curves.runs import Runs
from tamis.index.protocols import Guarantee

if TYPE_CHECKING:
    from tamis.kernels.ranges.btree import BTree

__all__ = ["SubscriptionIndex"]

IntArray = npt.NDArray[np.int64]

_FIRST_NODES = 64
#: Keys that are looked up at once, under Python's lock.
_CHUNK = 1_024


class SubscriptionIndex:
    """Ranges of keys with their owners, which are numbers.

    `add` and `remove` take O(log n) for each range; an answer of m owners takes O((m + 1) log n).

    >>> index = SubscriptionIndex()
    >>> index.add(1, np.array([[0, 5], [9, 9]]))
    >>> index.add(2, np.array([[4, 6]]))
    >>> index.owners([4, 7, 9]), index.owners_meeting(np.array([[6, 8]]))
    ((array([0, 2, 2, 3]), array([1, 2, 1])), array([2]))
    """

    #: The guarantee of the candidates before they are verified.
    guarantee = Guarantee.COMPLETE

    def __init__(self) -> None:
        from tamis.kernels.ranges.btree import make_tree  # late: importing tamis must not import numba

        self._tree: BTree = make_tree(_FIRST_NODES)
        self._room = 256

    def __len__(self) -> int:
        """The number of ranges there are."""
        from tamis.kernels.ranges.btree import N_ENTRIES

        return int(self._tree.state[N_ENTRIES])

    def add(self, owner: int, ranges: Runs) -> None:
        """Add the ranges of an owner, which are apart."""
        from tamis.kernels.ranges.btree import make_tree
        from tamis.kernels.ranges.owners import add_ranges

        checked = np.ascontiguousarray(ranges, dtype=np.int64)
        done = 0
        while (done := add_ranges(self._tree, checked, owner, done)) < len(checked):
            # Readers keep the old arrays, which stay as they are.
            self._tree = make_tree(2 * len(self._tree.size), self._tree)

    def remove(self, owner: int, ranges: Runs) -> None:
        """Remove the ranges of an owner; raise `KeyError` if one is absent."""
        from tamis.kernels.ranges.owners import remove_ranges

        checked = np.ascontiguousarray(ranges, dtype=np.int64)
        if remove_ranges(self._tree, checked, owner) < len(checked):
            raise KeyError(owner)

    def owners(self, keys: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        """Return the owners of each key, in any order: those of key i are ``owners[offsets[i]:offsets[i + 1]]``."""
        from tamis.kernels.ranges.owners import owners_of_keys

        checked = np.ascontiguousarray(keys, dtype=np.int64)
        offsets, parts, last = [np.zeros(1, np.int64)], [], 0
        for start in range(0, len(checked), _CHUNK):
            chunk = checked[start : start + _CHUNK]
            counts, done = np.zeros(len(chunk) + 1, np.int64), 0
            out = np.empty(self._room, np.int64)
            while (done := owners_of_keys(self._tree, chunk, done, counts, out)) < len(chunk):
                out = np.concatenate([out, np.empty(3 * len(out), np.int64)])
                self._room = len(out)
            parts.append(out[: counts[-1]])
            offsets.append(counts[1:] + last)
            last += int(counts[-1])
        return np.concatenate(offsets), np.concatenate([np.empty(0, np.int64), *parts])

    def owners_meeting(self, ranges: Runs) -> IntArray:
        """Return the owners of a key of these ranges, ascending: candidates to be covered, to subsume and to merge."""
        from tamis.kernels.ranges.owners import owners_between

        checked = np.ascontiguousarray(ranges, dtype=np.int64)
        out = np.empty(self._room, np.int64)
        while (count := owners_between(self._tree, checked, out)) < 0:
            out = np.empty(4 * len(out), np.int64)
            self._room = len(out)
        return np.unique(out[:count])

    def possible_covers(self, ranges: Runs) -> IntArray:
        """Return the owners of the first and the last key of these ranges, ascending: every cover is among them.

        Whether one of them covers is for `tamis.algebra.covers` to say: two boxes in the same cells may differ.
        """
        if not len(ranges):
            return np.empty(0, np.int64)
        offsets, owners = self.owners([ranges[0, 0], ranges[-1, 1]])
        return np.intersect1d(owners[: offsets[1]], owners[offsets[1] :])
