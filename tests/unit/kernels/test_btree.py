"""The B+-tree and its two uses against lists, compiled and plain, through growth, splits, joins and emptiness."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tamis.kernels.ranges import btree
from tamis.kernels.ranges import counts as range_counts
from tamis.kernels.ranges import owners as range_owners
from tamis.kernels.ranges.btree import FANOUT, HEIGHT, N_ENTRIES, N_FREE, ROOT, BTree
from tests.unit.curves.naive_curves import keys_of, runs_of


def entries(tree: BTree) -> list[tuple[int, int, int]]:
    """Give (key, tie, value) in order by walking down, and hold every node to its invariants."""

    def walk(node: int, depth: int, added: int) -> Iterator[tuple[int, int, int]]:
        size = int(tree.size[node])
        assert size > 0 or depth == 0
        assert (tree.key[node, size:] == np.iinfo(np.int64).max).all()
        for i in range(size):
            key, tie, low = (int(column[node, i]) for column in (tree.key, tree.tie, tree.low))
            if depth == tree.state[HEIGHT]:
                leaves.append(node) if i == 0 else None
                yield key, tie, low + added
                continue
            child, add = int(tree.child[node, i]), int(tree.add[node, i])
            below = list(walk(child, depth + 1, added + add))
            assert low == add + int(tree.low[child, : tree.size[child]].min())
            assert below[0][:2] == (key, tie)
            yield from below

    leaves: list[int] = []
    entries_found = list(walk(int(tree.state[ROOT]), 0, 0))
    assert entries_found == sorted(entries_found, key=lambda entry: entry[:2])
    assert len(entries_found) == tree.state[N_ENTRIES]
    assert tree.next[leaves].tolist() == [*leaves[1:], -1] if leaves else True
    assert tree.previous[leaves].tolist() == [-1, *leaves[:-1]] if leaves else True
    free, node = 0, int(tree.state[btree.FREE])
    while free < tree.state[N_FREE]:
        free, node = free + 1, int(tree.next[node])
    return entries_found


@pytest.mark.parametrize("seed", range(8))
def test_insert_and_delete_keep_a_sorted_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, model = btree.make_tree(4), dict[tuple[int, int], int]()
    for step in range(3_000):
        growing = step % 1_500 < 900
        entry = (int(rng.integers(0, 120)), int(rng.integers(0, 15)))
        if growing and entry not in model:
            if tree.state[N_FREE] < tree.state[HEIGHT] + 2:
                tree = btree.make_tree(2 * len(tree.size), tree)
            model[entry] = int(rng.integers(-50, 50))
            btree.insert_entry(tree, *entry, model[entry])
        elif model and not growing:
            entry = list(model)[int(rng.integers(len(model)))]
            assert btree.delete_entry(tree, *entry)
            del model[entry]
        else:
            assert btree.delete_entry(tree, *entry) == (model.pop(entry, None) is not None)
        if step % 50 == 0:
            assert entries(tree) == [(*key, value) for key, value in sorted(model.items())]
    assert not btree.delete_entry(tree, 999, 0)
    for entry in list(model):
        assert btree.delete_entry(tree, *entry)
    assert entries(tree) == []
    assert tree.state[HEIGHT] == 0
    assert tree.state[N_FREE] == len(tree.size) - 1


def test_ascending_and_descending_insertion() -> None:
    for order in (range(2_000), range(1_999, -1, -1)):
        tree = btree.make_tree(400)
        for key in order:
            btree.insert_entry(tree, key, 0, key)
        assert entries(tree) == [(key, 0, key) for key in range(2_000)]
        assert tree.state[HEIGHT] <= 3


class Counted:
    """A range table on the kernels, and the same as an array of counts."""

    def __init__(self, top: int, gap: int, plain: bool = False) -> None:
        self.top, self.gap = top, gap
        self.tree = btree.make_tree(4_000)
        range_counts.start_counts(self.tree, top)
        self.counts = np.zeros(top, np.int64)
        self.move_counts = range_counts.move_counts.py_func if plain else range_counts.move_counts

    def union(self) -> set[int]:
        return keys_of(runs_of(np.flatnonzero(self.counts).tolist(), self.gap))

    def move(self, first: int, last: int, change: int) -> None:
        before = self.union()
        self.counts[first : last + 1] += change
        out, cursor = np.empty((self.top, 2), np.int64), np.zeros(2, np.int64)
        assert self.move_counts(self.tree, np.array([[first, last]]), change, self.top, self.gap, out, cursor) == 0
        changed, after = keys_of(out[: cursor[1]].tolist()), self.union()
        assert changed == (after - before if change > 0 else before - after)
        assert sum(last - first + 1 for first, last in out[: cursor[1]].tolist()) == len(changed)

    def check(self) -> None:
        owners = np.empty(self.top, np.int64)
        range_counts.counts_at(self.tree, np.arange(self.top), owners)
        assert (owners == self.counts).all()
        changes = np.flatnonzero(np.diff(self.counts, prepend=-1))
        assert [key for key, _, _ in entries(self.tree)] == [*changes.tolist(), self.top]


@pytest.mark.parametrize("gap", [0, 1, 4, 30])
@pytest.mark.parametrize("top", [1, 2, 40, 700, 3_000])
def test_counts_tell_exactly_what_the_union_gains_and_loses(top: int, gap: int) -> None:
    rng, table, live = np.random.default_rng(top + gap), Counted(top, gap), list[tuple[int, int]]()
    for step in range(500):
        if live and rng.random() < (0.3 if step < 300 else 0.9):
            table.move(*live.pop(int(rng.integers(len(live)))), -1)
        else:
            first = int(rng.integers(top))
            live.append((first, min(first + int(rng.integers(rng.choice([1, 8, top]), endpoint=True)), top - 1)))
            table.move(*live[-1], 1)
        if step % 25 == 0:
            table.check()
    for range_ in live:
        table.move(*range_, -1)
    table.check()
    assert table.tree.state[N_ENTRIES] == 2


def test_plain_kernels_are_the_compiled_ones() -> None:
    rng, table, live = np.random.default_rng(5), Counted(300, 3, plain=True), list[tuple[int, int]]()
    for _ in range(60):
        first = int(rng.integers(300))
        live.append((first, min(first + int(rng.integers(30)), 299)))
        table.move(*live[-1], 1)
    table.check()
    for range_ in live[::2]:
        table.move(*range_, -1)
    table.check()


def test_a_range_that_needs_more_room_leaves_everything_as_it_was() -> None:
    tree = btree.make_tree(200)
    range_counts.start_counts(tree, 1_000)
    many, cursor = np.array([[i, i] for i in range(0, 100, 2)]), np.zeros(2, np.int64)
    out = np.empty((60, 2), np.int64)
    assert range_counts.move_counts(tree, many, 1, 1_000, 0, out, cursor) == 0
    before, cursor = entries(tree), np.zeros(2, np.int64)
    small = np.empty((10, 2), np.int64)
    wide = np.array([[0, 99]])
    assert range_counts.move_counts(tree, wide, 1, 1_000, 0, small, cursor) == range_counts.OUTPUT_SHORT
    assert cursor.tolist() == [0, 0]
    assert entries(tree) == before
    full = btree.make_tree(FANOUT)
    range_counts.start_counts(full, 10_000)
    cursor = np.zeros(2, np.int64)
    ranges = np.array([[i, i] for i in range(0, 9_000, 2)])
    out = np.empty((9_000, 2), np.int64)
    assert range_counts.move_counts(full, ranges, 1, 10_000, 0, out, cursor) == range_counts.NODES_SHORT
    done = int(cursor[0])
    larger = btree.make_tree(1_000, full)
    assert range_counts.move_counts(larger, ranges, 1, 10_000, 0, out, cursor) == 0
    assert len([entry for entry in entries(larger) if entry[2]]) == len(ranges)
    assert len([entry for entry in entries(full) if entry[2]]) == done


def test_a_wide_range_touches_few_nodes() -> None:
    """The counts below a subtree that lies inside a range are raised in one place."""
    tree, top = btree.make_tree(9_000), 1 << 40
    range_counts.start_counts(tree, top)
    ranges = np.array([[i * 1_000, i * 1_000 + 400] for i in range(50_000)])
    out, cursor = np.empty((60_000, 2), np.int64), np.zeros(2, np.int64)
    assert range_counts.move_counts(tree, ranges, 1, top, 0, out, cursor) == 0
    before, cursor = tree.low.copy(), np.zeros(2, np.int64)
    covered = np.array([[0, top - 1]])
    assert range_counts.move_counts(tree, covered, 1, top, 0, out, cursor) == 0
    assert cursor[1] == 50_000  # every gap
    assert np.count_nonzero(tree.low != before) < 10 * FANOUT * tree.state[HEIGHT]


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
def test_owners_against_a_list(plain: bool) -> None:
    rng, tree, live = np.random.default_rng(7), btree.make_tree(2_000), dict[int, tuple[int, int]]()
    between = range_owners.owners_between.py_func if plain else range_owners.owners_between
    out = np.empty(5_000, np.int64)
    for step in range(300 if plain else 4_000):
        if live and rng.random() < 0.4:
            owner = list(live)[int(rng.integers(len(live)))]
            assert range_owners.remove_ranges(tree, np.array([live.pop(owner)]), owner) == 1
        else:
            first = int(rng.integers(0, 500))
            live[step] = (first, first + int(rng.integers(0, rng.choice([2, 20, 200]))))
            assert range_owners.add_ranges(tree, np.array([live[step]]), step, 0) == 1
        first = int(rng.integers(-3, 520))
        last = first + int(rng.integers(0, 4))
        count = between(tree, np.array([[first, last]]), out)
        want = [owner for owner, (a, b) in live.items() if a <= last and b >= first]
        assert sorted(out[:count].tolist()) == sorted(want)
        if count:
            assert between(tree, np.array([[first, last]]), out[: count - 1]) == -1
    entries(tree)
    assert range_owners.remove_ranges(tree, np.array([[9_999, 9_999]]), 1) == 0


def test_owners_of_many_keys_resume_when_there_is_no_room() -> None:
    tree = btree.make_tree(100)
    for owner in range(20):
        range_owners.add_ranges(tree, np.array([[owner, owner + 9]]), owner, 0)
    keys, offsets, out = np.arange(40), np.zeros(41, np.int64), np.empty(30, np.int64)
    done = range_owners.owners_of_keys(tree, keys, 0, offsets, out)
    assert 0 < done < 40
    out = np.concatenate([out, np.empty(300, np.int64)])
    assert range_owners.owners_of_keys(tree, keys, done, offsets, out) == 40
    for key in range(40):
        assert sorted(out[offsets[key] : offsets[key + 1]].tolist()) == [o for o in range(20) if o <= key <= o + 9]
