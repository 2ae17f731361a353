"""Pending confirmations: they tell when an update, or a subscription, is known to every broker that must know it.

Updates of a link are numbered, and a neighbour confirms them in order. An *item*, a subscription or an update of a
neighbour, is settled when every *other* neighbour has confirmed all updates sent to it up to then. That one rule covers
filters that were announced because of the item, and also those that were withheld: their cover was sent earlier on the
same link, so it is confirmed earlier (promise R13). Waiting proceeds outwards in a tree, so it ends.

A later item never needs a smaller number of a link, so each link has a queue, and a confirmation removes the items that
it settles from the front of one queue: its cost is proportional to their number, however many wait (promise R14). One
confirmation may settle 100,000 subscriptions, for example after a restart. So `take_settled` removes a bounded number
of items from the queues, and the broker calls it again while `has_settled` is true.

A subscription may wait for a neighbour that is unreachable. `take_late` returns, once each, those that have waited for
longer than a limit, and `missing` returns the neighbours that have not confirmed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice

from tamis.node.effects import Link
from tamis.routing.core.interest import Interest

__all__ = ["Confirmations"]


@dataclass(eq=False, slots=True)
class _Waiting:
    """An item of ``source`` that is settled when each link has confirmed its number."""

    order: int
    source: Link
    item: Hashable
    needed: dict[Link, int]
    since: float
    #: Whether it was never settled before, so that nothing may be delivered for it too early.
    is_new: bool
    #: How many links have not confirmed their number.
    n_missing: int
    is_forgotten: bool = False
    #: The interest that it replaces; None: it replaces nothing.
    former: Interest | None = None


class Confirmations:
    """The numbers of the updates sent and confirmed on each link, and everything that waits for them."""

    def __init__(self, links: Iterable[Link], patience: float = math.inf) -> None:
        #: Seconds after which a waiting item is late.
        self._patience = patience
        #: The number of the last update sent on each link.
        self.sent: dict[Link, int] = dict.fromkeys(links, 0)
        #: The number up to which each link has confirmed; never above ``sent``.
        self.confirmed: dict[Link, int] = dict.fromkeys(self.sent, 0)
        #: ``{source: {item: waiting}}`` in order of arrival: exactly the items that wait.
        self._waiting: dict[Link, dict[Hashable, list[_Waiting]]] = {}
        #: The items that wait for each link, ascending by the number they need; some may be forgotten.
        self._queues: dict[Link, deque[_Waiting]] = {link: deque() for link in self.sent}
        #: Items that need not wait for one of their links from now on: it was removed or excused.
        self._released: deque[_Waiting] = deque()
        self._settled: list[_Waiting] = []
        #: All items by arrival; some may be settled or forgotten.
        self._by_age: deque[_Waiting] = deque()
        self._order = 0
        self._n_live = 0
        #: Links that nothing waits for.
        self._excused: set[Link] = set()
        #: The clients that are told the states of their subscriptions; None: all.
        self.connected: Container[Link] | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits."""
        return bool(self._n_live or self._settled)

    def add(self, link: Link) -> None:
        """Add a link; items that wait already do not wait for it."""
        self.sent[link] = self.confirmed[link] = 0
        self._queues[link] = deque()

    def remove(self, link: Link) -> None:
        """Forget a link and its items; items of other sources no longer wait for it."""
        self.forget(link)
        self.excuse(link, True)
        self._excused.discard(link)
        for of_source in self._waiting.values():
            for entry in (entry for entries in of_source.values() for entry in entries):
                entry.needed.pop(link, None)
        del self.sent[link], self.confirmed[link], self._queues[link]

    def number_next(self, link: Link) -> int:
        """Return the number of the update that is sent now."""
        self.sent[link] += 1
        return self.sent[link]

    def expect(
        self,
        source: Link,
        item: Hashable,
        owed: Set[Link],
        *,
        now: float = 0.0,
        is_new: bool = True,
        former: Interest | None = None,
    ) -> None:
        """Let an item wait for all links except ``source``; links ``owed`` a first update get it as their next update.

        ``former`` is the interest that the item replaces, if any.
        """
        needed = {link: number + (link in owed) for link, number in self.sent.items() if link != source}
        late = _late(self, needed)
        self._order += 1
        waiting = _Waiting(self._order, source, item, needed, now, is_new, len(late), former=former)
        if not late:
            self._settled.append(waiting)
            return
        self._waiting.setdefault(source, {}).setdefault(item, []).append(waiting)
        self._by_age.append(waiting)
        self._n_live += 1
        for link in late:
            self._queues[link].append(waiting)
        _compact(self)

    def is_awaited(self, owed: Set[Link]) -> bool:
        """Whether an item of a client would have to wait; ``owed`` is as in `expect`."""
        return bool(_late(self, {link: number + (link in owed) for link, number in self.sent.items()}))

    def tell_only(self, connected: Container[Link]) -> None:
        """Tell only connected clients the states of their subscriptions; others learn them when they ask."""
        self.connected = connected

    def excuse(self, link: Link, is_excused: bool) -> None:
        """Stop waiting for a link, or let new items wait for it again."""
        if not is_excused:
            self._excused.discard(link)
            return
        self._excused.add(link)
        self._released.extend(self._queues[link])
        self._queues[link].clear()

    def early_for(self, source: Link, item: Hashable, link: Link) -> list[Interest | None]:
        """Return the former interests of new filters that a link has not confirmed; None for one that replaces nothing.

        Before a link has confirmed a filter, a broker behind it may still drop matching events. If one event arrived
        by luck and the next did not, the reader would have a gap (promise R12). Meanwhile all brokers forward only
        events that match every replaced filter, too (promise R15).
        """
        waiting = self._waiting.get(source, {}).get(item, ())
        return [entry.former for entry in waiting if entry.is_new and self.confirmed[link] < entry.needed.get(link, 0)]

    def is_waiting(self, source: Link, item: Hashable) -> bool:
        """Whether an item waits for confirmations."""
        return item in self._waiting.get(source, ())

    def is_changing(self, source: Link, item: Hashable) -> bool:
        """Whether a new filter waits for confirmations."""
        return any(entry.is_new for entry in self._waiting.get(source, {}).get(item, ()))

    def missing(self, source: Link, item: Hashable) -> list[Link]:
        """Return the links that have not confirmed an item yet, sorted."""
        waiting = self._waiting.get(source, {}).get(item, ())
        return sorted({link for entry in waiting for link, n in entry.needed.items() if self.confirmed[link] < n})

    def take_late(self, now: float, limit: int) -> list[tuple[Link, Hashable]]:
        """Return at most ``limit`` items that are late and were not returned before, in order of arrival."""
        late: list[tuple[Link, Hashable]] = []
        before = now - self._patience
        while len(late) < limit and self._by_age and (self._by_age[0].since <= before or not _waits(self._by_age[0])):
            waiting = self._by_age.popleft()
            if _waits(waiting):
                late.append((waiting.source, waiting.item))
        return late

    def forget(self, source: Link, item: Hashable = None) -> None:
        """Drop all items of ``source``, or only ``item``."""
        of_source = self._waiting.get(source, {})
        dropped = list(of_source.values()) if item is None else [of_source.get(item, [])]
        for entry in (entry for entries in dropped for entry in entries):
            entry.is_forgotten = True
            self._n_live -= 1
        if item is None:
            self._waiting.pop(source, None)
        else:
            of_source.pop(item, None)
        self._settled = [entry for entry in self._settled if entry.source != source or item not in (None, entry.item)]

    def confirm(self, link: Link, number: int) -> None:
        """Note that a link has confirmed all updates up to a number."""
        self.confirmed[link] = max(self.confirmed[link], min(number, self.sent[link]))

    @property
    def has_settled(self) -> bool:
        """Whether `take_settled` has more to do."""
        return bool(self._settled) or next(_confirmed_queues(self), None) is not None

    def take_settled(self, limit: int) -> list[tuple[Link, Hashable]]:
        """Return items that are settled, in order of arrival, after removing at most ``limit`` from the queues."""
        removed = (queue.popleft() for queue in _confirmed_queues(self))
        for waiting in islice(removed, limit):
            self._note_confirmed(waiting)
        settled, self._settled = self._settled, []
        return [(entry.source, entry.item) for entry in sorted(settled, key=lambda entry: entry.order)]

    def _note_confirmed(self, waiting: _Waiting) -> None:
        """Note that one of its links has confirmed an item."""
        waiting.n_missing -= 1
        if _is_settled(waiting):
            self._settled.append(waiting)
            self._remove(waiting)

    def _remove(self, waiting: _Waiting) -> None:
        """Remove an item that is settled."""
        of_source = self._waiting[waiting.source]
        entries = of_source[waiting.item]
        entries.remove(waiting)
        self._n_live -= 1
        if not entries:
            del of_source[waiting.item]
        if not of_source:
            del self._waiting[waiting.source]


def _compact(confirmations: Confirmations) -> None:
    """Drop dead entries if they are the majority: subscriptions may come and go for days while a link is cut."""
    for queue in (confirmations._by_age, *confirmations._queues.values()):
        if len(queue) > 2 * confirmations._n_live + 64:
            live = [entry for entry in queue if _waits(entry)]
            queue.clear()
            queue.extend(live)


def _confirmed_queues(confirmations: Confirmations) -> Iterator[deque[_Waiting]]:
    """Yield, again and again, a queue whose first item need not wait for its link; the caller removes the item."""
    while confirmations._released:
        yield confirmations._released
    for link, queue in confirmations._queues.items():
        while queue and queue[0].needed[link] <= confirmations.confirmed[link]:
            yield queue


def _late(confirmations: Confirmations, needed: Mapping[Link, int]) -> list[Link]:
    """Return the links that have not confirmed their number."""
    confirmed, excused = confirmations.confirmed, confirmations._excused
    return [link for link, number in needed.items() if confirmed[link] < number and link not in excused]


def _waits(waiting: _Waiting) -> bool:
    return bool(waiting.n_missing) and not waiting.is_forgotten


def _is_settled(waiting: _Waiting) -> bool:
    return not waiting.n_missing and not waiting.is_forgotten
