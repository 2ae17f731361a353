"""Ids against a plain dict, under random histories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tamis.engine.ids import Ids
from tamis.errors import DuplicateSubscriptionError, UnknownSubscriptionError
from tamis.model.subscription import SubscriptionId

keys = st.integers(0, 60) | st.sampled_from("abcdef")


class IdsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ids = Ids()
        self.rows: dict[SubscriptionId, int] = {}
        self.ever: list[SubscriptionId] = []
        self.counter = 0

    @rule(some=st.lists(keys, max_size=4))
    def append_many(self, some: list[SubscriptionId]) -> None:
        if len(set(some)) < len(some) or any(new_id in self.rows for new_id in some):
            with pytest.raises(DuplicateSubscriptionError, match="exists"):
                self.ids.append_many(some)
            return
        first = self.ids.append_many(some)
        assert first == len(self.ever)
        self._note(some)

    @rule(n=st.integers(1, 5), gap=st.integers(0, 2))
    def append_range(self, n: int, gap: int) -> None:
        self.counter += gap
        while (taken := self.ids.last_taken(range(self.counter, self.counter + n))) is not None:
            self.counter = taken + 1
        numbers = range(self.counter, self.counter + n)
        assert not any(number in self.rows for number in numbers)
        assert self.ids.append_range(numbers) == len(self.ever)
        self.counter += n
        self._note(list(numbers))

    @rule(id=keys)
    def remove(self, id: SubscriptionId) -> None:
        if id in self.rows:
            assert self.ids.remove(id) == self.rows.pop(id)
        else:
            with pytest.raises(UnknownSubscriptionError, match="no subscription"):
                self.ids.remove(id)

    @rule(id=keys)
    def look_up(self, id: SubscriptionId) -> None:
        assert (id in self.ids) == (id in self.rows)
        if id in self.rows:
            assert self.ids.row(id) == self.rows[id]

    @invariant()
    def everything_agrees(self) -> None:
        assert len(self.ids) == len(self.rows)
        assert self.ids.n_rows == len(self.ever)
        assert list(self.ids.live_rows()) == sorted(self.rows.values())
        assert self.ids.of(np.arange(len(self.ever), dtype=np.int32)) == self.ever

    def _note(self, some: list[SubscriptionId]) -> None:
        for new_id in some:
            self.rows[new_id] = len(self.ever)
            self.ever.append(new_id)


TestIds = IdsMachine.TestCase


class Stored:
    """Ids of rows in a file."""

    def __init__(self, names: list[SubscriptionId], first: int) -> None:
        self._names, self._first = names, first

    def __len__(self) -> int:
        return len(self._names)

    def id(self, row: int) -> SubscriptionId:
        return self._names[row - self._first]

    def ids(self) -> Iterator[tuple[SubscriptionId, int]]:
        return ((name, row) for row, name in enumerate(self._names, self._first))

    def to_arrow(self, rows: npt.NDArray[np.int32]) -> pa.Array:
        return pa.array([self.id(row) for row in rows.tolist()])


def test_a_range_ends_before_the_number_behind_it() -> None:
    ids = Ids()
    ids.append_range(range(10, 13))
    ids.append("a")
    assert [number in ids for number in (9, 10, 12, 13, 14)] == [False, True, True, False, False]


def test_rows_from_the_middle_of_a_range_keep_their_numbers() -> None:
    ids = Ids()
    ids.append_range(range(10, 20))
    ids.append_many(["a", "b"])
    ids.remove(16)
    blocks, removed = ids.to_state(4, 11)
    assert blocks == [(14, 6), (None, 1)]
    assert removed.tolist() == [2]
    opened = Ids()
    opened.append_saved(blocks, removed.tolist(), Stored(["a"], 6))
    assert opened.of(np.arange(7, dtype=np.int32)) == [14, 15, 16, 17, 18, 19, "a"]


def test_arrow_ids_stand_in_the_order_of_the_rows() -> None:
    ids = Ids()
    ids.append_range(range(100, 103))
    ids.append_many([7, 8])
    ids.append_stored([50, 51], Stored([50, 51], 5))
    rows = np.array([6, 0, 4, 2, 5, 3, 1], np.int32)
    assert ids.to_arrow(rows).to_pylist() == [51, 100, 8, 102, 50, 7, 101]
    ids.append("x")
    assert ids.to_arrow(np.array([7, 6, 0], np.int32)).to_pylist() == ["x", "51", "100"]


def test_a_stored_id_that_left_does_not_come_back() -> None:
    ids = Ids()
    ids.append_stored(["a", "b", "c"], Stored(["a", "b", "c"], 0))
    ids.remove_row(1)
    assert [name in ids for name in "abc"] == [True, False, True]
    assert (len(ids), list(ids.live_rows())) == (2, [0, 2])
    ids.remove("c")
    assert (len(ids), list(ids.live_rows())) == (1, [0])


@pytest.mark.parametrize("names", [[3, 5, 8], list(range(0, 40, 3))], ids=["few", "many"])
def test_the_largest_number_that_is_taken_is_told(names: list[SubscriptionId]) -> None:
    ids = Ids()
    ids.append_many(names)
    assert ids.last_taken(range(1, 10)) == (8 if len(names) == 3 else 9)
    assert ids.last_taken(range(40, 60)) is None
