"""Who takes no more events: outboxes that are full, and how the brokers before them learn of it.

What must cross a link that is cut waits in an outbox, and disks end somewhere. So an outbox has a quota
(`tamis.node.stream.Quota`). When it is full, its broker refuses events of its own clients that would have to go
there, before they are accepted; and it asks its other neighbours to pause, who do the same and ask on. What was
accepted is never refused later: an event that comes from a neighbour is taken beyond the quota, so an outbox exceeds
it by what was under way, no more. When it has emptied to half, everything resumes by itself (promise G16).

A neighbour is asked to pause because of links *other* than the one to it, so requests travel away from what is full,
and in a tree no broker ever waits for itself.

A link that *drops* refuses nothing and asks for no pause. Events that find it full are counted instead of sent, and
the neighbour gets the count when the link is free (`tamis.routing.core.link_gaps`). A link that an operator *skips* is
treated so whether it is full or not, and nothing waits for the confirmations of its neighbour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from tamis.errors import InvariantError
from tamis.node import records
from tamis.node.core import LinkFull
from tamis.node.effects import Effect, Key, Link, Send
from tamis.routing.core.link_gaps import LinkGaps
from tamis.routing.messages import Pause, Resume

__all__ = ["Flow"]


class Flow:
    """The links of one broker that take no more events now."""

    def __init__(self, neighbours: Iterable[Link], drops: Collection[Link] = ()) -> None:
        self._neighbours = dict.fromkeys(neighbours)
        #: The links that are not sent events while they are full; the others have events refused.
        self._drops = frozenset(drops)
        self.gaps = LinkGaps()
        #: The links that an operator skips: no event is sent there or refused because of them.
        self.skipped: set[Link] = set()
        #: ``{neighbour: what waits}``: exactly those whose outbox is full.
        self.full: dict[Link, LinkFull] = {}
        #: The neighbours that asked for a pause, in order.
        self.paused: dict[Link, None] = {}
        #: The neighbours that were asked for a pause: exactly those with another link that takes no more.
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

        That is while it is skipped, and for a link that drops from the first event that finds it full until it is free.
        """
        return link in self.skipped or (link in self._drops and (link in self.full or link in self.gaps.links))

    def skip(self, link: Link, is_skipped: bool) -> list[Effect]:
        """Send no more events over a link, or send them again; its neighbour is told then what it was not sent."""
        if is_skipped:
            self.skipped.add(link)
            return [records.SKIPPED.put(link, value=True), *self.settle()]
        self.skipped.discard(link)
        return [records.SKIPPED.drop(link), *self.close_gaps(), *self.settle()]

    def add(self, link: Link, *, drops: bool) -> list[Effect]:
        """Have one link more."""
        self._neighbours[link] = None
        self._drops = self._drops | {link} if drops else self._drops - {link}
        return self.settle()

    def remove(self, link: Link) -> list[Effect]:
        """Forget a link: nothing is refused because of it, and no other neighbour pauses for it."""
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
        """Return the first of some links that takes no more events, and why; None when all do."""
        for link in links:
            if link not in self._shut:
                continue
            if link in self.full and link not in self._drops:
                waiting = self.full[link]
                why = f"{waiting.messages:,} messages ({waiting.bytes:,} bytes) wait for the way to {link!r}"
                return link, f"{why}; publish it again later"
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
        """Take note that an outbox is full; a client that reads slowly is not a reason to refuse events."""
        if link not in self._neighbours:
            return []
        self.full[link] = waiting
        return self.settle()

    def pause(self, link: Link) -> list[Effect]:
        """Take note that a neighbour asks for a pause."""
        self.paused[link] = None
        return [records.PAUSED.put(link, value=True), *self.settle()]

    def resume(self, link: Link) -> list[Effect]:
        """Take note that a neighbour takes events again."""
        self.paused.pop(link, None)
        return [records.PAUSED.drop(link), *self.settle()]

    def meet(self, link: Link) -> list[Effect]:
        """Start over with a neighbour that knows nothing of us: it asked for nothing yet, and was asked for nothing."""
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
        """Tell neighbours whose links are not full what they were not sent."""
        free = sorted(link for link in self.gaps.links if link not in self.full and link not in self.skipped)
        return [effect for link in free for effect in self.gaps.close(link)]

    @property
    def _shut(self) -> Set[Link]:
        """The links for which events are refused."""
        return ((self.full.keys() - self._drops) | self.paused.keys()) - self.skipped

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless exactly those neighbours were asked to pause that must."""
        shut = self._shut
        due = {link for link in self._neighbours if shut - {link}}
        if due != self.pausing:
            raise InvariantError(f"{sorted(self.pausing)} were asked to pause, {sorted(due)} must be")
