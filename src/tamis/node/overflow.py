"""The overflow of a link: messages that wait behind its outbox and have no numbers on the link yet.

Numbers of a link have no holes (promise R4), so a message in the outbox can never be left out. A link that drops
therefore has a short outbox. What finds no room there waits in the *overflow* and moves on, in order, when half of the
outbox has been acknowledged. When the overflow is full its oldest messages are dropped, and the core is told which
(`tamis.node.core.Dropped`); so the newest survive an outage.

Messages that a core sends with `Send` go directly into the outbox and overtake the overflow. Those that must keep their
order among the events of the link, it sends with `Queue`.

On disk an overflow is a stream like an outbox, with numbers of its own, and a restart loads only the sizes of its
messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog, Outbox, ReadOutbox
from tamis.node.stream import Quota, StreamEnd

__all__ = ["Overflow", "Overflows", "link_of", "overflow_of", "share"]

#: The name of an overflow begins with this; names of brokers have no colon.
_PREFIX = "o:"

#: The part of a link's quota that its outbox takes if it has an overflow, and what it takes at most.
_SHARE, _MOST = 8, Quota(2_048, 8 << 20)


def overflow_of(link: Link) -> Link:
    """Return the name under which the overflow of a link is on disk.

    >>> overflow_of("north")
    'o:north'
    """
    return f"{_PREFIX}{link}"


def link_of(name: Link) -> Link:
    """Return the link whose overflow has a name.

    >>> link_of("o:north")
    'north'
    """
    return name.removeprefix(_PREFIX)


def share(quota: Quota) -> tuple[Quota, Quota]:
    """Return the parts of a link's quota that its outbox and its overflow take.

    >>> share(Quota(20, 8_000))
    (Quota(messages=2, bytes=1000), Quota(messages=18, bytes=7000))
    """
    messages = max(1, min(quota.messages // _SHARE, _MOST.messages))
    n_bytes = max(1, min(quota.bytes // _SHARE, _MOST.bytes))
    return Quota(messages, n_bytes), Quota(max(1, quota.messages - messages), max(1, quota.bytes - n_bytes))


class Overflow(StreamEnd):
    """The overflow of one link: a stream that no wire reads."""

    def append(self, body: bytes) -> list[Persist]:
        """Append a message."""
        return [records.OVERFLOW.put(self.link, str(self.outbox.append(body)), value=body)]

    def acknowledge(self, ack: int) -> list[Persist]:
        """Remove everything up to a number."""
        return [records.OVERFLOW.drop(self.link, str(number)) for number in self.outbox.acknowledge(ack)]

    def cursor(self) -> Persist:
        """Return the record with which a restart continues."""
        return records.OVERFLOW_END.put(self.link, value=self.sent)


class Overflows:
    """The overflows of a node's links; ``quota`` is that of each link, None: no outbox is ever full."""

    def __init__(self, quota: Quota | None, read: ReadOutbox) -> None:
        self._quotas = None if quota is None else share(quota)
        self._read = read
        self._of: dict[Link, Overflow] = {}
        #: Links whose core is told when the outbox has room: their overflow may hold messages.
        self.due: set[Link] = set()

    def restore(self, stored: Mapping[Key, bytes], backlogs: Mapping[Link, Backlog], links: Collection[Link]) -> None:
        """Restore the overflows of links; a link with a gap is due, too."""
        for (name,), sent in records.OVERFLOW_END.items(stored):
            if (link := link_of(name)) in links:
                self._of[link] = Overflow(name, 0)
                self._of[link].restore(records.LinkPosition(0, 0, sent), backlogs.get(name))
                self.due.add(link)
        self.due |= {link for (link, _), _ in records.LINK_GAP.items(stored) if link in links}

    def find(self, name: Link) -> Overflow | None:
        """Return the overflow with the name that it has on disk."""
        return self._of.get(link_of(name)) if name.startswith(_PREFIX) else None

    def waiting(self, link: Link) -> Outbox:
        """Return what waits in the overflow of a link."""
        overflow = self._of.get(link)
        return Outbox() if overflow is None else overflow.outbox

    def may_pass(self, end: StreamEnd) -> bool:
        """Whether a message may go into the outbox at once: it has room, and nothing waits behind it."""
        return self._has_room(end) and not self.waiting(end.link)

    def has_half(self, end: StreamEnd) -> bool:
        """Whether half of the outbox is free; it waits for that, so that gaps are not told one by one."""
        return self._is_below(end, 2)

    def append(self, link: Link, body: bytes, *, is_held: bool) -> tuple[Link, list[Persist]]:
        """Append a message; return the name of the overflow, and what to persist."""
        overflow = self._of.get(link)
        if overflow is None:
            overflow = self._of[link] = Overflow(overflow_of(link), 0)
        if not is_held:
            self.due.add(link)
        return overflow.link, overflow.append(body)

    def refill(self, end: StreamEnd, *, is_all: bool) -> list[Persist]:
        """Move the oldest messages to the outbox, as far as there is room; return what to persist."""
        changes: list[Persist] = []
        overflow = self._of.get(end.link)
        for body in self._bodies(end.link):
            if not is_all and not self._has_room(end):
                break
            assert overflow is not None
            changes += [*end.append(body), *overflow.acknowledge(overflow.acknowledged + 1)]
        if self.waiting(end.link):
            self.due.add(end.link)
        return changes

    def take_excess(self, link: Link) -> tuple[list[bytes], list[Persist]]:
        """Drop the oldest messages beyond the quota, but never the newest; return them, and what to persist."""
        if self._quotas is None:
            return [], []
        outbox, quota = self._of[link].outbox, self._quotas[1]
        n, n_bytes = len(outbox), outbox.bytes
        while n > 1 and (n > quota.messages or n_bytes > quota.bytes):
            n_bytes -= outbox.size_of(outbox.last - n + 1)
            n -= 1
        return self._take(link, len(outbox) - n)

    def take_all(self, link: Link) -> tuple[list[bytes], list[Persist]]:
        """Remove all messages; return them, and what to persist."""
        return self._take(link, len(self.waiting(link)))

    def forget(self, link: Link) -> list[Persist]:
        """Forget the overflow of a link; return what to persist."""
        self.due.discard(link)
        overflow = self._of.pop(link, None)
        if overflow is None:
            return []
        return [*overflow.acknowledge(overflow.sent), records.OVERFLOW_END.drop(overflow.link)]

    def _take(self, link: Link, count: int) -> tuple[list[bytes], list[Persist]]:
        if not count:
            return [], []
        overflow, bodies = self._of[link], list(islice(self._bodies(link, count), count))
        return bodies, overflow.acknowledge(overflow.acknowledged + count)

    def _bodies(self, link: Link, most: int | None = None) -> Iterator[bytes]:
        return self.waiting(link).bodies(overflow_of(link), self._read, most)

    def _has_room(self, end: StreamEnd) -> bool:
        return self._is_below(end, 1)

    def _is_below(self, end: StreamEnd, part: int) -> bool:
        """Whether an outbox may be given messages and is below a part of its share; at the half it may be equal."""
        if end.former is not None:  # the other end has not said yet what it has of the life before the restore
            return False
        if self._quotas is None:
            return True
        quota, outbox = self._quotas[0], end.outbox
        slack = part - 1
        return part * len(outbox) < quota.messages + slack and part * outbox.bytes < quota.bytes + slack
