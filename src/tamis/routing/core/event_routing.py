"""Routes events: which neighbours get them, which subscriptions of clients match, and what is delivered.

Matching and delivering are two calls, because one event may have a million readers: `route` finds the readers, and
`deliver` makes the copies for some of them. `tamis.routing.core.publications` calls both in steps of bounded length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tamis.algebra.evaluate import matches
from tamis.errors import RemoteProtocolError
from tamis.model.schema import Event
from tamis.model.subscription import SubscriptionId
from tamis.node.content import Content
from tamis.node.core import Dropped
from tamis.node.effects import Deliver, Effect, Link, Send
from tamis.routing import messages as m
from tamis.routing.core.confirmations import Confirmations
from tamis.routing.core.counters import Counters
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.flow import Flow
from tamis.routing.core.interest import Interest
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.core.routing_table import Readers, RoutingTable

__all__ = ["EventRouting", "Route", "Routed", "Routes", "client_key"]

#: The next hops of an event, and the keys of the clients' subscriptions that match it.
Route = tuple[list[Link], list[SubscriptionId]]


class Routed(NamedTuple):
    """An event, its values, and the keys of the clients' subscriptions that match it."""

    event: m.Published
    values: Event
    keys: Sequence[SubscriptionId]


@dataclass
class Routes:
    """The result of routing events: refusals, events to deliver to readers, and messages to neighbours."""

    refusals: list[Effect] = field(default_factory=list)
    routed: list[Routed] = field(default_factory=list)
    sends: list[Effect] = field(default_factory=list)


