"""The range table beside a set of keys, and its clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.curves.runs import NO_RUNS, merged
from tamis.errors import InvariantError, ModelError
from tamis.index.mics.table import RangeTable
from tests.unit.curves.naive_curves import keys_of, runs_of


@pytest.mark.parametrize("gap", [0, 3])
def test_random_histories_against_a_set(gap: int) -> None:
    rng, table, live = np.random.default_rng(gap), RangeTable(500, gap), list[np.ndarray]()
    for step in range(300):
        if live and rng.random() < (0.3 if step < 200 else 0.8):
            table.remove(live.pop(int(rng.integers(len(live)))))
        else:
            starts = rng.integers(0, 480, rng.integers(0, 5))
            live.append(merged([[a, a + int(rng.integers(0, 20))] for a in starts.tolist()]))
            table.add(live[-1])
        union = runs_of(set().union(*map(keys_of, live)), gap)
        assert table.ranges().tolist() == union
        keys = rng.integers(0, 500, 40)
        inside = keys_of(union)
        assert table.matches(keys).tolist() == [int(key) in inside for key in keys]
        question = merged([[int(keys[0]), min(int(keys[0]) + 30, 499)]])
        assert keys_of(table.uncovered(question)) == keys_of(question) - inside
        assert table.covers(question) == (keys_of(question) <= inside)
    table.check_invariants()
    for runs in live:
        table.remove(runs)
    assert table.is_empty
    assert table.ranges().tolist() == []


def test_many_parts_at_once_and_many_nodes() -> None:
    table = RangeTable(100_000)
    comb = merged([[i, i] for i in range(0, 60_000, 2)])
    assert table.add(comb).tolist() == comb.tolist()
    assert len(table.add(merged([[0, 59_999]]))) == 30_000
    assert table.n_steps > 50_000
    assert len(table.remove(comb)) == 0
    assert table.ranges().tolist() == [[0, 59_999]]


def test_one_key_and_no_ranges() -> None:
    table = RangeTable(1, gap=5)
    assert table.add(NO_RUNS).tolist() == []
    assert table.add(np.array([[0, 0]])).tolist() == [[0, 0]]
    assert table.covers(np.array([[0, 0]]))
    assert table.remove(np.array([[0, 0]])).tolist() == [[0, 0]]
    assert table.is_empty


@pytest.mark.parametrize("bad", [[[5, 4]], [[-1, 2]], [[5, 100]]])
def test_ranges_outside_the_keys_are_refused(bad) -> None:
    table = RangeTable(100)
    with pytest.raises(ModelError, match="within 0 to 99"):
        table.add(np.array(bad))
    with pytest.raises(ModelError, match="within 0 to 99"):
        table.counts([-1])
    with pytest.raises(ModelError, match="gap"):
        RangeTable(100, gap=-1)


def test_a_broken_table_is_noticed() -> None:
    table = RangeTable(100)
    table.remove(np.array([[3, 5]]))
    with pytest.raises(InvariantError):
        table.check_invariants()


def test_a_range_over_all_keys_is_not_no_range() -> None:
    table = RangeTable(8)
    assert table.is_empty
    table.add(merged([[0, 7]]))
    assert not table.is_empty
    table.remove(merged([[0, 7]]))
    assert table.is_empty
