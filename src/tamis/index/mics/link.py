"""The receiving end of a link between two brokers: the keys that the neighbour subscribed to.

The sender keeps the union of the ranges of all subscriptions that lie behind it as seen from the neighbour
(`tamis.routing.policies.cell_tables.CellSummary`). Each change of it gives a `RangePlan`, the difference of the union
before and after: ranges that come and ranges that go, in one message, those that come applied first. The neighbour
keeps a `RangeReceiver`, which needs no owners: its set of keys is ``(set + added) - removed`` and always equals the
sender's union. An event goes over the link when its key is in it.

The contract for the code that connects them:

1. The receiver is made from the spaces of the sender (`ContentSpace.to_json`), and plans are applied in the order in
   which they were made, each once. (Applying one twice does no harm.)
2. A receiver that is new, or that lost count, gets a full plan, which replaces all it knew.
3. A plan of another space makes the receiver forward everything until a snapshot comes (promise R10).
4. Ranges decide links only. Delivery is decided by `tamis.algebra.evaluate.matches` (M.3.8), and nothing here may be
   used to withhold an exact box (M.3.7): two boxes may share all cells, and an event may match only one of them.
5. Keys or ranges that a client computed itself are ignored; the edge broker makes them from the subscription.

Implements: [mics] section 2 (one table per neighbour), section 4; section 8, attribute groups.
Deviation: no passive list: the difference of two unions says all that has to be announced again (erratum M.3.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.curves.runs import NO_RUNS, Runs, difference
from tamis.errors import InvariantError
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.table import RangeTable
from tamis.model.schema import Event

__all__ = ["RangeReceiver", "TableKeys", "version_of"]

#: The keys of the events of a table, and by row the ranges of those that are spread over several cells.
TableKeys = tuple[npt.NDArray[np.int64], dict[int, Runs]]


def version_of(spaces: Sequence[ContentSpace]) -> str:
    """Return one version name for all spaces of a link."""
    return "+".join(space.version for space in spaces)


@dataclass
class RangeReceiver:
    """The other end of a link: the keys the neighbour subscribed to, kept up to date by plans.

    It is COMPLETE and not SOUND: every event that matches a subscription behind the link is forwarded.
    """

    spaces: Sequence[ContentSpace]

    def __post_init__(self) -> None:
        self.version = version_of(self.spaces)
        #: Whether the last plan was of another space: everything passes until a snapshot comes.
        self.is_lost = False
        self._tables = [RangeTable(space.n_keys) for space in self.spaces]

    def apply(self, plan: RangePlan) -> tuple[RangeDelta, ...]:
        """Apply a change, additions first, then removals; return how the set of each space changed.

        The cost is proportional to the plan; for a snapshot also to the previous set.
        """
        if plan.version != self.version or len(plan.parts) != len(self._tables):
            self.is_lost = True
            return tuple(RangeDelta(NO_RUNS, NO_RUNS) for _ in self._tables)
        if plan.is_full:
            return self._replace(plan)
        changes = []
        for table, delta in zip(self._tables, plan.parts, strict=True):
            # Counts are 0 or 1 here: an existing key is not added again, a missing one is not removed.
            gained = table.add(table.uncovered(delta.added))
            lost = table.remove(difference(delta.removed, table.uncovered(delta.removed)))
            changes.append(RangeDelta(difference(gained, lost), difference(lost, gained)))
        return tuple(changes)

    def matches(self, event: Event) -> bool:
        """Whether an event must be forwarded over the link."""
        return self.matches_keys([space.ranges_of_event(event) for space in self.spaces])

    def matches_keys(self, keys: Sequence[Runs]) -> bool:
        """Whether an event with these keys, `ContentSpace.ranges_of_event` in each space, has to go over the link."""
        if self.is_lost:
            return True
        for table, ranges in zip(self._tables, keys, strict=True):
            if len(ranges) == 1 and ranges[0, 0] == ranges[0, 1]:
                if not table.matches(ranges[0, :1])[0]:
                    return False
            elif not self._meets(table, ranges):
                return False
        return True

    def matches_keys_of_table(self, keyed: Sequence[TableKeys], n_events: int) -> npt.NDArray[np.bool_]:
        """Return the same for each event of a table with these keys, `ContentSpace.keys_of_table` in each space."""
        is_wanted = np.ones(n_events, bool)
        if self.is_lost:
            return is_wanted
        for table, (keys, spread) in zip(self._tables, keyed, strict=True):
            inside = table.matches(keys)
            for row, ranges in spread.items():
                inside[row] = self._meets(table, ranges)
            is_wanted &= inside
        return is_wanted

    def ranges(self) -> tuple[Runs, ...]:
        """Return the subscribed keys in each space."""
        return tuple(table.ranges() for table in self._tables)

    @property
    def n_ranges(self) -> int:
        """The number of ranges the tables hold."""
        return sum(len(range_) for range_ in self.ranges())

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless no range is held twice."""
        for table in self._tables:
            table.check_invariants()
            if table.most_over_a_key > 1:
                raise InvariantError("a receiver holds a range twice")

    def within(self, space: int, first: int, last: int) -> Runs:
        """Return the keys asked for from ``first`` to ``last`` in one space."""
        return self._tables[space].within(first, last)

    @property
    def is_empty(self) -> bool:
        """Whether no key is subscribed; a lost receiver lets all events pass."""
        return not self.is_lost and all(table.is_empty for table in self._tables)

    def _replace(self, plan: RangePlan) -> tuple[RangeDelta, ...]:
        """Replace the sets by a snapshot; return how the set of each space changed."""
        before = self.ranges()
        self._tables = [RangeTable(space.n_keys) for space in self.spaces]
        self.is_lost = False
        for table, delta in zip(self._tables, plan.parts, strict=True):
            table.add(difference(delta.added, delta.removed))
        after = self.ranges()
        pairs = zip(before, after, strict=True)
        return tuple(RangeDelta(difference(new, old), difference(old, new)) for old, new in pairs)

    def _meets(self, table: RangeTable, ranges: Runs) -> bool:
        """Whether a key of these ranges is in the table."""
        return any(len(difference(range_[None, :], table.uncovered(range_[None, :]))) for range_ in ranges)
