"""The subscription table: all ranges of a link, merged, in an ordered structure with linked leaves.

A B+-tree keyed by the start of a range holds the union of all ranges that were added, and over each part of it how
many of them lie there. That count is what the paper's table lacks: without it a range that was merged cannot be taken
away again. One look-up at the start of a range finds its step; from there the parts that are new to the union are
collected: a neighbour needs exactly these.

=========================== ==========================================================================================
covering, subsumption       nothing is new: the range lies inside the union
partial, both               single ranges, or parts of one, are new and the rest is not
perfect merging             ranges that overlap or touch are one range of the union
imperfect merging (``gap``) at most ``gap`` keys between two ranges belong to the union, too
repeated merging            a merged range merges again: the union is a function of the ranges, whatever their order
=========================== ==========================================================================================

Implements: [mics] section 4.1 (structure), Algorithm 1 Subscription subsumption and merging, Algorithm 2 Publication
matching.
Deviation: Algorithm 1 as printed stores no new range, forwards only after a merge with the right neighbour, merges
with a left neighbour that does not touch, and leaves out the cases without a left or a right neighbour (errata M.3.1
to M.3.3); here every case is the same.
Deviation: what is new to the *merged* union is forwarded, as in the pseudo-code; the text forwards the new range, which
loses events once gaps are merged over (M.3.4).
Deviation: ranges are counted, so that taking one away is exact (M.3.5); there is no passive list of covered ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tamis.curves.runs import NO_RUNS, Runs, difference, merged
from tamis.errors import InvariantError, ModelError

if TYPE_CHECKING:
    from tamis.kernels.ranges.btree import BTree

__all__ = ["RangeTable"]

_FIRST_NODES = 64
_FIRST_OUTPUT = 256


class RangeTable:
    """Ranges of the keys 0 to ``n_keys - 1``, counted and merged; see the module's text.

    `add` and `remove` take O(log n) for each range and for each part of the union that comes or goes.

    Examples
    --------
    >>> table = RangeTable(100, gap=5)
    >>> table.add(merged([[10, 20], [24, 30]])).tolist()  # 21 to 23 are merged over, and told
    [[10, 30]]
    >>> table.add(merged([[21, 23]])).tolist(), table.remove(merged([[24, 30]])).tolist()
    ([], [[24, 30]])
    """

    def __init__(self, n_keys: int, gap: int = 0) -> None:
        if n_keys < 1 or gap < 0:
            raise ModelError(f"a table needs keys and a gap that is not negative, not {n_keys} and {gap}")
        from tamis.kernels.ranges.btree import make_tree  # late: importing tamis must not import numba
        from tamis.kernels.ranges.counts import start_counts

        self.n_keys = n_keys
        self.gap = gap
        self._tree: BTree = make_tree(_FIRST_NODES)
        start_counts(self._tree, n_keys)

    def add(self, ranges: Runs) -> Runs:
        """Add ranges to the table; return the keys that are new in its union."""
        return self._move(self._checked(ranges), 1)

    def remove(self, ranges: Runs) -> Runs:
        """Remove ranges that were added before; return the keys that the union loses.

        The caller must have added these ranges before: others make the table wrong.
        """
        return self._move(self._checked(ranges), -1)

    def fit_gap(self, share: float, most: int) -> tuple[Runs, Runs]:
        """Choose a new gap; return what the union gains and loses.

        It is the largest that adds at most a ``share`` of all keys, or, with ``most`` above 0, the smallest that leaves
        at most ``most`` ranges. Takes time in proportion to the ranges.

        Implements: [mics] section 3.6, imperfect merging under control of false positives and table size.
        """
        before = self.ranges()
        stretches = self.gaps(0, self.n_keys - 1)
        inner = stretches[(stretches[:, 0] > 0) & (stretches[:, 1] < self.n_keys - 1)]
        lengths = np.sort(inner[:, 1] - inner[:, 0] + 1)
        n_closed = int(np.searchsorted(np.cumsum(lengths), share * self.n_keys, side="right"))
        if most:
            n_closed = max(len(lengths) + 1 - most, 0)
        elif n_closed < len(lengths):  # gaps of one length are closed all or none
            n_closed = int(np.searchsorted(lengths, lengths[n_closed], side="left"))
        self.gap = int(lengths[min(n_closed, len(lengths)) - 1]) if n_closed else 0
        after = self.ranges()
        return difference(after, before), difference(before, after)

    def counts(self, keys: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return how many of the ranges contain each key."""
        from tamis.kernels.ranges.counts import counts_at

        checked = np.ascontiguousarray(keys, dtype=np.int64)
        if checked.size and checked.min() < 0:
            raise ModelError(f"keys lie within 0 to {self.n_keys - 1}")
        counts = np.empty(checked.shape, np.int64)
        counts_at(self._tree, checked, counts)
        return counts

    def matches(self, keys: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return for each key whether it is in the union. Implements: [mics] Algorithm 2 Publication matching."""
        is_covered = self.counts(keys) > 0
        if self.gap:
            checked = np.asarray(keys, dtype=np.int64)
            for i in np.flatnonzero(~is_covered):
                [[first, last]] = self.gaps(int(checked[i]), int(checked[i]))
                is_covered[i] = self._is_closed(first, last)
        return is_covered

    def covers(self, ranges: Runs) -> bool:
        """Whether the union has every key of these ranges: subsumption. This holds for cells, not for exact boxes."""
        return not len(self.uncovered(ranges))

    def uncovered(self, ranges: Runs) -> Runs:
        """Return the keys of these ranges that are not in the union: what partial subsumption leaves."""
        left = [
            (max(first, start), min(last, end))
            for start, end in self._checked(ranges).tolist()
            for first, last in self.gaps(start, end).tolist()
            if not self._is_closed(first, last)
        ]
        return np.array(left, np.int64) if left else NO_RUNS

    def ranges(self) -> Runs:
        """Return the union as merged ranges, ascending."""
        return self.within(0, self.n_keys - 1)

    def within(self, first: int, last: int) -> Runs:
        """Return the merged ranges of the union within ``first`` to ``last``, cut at both ends."""
        gaps = self.gaps(first, last)
        if self.gap:
            gaps = gaps[[not self._is_closed(a, b) for a, b in gaps.tolist()]]
        between = np.empty((len(gaps) + 1, 2), np.int64)
        between[0, 0], between[-1, 1] = first, last
        between[1:, 0], between[:-1, 1] = gaps[:, 1] + 1, gaps[:, 0] - 1
        return between[between[:, 0] <= between[:, 1]]

    def gaps(self, first: int, last: int) -> Runs:
        """Return the stretches of keys without any range that meet ``first`` to ``last``, whole."""
        from tamis.kernels.ranges.counts import find_gaps

        out = np.empty((_FIRST_OUTPUT, 2), np.int64)
        while True:
            count = find_gaps(self._tree, first, last, out)
            if count < len(out):
                return out[:count]
            out = np.empty((4 * len(out), 2), np.int64)

    @property
    def is_empty(self) -> bool:
        """Whether there are no ranges."""
        return self.n_steps == 1 and not self.counts([0])[0]  # one range over all keys is one step, too

    @property
    def n_steps(self) -> int:
        """The number of stretches of equal count, which is the size of the tree."""
        from tamis.kernels.ranges.btree import N_ENTRIES

        return int(self._tree.state[N_ENTRIES]) - 1

    @property
    def most_over_a_key(self) -> int:
        """The number of ranges that contain the key with the most ranges."""
        return int(self.counts(self._starts()).max())

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless counts are right at the ends and neighbouring steps differ."""
        starts = self._starts()
        counts = self.counts(starts)
        if starts[0] != 0 or starts[-1] != self.n_keys or counts[-1] != 0 or (counts < 0).any():
            raise InvariantError(f"steps from {starts[0]} to {starts[-1]} with counts {counts.min()} to {counts.max()}")
        if (np.diff(starts) <= 0).any() or (np.diff(counts[:-1]) == 0).any():
            raise InvariantError("two neighbouring steps of a range table have the same count")

    def _starts(self) -> npt.NDArray[np.int64]:
        """Walk the linked leaves."""
        tree = self._tree
        from tamis.kernels.ranges.btree import HEIGHT, ROOT

        leaf = int(tree.state[ROOT])
        for _ in range(int(tree.state[HEIGHT])):
            leaf = int(tree.child[leaf, 0])
        parts = []
        while leaf >= 0:
            parts.append(tree.key[leaf, : tree.size[leaf]])
            leaf = int(tree.next[leaf])
        return np.concatenate(parts)

    def _is_closed(self, first: int, last: int) -> bool:
        return first > 0 and last < self.n_keys - 1 and last - first < self.gap

    def _checked(self, ranges: Runs) -> Runs:
        checked = np.ascontiguousarray(ranges, dtype=np.int64).reshape(-1, 2)
        if len(checked) and not (
            (checked[:, 0] <= checked[:, 1]).all() and checked.min() >= 0 and checked.max() < self.n_keys
        ):
            raise ModelError(f"ranges of keys lie within 0 to {self.n_keys - 1}, the first key not above the last")
        return checked

    def _move(self, ranges: Runs, change: int) -> Runs:
        from tamis.kernels.ranges.btree import make_tree
        from tamis.kernels.ranges.counts import NODES_SHORT, OUTPUT_SHORT, move_counts

        out, cursor = np.empty((_FIRST_OUTPUT, 2), np.int64), np.zeros(2, np.int64)
        while True:
            short = move_counts(self._tree, ranges, change, self.n_keys, self.gap, out, cursor)
            if short == NODES_SHORT:
                self._tree = make_tree(2 * len(self._tree.size), self._tree)
            elif short == OUTPUT_SHORT:
                out = np.concatenate([out, np.empty((3 * len(out), 2), np.int64)])
            else:
                return merged(out[: cursor[1]])