class EventRouting:
    """Routes events through a broker's table; ``counters`` count the events and false positives of each link."""

    def __init__(
        self,
        table: RoutingTable,
        content: Content,
        confirmations: Confirmations,
        flow: Flow,
        counters: Mapping[Link, Counters],
    ) -> None:
        self.table = table
        self.flow = flow
        #: The keys of subscriptions that are new since events began to wait for their delivery; None: none waits.
        self.changed: set[str] | None = None
        self._content = content
        self._confirmations = confirmations
        self._counters = counters

    def publish(self, events: Sequence[m.Published], sender: Link, now: float) -> list[Effect]:
        """Route events and deliver all of them at once, however many readers they have."""
        routes = self.route(events, sender, now)
        effects = routes.refusals
        for routed in routes.routed:
            effects += self.deliver(routed.event, self.table.group(routed.keys), sender, now)
        return effects + routes.sends

    def route(
        self,
        events: Sequence[m.Published],
        sender: Link,
        now: float,
        *,
        is_accepted: bool = False,
        limit: int | None = None,
        known_routes: Mapping[m.Published, Route] | None = None,
    ) -> Routes:
        """Match events; with ``is_accepted`` none is refused because of a full link.

        With ``limit`` matching stops after the event at which the total of matching subscriptions reaches it.
        ``known_routes`` are the routes of events that were matched already.
        """
        routes, going = Routes(), dict[Link, list[m.Published]]()
        readable, routes.refusals = self._read(events, sender, is_accepted=is_accepted)
        may_refuse = not is_accepted and not self.flow.is_open and not self.flow.is_neighbour(sender)
        for routed, links in self._matched(readable, sender, limit, known_routes or {}):
            if may_refuse and (refusal := self.flow.find_refusal(links)):
                routes.refusals.append(self.refuse(routed.event, sender, *refusal))
                continue
            for link in links:
                if self.flow.is_counting(link):
                    self.flow.gaps.add(link, routed.event.namespace, routed.event.id)
                    self._counters[link].dropped += 1
                    continue
                going.setdefault(link, []).append(routed.event)
                self._counters[link].events += 1
            if self.flow.is_neighbour(sender) and not links and not self._is_wanted(routed, sender, now):
                self._counters[sender].false_positives += 1
            routes.routed.append(routed)
        for link, batch in going.items():
            message = m.Publish(batch[0]) if len(batch) == 1 else m.PublishBatch(tuple(batch))
            routes.sends.append(self.flow.send(link, message))
        routes.sends += self.flow.gaps.take_changes()
        return routes

    def skip(self, change: SkipLink) -> list[Effect]:
        """Skip a link, or resume it; nothing waits for its confirmations meanwhile."""
        self._confirmations.excuse(change.link, change.is_skipped)
        return self.flow.skip(change.link, change.is_skipped)

    def pass_gap(self, gap: m.LinkGap, sender: Link) -> list[Effect]:
        """Pass a gap of a link on, to the clients of its namespace and to the other neighbours."""
        effects: list[Effect] = [
            Send(client, m.Gap(gap.first, gap.count))
            for client in sorted(self.table.clients())
            if any(interest.namespace == gap.namespace for interest in self.table.interests(client).values())
        ]
        for link in sorted({*self.flow.neighbours} - {sender}):
            if self.flow.is_counting(link):
                self.flow.gaps.add(link, gap.namespace, gap.first, gap.count)
            else:
                effects.append(self.flow.send(link, gap))
        return effects + self.flow.gaps.take_changes()

    def drop(self, dropped: Dropped, link: Link) -> list[Effect]:
        """Count the oldest messages of a link, which will not be sent; its neighbour gets their last confirmation."""
        self._counters[link].dropped += self.flow.gaps.add_all(link, dropped.messages)
        confirmations = [message for message in dropped.messages if isinstance(message, m.Confirm)]
        return [*self.flow.gaps.take_changes(), *(Send(link, message) for message in confirmations[-1:])]

    def deliver(self, event: m.Published, readers: Readers, sender: Link, now: float) -> list[Effect]:
        """Return one copy for each client that has a live subscription among its readers, with the ids of all."""
        effects: list[Effect] = []
        for client, interests in sorted(readers.items()):
            ids = tuple(interest.id for interest in interests if self._is_live(event, client, interest, sender, now))
            if ids:
                effects.append(Deliver(client, m.Delivery(event, ids)))
        return effects

    def group_later(self, routed: Routed, keys: Sequence[SubscriptionId]) -> Readers:
        """Return the readers of an event by client, some time after it was matched.

        A subscription that has ended since gets nothing (promise G9); one that has changed is matched again.
        """
        changed = self.changed
        if changed:
            keys = [key for key in keys if key not in changed or self._still_matches(routed, key)]
        return self.table.group(keys)

    def refuse(self, event: m.Published, client: Link, link: Link, reason: str) -> Effect:
        """Return the refusal of an event that a link cannot take; it was not delivered to any client."""
        self._counters[link].refused += 1
        return Send(client, m.Refusal(f"event {event.id.seq}", reason, event.id, is_temporary=True))

    def find_refusal(self, namespace: str, payload: bytes) -> tuple[Link, str] | None:
        """Return the full link that an event of a client would take, and the reason; None: it can be accepted."""
        if self.flow.is_open:
            return None
        values = self._content.of(namespace).read_event(payload)
        return self.flow.find_refusal(self.table.next_hops(values, namespace, ""))

    def _still_matches(self, routed: Routed, key: SubscriptionId) -> bool:
        """Whether a subscription that changed after the event was matched still matches it."""
        current = [interest for interests in self.table.group([key]).values() for interest in interests]
        return any(matches(routed.values, filter) for interest in current for filter in interest.filters)

    def _read(
        self, events: Sequence[m.Published], sender: Link, *, is_accepted: bool
    ) -> tuple[list[tuple[m.Published, Event | None]], list[Effect]]:
        """Return the events with their values, and the refusals of unreadable ones.

        An accepted event keeps its position. If it does not fit types that its namespace has learned since, it has no
        values, and its publisher gets a refusal.
        """
        readable: list[tuple[m.Published, Event | None]] = []
        refusals: list[Effect] = []
        for event in events:
            try:
                readable.append((event, self._content.of(event.namespace).read_event(event.payload)))
            except Exception as error:  # nothing is applied yet, so this event is at fault
                if self.flow.is_neighbour(sender) and not is_accepted:
                    raise RemoteProtocolError(sender, str(error)) from None
                if is_accepted:
                    readable.append((event, None))
                if not self.flow.is_neighbour(sender):
                    refusals.append(Send(sender, m.Refusal(f"event {event.id.seq}", str(error), event.id)))
        return readable, refusals

    def demand_readable(self, events: Iterable[m.Published], sender: Link) -> None:
        """Raise `RemoteProtocolError` unless every event of a neighbour's message fits its namespace."""
        self._read(tuple(events), sender, is_accepted=False)

    def readable(self, events: Sequence[m.Published]) -> list[tuple[m.Published, Event]]:
        """Return the accepted events that fit their namespaces, with their values."""
        readable, _ = self._read(events, "", is_accepted=True)
        return [(event, values) for event, values in readable if values is not None]

    def _matched(
        self,
        events: list[tuple[m.Published, Event | None]],
        sender: Link,
        limit: int | None,
        known_routes: Mapping[m.Published, Route],
    ) -> Iterator[tuple[Routed, list[Link]]]:
        """Yield the events in order with their readers and next hops; all of a namespace are matched at once."""
        spaces: dict[str, list[Event]] = {}
        for event, values in events:
            if values is not None and event not in known_routes:
                spaces.setdefault(event.namespace, []).append(values)
        routes = {
            name: self._routes(EventBatch(events_of_name, name, self._content.of(name).schema), sender, limit)
            for name, events_of_name in spaces.items()
        }
        count = 0
        for event, values in events:
            if values is None:
                yield Routed(event, {}, ()), []
                continue
            route = known_routes.get(event)
            if route is None:
                route = next(routes[event.namespace], None)
            else:  # a neighbour may have been removed since
                route = [link for link in route[0] if self.flow.is_neighbour(link)], route[1]
            if route is None or (limit is not None and count >= limit):
                return
            links, keys = route
            count += len(keys)
            yield Routed(event, values, keys), links

    def _routes(self, batch: EventBatch, sender: Link, limit: int | None) -> Iterator[Route]:
        """Return next hops and readers of the events; it may end early if there are more readers than ``limit``."""
        keys = self.table.matching_of_batch(batch, limit)
        batch = batch.head(len(keys))
        hops = self.table.next_hops_of_batch(batch, sender) if self.flow.has_neighbours else [[]] * len(batch)
        return zip(hops, keys, strict=True)

    def _is_wanted(self, routed: Routed, sender: Link, now: float) -> bool:
        """Whether a client gets an event now."""
        readers = (self.table.group([key]).items() for key in routed.keys)
        return any(
            self._is_live(routed.event, client, interest, sender, now)
            for by_client in readers
            for client, [interest] in by_client
        )

    def _is_live(self, event: m.Published, client: Link, interest: Interest, sender: Link, now: float) -> bool:
        """Whether a subscription gets an event of ``sender`` now: it has not expired, and the event is not early.

        See `Confirmations.early_for`.
        """
        if interest.expires is not None and interest.expires <= now * 1e6:
            return False
        if not self.flow.is_neighbour(sender) or not self._confirmations.has_waiting:
            return True
        formers = self._confirmations.early_for(client, client_key(client, interest.namespace, interest.id), sender)
        if not formers:
            return True
        if None in formers:
            return False
        values = self._content.of(event.namespace).read_event(event.payload)
        return all(
            any(matches(values, filter) for filter in former.filters) for former in formers if former is not None
        )


def client_key(client: Link, namespace: str, id: int | str) -> str:
    """Return the key of a client's subscription, unique in the network.

    >>> client_key("alice", "default", 7)
    '["alice","default",7]'
    """
    return msgspec.json.encode((client, namespace, id)).decode()
