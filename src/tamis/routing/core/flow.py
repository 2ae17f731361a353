"""Flow control: full outboxes, and how the brokers before them learn of it.

Messages for a link that is cut wait in an outbox, and disk space is finite. So an outbox has a quota
(`tamis.node.stream.Quota`). When it is full, its broker refuses events of its own clients that would take this link,
before they are accepted; and it asks its other neighbours to pause, which do the same and ask theirs. Accepted events
are never refused later: an event from a neighbour is taken beyond the quota, so an outbox exceeds its quota only by the
events that were under way. When it is half empty, everything resumes by itself (promise G16).

A neighbour is asked to pause because of links *other* than the one to it, so requests travel away from the full link,
and in a tree no broker ever waits for itself.

A link that *drops* refuses nothing and asks for no pause. Its events are queued (`tamis.node.overflow`): when too many
wait, the oldest are dropped and counted, and the neighbour gets the count before those that are left
(`tamis.routing.core.link_gaps`). Gaps of other links and confirmations are queued with the events: they must not
overtake them. A confirmation that did would make a subscription active too early, so that it could get an event of
before and miss a later one (promise R12).

While an operator *skips* a link, what is queued for it waits, nothing waits for the confirmations of its neighbour, and
a link that does not drop counts its events instead of sending them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from tamis.errors import InvariantError
from tamis.node import records
from tamis.node.core import LinkFull
from tamis.node.effects import Effect, Key, Link, Queue, Refill, Send
from tamis.node.overflow import overflow_of
from tamis.routing.core.link_gaps import LinkGaps
from tamis.routing.messages import Pause, Resume
from tamis.routing.rings import RingDetector

__all__ = ["Flow"]


class Flow:
    """The links of one broker that currently take no more events."""

    def __init__(
        self, neighbours: Iterable[Link], drops: Collection[Link] = (), *, rings: RingDetector | None = None
    ) -> None:
        self._neighbours = dict.fromkeys(neighbours)
        #: Which brokers are behind each link, and which links are refused because of that.
        self.rings = RingDetector("", {}) if rings is None else rings
        #: The links that drop their oldest events while they are full; for the other links events are refused.
        self.drops = frozenset(drops)
        self.gaps = LinkGaps()
        #: The links that an operator skips: no event is sent over them or refused because of them.
        self.skipped: set[Link] = set()
        #: ``{neighbour: size of its outbox}``: exactly those whose outbox is full.
        self.full: dict[Link, LinkFull] = {}
        #: The neighbours that asked for a pause, in order.
        self.paused: dict[Link, None] = {}
        #: The neighbours that were asked to pause: exactly those for which another link takes no more events.
        self.pausing: set[Link] = set()

    @property
    def is_open(self) -> bool:
        """Whether no event is refused."""
        return not self._shut

    @property
    def neighbours(self) -> Iterable[Link]:
        """All links to other brokers."""
        return self._neighbours.keys()

    def is_counting(self, link: Link) -> bool:
        """Whether events for a link are counted instead of sent: it is skipped, and has no overflow."""
        return link in self.skipped and link not in self.drops

    def send(self, link: Link, message: Any) -> Effect:
        """Return the effect that sends a message which must keep its order among the events of a link."""
        if link in self.drops:
            return Queue(link, message, is_held=link in self.skipped)
        return Send(link, message)

    def skip(self, link: Link, is_skipped: bool) -> list[Effect]:
        """Stop sending events over a link, or resume; on resuming its neighbour is sent the gaps."""
        if is_skipped:
            self.skipped.add(link)
            return [records.SKIPPED.put(link, value=True), *self.settle()]
        self.skipped.discard(link)
        return [records.SKIPPED.drop(link), *self.use_room(link), *self.settle()]

    def use_room(self, link: Link) -> list[Effect]:
        """Return the messages that report the gap of a link, and move what waits behind it into the outbox."""
        if link in self.skipped:
            return []
        return [*self.gaps.close(link), *([Refill(link)] if link in self.drops else [])]

    def add(self, link: Link, *, drops: bool) -> list[Effect]:
        """Add a link."""
        self._neighbours[link] = None
        self.drops = self.drops | {link} if drops else self.drops - {link}
        return self.settle()

    def remove(self, link: Link) -> list[Effect]:
        """Remove a link: no event is refused because of it, and no other neighbour pauses for it."""
        del self._neighbours[link]
        self.skipped.discard(link)
        self.full.pop(link, None)
        self.paused.pop(link, None)
        self.pausing.discard(link)
        flags = [kind.drop(link) for kind in (records.SKIPPED, records.PAUSED, records.PAUSING)]
        return [*flags, *self.gaps.forget(link), *self.settle()]

    @property
    def has_neighbours(self) -> bool:
        """Whether there is any link to another broker."""
        return bool(self._neighbours)

    def is_neighbour(self, link: Link) -> bool:
        """Whether a link leads to another broker."""
        return link in self._neighbours

    def find_refusal(self, links: Iterable[Link]) -> tuple[Link, str] | None:
        """Return the first of these links that takes no more events, and the reason; None: all take events."""
        for link in links:
            if link not in self._shut:
                continue
            if link in self.full and link not in self.drops:
                waiting = self.full[link]
                reason = f"{waiting.messages:,} messages ({waiting.bytes:,} bytes) wait for the way to {link!r}"
                return link, f"{reason}; publish it again later"
            if link in self.paused:
                return link, f"a link behind {link!r} is full; publish it again later"
        return None

    def settle(self) -> list[Effect]:
        """Ask neighbours to pause or to resume, where that has changed."""
        effects: list[Effect] = []
        shut = self._shut
        for link in self._neighbours:
            is_due = bool(shut - {link})
            if is_due and link not in self.pausing:
                self.pausing.add(link)
                effects += [records.PAUSING.put(link, value=True), Send(link, Pause())]
            elif not is_due and link in self.pausing:
                self.pausing.discard(link)
                effects += [records.PAUSING.drop(link), Send(link, Resume())]
        return effects

    def fill(self, link: Link, waiting: LinkFull) -> list[Effect]:
        """Note that an outbox is full; events are not refused because of a slow client."""
        if link not in self._neighbours:
            return []
        self.full[link] = waiting
        return self.settle()

    def pause(self, link: Link) -> list[Effect]:
        """Note that a neighbour asks for a pause."""
        self.paused[link] = None
        return [records.PAUSED.put(link, value=True), *self.settle()]

    def resume(self, link: Link) -> list[Effect]:
        """Note that a neighbour takes events again."""
        self.paused.pop(link, None)
        return [records.PAUSED.drop(link), *self.settle()]

    def meet(self, link: Link) -> list[Effect]:
        """Reset the pauses with a neighbour that has none of our state."""
        forgotten: list[Effect] = []
        if link in self.pausing:
            self.pausing.discard(link)
            forgotten.append(records.PAUSING.drop(link))
        return forgotten + (self.resume(link) if link in self.paused else self.settle())

    def restore(self, stored: Mapping[Key, bytes]) -> list[Effect]:
        """Restore which links asked for a pause; full outboxes are reported again."""
        self.paused = {link: None for link in self._neighbours if records.PAUSED.find(stored, link)}
        self.pausing = {link for link in self._neighbours if records.PAUSING.find(stored, link)}
        self.gaps.restore(stored, self._neighbours)
        self.skipped = {link for link in self._neighbours if records.SKIPPED.find(stored, link)}
        numbered: list[Effect] = []
        for link in self._neighbours.keys() - self.drops:  # of links that dropped in the earlier life
            if records.OVERFLOW_END.find(stored, overflow_of(link)) is not None:
                numbered += [*self.gaps.close(link), Refill(link, is_all=True)]
        return [*numbered, *self.settle()]

    @property
    def _shut(self) -> Set[Link]:
        """The links for which events are refused."""
        return ((self.full.keys() - self.drops) | self.paused.keys()) - self.skipped

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless exactly the right neighbours were asked to pause."""
        shut = self._shut
        due = {link for link in self._neighbours if shut - {link}}
        if due != self.pausing:
            raise InvariantError(f"{sorted(self.pausing)} were asked to pause, {sorted(due)} must be")
