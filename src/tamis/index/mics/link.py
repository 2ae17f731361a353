"""One link between two brokers: what has been announced over it, as ranges of keys, on both sides.

The sender keeps a `LinkTable` of all subscriptions that lie behind it as seen from the neighbour. Each change of it
gives a `RangePlan`, the difference of the union before and after: ranges that come and ranges that go, in one message,
those that come applied first. The neighbour keeps a `RangeReceiver`, which needs no owners: its set of keys is
``(set + added) - removed`` and always equals the sender's union. An event goes over the link when its key is in it.

The contract for whoever connects them:

1. The receiver is made from the spaces of the sender (`ContentSpace.to_json`), and plans are applied in the order in
   which they were made, each once. (Applying one twice does no harm.)
2. A receiver that is new, or that lost count, gets `LinkTable.snapshot`, which replaces all it knew.
3. A plan of another space makes the receiver forward everything until a snapshot comes (promise R10).
4. Ranges decide links only. Whoever delivers asks `tamis.algebra.evaluate.matches` (M.3.8), and nothing here may be
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

from tamis.curves.hilbert import MAX_RANGES
from tamis.curves.runs import NO_RUNS, Runs, difference, union
from tamis.errors import DuplicateSubscriptionError, InvariantError, ModelError, UnknownSubscriptionError
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.table import RangeTable
from tamis.index.protocols import IndexStatistics
from tamis.model.schema import Event
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import EventTable

__all__ = ["LinkTable", "RangeReceiver", "version_of"]


def version_of(spaces: Sequence[ContentSpace]) -> str:
    """Return the common name of the spaces of a link."""
    return "+".join(space.version for space in spaces)


class LinkTable:
    """What a broker announces over one link: the union of the ranges of its subscriptions, and each change of it.

    Parameters
    ----------
    spaces
        One content space, or one per attribute group: an event passes when its keys are in the union of every group.
    gap
        Imperfect merging: so many keys between two ranges are announced along with them. More events pass, the
        neighbour's table is smaller.
    max_ranges
        Ranges of one subscription and space before they are coarsened outward.

    Examples
    --------
    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.model.schema import Schema
    >>> from tamis.model.types import Number
    >>> schema = Schema({"x": Number(0, 8), "y": Number(0, 8)})
    >>> space = ContentSpace.from_schema(schema, bits=3, null=False)
    >>> def sub(id, text):
    ...     return compile_text(text, schema, id=id)
    >>> table, receiver = LinkTable([space]), RangeReceiver([space])
    >>> plan = table.absorb(sub("s", "x BETWEEN 4.2 AND 6.7 AND y BETWEEN 2.5 AND 5.5"))  # Fig. 3 of the paper
    >>> plan.parts[0].added.tolist()
    [[32, 35], [45, 46], [50, 55]]
    >>> _ = receiver.apply(plan)
    >>> receiver.matches({"x": 5.0, "y": 3.0}), receiver.matches({"x": 1.0, "y": 1.0})
    (True, False)
    >>> table.absorb(sub("t", "x BETWEEN 5 AND 6 AND y = 4")).is_empty  # covered
    True
    >>> _ = receiver.apply(table.release("s"))
    >>> receiver.matches({"x": 5.0, "y": 3.0}), receiver.matches({"x": 5.5, "y": 4.0})
    (False, True)
    """

    def __init__(self, spaces: Sequence[ContentSpace], gap: int = 0, max_ranges: int = MAX_RANGES) -> None:
        if not spaces:
            raise ModelError("a link needs a content space")
        self.spaces = tuple(spaces)
        self.version = version_of(spaces)
        self._max_ranges = max_ranges
        self._tables = [RangeTable(space.n_keys, gap) for space in self.spaces]
        #: ``{id: its ranges in each space}``; the tables hold exactly these.
        self._ranges: dict[SubscriptionId, tuple[Runs, ...]] = {}

    def __len__(self) -> int:
        return len(self._ranges)

    def __contains__(self, subscription_id: SubscriptionId) -> bool:
        return subscription_id in self._ranges

    def absorb(self, subscription: Subscription) -> RangePlan:
        """Add a subscription; return what the neighbour has to hear: nothing when the union does not change."""
        if subscription.id in self._ranges:
            raise DuplicateSubscriptionError(subscription.id)
        ranges = tuple(space.ranges_of(subscription, self._max_ranges) for space in self.spaces)
        self._ranges[subscription.id] = ranges
        gained = [table.add(one) for table, one in zip(self._tables, ranges, strict=True)]
        return RangePlan(self.version, tuple(RangeDelta(one, NO_RUNS) for one in gained))

    def release(self, subscription_id: SubscriptionId) -> RangePlan:
        """Remove a subscription; return what the neighbour has to hear."""
        ranges = self._ranges.pop(subscription_id, None)
        if ranges is None:
            raise UnknownSubscriptionError(subscription_id)
        lost = [table.remove(one) for table, one in zip(self._tables, ranges, strict=True)]
        return RangePlan(self.version, tuple(RangeDelta(NO_RUNS, one) for one in lost))

    def snapshot(self) -> RangePlan:
        """Return everything, for a receiver that is to forget what it knew."""
        parts = tuple(RangeDelta(table.ranges(), NO_RUNS) for table in self._tables)
        return RangePlan(self.version, parts, is_full=True)

    def is_subsumed(self, subscription: Subscription) -> bool:
        """Whether the cells of a subscription are all announced already: absorbing it would announce nothing."""
        ranges = [space.ranges_of(subscription, self._max_ranges) for space in self.spaces]
        return all(table.covers(one) for table, one in zip(self._tables, ranges, strict=True))

    def ranges(self) -> tuple[Runs, ...]:
        """Return the union in each space, merged."""
        return tuple(table.ranges() for table in self._tables)

    def statistics(self) -> IndexStatistics:
        """Return how many ranges came in, how many the union has, and what the tables take."""
        details = {
            "raw_ranges": sum(len(one) for ranges in self._ranges.values() for one in ranges),
            "ranges": sum(len(one) for one in self.ranges()),
            "steps": sum(table.n_steps for table in self._tables),
            "bytes": sum(table.n_bytes for table in self._tables),
        }
        return IndexStatistics("mics", len(self), details)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the tables hold the ranges of the subscriptions and nothing else."""
        for number, table in enumerate(self._tables):
            table.check_invariants()
            true = union(*(ranges[number] for ranges in self._ranges.values()))
            if len(difference(true, table.ranges())) or (table.gap == 0 and len(difference(table.ranges(), true))):
                raise InvariantError(f"the table of space {number} is not the union of its subscriptions")
            if not self._ranges and not table.is_empty:
                raise InvariantError(f"the table of space {number} is not empty without subscriptions")


