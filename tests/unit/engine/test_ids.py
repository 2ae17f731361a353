"""Ids against a plain dict, under random histories."""

from __future__ import annotations

import numpy as np
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
