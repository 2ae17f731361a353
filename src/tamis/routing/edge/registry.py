"""The subscriptions of a broker's own clients: what their owners said about them, and how far each has come.

To enter the routing table takes up to 50 ms for a filter with 256 alternatives. A batch therefore enters in slices, one
per step of the broker, and principals take turns: what `admit` leaves waits here, is on disk already, and `next_slice`
gives it out.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, KeysView, Sequence

from tamis.errors import DuplicateSubscriptionError, LimitError, UnknownSubscriptionError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.consumers.fields import FieldLists
from tamis.routing.core.broker import client_key
from tamis.routing.edge.limits import (
    MAX_BYTES_OF_NAMESPACE,
    MAX_BYTES_OF_SUBSCRIPTIONS,
    MAX_SUBSCRIPTIONS_OF_NAMESPACE,
    SHORT_FILTER,
    SLICE_BYTES,
    SLICE_SUBSCRIPTIONS,
)
from tamis.routing.edge.requests import Rejection, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.webhooks.registration import Webhooks

__all__ = ["Arrival", "Place", "Registry"]

#: The link of a client, and the key of its subscription.
Place = tuple[Link, str]

#: The link of a client, and what it asks for.
Arrival = tuple[Link, m.Subscribe]


class Registry:
    """Every subscription of a client, by place."""

    def __init__(self) -> None:
        self.asked: dict[Place, m.Subscribe] = {}
        #: How many subscriptions each principal has, and each link in each namespace.
        self._counts: Counter[str] = Counter()
        #: Which attributes the deliveries of a subscription carry.
        self.fields = FieldLists()
        #: Where subscriptions are sent.
        self.webhooks = Webhooks(self.namespaces_of)
        self._room = _Room()
        self._spaces: dict[Link, dict[str, int]] = {}
        #: ``{principal: subscriptions}`` that are not in the routing table yet; the principal whose turn is next first.
        self._waiting: dict[str, dict[Place, Arrival]] = {}

    def count_of(self, principal: str) -> int:
        """Return how many subscriptions a principal has."""
        return self._counts[principal]

    def bytes_of(self, namespace: str) -> int:
        """Return the bytes of the subscriptions of a namespace."""
        return self._room.bytes_of(namespace)

    def namespaces_of(self, link: Link) -> KeysView[str]:
        """Return the namespaces in which a client has subscriptions."""
        return self._spaces.get(link, {}).keys()

    def demand_room(self, rights: Rights, link: Link, message: m.Subscribe) -> None:
        """Raise `LimitError` when a subscription is one more than its principal or its namespace may have."""
        before = self.asked.get(_place(link, message))
        if before is not None:
            self._room.demand(message.namespace, 0, _size(message) - _size(before))
            return
        if self._counts[rights.principal] >= rights.max_subscriptions:
            raise LimitError("subscriptions", self._counts[rights.principal] + 1, rights.max_subscriptions)
        self._room.demand(message.namespace, 1, _size(message))

    def find_rejection(self, message: SubscribeFor) -> Rejection | None:
        """Return why subscriptions cannot be accepted because of those that exist, or are in the same request."""
        new, pieces, sizes = set[Place](), Counter[str](), Counter[str]()
        for row, (link, request) in enumerate(message.requests):
            place = _place(link, request)
            if message.must_be_new and (place in self.asked or place in new):
                return Rejection(row, DuplicateSubscriptionError(request.id))
            before = self.asked.get(place)
            if message.must_exist and before is None:
                return Rejection(row, UnknownSubscriptionError(request.id))
            pieces[request.namespace] += before is None
            sizes[request.namespace] += _size(request) - (0 if before is None else _size(before))
            if before is None:
                new.add(place)
        try:
            for namespace, count in pieces.items():
                self._room.demand(namespace, count, sizes[namespace])
        except LimitError as error:
            return Rejection(None, error)
        wanted, most = self.count_of(message.by.principal) + len(new), message.by.max_subscriptions
        return Rejection(None, LimitError("subscriptions", wanted, most)) if new and wanted > most else None

    def add(self, link: Link, message: m.Subscribe) -> bool:
        """Note a subscription, or what replaces one; return whether it is the client's first in its namespace."""
        place = _place(link, message)
        before, self.asked[place] = self.asked.get(place), message
        self._room.add(message.namespace, int(before is None), _size(message) - (_size(before) if before else 0))
        about = m.about(message)
        self.fields.put(link, message, about.fields)
        if before is not None:
            return False
        self._counts[about.owner] += 1
        spaces = self._spaces.setdefault(link, {})
        spaces[message.namespace] = spaces.get(message.namespace, 0) + 1
        return spaces[message.namespace] == 1

    def note(self, link: Link, status: m.Status) -> m.Subscribe | None:
        """Take note of the end of a subscription, and return it; other states are not kept here."""
        if status.state is not m.State.CANCELLED:
            return None
        ended = self.asked.pop((link, client_key(link, status.namespace, status.id)), None)
        if ended is not None:
            self.fields.forget(link, ended)
            self._counts[m.about(ended).owner] -= 1
            self._room.add(ended.namespace, -1, -_size(ended))
            self._leave(link, ended.namespace)
        return ended

    def _leave(self, link: Link, namespace: str) -> None:
        spaces = self._spaces[link]
        spaces[namespace] -= 1
        if not spaces[namespace]:
            del spaces[namespace]
        if not spaces:
            del self._spaces[link]

    # What waits to enter the routing table

    def admit(self, principal: str, arrivals: Sequence[Arrival]) -> tuple[Sequence[Arrival], Sequence[Arrival]]:
        """Return what may enter the routing table in this step, and what waits: all, behind what waits already."""
        for arrival in arrivals if self._waiting.keys() - {principal} else ():  # the later one holds
            self._stop_waiting(_place(*arrival), but=principal)
        n = 0 if principal in self._waiting else _slice_end(arrivals)
        if later := arrivals[n:]:
            self._waiting.setdefault(principal, {}).update((_place(*arrival), arrival) for arrival in later)
        return arrivals[:n], later

    def next_slice(self) -> list[Arrival]:
        """Return what may enter next, of the principal whose turn it is; empty when nothing waits."""
        if not self._waiting:
            return []
        principal = next(iter(self._waiting))
        waiting = self._waiting.pop(principal)
        places = list(itertools.islice(waiting, SLICE_SUBSCRIPTIONS))
        arrivals = [waiting[place] for place in places]
        arrivals = arrivals[: _slice_end(arrivals)]
        for place in places[: len(arrivals)]:
            del waiting[place]
        if waiting:
            self._waiting[principal] = waiting  # behind the others
        return arrivals

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits to enter the routing table."""
        return bool(self._waiting)

    def is_waiting(self, places: Iterable[Place]) -> bool:
        """Whether one of some subscriptions waits to enter the routing table."""
        return any(place in waiting for place in places for waiting in self._waiting.values())

    def take_waiting(self, link: Link, message: m.Unsubscribe) -> list[Arrival]:
        """Return the subscription that is to end, if it waits; it waits no longer."""
        return self._stop_waiting((link, client_key(link, message.namespace, message.id)))

    def _stop_waiting(self, place: Place, but: str = "") -> list[Arrival]:
        """Return what waits under a place, and let it wait no longer; what the principal ``but`` sent stays."""
        for principal, waiting in self._waiting.items():
            if place in waiting and principal != but:
                arrival = waiting.pop(place)
                if not waiting:
                    del self._waiting[principal]
                return [arrival]
        return []


class _Room:
    """How many subscriptions, and bytes of them, each namespace has."""

    def __init__(self) -> None:
        self._pieces: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._all = 0

    def demand(self, namespace: str, pieces: int, size: int) -> None:
        """Raise `LimitError` when a namespace, or the broker, cannot take this many more pieces and bytes."""
        of = f"of namespace {namespace!r}"
        for what, wanted, most in (
            (f"subscriptions {of}", self._pieces[namespace] + pieces, MAX_SUBSCRIPTIONS_OF_NAMESPACE),
            (f"bytes of subscriptions {of}", self._bytes[namespace] + size, MAX_BYTES_OF_NAMESPACE),
            ("bytes of subscriptions", self._all + size, MAX_BYTES_OF_SUBSCRIPTIONS),
        ):
            if wanted > most and (pieces > 0 or size > 0):  # what makes room is always taken
                raise LimitError(what, wanted, most)

    def bytes_of(self, namespace: str) -> int:
        """Return the bytes of a namespace."""
        return self._bytes[namespace]

    def add(self, namespace: str, pieces: int, size: int) -> None:
        """Count more or, with negative numbers, less."""
        self._pieces[namespace] += pieces
        self._bytes[namespace] += size
        self._all += size
        if not self._pieces[namespace]:
            del self._pieces[namespace], self._bytes[namespace]


def _size(message: m.Subscribe) -> int:
    return len(message.filter) + len(message.about)


def _place(link: Link, message: m.Subscribe) -> Place:
    return link, client_key(link, message.namespace, message.id)


def _slice_end(arrivals: Sequence[Arrival]) -> int:
    """Return how many of some subscriptions enter in one step: at least one."""
    size = 0
    for n, (_, message) in enumerate(arrivals[:SLICE_SUBSCRIPTIONS]):
        size += max(0, len(message.filter) - SHORT_FILTER)
        if n and size > SLICE_BYTES:
            return n
    return min(len(arrivals), SLICE_SUBSCRIPTIONS)