@dataclass
class RangeReceiver:
    """The other end of a link: the keys the neighbour asked for, kept up to date by plans.

    It is COMPLETE and not SOUND: no event that somebody behind the link wants is held back.
    """

    spaces: Sequence[ContentSpace]

    def __post_init__(self) -> None:
        self.version = version_of(self.spaces)
        #: Whether the last plan was of another space: everything passes until a snapshot comes.
        self.is_lost = False
        self._tables = [RangeTable(space.n_keys) for space in self.spaces]

    def apply(self, plan: RangePlan) -> tuple[RangeDelta, ...]:
        """Take over a change, what is added first, then what is removed; return how the set of each space changed.

        Costs in proportion to the plan, and for a snapshot to what was known, too.
        """
        if plan.version != self.version or len(plan.parts) != len(self._tables):
            self.is_lost = True
            return tuple(RangeDelta(NO_RUNS, NO_RUNS) for _ in self._tables)
        if plan.is_full:
            return self._replace(plan)
        changes = []
        for table, delta in zip(self._tables, plan.parts, strict=True):
            # Counts are 0 or 1 here: what is there is not added again, what is not there is not removed.
            gained = table.add(table.uncovered(delta.added))
            lost = table.remove(difference(delta.removed, table.uncovered(delta.removed)))
            changes.append(RangeDelta(difference(gained, lost), difference(lost, gained)))
        return tuple(changes)

    def matches(self, event: Event) -> bool:
        """Whether an event has to go over the link."""
        if self.is_lost:
            return True
        for space, table in zip(self.spaces, self._tables, strict=True):
            ranges = space.ranges_of_event(event)
            if len(ranges) == 1 and ranges[0, 0] == ranges[0, 1]:
                if not table.matches(ranges[0, :1])[0]:
                    return False
            elif not self._meets(table, ranges):
                return False
        return True

    def matches_table(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Say for each event of a table whether it has to go over the link."""
        found = np.ones(len(events), bool)
        if self.is_lost:
            return found
        for space, table in zip(self.spaces, self._tables, strict=True):
            keys, spread = space.keys_of_table(events)
            inside = table.matches(keys)
            for row, ranges in spread.items():
                inside[row] = self._meets(table, ranges)
            found &= inside
        return found

    def matches_keys(self, keys: Sequence[int]) -> bool:
        """Whether an event with these keys, one for each space, has to go over the link."""
        return self.is_lost or all(bool(table.matches([key])[0]) for table, key in zip(self._tables, keys, strict=True))

    def ranges(self) -> tuple[Runs, ...]:
        """Return the keys asked for in each space."""
        return tuple(table.ranges() for table in self._tables)

    @property
    def n_ranges(self) -> int:
        """How many ranges the tables hold."""
        return sum(len(one) for one in self.ranges())

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
        """Whether no key is asked for; a lost receiver lets all events pass."""
        return not self.is_lost and all(table.is_empty for table in self._tables)

    def _replace(self, plan: RangePlan) -> tuple[RangeDelta, ...]:
        """Take over a snapshot; return how the set of each space changed."""
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
        return any(len(difference(one[None, :], table.uncovered(one[None, :]))) for one in ranges)
