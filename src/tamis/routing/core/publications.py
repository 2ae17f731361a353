"""Routes accepted events in steps of bounded length (promise S26).

One request may have thousands of events, and one event may match every subscription: routed at once, either would delay
all other clients for seconds. So a step routes some events, and makes some copies. The rest is written to disk in the
same transaction, as a *slice*: the events are accepted and confirmed, none of them can be lost, and a restart continues
where the last step ended (`Progress`). A tick does one step; sources with waiting events take turns.

The events of a source keep their order: while some of them wait, later ones wait behind them. A subscription that is
made after an event was accepted may get it; one that ends before its copy is made does not (promise G9).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from zlib import crc32

import msgspec

from tamis.model.subscription import SubscriptionId
from tamis.node import records
from tamis.node.effects import Again, Effect, Key, Link
from tamis.node.records import Progress
from tamis.routing import messages as m
from tamis.routing.core.ahead import Ahead, Job
from tamis.routing.core.event_routing import EventRouting, Routed

__all__ = ["Publications", "StepLimits"]


_BEGINNING = Progress()

#: Seconds of a step after which fewer events of its namespaces are matched at once, and below which more are.
SLOW, QUICK = 0.02, 0.008

#: Events that are matched at once in a namespace whose pace is unknown; bytes of subscriptions below which the growth
#: of a namespace is ignored.
FIRST_PACE, ALWAYS_LIGHT = 16, 64 * 1024

#: Namespaces whose paces are remembered.
MOST_PACES = 10_000


@dataclass(frozen=True)
class StepLimits:
    """The work of one step with events; each limit is worth 5 to 10 ms."""

    #: Events that are matched, and their bytes.
    events: int = 256
    bytes: int = 1 << 20
    #: Copies that are made, and their bytes.
    copies: int = 128
    copied_bytes: int = 2 << 20
    #: Readers that are looked up.
    readers: int = 8_192


class _Slice(msgspec.Struct, array_like=True):
    """Events of one sender, as they are stored on disk."""

    source: str
    sender: Link
    events: tuple[m.Published, ...]


#: An event, and some of its readers.
_Share = tuple[Routed, Sequence[SubscriptionId]]


@dataclass
class _Work:
    """A slice in progress: ``number`` is that of its record, 0 before it has one."""

    slice: _Slice
    number: int = 0
    progress: Progress = _BEGINNING
    #: The events that were matched last: those from ``progress.delivered`` to ``progress.sent``.
    routed: list[Routed] = field(default_factory=list)
    #: Their readers in groups, one per step of their delivery; all readers of one client are in the same group.
    groups: list[list[_Share]] = field(default_factory=list)
    #: The first event, and the first of its readers, that are not in a group yet.
    ungrouped: tuple[int, int] = (0, 0)
    #: Matches the next events beside the loop, if they are costly.
    job: Job | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing of the slice is left."""
        return self.progress.delivered == len(self.slice.events)


class _Room:
    """The remaining budget of one step."""

    def __init__(self, limits: StepLimits) -> None:
        self.limits = limits
        self.events, self.bytes = limits.events, limits.bytes
        self.copies, self.copied_bytes = limits.copies, limits.copied_bytes

    @property
    def may_match(self) -> bool:
        """Whether the step may match more events."""
        return self.events > 0 and self.bytes > 0

    @property
    def may_copy(self) -> bool:
        """Whether the step may make more copies."""
        return self.copies > 0 and self.copied_bytes > 0

    @property
    def is_left(self) -> bool:
        """Whether the step may go on with other events."""
        return self.may_match and self.may_copy

    def spend_matching(self, routed: Iterable[Routed], *, is_all: bool) -> None:
        """Count matched events; with ``is_all`` the step may match no more."""
        for matched in routed:
            self.events -= 1
            self.bytes -= len(matched.event.payload)
        if is_all:
            self.events = 0

    def spend_copies(self, count: int, size: int) -> None:
        """Count copies that were made."""
        self.copies -= count
        self.copied_bytes -= count * size


