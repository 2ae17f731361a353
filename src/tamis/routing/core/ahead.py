"""Costly events are matched in another thread, before the step that routes them (promise S26).

Matching one event cannot be interrupted, and it may take long: hundreds of patterns on a string of 250,000 characters,
or a hundred thousand expressions on a single number. Such an event is accepted and stored like every other slice
(`tamis.routing.core.publications`), but a `Job` in another thread finds its readers. The step that routes the event
then uses the result.

The event loop changes the table meanwhile. An index finds every subscription that exists during the whole search.
Subscriptions that were replaced meanwhile are matched in a second run of the job, with their filters at that time; a
neighbour whose entries changed meanwhile gets the event in any case, and forwards it only where it is wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from tamis.algebra.evaluate import matches
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.event_routing import EventRouting, Route, client_key
from tamis.routing.core.routing_table import MatchedNeighbours, RoutingTable, TableChanges

__all__ = ["Ahead", "Job"]

#: Bytes of an event times bytes of the subscriptions of its namespace. Up to this product matching takes below 20 ms,
#: whatever the filters are: regular expressions, the slowest of all, take about a second for 10**9.
LIGHT = 1 << 24

#: From this size in bytes on, one string or region of an event may cost more than all events before it.
LONG_EVENT = 4_096

#: From this CPU time in seconds per event on, the events of a namespace are always matched in another thread.
HEAVY_SECONDS = 0.01

#: Seconds that a job of several events should take, and their number.
JOB_SECONDS, MOST_EVENTS = 0.1, 64

#: Jobs that run at the same time.
MOST_JOBS = 16

#: Namespaces whose cost is remembered.
MOST_COSTS = 10_000

_NO_SCHEMA = Schema()


class _Cost(NamedTuple):
    """Seconds of the two costliest events of a namespace, and the bytes of its subscriptions at that time.

    The costliest alone is not reliable: a kernel may have been loaded meanwhile.
    """

    most: float = 0.0
    second: float = 0.0
    weight: int = 0


_UNKNOWN = _Cost(most=1.0)


class Job:
    """Finds the readers and the next hops of events; `run` may be called in another thread."""

    def __init__(
        self, table: RoutingTable, events: Sequence[tuple[m.Published, Event]], came_from: Link, n_asked: int
    ) -> None:
        self.events = events
        #: The number of events of the request, including those that cannot be read.
        self.n_asked = n_asked
        #: Whether the result is complete.
        self.is_ready = False
        #: ``{event: its next hops, and the keys of its readers}``; an event that is missing is matched later. A
        #: neighbour may send several events with one id.
        self.routes: dict[m.Published, Route] = {}
        #: Subscriptions that were replaced during the first run, in their state after it.
        self.replaced: list[Subscription] = []
        #: Changes of the table during the search.
        self.changes = TableChanges()
        self._table = table
        self._came_from = came_from

    def run(self) -> None:
        """Match the events; in a second run, match the subscriptions that were replaced during the first."""
        for event, values in self.events:
            if event not in self.routes:
                hops = self._table.next_hops(values, event.namespace, self._came_from, MatchedNeighbours.BESIDE)
                (keys,) = self._table.matching_of_batch(EventBatch([values], event.namespace, _NO_SCHEMA))
                self.routes[event] = (hops, keys)
                continue
            keys = self.routes[event][1]
            candidates = (
                subscription
                for subscription in self.replaced
                if subscription.namespace == event.namespace and subscription.id not in keys
            )
            keys += [
                subscription.id
                for subscription in candidates
                if any(matches(values, filter) for filter in subscription.filters)
            ]

    def complete(self) -> None:
        """Add the neighbours whose tables only the event loop may read, and those whose filters changed meanwhile."""
        for event, values in self.events:
            if event in self.routes:
                hops, keys = self.routes[event]
                local_hops = self._table.next_hops(values, event.namespace, self._came_from, MatchedNeighbours.HERE)
                self.routes[event] = (sorted({*hops, *local_hops, *self.changes.links} - {self._came_from}), keys)
        self.is_ready = True


class Ahead:
    """Decides which events are costly, and runs the jobs for them: several at a time, in the order of `ask`.

    A source has one job at a time, so the costly events of one principal delay those of another only by sharing the
    processor.
    """

    def __init__(self, routing: EventRouting, weight: Callable[[str], int]) -> None:
        self._routing = routing
        self._weight = weight
        #: ``{namespace: its cost}``, the most recently learned last.
        self._costs: dict[str, _Cost] = {}
        self._waiting: deque[Job] = deque()
        self._n_running = 0
        #: Called with a job to run: must call its `run`, and then `conclude`.
        self.on_job: Callable[[Job], None] = self._run_at_once
        #: Called when the events of a job can be routed.
        self.on_ready: Callable[[], None] = lambda: None

    def costly_events(self, events: Sequence[m.Published]) -> int:
        """Return how many of the first events one job should match in another thread; 0: the first is not costly."""
        if not self.is_costly(events[0]):
            return 0
        limit = 1 if len(events[0].payload) >= LONG_EVENT else self._pace(events[0].namespace)
        chosen = takewhile(lambda event: len(event.payload) < LONG_EVENT and self.is_costly(event), events[1:limit])
        return 1 + sum(1 for _ in chosen)

    def ask(self, events: Sequence[m.Published], sender: Link) -> Job:
        """Return a queued job for events; it starts when its turn comes."""
        job = Job(self._routing.table, self._routing.readable(events), sender, len(events))
        self._waiting.append(job)
        return job

    def begin(self) -> Job | None:
        """Return the next job to run; None: there is none, or too many are running."""
        if self._n_running == MOST_JOBS or not self._waiting:
            return None
        job = self._waiting.popleft()
        self._n_running += 1
        self._routing.table.watches.append(job.changes)
        return job

    def finish(self, job: Job, seconds: float, error: Exception | None = None) -> bool:
        """Note that a job has run; return whether it is ready. If not, it must run again.

        After an error it is ready without a result: a step of the event loop then matches its events.
        """
        if error is not None:
            job.routes.clear()
        elif job.changes.replaced and not job.replaced:
            readers = self._routing.table.group(job.changes.replaced)
            keys = [
                (client_key(client, interest.namespace, interest.id), interest)
                for client, interests in readers.items()
                for interest in interests
            ]
            job.replaced = [interest.named(key) for key, interest in keys]
            if job.replaced:
                return False
        for event, _ in job.events:
            if len(event.payload) < LONG_EVENT:
                self.learn(event.namespace, seconds / len(job.events))
        job.complete()
        self._n_running -= 1
        self._routing.table.watches.remove(job.changes)
        return True

    def start(self) -> None:
        """Start the jobs that may run."""
        while (job := self.begin()) is not None:
            self.on_job(job)

    def conclude(self, job: Job, seconds: float = 0.0, error: Exception | None = None) -> None:
        """Note that a job has run, in ``seconds`` of CPU time; run it again if needed."""
        if not self.finish(job, seconds, error):
            self.on_job(job)
            return
        self.on_ready()
        self.start()

    def _run_at_once(self, job: Job) -> None:
        job.run()
        self.conclude(job)

    def learn(self, namespace: str, seconds: float) -> None:
        """Note the CPU time of one event; two costly events make a namespace costly until it has grown."""
        weight, cost = self._weight(namespace), self._costs.pop(namespace, _UNKNOWN)
        highest, second = (cost.most, cost.second) if 2 * weight <= 3 * cost.weight else (0.0, 0.0)
        self._costs[namespace] = _Cost(max(highest, seconds), max(second, min(highest, seconds)), weight)
        if len(self._costs) > MOST_COSTS:
            del self._costs[next(iter(self._costs))]

    def is_costly(self, event: m.Published) -> bool:
        """Whether an event must be matched in another thread."""
        weight = self._weight(event.namespace)
        if weight * len(event.payload) <= LIGHT:
            return False
        cost = self._costs.get(event.namespace, _UNKNOWN)
        is_recent = 2 * weight <= 3 * cost.weight
        return len(event.payload) >= LONG_EVENT or not is_recent or cost.second > HEAVY_SECONDS

    def _pace(self, namespace: str) -> int:
        """Return how many short events of a namespace one job may take."""
        return max(1, min(MOST_EVENTS, int(JOB_SECONDS / max(1e-6, self._costs.get(namespace, _UNKNOWN).most))))
