"""The subscriptions of a broker's own clients, and those that wait to enter the routing table.

Adding a filter with 256 alternatives to the routing table takes up to 50 ms, and so do proofs about a few patterns. A
batch therefore enters in slices, one per step of the broker, by weight as the entries of a neighbour do, and principals
take turns: what `admit` does not take waits here, already on disk, until `next_slice` returns it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, KeysView, Sequence

from tamis.errors import DuplicateSubscriptionError, LimitError, UnknownSubscriptionError
from tamis.node.effects import Link, LinkKey
from tamis.routing import messages as m
from tamis.routing.consumers.fields import FieldLists
from tamis.routing.core.broker import client_key
from tamis.routing.early_entries import weight_of
from tamis.routing.edge.limits import (
    MAX_BYTES_OF_NAMESPACE,
    MAX_BYTES_OF_SUBSCRIPTIONS,
    MAX_NAMESPACES,
    MAX_NAMESPACES_OF_PRINCIPAL,
    MAX_SUBSCRIPTIONS_OF_NAMESPACE,
    SLICE_SUBSCRIPTIONS,
)
from tamis.routing.edge.link_names import ClientNames, queue_of
from tamis.routing.edge.requests import Rejection, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.webhooks.registration import Webhooks

__all__ = ["Arrival", "Registry"]


#: The link of a client, and its subscription.
Arrival = tuple[Link, m.Subscribe]


#: Returns which part of a step a subscription takes, as `weight_of` does.
Weigh = Callable[[m.Subscribe], int]


class Registry:
    """Every subscription of a client, by place."""

    def __init__(self, weigh: Weigh = lambda message: weight_of(message.filter, None, is_announced=False)) -> None:
        self._weigh = weigh
        self.subscriptions: dict[LinkKey, m.Subscribe] = {}
        #: How many subscriptions each principal has, and each link in each namespace.
        self._owned = _Owned()
        #: The attributes that the deliveries of a subscription carry.
        self.fields = FieldLists()
        #: ``{link: places}`` of the subscriptions that end when their client stays away: those that are not durable.
        self._passing: dict[Link, set[LinkKey]] = {}
        #: The limits of deliveries of durable subscriptions that have one.
        self._most_deliveries: dict[LinkKey, int] = {}
        #: All clients by name, also those without subscriptions.
        self.clients = ClientNames()
        #: The webhooks of subscriptions.
        self.webhooks = Webhooks(self.namespaces_of)
        self._room = _Room()
        self._spaces: dict[Link, dict[str, int]] = {}
        #: ``{principal: subscriptions}`` that are not in the routing table yet; the principal whose turn is next first.
        self._waiting: dict[str, dict[LinkKey, Arrival]] = {}
        #: ``{place: principal}`` of all that waits: one look-up for each place, however many principals wait.
        self._waiting_of: dict[LinkKey, str] = {}

    def count_of(self, principal: str) -> int:
        """Return how many subscriptions a principal has."""
        return self._owned.count_of(principal)

    def bytes_of(self, namespace: str) -> int:
        """Return the bytes of the subscriptions of a namespace."""
        return self._room.bytes_of(namespace)

    def namespaces_of(self, link: Link) -> KeysView[str]:
        """Return the namespaces in which a client has subscriptions."""
        return self._spaces.get(link, {}).keys()

    def without_subscriptions(self, links: Iterable[Link]) -> list[Link]:
        """Return those of some links whose clients have no subscriptions; dead letters belong to their queue."""
        spaces = self._spaces
        return [link for link in links if link not in spaces and queue_of(link) not in spaces]

    def most_deliveries(self, link: Link, message: m.Delivery) -> int:
        """Return how often a message may be delivered without an acknowledgement; 0: without limit.

        A client's queue has one copy of an event for several subscriptions: each of them must be durable and have a
        limit.
        """
        namespace = message.event.namespace
        if not self._most_deliveries:
            return 0
        places = ((link, client_key(link, namespace, id)) for id in message.subscriptions)
        limits = [self._most_deliveries.get(place, 0) for place in places if place in self.subscriptions]
        return max(limits) if limits and all(limits) else 0

    @property
    def passing_links(self) -> KeysView[Link]:
        """The clients that have subscriptions which are not durable."""
        return self._passing.keys()

    def passing_of(self, link: Link) -> list[m.Subscribe]:
        """Return the subscriptions of a client that are not durable."""
        return [self.subscriptions[place] for place in self._passing.get(link, ())]

    def demand_room(self, rights: Rights, link: Link, message: m.Subscribe) -> None:
        """Raise `LimitError` if a subscription exceeds the limits of its principal or its namespace."""
        replaced = self.subscriptions.get(_place(link, message))
        if replaced is not None:
            self._room.demand(message.namespace, 0, _size(message) - _size(replaced))
            return
        total = self.count_of(rights.principal) + 1
        if total > rights.max_subscriptions:
            raise LimitError("subscriptions", total, rights.max_subscriptions)
        self._owned.demand(rights.principal, (message.namespace,), self._room)
        self._room.demand(message.namespace, 1, _size(message))

    def find_rejection(self, message: SubscribeFor) -> Rejection | None:
        """Return why subscriptions cannot be accepted because of those that exist, or are in the same request."""
        new_places, pieces, sizes = set[LinkKey](), Counter[str](), Counter[str]()
        for row, (link, request) in enumerate(message.requests):
            place = _place(link, request)
            if message.must_be_new and (place in self.subscriptions or place in new_places):
                return Rejection(row, DuplicateSubscriptionError(request.id))
            replaced = self.subscriptions.get(place)
            if message.must_exist and replaced is None:
                return Rejection(row, UnknownSubscriptionError(request.id))
            pieces[request.namespace] += replaced is None
            sizes[request.namespace] += _size(request) - (0 if replaced is None else _size(replaced))
            if replaced is None:
                new_places.add(place)
        try:
            new_in = [name for name, count in pieces.items() if count]
            self._owned.demand(message.by.principal, new_in, self._room)
            for namespace, count in pieces.items():
                self._room.demand(namespace, count, sizes[namespace])
        except LimitError as error:
            return Rejection(None, error)
        total, limit = self.count_of(message.by.principal) + len(new_places), message.by.max_subscriptions
        return Rejection(None, LimitError("subscriptions", total, limit)) if new_places and total > limit else None

    def add(self, link: Link, message: m.Subscribe) -> bool:
        """Add or replace a subscription; return whether it is the client's first in its namespace."""
        place = _place(link, message)
        replaced, self.subscriptions[place] = self.subscriptions.get(place), message
        self._room.add(message.namespace, int(replaced is None), _size(message) - (_size(replaced) if replaced else 0))
        about = m.about(message)
        self.fields.put(link, message, about.fields)
        self._forget_description(place)
        if not about.durable:
            self._passing.setdefault(link, set()).add(place)
        elif about.max_deliveries:
            self._most_deliveries[place] = about.max_deliveries
        if replaced is not None:
            self._owned.add(m.about(replaced).owner, message.namespace, -1)
        self._owned.add(about.owner, message.namespace, 1)
        if replaced is not None:
            return False
        spaces = self._spaces.setdefault(link, {})
        spaces[message.namespace] = spaces.get(message.namespace, 0) + 1
        return spaces[message.namespace] == 1

    def note(self, link: Link, status: m.Status) -> m.Subscribe | None:
        """Remove and return a subscription that has ended; other states are not kept here."""
        if status.state is not m.State.CANCELLED:
            return None
        place = link, client_key(link, status.namespace, status.id)
        ended = self.subscriptions.pop(place, None)
        if ended is not None:
            self.fields.forget(link, ended)
            self._forget_description(place)
            self._owned.add(m.about(ended).owner, ended.namespace, -1)
            self._room.add(ended.namespace, -1, -_size(ended))
            self._leave(link, ended.namespace)
        return ended

    def _forget_description(self, place: LinkKey) -> None:
        self._most_deliveries.pop(place, None)
        if (passing := self._passing.get(place[0])) is not None:
            passing.discard(place)
            if not passing:
                del self._passing[place[0]]

    def _leave(self, link: Link, namespace: str) -> None:
        spaces = self._spaces[link]
        spaces[namespace] -= 1
        if not spaces[namespace]:
            del spaces[namespace]
        if not spaces:
            del self._spaces[link]

    # Subscriptions that wait to enter the routing table

    def admit(self, principal: str, arrivals: Sequence[Arrival]) -> tuple[Sequence[Arrival], Sequence[Arrival]]:
        """Return what may enter the routing table in this step, and what must wait.

        If subscriptions of the principal wait already, all of these wait behind them.
        """
        for place in (_place(*arrival) for arrival in arrivals) if self._waiting_of else ():  # the later one counts
            if self._waiting_of.get(place, principal) != principal:
                self._stop_waiting(place)
        n = 0 if principal in self._waiting else _slice_end(arrivals, self._weigh)
        if later := arrivals[n:]:
            places = {_place(*arrival): arrival for arrival in later}
            self._waiting.setdefault(principal, {}).update(places)
            self._waiting_of |= dict.fromkeys(places, principal)
        return arrivals[:n], later

    def next_slice(self) -> list[Arrival]:
        """Return the next slice, of the principal whose turn it is; empty if nothing waits."""
        if not self._waiting:
            return []
        principal = next(iter(self._waiting))
        waiting = self._waiting.pop(principal)
        places = list(itertools.islice(waiting, SLICE_SUBSCRIPTIONS))
        arrivals = [waiting[place] for place in places]
        arrivals = arrivals[: _slice_end(arrivals, self._weigh)]
        for place in places[: len(arrivals)]:
            del waiting[place], self._waiting_of[place]
        if waiting:
            self._waiting[principal] = waiting  # behind the others
        return arrivals

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits to enter the routing table."""
        return bool(self._waiting)

    def is_waiting(self, places: Iterable[LinkKey]) -> bool:
        """Whether any of these subscriptions waits to enter the routing table."""
        return any(place in self._waiting_of for place in places)

    def take_waiting(self, link: Link, message: m.Unsubscribe) -> list[Arrival]:
        """Remove and return the subscription that is to end, if it waits."""
        return self._stop_waiting((link, client_key(link, message.namespace, message.id)))

    def _stop_waiting(self, place: LinkKey) -> list[Arrival]:
        """Remove and return the subscription that waits under a place, if any."""
        principal = self._waiting_of.pop(place, None)
        if principal is None:
            return []
        arrival = self._waiting[principal].pop(place)
        if not self._waiting[principal]:
            del self._waiting[principal]
        return [arrival]


class _Owned:
    """How many subscriptions each principal has: in all, and in each namespace."""

    def __init__(self) -> None:
        self._pieces: Counter[str] = Counter()
        self._namespaces: dict[str, Counter[str]] = {}

    def count_of(self, principal: str) -> int:
        """Return how many subscriptions a principal has."""
        return self._pieces[principal]

    def demand(self, principal: str, names: Sequence[str], room: _Room) -> None:
        """Raise `LimitError` if new subscriptions in some namespaces, which are different, are in too many of them."""
        for owner, used, most in (
            (f" of {principal!r}", self._namespaces.get(principal, ()), MAX_NAMESPACES_OF_PRINCIPAL),
            ("", room, MAX_NAMESPACES),
        ):
            n_new = sum(name not in used for name in names)
            if n_new and len(used) + n_new > most:
                remedy = "end the subscriptions of a namespace that is no longer needed, or use one that exists"
                raise LimitError(f"namespaces with subscriptions{owner}", len(used) + n_new, most, remedy)

    def add(self, principal: str, namespace: str, n: int) -> None:
        """Add to the count of a principal; ``n`` may be negative."""
        names = self._namespaces.setdefault(principal, Counter())
        self._pieces[principal] += n
        names[namespace] += n
        if not names[namespace]:
            del names[namespace]
        if not names:
            del self._pieces[principal], self._namespaces[principal]


class _Room:
    """How many subscriptions, and bytes of them, each namespace has."""

    def __init__(self) -> None:
        self._pieces: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._all = 0

    def __len__(self) -> int:
        """The number of namespaces with subscriptions."""
        return len(self._pieces)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._pieces

    def demand(self, namespace: str, pieces: int, size: int) -> None:
        """Raise `LimitError` if a namespace, or the broker, has no room for this many more pieces and bytes."""
        owner = f"of namespace {namespace!r}"
        for quantity, amount, limit in (
            (f"subscriptions {owner}", self._pieces[namespace] + pieces, MAX_SUBSCRIPTIONS_OF_NAMESPACE),
            (f"bytes of subscriptions {owner}", self._bytes[namespace] + size, MAX_BYTES_OF_NAMESPACE),
            ("bytes of subscriptions", self._all + size, MAX_BYTES_OF_SUBSCRIPTIONS),
        ):
            if amount > limit and (pieces > 0 or size > 0):  # a request that frees room is always accepted
                raise LimitError(quantity, amount, limit)

    def bytes_of(self, namespace: str) -> int:
        """Return the bytes of a namespace."""
        return self._bytes[namespace]

    def add(self, namespace: str, pieces: int, size: int) -> None:
        """Add pieces and bytes to the counts of a namespace; both may be negative."""
        self._pieces[namespace] += pieces
        self._bytes[namespace] += size
        self._all += size
        if not self._pieces[namespace]:
            del self._pieces[namespace], self._bytes[namespace]


def _size(message: m.Subscribe) -> int:
    return len(message.filter) + len(message.about)


def _place(link: Link, message: m.Subscribe) -> LinkKey:
    return link, client_key(link, message.namespace, message.id)


def _slice_end(arrivals: Sequence[Arrival], weigh: Weigh) -> int:
    """Return how many of these subscriptions enter in one step: at least one."""
    used = 0
    for n, (_, message) in enumerate(arrivals[:SLICE_SUBSCRIPTIONS]):
        used += weigh(message)
        if n and used > SLICE_SUBSCRIPTIONS:
            return n
    return min(len(arrivals), SLICE_SUBSCRIPTIONS)
