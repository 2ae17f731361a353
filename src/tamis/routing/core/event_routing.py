"""What becomes of events: which neighbours get them, which subscriptions of clients match, and what is delivered.

Matching and delivering are two calls, because one event may have a million readers: `route` says who they are, and
`deliver` makes the copies for some of them. `tamis.routing.core.publications` puts both into steps of bounded length.
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
    """What follows from some events: refusals, readers who have nothing yet, and what goes to neighbours."""

    refusals: list[Effect] = field(default_factory=list)
    routed: list[Routed] = field(default_factory=list)
    sends: list[Effect] = field(default_factory=list)


class EventRouting:
    """Takes events through a broker's table; ``counters`` count what each neighbour gets and gave in vain."""

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
        for one in routes.routed:
            effects += self.deliver(one.event, self.table.group(one.keys), sender, now)
        return effects + routes.sends

    def route(
        self,
        events: Sequence[m.Published],
        sender: Link,
        now: float,
        *,
        is_accepted: bool = False,
        most: int | None = None,
        found: Mapping[m.EventId, Route] | None = None,
    ) -> Routes:
        """Match events; those that are accepted are refused by no link.

        With ``most`` it ends behind the event with which that many subscriptions match in all. ``found`` has the routes
        of events that were matched already.
        """
        routes, going = Routes(), dict[Link, list[m.Published]]()
        readable, routes.refusals = self._read(events, sender, is_accepted=is_accepted)
        may_refuse = not is_accepted and not self.flow.is_open and not self.flow.is_neighbour(sender)
        for one, links in self._matched(readable, sender, most, found or {}):
            if may_refuse and (why := self.flow.find_refusal(links)):
                routes.refusals.append(self.refuse(one.event, sender, *why))
                continue
            for link in links:
                if self.flow.is_dropping(link):
                    self.flow.gaps.add(link, one.event.namespace, one.event.id)
                    self._counters[link].dropped += 1
                    continue
                going.setdefault(link, []).append(one.event)
                self._counters[link].events += 1
            if self.flow.is_neighbour(sender) and not links and not self._is_wanted(one, sender, now):
                self._counters[sender].false_positives += 1
            routes.routed.append(one)
        for link, batch in going.items():
            routes.sends.append(Send(link, m.Publish(batch[0]) if len(batch) == 1 else m.PublishBatch(tuple(batch))))
        routes.sends += self.flow.gaps.take_changes()
        return routes

    def skip(self, change: SkipLink) -> list[Effect]:
        """Leave out a link, or take it back; nothing waits for its confirmations meanwhile."""
        self._confirmations.excuse(change.link, change.is_skipped)
        return self.flow.skip(change.link, change.is_skipped)

    def pass_gap(self, gap: m.LinkGap, sender: Link) -> list[Effect]:
        """Tell clients what may not have reached this broker, and the neighbours behind it."""
        effects: list[Effect] = [
            Send(client, m.Gap(gap.first, gap.count))
            for client in sorted(self.table.clients())
            if any(one.namespace == gap.namespace for one in self.table.interests(client).values())
        ]
        for link in sorted({*self.flow.neighbours} - {sender}):
            if self.flow.is_dropping(link):
                self.flow.gaps.add(link, gap.namespace, gap.first, gap.count)
            else:
                effects.append(Send(link, gap))
        return effects + self.flow.gaps.take_changes()

    def deliver(self, event: m.Published, readers: Readers, sender: Link, now: float) -> list[Effect]:
        """Return one copy for each client that has a live subscription among its readers, with the ids of all."""
        effects: list[Effect] = []
        for client, wanting in sorted(readers.items()):
            ids = tuple(one.id for one in wanting if self._is_live(event, client, one, sender, now))
            if ids:
                effects.append(Deliver(client, m.Delivery(event, ids)))
        return effects

    def group_later(self, one: Routed, keys: Sequence[SubscriptionId]) -> Readers:
        """Return the readers of an event by client, some time after it was matched.

        A subscription that has ended since gets nothing (promise G9); one that has changed is matched again.
        """
        changed = self.changed
        if changed:
            keys = [key for key in keys if key not in changed or self._still_matches(one, key)]
        return self.table.group(keys)

    def refuse(self, event: m.Published, client: Link, link: Link, why: str) -> Effect:
        """Refuse an event that a link cannot take; it was not delivered to any client."""
        self._counters[link].refused += 1
        return Send(client, m.Refusal(f"event {event.id.seq}", why, event.id, is_temporary=True))

    def find_refusal(self, namespace: str, payload: bytes) -> tuple[Link, str] | None:
        """Return the link that is full and that an event of a client would take, and why; None: it can be accepted."""
        if self.flow.is_open:
            return None
        values = self._content.of(namespace).read_event(payload)
        return self.flow.find_refusal(self.table.next_hops(values, namespace, ""))

    def _still_matches(self, one: Routed, key: SubscriptionId) -> bool:
        """Whether a subscription that has changed since the event was matched matches it, too."""
        now = [each for many in self.table.group([key]).values() for each in many]
        return any(matches(one.values, filter) for each in now for filter in each.filters)

    def _read(
        self, events: Sequence[m.Published], sender: Link, *, is_accepted: bool
    ) -> tuple[list[tuple[m.Published, Event | None]], list[Effect]]:
        """Return the events with their values, and refusals of what is not an event.

        An accepted event keeps its position: its namespace may have learned types since that it does not fit. Then it
        has no values, and its publisher gets a refusal.
        """
        readable: list[tuple[m.Published, Event | None]] = []
        refusals: list[Effect] = []
        for event in events:
            try:
                readable.append((event, self._content.of(event.namespace).read_event(event.payload)))
            except Exception as error:  # nothing is applied yet, so whatever is wrong is wrong with this event
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
        """Return those of some accepted events that fit their namespaces, with their values."""
        readable, _ = self._read(events, "", is_accepted=True)
        return [(event, values) for event, values in readable if values is not None]

    def _matched(
        self,
        events: list[tuple[m.Published, Event | None]],
        sender: Link,
        most: int | None,
        found: Mapping[m.EventId, Route],
    ) -> Iterator[tuple[Routed, list[Link]]]:
        """Yield the events in order with their readers and next hops; all of a namespace are matched at once."""
        spaces: dict[str, list[Event]] = {}
        for event, values in events:
            if values is not None and event.id not in found:
                spaces.setdefault(event.namespace, []).append(values)
        routes = {
            name: self._routes(EventBatch(mine, name, self._content.of(name).schema), sender, most)
            for name, mine in spaces.items()
        }
        count = 0
        for event, values in events:
            if values is None:
                yield Routed(event, {}, ()), []
                continue
            route = found.get(event.id)
            if route is None:
                route = next(routes[event.namespace], None)
            else:  # a neighbour may have been removed since
                route = [link for link in route[0] if self.flow.is_neighbour(link)], route[1]
            if route is None or (most is not None and count >= most):
                return
            links, keys = route
            count += len(keys)
            yield Routed(event, values, keys), links

    def _routes(self, batch: EventBatch, sender: Link, most: int | None) -> Iterator[Route]:
        """Return next hops and readers of the events; it may end early when these are more than ``most``."""
        keys = self.table.matching_of_batch(batch, most)
        batch = batch.head(len(keys))
        hops = self.table.next_hops_of_batch(batch, sender) if self.flow.has_neighbours else [[]] * len(batch)
        return zip(hops, keys, strict=True)

    def _is_wanted(self, one: Routed, sender: Link, now: float) -> bool:
        """Whether a client gets an event now."""
        readers = (self.table.group([key]).items() for key in one.keys)
        return any(self._is_live(one.event, client, each, sender, now) for found in readers for client, [each] in found)

    def _is_live(self, event: m.Published, client: Link, one: Interest, sender: Link, now: float) -> bool:
        """Whether a subscription gets an event of ``sender`` now: it has not expired, and the event is not early."""
        if one.expires is not None and one.expires <= now * 1e6:
            return False
        if not self.flow.is_neighbour(sender) or not self._confirmations.has_waiting:
            return True
        formers = self._confirmations.early_for(client, client_key(client, one.namespace, one.id), sender)
        if not formers:
            return True
        if None in formers:
            return False
        values = self._content.of(event.namespace).read_event(event.payload)
        return all(any(matches(values, each) for each in former.filters) for former in formers if former is not None)


def client_key(client: Link, namespace: str, id: int | str) -> str:
    """Return the key of a client's subscription, unique in the network.

    >>> client_key("alice", "default", 7)
    '["alice","default",7]'
    """
    return msgspec.json.encode((client, namespace, id)).decode()