class _Paces:
    """How many events of each namespace are matched in one step: the cost of an event depends on the subscriptions.

    ``weight`` returns the bytes of a namespace's subscriptions; if they have grown by half, the pace is learned again.
    """

    def __init__(self, limit: int, weight: Callable[[str], int], is_costly: Callable[[m.Published], bool]) -> None:
        self._limit = limit
        self._weight = weight
        self._is_costly = is_costly
        #: ``{namespace: (events of one step, weight when that was learned)}``, the most recently used last.
        self._learned: dict[str, tuple[int, int]] = {}
        #: The events of the current step by namespace, and the share of the step that they use.
        self._used: Counter[str] = Counter()
        self._share = 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether this step may match no more events."""
        return self._share >= 1

    @property
    def only_event_of(self) -> str | None:
        """The namespace of the only event that this step has matched; None: it has matched none, or several."""
        return next(iter(self._used)) if self._used.total() == 1 else None

    def begin(self) -> None:
        """Begin a step."""
        self._used, self._share = Counter(), 0.0

    def take(self, events: Sequence[m.Published]) -> int:
        """Return how many of these events this step may match: at least one, and no costly one after the first."""
        for i, event in enumerate(events):
            if i and (self._share >= 1 or self._is_costly(event)):
                return i
            self._used[event.namespace] += 1
            self._share += 1 / self._pace(event.namespace)
        return len(events)

    def learn(self, seconds: float) -> None:
        """Adapt the paces to the duration of the step."""
        for name, n in self._used.items():
            pace = self._pace(name)
            if seconds > SLOW:
                pace = max(1, min(pace, n) // 2)
            elif seconds < QUICK and n >= pace:
                pace = min(self._limit, 2 * pace)
            self._learned.pop(name, None)
            self._learned[name] = (pace, self._weight(name))
        self.begin()
        while len(self._learned) > MOST_PACES:
            del self._learned[next(iter(self._learned))]

    def _pace(self, name: str) -> int:
        pace, weight = self._learned.get(name, (0, 0))
        if not pace or 2 * self._weight(name) > 3 * weight + ALWAYS_LIGHT:
            pace = min(FIRST_PACE, self._limit)
        return pace


class Publications:
    """Routes events slice by slice; ``weight`` returns the bytes of a namespace's subscriptions."""

    def __init__(
        self,
        routing: EventRouting,
        limits: StepLimits | None = None,
        weight: Callable[[str], int] = lambda namespace: 0,
    ) -> None:
        self._routing = routing
        self.limits = StepLimits() if limits is None else limits
        #: Matches costly events outside the event loop.
        self.ahead = Ahead(routing, weight)
        self._paces = _Paces(self.limits.events, weight, self.ahead.is_costly)
        #: ``{source: its slices}``, the source with the next turn first.
        self._waiting: dict[str, deque[_Work]] = {}
        self._number = 0
        #: Whether the last tick took a step with events; the next turn is for subscriptions.
        self.had_turn = False

    @property
    def has_waiting(self) -> bool:
        """Whether events wait for a step that can be taken now, because no job for them is running."""
        return any(queue[0].job is None or queue[0].job.is_ready for queue in self._waiting.values())

    def is_waiting(self, source: str) -> bool:
        """Whether events of a source wait for a step."""
        return source in self._waiting

    def concerns(self, namespace: str) -> bool:
        """Whether an event of a namespace waits."""
        slices = (work.slice for queue in self._waiting.values() for work in queue)
        return any(event.namespace == namespace for waiting_slice in slices for event in waiting_slice.events)

    def restore(self, stored: Mapping[Key, bytes]) -> list[Effect]:
        """Restore the slices that an earlier life did not finish."""
        for (number,), value in sorted(records.SLICE.items(stored), key=lambda record: int(record[0][0])):
            progress = records.PROGRESS.find(stored, number) or _BEGINNING
            work = _Work(msgspec.msgpack.decode(value, type=_Slice), int(number), progress)
            self._wait(work)
            self._number = work.number
        return self._again()

    def publish(self, arrivals: Mapping[str, Sequence[m.Published]], sender: Link, now: float) -> list[Effect]:
        """Take accepted events by source: deliver as many as one step can, small sources first; keep the rest."""
        self._paces.begin()
        room, effects = _Room(self.limits), list[Effect]()
        for source, events in sorted(arrivals.items(), key=lambda arrival: len(arrival[1])):
            for part in self._slices(events):
                work = _Work(_Slice(source, sender, tuple(part)))
                if source not in self._waiting and room.is_left:
                    effects += self._advance(work, room, now)
                if not work.is_done:
                    effects += self._keep(work)
        return effects + self._again()

    def advance(self, now: float) -> list[Effect]:
        """Take one step for the source whose turn it is; sources with a running job are passed over."""
        ready = (name for name, works in self._waiting.items() if works[0].job is None or works[0].job.is_ready)
        source = next(ready, None)
        if source is None:
            return []
        self._paces.begin()
        queue = self._waiting.pop(source)
        room, effects = _Room(self.limits), list[Effect]()
        while queue and room.is_left:
            effects += self._advance(queue[0], room, now)
            effects += self._note(queue[0])
            if not queue[0].is_done:
                break
            queue.popleft()
        if queue:
            self._waiting[source] = queue  # behind the others
        elif not self._waiting:
            self._routing.changed = None
        return effects + self._again()

    def learn_pace(self, seconds: float) -> None:
        """Adapt the number of events per step to the duration of the last step."""
        if seconds > SLOW and (namespace := self._paces.only_event_of) is not None:
            self.ahead.learn(namespace, seconds)
        self._paces.learn(seconds)

    # Inside

    def _again(self) -> list[Effect]:
        return [Again()] if self.has_waiting else []

    def _slices(self, events: Sequence[m.Published]) -> Iterator[list[m.Published]]:
        """Yield the events in parts that one step can match."""
        part: list[m.Published] = []
        size = 0
        for event in events:
            size += len(event.payload)
            if part and (len(part) == self.limits.events or size > self.limits.bytes):
                yield part
                part, size = [], len(event.payload)
            part.append(event)
        if part:
            yield part

    def _keep(self, work: _Work) -> list[Effect]:
        """Queue a slice; return what to persist."""
        self._number += 1
        work.number = self._number
        self._wait(work)
        return [records.SLICE.put(str(work.number), value=msgspec.msgpack.encode(work.slice)), *self._note(work)]

    def _wait(self, work: _Work) -> None:
        self._waiting.setdefault(work.slice.source, deque()).append(work)
        if self._routing.changed is None:
            self._routing.changed = set()

    def _note(self, work: _Work) -> list[Effect]:
        """Return what to persist of the progress of a slice."""
        number = str(work.number)
        if not work.is_done:
            return [records.PROGRESS.put(number, value=work.progress)] if work.progress != _BEGINNING else []
        return [records.SLICE.drop(number), records.PROGRESS.drop(number)]

    def _advance(self, work: _Work, room: _Room, now: float) -> list[Effect]:
        """Do as much of a slice as there is room for, and at least one piece of work."""
        effects: list[Effect] = []
        is_first = True
        while not work.is_done and (is_first or (room.may_copy if work.routed else room.may_match)):
            is_first = False
            if not work.routed and self._is_beside(work):
                break
            if not work.routed:
                effects += self._match(work, room, now)
            elif not self._put_in_groups(work):  # with this many readers, grouping is a step of its own
                break
            else:
                effects += self._deliver(work, room, now)
        return effects

    def _is_beside(self, work: _Work) -> bool:
        """Whether a job matches the next events of a slice; if they are costly, a job is started."""
        if work.job is None:
            events, (sent, delivered, *_) = work.slice.events, work.progress
            part = events[delivered:sent] or events[sent:]
            if count := self.ahead.costly_events(part):
                work.job = self.ahead.ask(part if delivered < sent else part[:count], work.slice.sender)
        return work.job is not None and not work.job.is_ready

    def _match(self, work: _Work, room: _Room, now: float) -> list[Effect]:
        """Match the next events of a slice, and send them to neighbours."""
        events, (sent, delivered, *_) = work.slice.events, work.progress
        job, work.job = work.job, None
        known_routes = {} if job is None else job.routes
        if delivered < sent:  # an earlier life has sent them, and delivered them to some groups
            part = events[delivered:sent]
            work.routed = self._routing.route(
                part, work.slice.sender, now, is_accepted=True, known_routes=known_routes
            ).routed
            return []
        part = events[sent : sent + max(1, room.events)]
        part = part[: self._paces.take(part) if job is None else job.n_asked]
        limit = self.limits.readers
        routes = self._routing.route(
            part, work.slice.sender, now, is_accepted=True, limit=limit, known_routes=known_routes
        )
        work.routed = routes.routed
        work.progress = Progress(sent + len(work.routed), delivered, 0, self._steps_for(work.routed))
        room.spend_matching(work.routed, is_all=self._paces.is_used_up)
        return routes.refusals + routes.sends

    def _steps_for(self, routed: Sequence[Routed]) -> int:
        """Return the number of steps that deliver events to all of their readers."""
        copies = sum(len(event.keys) for event in routed)
        size = sum(len(event.keys) * len(event.event.payload) for event in routed)
        return max(1, -(-copies // self.limits.copies), -(-size // self.limits.copied_bytes))

    def _put_in_groups(self, work: _Work) -> bool:
        """Put more readers of the matched events into groups; return whether all are in a group."""
        n = work.progress.groups
        if n == 1:
            work.groups = [[(routed, routed.keys) for routed in work.routed]]
            return True
        if not work.groups:
            work.groups, work.ungrouped = [[] for _ in range(n)], (0, 0)
        room, (event, start) = self.limits.readers, work.ungrouped
        while room > 0 and event < len(work.routed):
            routed = work.routed[event]
            keys = routed.keys[start : start + room]
            for group, group_keys in _spread(self._routing.table.client_of, keys, n).items():
                work.groups[group].append((routed, group_keys))
            room -= len(keys)
            event, start = (event + 1, 0) if start + len(keys) == len(routed.keys) else (event, start + len(keys))
        work.ungrouped = (event, start)
        return event == len(work.routed)

    def _deliver(self, work: _Work, room: _Room, now: float) -> list[Effect]:
        """Deliver the matched events to the next group of readers."""
        effects: list[Effect] = []
        sent, delivered, group, groups = work.progress
        for routed, keys in _joined(work.groups[group]):
            room.spend_copies(len(keys), len(routed.event.payload))
            readers = self._routing.group_later(routed, keys)
            effects += self._routing.deliver(routed.event, readers, work.slice.sender, now)
        if group + 1 < groups:
            work.progress = Progress(sent, delivered, group + 1, groups)
        else:
            work.progress = Progress(sent, sent)
            work.routed, work.groups = [], []
        return effects


def _spread(
    client_of: Mapping[SubscriptionId, Link], keys: Iterable[SubscriptionId], n: int
) -> dict[int, list[SubscriptionId]]:
    """Return keys in up to ``n`` groups, those of one client in the same group, also after a restart."""
    groups: dict[int, list[SubscriptionId]] = {}
    for key in keys:
        groups.setdefault(crc32(client_of.get(key, "").encode()) % n, []).append(key)
    return groups


def _joined(shares: Sequence[_Share]) -> Iterator[_Share]:
    """Yield one share per event: its readers may have been grouped in parts, and a client gets one copy."""
    for _, shares_of_event in groupby(shares, key=lambda share: id(share[0])):
        (routed, keys), *further = shares_of_event
        yield routed, [*keys, *chain.from_iterable(further_keys for _, further_keys in further)] if further else keys
