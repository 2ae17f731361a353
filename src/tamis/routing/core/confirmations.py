"""Which confirmations are awaited: when an update, or a subscription, is known wherever it must be.

Updates of a link are numbered, and a neighbour confirms them in order. Whatever comes in, a subscription or a
neighbour's update, is settled when every *other* neighbour has confirmed all that was sent to it up to then. That one
rule covers what was announced because of it, and also what was withheld: its cover was sent earlier on the same link,
so it is confirmed earlier (promise R13). Waiting goes outwards in a tree, so it ends.

What came later never needs a smaller number of a link, so each link has a queue, and a confirmation takes from the
front of one queue what it settles: it costs in proportion to that, however much waits (promise R14).

A subscription may wait for a neighbour that is unreachable. `take_late` returns, once each, those that have waited for
longer than a limit, and `missing` names the neighbours that have not confirmed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass

from tamis.node.effects import Link
from tamis.routing.core.interest import Interest

__all__ = ["Confirmations"]


@dataclass(eq=False, slots=True)
class _Waiting:
    """Something of ``source`` that is settled when each link has confirmed its number."""

    order: int
    source: Link
    what: Hashable
    needed: dict[Link, int]
    since: float
    #: Whether it was never settled before, so that nothing may be delivered for it too early.
    is_new: bool
    #: Links that have not confirmed their number; nothing waits for one that was forgotten.
    n_missing: int
    is_forgotten: bool = False
    #: What it replaces; None: nothing.
    former: Interest | None = None


class Confirmations:
    """The numbers of the updates sent and confirmed on each link, and everything that waits for them."""

    def __init__(self, links: Iterable[Link], patience: float = math.inf) -> None:
        #: Seconds after which what still waits is late.
        self._patience = patience
        #: The number of the last update sent on each link.
        self.sent: dict[Link, int] = dict.fromkeys(links, 0)
        #: The number up to which each link has confirmed; never above ``sent``.
        self.confirmed: dict[Link, int] = dict.fromkeys(self.sent, 0)
        #: ``{source: {what: waiting}}`` in the order in which they came: exactly what waits.
        self._waiting: dict[Link, dict[Hashable, list[_Waiting]]] = {}
        #: What waits for each link, ascending by the number that it needs; some of it may be forgotten.
        self._queues: dict[Link, deque[_Waiting]] = {link: deque() for link in self.sent}
        self._settled: list[_Waiting] = []
        #: Everything by the time it came; some of it may be settled or forgotten.
        self._by_age: deque[_Waiting] = deque()
        self._order = 0
        self._n_live = 0
        #: Links that nothing waits for.
        self._excused: set[Link] = set()
        #: The clients that are told how their subscriptions fare; None: all.
        self.connected: Container[Link] | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits."""
        return bool(self._n_live or self._settled)

    def add(self, link: Link) -> None:
        """Have one link more; what waits already does not wait for it."""
        self.sent[link] = self.confirmed[link] = 0
        self._queues[link] = deque()

    def remove(self, link: Link) -> None:
        """Let nothing wait for a link, and forget it with all that waits of it."""
        self.forget(link)
        self.excuse(link, True)
        self._excused.discard(link)
        for of_source in self._waiting.values():
            for one in (one for several in of_source.values() for one in several):
                one.needed.pop(link, None)
        del self.sent[link], self.confirmed[link], self._queues[link]

    def number_next(self, link: Link) -> int:
        """Return the number of the update that is sent now."""
        self.sent[link] += 1
        return self.sent[link]

    def expect(
        self,
        source: Link,
        what: Hashable,
        owed: Set[Link],
        *,
        now: float = 0.0,
        is_new: bool = True,
        former: Interest | None = None,
    ) -> None:
        """Let something wait for all links but ``source``; those ``owed`` a first update will get it as the next.

        ``former`` is what it replaces, if it changes what was asked for before.
        """
        needed = {link: number + (link in owed) for link, number in self.sent.items() if link != source}
        late = _late(self, needed)
        self._order += 1
        waiting = _Waiting(self._order, source, what, needed, now, is_new, len(late), former=former)
        if not late:
            self._settled.append(waiting)
            return
        self._waiting.setdefault(source, {}).setdefault(what, []).append(waiting)
        self._by_age.append(waiting)
        self._n_live += 1
        for link in late:
            self._queues[link].append(waiting)
        self._compact()

    def is_awaited(self, owed: Set[Link]) -> bool:
        """Whether something of a client would wait for a link; ``owed`` are as in `expect`."""
        return bool(_late(self, {link: number + (link in owed) for link, number in self.sent.items()}))

    def tell_only(self, connected: Container[Link]) -> None:
        """Have only connected clients told how their subscriptions fare; others find out when they ask."""
        self.connected = connected

    def excuse(self, link: Link, is_excused: bool) -> None:
        """Let nothing wait for a link, or let what comes from now on wait for it again."""
        if not is_excused:
            self._excused.discard(link)
            return
        self._excused.add(link)
        while self._queues[link]:
            self._note_confirmed(self._queues[link].popleft())

    def early_for(self, source: Link, what: Hashable, link: Link) -> list[Interest | None]:
        """Return what new filters that a link has not confirmed yet replace; None for one that replaces nothing.

        Before a link has confirmed a filter, a broker out there may still drop what it asks for. If one event came
        through by luck and the next did not, the reader would have a hole (promise R12). Only an event that matches
        everything that was replaced, too, is forwarded by all brokers meanwhile (promise R15).
        """
        waiting = self._waiting.get(source, {}).get(what, ())
        return [one.former for one in waiting if one.is_new and self.confirmed[link] < one.needed.get(link, 0)]

    def is_waiting(self, source: Link, what: Hashable) -> bool:
        """Whether something waits for confirmations."""
        return what in self._waiting.get(source, ())

    def is_changing(self, source: Link, what: Hashable) -> bool:
        """Whether a filter that is new waits for confirmations."""
        return any(one.is_new for one in self._waiting.get(source, {}).get(what, ()))

    def missing(self, source: Link, what: Hashable) -> list[Link]:
        """Return the links that have not confirmed something yet, sorted."""
        waiting = self._waiting.get(source, {}).get(what, ())
        return sorted({link for one in waiting for link, n in one.needed.items() if self.confirmed[link] < n})

    def take_late(self, now: float) -> list[tuple[Link, Hashable]]:
        """Return what is late now and was not returned yet, in the order in which it came."""
        late: list[tuple[Link, Hashable]] = []
        before = now - self._patience
        while self._by_age and (self._by_age[0].since <= before or not _waits(self._by_age[0])):
            waiting = self._by_age.popleft()
            if _waits(waiting):
                late.append((waiting.source, waiting.what))
        return late

    def forget(self, source: Link, what: Hashable = None) -> None:
        """Drop what waits of ``source``, or only ``what``."""
        of_source = self._waiting.get(source, {})
        dropped = list(of_source.values()) if what is None else [of_source.get(what, [])]
        for one in (one for several in dropped for one in several):
            one.is_forgotten = True
            self._n_live -= 1
        if what is None:
            self._waiting.pop(source, None)
        else:
            of_source.pop(what, None)
        self._settled = [one for one in self._settled if one.source != source or what not in (None, one.what)]

    def confirm(self, link: Link, number: int) -> None:
        """Take note that a link has confirmed all updates up to a number."""
        self.confirmed[link] = max(self.confirmed[link], min(number, self.sent[link]))
        queue = self._queues[link]
        while queue and queue[0].needed[link] <= self.confirmed[link]:
            self._note_confirmed(queue.popleft())

    def take_settled(self) -> list[tuple[Link, Hashable]]:
        """Return what need wait no longer, in the order in which it came."""
        settled, self._settled = self._settled, []
        return [(one.source, one.what) for one in sorted(settled, key=lambda one: one.order)]

    def _note_confirmed(self, waiting: _Waiting) -> None:
        """Take note that one of the links that something waits for has confirmed it."""
        waiting.n_missing -= 1
        if _is_settled(waiting):
            self._settled.append(waiting)
            self._remove(waiting)

    def _remove(self, waiting: _Waiting) -> None:
        """Take out what waits no longer."""
        of_source = self._waiting[waiting.source]
        several = of_source[waiting.what]
        several.remove(waiting)
        self._n_live -= 1
        if not several:
            del of_source[waiting.what]
        if not of_source:
            del self._waiting[waiting.source]

    def _compact(self) -> None:
        """Keep no more than twice what waits: subscriptions may come and go for days while a link is cut."""
        for queue in (self._by_age, *self._queues.values()):
            if len(queue) > 2 * self._n_live + 64:
                kept = [one for one in queue if _waits(one)]
                queue.clear()
                queue.extend(kept)


def _late(confirmations: Confirmations, needed: Mapping[Link, int]) -> list[Link]:
    """Return the links that have not confirmed their number."""
    confirmed, excused = confirmations.confirmed, confirmations._excused
    return [link for link, number in needed.items() if confirmed[link] < number and link not in excused]


def _waits(waiting: _Waiting) -> bool:
    return bool(waiting.n_missing) and not waiting.is_forgotten


def _is_settled(waiting: _Waiting) -> bool:
    return not waiting.n_missing and not waiting.is_forgotten
