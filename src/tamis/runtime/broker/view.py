"""What may be read of a running broker: subscriptions, streams, traffic, tables. Nothing is changed through it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tamis.index.zcurve.index import CurveSearches, ZCurveIndex
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Filter
from tamis.node.cursor import Cursor
from tamis.node.effects import Link, LinkKey
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore, is_active
from tamis.routing.core.counters import Counters
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.routing_table import Readers, n_entries
from tamis.routing.core.summary import Origin, Summary, finder_of
from tamis.routing.edge.admission import Traffic
from tamis.routing.edge.checks import Checks
from tamis.runtime.broker.beside import run_beside
from tamis.runtime.broker.committer import Committer
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.event_json import payload_as_json
from tamis.runtime.stores.audit_log import AuditRecord
from tamis.runtime.stores.protocol import Store

__all__ = ["BrokerView", "DiskView", "LinkView", "StreamView"]


class DiskView:
    """What the store has taken so far: whether it is full, transactions, changes in them, seconds, and its fence."""

    def __init__(self, store: Store, committer: Committer) -> None:
        self.is_full = committer.is_full
        self.commits = committer.commits
        self.changes = committer.changes
        self.seconds = committer.seconds
        self.fence = store.fence
        self.is_cut_off = store.is_cut_off
        self._store = store

    @property
    def bytes(self) -> int:
        """What the state takes; a question to the store, which may be on another machine."""
        return self._store.size()


class StreamView:
    """The queue of one client: ``first`` is behind what is gone, ``last`` is on disk."""

    def __init__(self, machine: BrokerMachine, store: Store, link: Link) -> None:
        self.link = link
        self.epoch = machine.node.epoch
        #: The stream itself: another object if the queue was removed and made again.
        self.stream: object = machine.node.ends[link]
        self.last = machine.committed(link).sent
        self.acknowledged = min(machine.node.ends[link].acknowledged, self.last)
        self._store = store
        self._sharing = machine.node.core.backlogs.sharing

    @property
    def first(self) -> int:
        """The number before the oldest message that is retained."""
        oldest = self._store.read_outbox(self.link, 0, 1)
        return oldest[0][0] - 1 if oldest else self.last

    def is_settled(self, number: int) -> bool:
        """Whether a message was settled before those in front of it."""
        return self._sharing.is_settled(self.link, number)

    def cursor(self, number: int) -> str:
        """Return the cursor of a message."""
        return str(Cursor(self.epoch, number))

    def read(self, after: int, limit: int, upto: int | None = None) -> list[tuple[int, bytes]]:
        """Return messages behind a number that are on disk, up to another number."""
        last = self.last if upto is None else min(upto, self.last)
        messages = self._store.read_outbox(self.link, after, min(limit, max(last - after, 0)))
        return [message for message in messages if message[0] <= last]


class LinkView:
    """A link to another broker: what it carried, what waits for it, and whether events are sent over it."""

    def __init__(self, machine: BrokerMachine, broker: BrokerCore, neighbour: Link) -> None:
        self.counters: Counters = broker.counters.get(neighbour) or Counters()
        #: The ring that the link would close, as "a - b - c - a"; such a link is not used. "": none.
        self.ring = broker.flow.rings.ring_of(neighbour)
        #: How many entries the neighbour has in our table.
        self.n_entries = 0 if self.ring else n_entries(broker.table, neighbour)
        self.is_skipped = neighbour in broker.flow.skipped
        #: Whether its outbox is full, or its overflow was and the neighbour does not know what was dropped.
        self.is_full = neighbour in broker.flow.full or (
            neighbour in broker.flow.drops and neighbour in broker.flow.gaps.links
        )
        self.is_connected = neighbour in machine.connections
        #: What its searches for covers on the Z curve cost and brought; None: its policy makes none.
        self.searches = _searches(broker.table.summaries.get(neighbour, {}).values())
        #: Whether both ends have each other's tables, and whether all brokers behind the neighbour know this one's.
        self.is_in_step, self.is_confirmed = (False, False) if self.ring else broker.progress_of(neighbour)


def _searches(summaries: Iterable[Summary]) -> CurveSearches | None:
    """Return the searches of all namespaces of a link together."""
    finders = map(finder_of, summaries)
    parts = [finder.searches() for finder in finders if isinstance(finder, ZCurveIndex)]
    if not parts:
        return None
    questions = sum(part.questions for part in parts)
    volume = sum(part.questions * part.volume for part in parts) / max(questions, 1)
    return CurveSearches(questions, sum(part.hits for part in parts), sum(part.cubes for part in parts), volume)


class BrokerView:
    """One running broker, to look at."""

    def __init__(self, machine: BrokerMachine, store: Store, committer: Callable[[], Committer]) -> None:
        self._machine = machine
        self._edge = machine.node.core
        self._store = store
        self._committer = committer

    @property
    def name(self) -> str:
        """The name of the broker."""
        return self._edge.broker.name

    @property
    def epoch(self) -> int:
        """The life of the broker."""
        return self._machine.node.epoch

    # Subscriptions

    @property
    def subscriptions(self) -> dict[LinkKey, m.Subscribe]:
        """Every subscription of a client; it changes while the broker runs."""
        return self._edge.registry.subscriptions

    @property
    def checks(self) -> Checks:
        """Rights, limits and policies."""
        return self._edge.checks

    def schema_of(self, namespace: str) -> Schema:
        """Return the types of attributes in a namespace."""
        return self._edge.checks.content.of(namespace).schema

    @property
    def learns(self) -> bool:
        """Whether types are learned."""
        return self._edge.checks.content.learns

    def state_of(self, place: LinkKey) -> m.State:
        """Return the state of a subscription."""
        if place not in self.subscriptions:
            return m.State.CANCELLED
        if self._edge.registry.is_waiting([place]):
            return m.State.PENDING
        return m.State.ACTIVE if is_active(self._edge.broker, *place) else m.State.ACCEPTED

    def filters_of(self, place: LinkKey, message: m.Subscribe) -> tuple[Filter, ...]:
        """Return the filters of a subscription, also of a subscription that has ended meanwhile."""
        # A single lookup, because another thread may remove the interest.
        interest = self._edge.broker.table.interests(place[0]).get(place[1])
        content = self._edge.checks.content.of(message.namespace)
        return content.read_filter(message.filter) if interest is None else interest.filters

    async def readers_of(self, raw: Mapping[str, Any], namespace: str) -> Readers:
        """Return the subscriptions that an event would match, by client; they are searched for beside the loop."""
        schema, table = self.schema_of(namespace), self._edge.broker.table
        batch = EventBatch([schema.event(raw)], namespace, schema)
        [keys] = await run_beside(lambda: table.matching_of_batch(batch))
        return table.group(keys)

    def stand_ins(self, neighbour: Link, place: LinkKey) -> list[str]:
        """Return the keys of the announced subscriptions that cover one which was not announced to a neighbour."""
        summaries = self._edge.broker.table.summaries.get(neighbour, {}).values()
        homes = (homes for summary in summaries for _, homes in summary.suppressed(Origin(*place)))
        return [key for keys in homes for key in keys]

    def missing(self, place: LinkKey) -> list[Link]:
        """Return the neighbours that have not confirmed a subscription yet."""
        return self._edge.broker.missing(*place)

    def n_suppressed(self, neighbour: Link) -> int:
        """Return how many subscriptions were not announced to a neighbour, because others cover them."""
        summaries: Mapping[str, Summary] = self._edge.broker.table.summaries.get(neighbour, {})
        return sum(summary.n_suppressed for summary in summaries.values())

    # Events

    @property
    def traffic(self) -> Traffic:
        """Counts, and the last events and deliveries."""
        return self._edge.traffic

    def read_event(self, event: m.Published) -> Event:
        """Return the canonical values of an event."""
        return self._edge.checks.content.of(event.namespace).read_event(event.payload)

    def event_as_json(self, event: m.Published) -> dict[str, Any]:
        """Return the attributes of an event as JSON has them, also one from before its types were forgotten."""
        return payload_as_json(event.payload, self.schema_of(event.namespace))

    # Links

    def stream(self, link: Link) -> StreamView:
        """Return the queue of a client."""
        return StreamView(self._machine, self._store, link)

    @property
    def links(self) -> Collection[Link]:
        """All links, connected or not."""
        return self._machine.node.ends.links()

    def waiting_for(self, link: Link) -> int:
        """Return how many messages wait for a link; 0 for a link that does not exist."""
        end = self._machine.node.ends.get(link)
        return 0 if end is None else len(end.outbox) + len(self._machine.node.overflows.waiting(link))

    @property
    def suspended(self) -> frozenset[Link]:
        """The clients that miss events now because they read too slowly."""
        return frozenset(self._edge.backlogs.gaps)

    @property
    def connected(self) -> frozenset[Link]:
        """The links that have a connection."""
        return frozenset(self._machine.connections)

    def is_neighbour(self, link: Link) -> bool:
        """Whether a link leads to another broker."""
        return self._machine.is_neighbour(link)

    def link(self, neighbour: Link) -> LinkView:
        """Return the state and the counts of a link to another broker."""
        return LinkView(self._machine, self._edge.broker, neighbour)

    # Disk

    @property
    def disk(self) -> DiskView:
        """The state of the disk."""
        return DiskView(self._store, self._committer())

    def read_audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        """Return the newest records of the audit with numbers below ``before``, the newest first."""
        return self._store.read_audit(before, limit)
