"""The sending end of a link in tests: a broker's own `CellSummary`, one subscription at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.curves.hilbert import MAX_RANGES
from tamis.curves.runs import NO_RUNS, Runs
from tamis.index.mics.link import version_of
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.index.mics.space import ContentSpace
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.routing.core.summary import Origin
from tamis.routing.policies import CellOptions
from tamis.routing.policies.cell_tables import CellSummary

__all__ = ["LinkSender"]


class LinkSender:
    """Adds and removes subscriptions; each call returns the plan that a broker would send."""

    def __init__(self, spaces: Sequence[ContentSpace], gap: int = 0, max_ranges: int = MAX_RANGES) -> None:
        self.summary = CellSummary(spaces, CellOptions(gap=gap))
        self._max_ranges = max_ranges
        #: ``{id: ranges in each space}`` of what was added.
        self.ranges: dict[SubscriptionId, tuple[Runs, ...]] = {}

    def add(self, subscription: Subscription) -> RangePlan:
        self.ranges[subscription.id] = tuple(
            space.ranges_of(subscription, self._max_ranges) for space in self.summary.spaces
        )
        self.summary.put(_origin(subscription.id), self.ranges[subscription.id])
        return self._plan()

    def remove(self, id: SubscriptionId) -> RangePlan:
        del self.ranges[id]
        self.summary.drop(_origin(id))
        return self._plan()

    def snapshot(self) -> RangePlan:
        return RangePlan.from_bytes(self.summary.snapshot())

    def _plan(self) -> RangePlan:
        plan = self.summary.take_plan()
        if plan is not None:
            return RangePlan.from_bytes(plan)
        spaces = self.summary.spaces
        return RangePlan(version_of(spaces), tuple(RangeDelta(NO_RUNS, NO_RUNS) for _ in spaces))


def _origin(id: SubscriptionId) -> Origin:
    return Origin("client", str(id))
