"""What one link would cost under each policy, for given subscriptions and events.

Two routing tables stand at the ends of a link: one gets the subscriptions of clients and says what the policy makes of
them, the other takes that over and is asked about each event. Both are those of a broker. What is counted is what the
policy decides: entries, bytes of updates, events that cross without need, CPU time. An event that is wanted and does
not cross would be a defect, and ends the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Ball, Subscription
from tamis.node.content import Content
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.interest import Interest
from tamis.routing.core.routing_table import RoutingTable, n_entries
from tamis.routing.core.summary import Changes
from tamis.routing.policies import Policy, find_policy
from tamis.routing.policies.cell_tables import common_cells

__all__ = ["CANDIDATES", "LinkCost", "LinkTrial"]

#: What is tried unless policies are named; those of balls only where there are balls.
CANDIDATES: Final = (
    "flood",
    "every",
    "identity",
    "covering",
    "covering:finder=cells",
    "zcurve",
    "zcurve:epsilon=0.3",
    "projection",
    "subsumption",
    "merging",
    "gap:gap=0.25",
    "gap:false_positives=0.01",
    "mics",
    "mics:axes=1",
    "mics:axes=2",
    "mics:axes=2,false_positives=0.01",
    "mics:axes=2,false_positives=0.05",
    "mics-groups",
    "two-stage",
)

#: Events that a broker asks about at once.
_BATCH: Final = 64
_CLIENT, _NEAR, _FAR = "client", "here", "there"


@dataclass(frozen=True)
class LinkCost:
    """What one policy costs on one link.

    ``entries`` are filters or ranges in the neighbour's table, ``updates`` the messages and ``update_bytes`` the bytes
    that made it; ``wanted`` events match a subscription, ``forwarded`` ones cross, ``false_positives`` cross and match
    none. CPU time is in microseconds, of both ends for a subscription and of the sending end for an event.
    ``traffic_bytes`` are the updates and the needless events.
    """

    policy: str
    entries: int
    updates: int
    update_bytes: int
    wanted: int
    forwarded: int
    false_positives: int
    traffic_bytes: int
    subscription_us: float
    event_us: float

    def as_row(self) -> dict[str, Any]:
        """Return the fields by name, in order."""
        return asdict(self)


@dataclass(frozen=True)
class LinkTrial:
    """Subscriptions that come one after the other, and canonical events; cells are fitted to every second event.

    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.model.types import Number
    >>> schema = Schema({"x": Number(0, 100)})
    >>> asked = [compile_text(text, schema, id=text) for text in ("x < 9", "x < 5", "x BETWEEN 20 AND 30")]
    >>> trial = LinkTrial(schema, asked, [{"x": float(x)} for x in range(100)])
    >>> [(cost.entries, cost.forwarded) for cost in map(trial.measure, ("flood", "every", "covering"))]
    [(1, 100), (3, 20), (2, 20)]
    """

    schema: Schema
    subscriptions: Sequence[Subscription]
    events: Sequence[Event]
    #: The bytes of an event on the wire; without it those of the attributes that are known here.
    event_bytes: float | None = None

    def candidates(self) -> list[str]:
        """Return what is worth trying on these subscriptions."""
        filters = [filter for subscription in self.subscriptions for filter in subscription.filters]
        has_balls = any(isinstance(part, Ball) for filter in filters for part in filter.constraints)
        return [name for name in CANDIDATES if name != "projection" or has_balls]

    def fitted(self, policy: str | Policy) -> Policy:
        """Return a policy with cells that suit the subscriptions and every second event."""
        return find_policy(policy).fitted_to(self.subscriptions, self.events[::2])

    def measure(self, policy: str | Policy) -> LinkCost:
        """Return what a policy costs; `InvariantError` when it would lose an event."""
        fitted = self.fitted(policy)
        self._warm_up(fitted)
        crossing = _Crossing(fitted, self.schema)
        started = time.process_time()
        for interest in self._interests:
            crossing.subscribe(interest)
        between = time.process_time()
        forwarded = crossing.forwarded(self._batches())
        ended = time.process_time()
        if (lost := np.flatnonzero(self._wanted & ~forwarded)).size:
            raise InvariantError(f"policy {crossing.policy.name!r} loses event {int(lost[0])}")
        needless = int((forwarded & ~self._wanted).sum())
        return LinkCost(
            crossing.policy.name,
            crossing.n_entries,
            crossing.updates,
            crossing.update_bytes,
            int(self._wanted.sum()),
            int(forwarded.sum()),
            needless,
            crossing.update_bytes + round(needless * self._event_bytes),
            1e6 * (between - started) / max(len(self.subscriptions), 1),
            1e6 * (ended - between) / max(len(self.events), 1),
        )

    def _warm_up(self, policy: Policy) -> None:
        """Load the kernels that a policy needs, so that the first policy does not pay for the others."""
        crossing = _Crossing(policy, self.schema)
        for interest in self._interests[:_BATCH]:
            crossing.subscribe(interest)
        crossing.forwarded(islice(self._batches(), 1))

    @cached_property
    def _interests(self) -> list[Interest]:
        content = Content(self.schema)
        return [
            Interest(str(subscription.id), content.write_filter(subscription.filters), "default", content)
            for subscription in self.subscriptions
        ]

    @cached_property
    def _wanted(self) -> npt.NDArray[np.bool_]:
        """Which events match a subscription: without any policy, each subscription is known on the other side."""
        crossing = _Crossing(find_policy("every"), self.schema)
        for interest in self._interests:
            crossing.subscribe(interest)
        return crossing.forwarded(self._batches())

    @cached_property
    def _event_bytes(self) -> float:
        if self.event_bytes is not None:
            return self.event_bytes
        content = Content(self.schema)
        sizes = [len(content.write_event(event)) for event in self.events[:: max(1, len(self.events) // 1_000)]]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def _batches(self) -> Iterator[EventBatch]:
        for start in range(0, len(self.events), _BATCH):
            yield EventBatch(self.events[start : start + _BATCH], "default", self.schema)


class _Crossing:
    """The two ends of a link: ``_near`` has the clients that subscribe, ``_far`` those that publish."""

    def __init__(self, policy: Policy, schema: Schema) -> None:
        self.policy = policy
        cells = common_cells([policy.cells])
        self._near = RoutingTable({_FAR: policy}, schema, cells=cells)
        self._far = RoutingTable({_NEAR: policy}, schema, cells=cells)
        self._far.unspoken.discard(_NEAR)
        self._content = Content(schema)
        self.updates = self.update_bytes = 0
        if policy.floods:
            self._send(Changes(list(self._near.contents(_FAR))))

    @property
    def n_entries(self) -> int:
        """The filters and ranges in the far table."""
        return n_entries(self._far, _NEAR)

    def subscribe(self, interest: Interest) -> None:
        """Take one subscription across, with all that follows from it."""
        self._near.put_many([(_CLIENT, str(interest.id), interest)])
        changes = self._near.take_changes(_FAR)
        while True:
            if changes:
                self._send(changes)
            busy = [summary for summary in self._near.summaries[_FAR].values() if summary.is_busy]
            if not busy:
                return
            for summary in busy:
                summary.advance()
            changes = self._near.take_changes(_FAR)

    def forwarded(self, batches: Iterator[EventBatch]) -> npt.NDArray[np.bool_]:
        """Say for each event whether it crosses."""
        hops = [hop for batch in batches for hop in self._far.next_hops_of_batch(batch, _CLIENT)]
        return np.array([bool(hop) for hop in hops], np.bool_)

    def _send(self, changes: Changes) -> None:
        entries = [
            (str(entry.id), entry.namespace, self._content.write_filter(entry.filters)) for entry in changes.announce
        ]
        self.updates += 1
        self.update_bytes += sum(len(key) + len(document) for key, _, document in entries)
        self.update_bytes += sum(map(len, changes.retract)) + sum(len(plan) for _, plan in changes.plans)
        self._far.put_many([(_NEAR, key, Interest(key, filter, name, self._content)) for key, name, filter in entries])
        for key in changes.retract:
            self._far.drop(_NEAR, key)
        for namespace, plan in changes.plans:
            self._far.put_ranges(_NEAR, namespace, self._far.cells.read(plan))
