"""Flow control: full outboxes, and how the brokers before them learn of it.

Messages for a link that is cut wait in an outbox, and disk space is finite. So an outbox has a quota
(`tamis.node.stream.Quota`). When it is full, its broker refuses events of its own clients that would take this link,
before they are accepted; and it asks its other neighbours to pause, which do the same and ask theirs. Accepted events
are never refused later: an event from a neighbour is taken beyond the quota, so an outbox exceeds its quota only by the
events that were under way. When it is half empty, everything resumes by itself (promise G16).

A neighbour is asked to pause because of links *other* than the one to it, so requests travel away from the full link,
and in a tree no broker ever waits for itself.

A link that *drops* refuses nothing and asks for no pause. While it is full, events are counted instead of sent, and the
neighbour gets the count when the link is free (`tamis.routing.core.link_gaps`). A link that an operator *skips* is
treated like that whether it is full or not, and nothing waits for the confirmations of its neighbour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from tamis.errors import InvariantError
from tamis.node import records
from tamis.node.core import LinkFull
from tamis.node.effects import Effect, Key, Link, Send
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
        #: The links that drop events while they are full; for the other links events are refused.
        self._drops = frozenset(drops)
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

    def is_dropping(self, link: Link) -> bool:
        """Whether events for a link are counted instead of sent.

        This holds while a link is skipped. A link that drops counts from the first event while it is full until it is
        free.
        """
        return link in self.skipped or (link in self._drops and (link in self.full or link in self.gaps.links))

    def skip(self, link: Link, is_skipped: bool) -> list[Effect]:
        """Stop sending events over a link, or resume; on resuming its neighbour is sent the gaps."""
        if is_skipped:
            self.skipped.add(link)
            return [records.SKIPPED.put(link, value=True), *self.settle()]
        self.skipped.discard(link)
        return [records.SKIPPED.drop(link), *self.close_gaps(), *self.settle()]

    def add(self, link: Link, *, drops: bool) -> list[Effect]:
        """Add a link."""
        self._neighbours[link] = None
        self._drops = self._drops | {link} if drops else self._drops - {link}
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

    def drops(self, link: Link) -> bool:
        """Whether a link drops events while it is full."""
        return link in self._drops

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
            if link in self.full and link not in self._drops:
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
        return self.settle()

    def close_gaps(self) -> list[Effect]:
        """Close the gaps of links that are not full; return the messages that report them."""
        free = sorted(link for link in self.gaps.links if link not in self.full and link not in self.skipped)
        return [effect for link in free for effect in self.gaps.close(link)]

    @property
    def _shut(self) -> Set[Link]:
        """The links for which events are refused."""
        return ((self.full.keys() - self._drops) | self.paused.keys()) - self.skipped

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless exactly the right neighbours were asked to pause."""
        shut = self._shut
        due = {link for link in self._neighbours if shut - {link}}
        if due != self.pausing:
            raise InvariantError(f"{sorted(self.pausing)} were asked to pause, {sorted(due)} must be")
