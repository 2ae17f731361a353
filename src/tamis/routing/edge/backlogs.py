"""How much may wait for a client (promise G17).

A client that reads too slowly is suspended when its backlog is full. The messages it misses are counted, and it is sent
one `Gap` when it has caught up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tamis.node import records
from tamis.node.effects import Deliver, Effect, Key, Link, Send
from tamis.node.stream import StreamEnd
from tamis.node.vocabulary import MAX_COUNT
from tamis.routing import messages as m
from tamis.routing.consumers.sharing import Sharing
from tamis.routing.edge.admission import MAX_BACKLOG

__all__ = ["MAX_BACKLOG_BYTES", "Backlogs"]

#: Bytes of messages that wait for one client before it is suspended; the deliveries of one call are never split.
MAX_BACKLOG_BYTES = 1 << 30


class Backlogs:
    """The gaps of suspended clients; ``ends`` are the streams of all links, which the node keeps."""

    def __init__(
        self, ends: Mapping[Link, StreamEnd], limit: int = MAX_BACKLOG, limit_bytes: int = MAX_BACKLOG_BYTES
    ) -> None:
        self._ends = ends
        self._limit = limit
        self._limit_bytes = limit_bytes
        #: ``{link: gap}``: exactly the clients that are suspended.
        self.gaps: dict[Link, m.Gap] = {}
        #: The messages that consumers of shared queues hold.
        self.sharing = Sharing(ends)
        #: Deliveries of the call under way, by client: they are not in the outbox yet.
        self._added: dict[Link, int] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore what an earlier life persisted."""
        for (link,), value in records.GAP.items(stored):
            self.gaps[link] = msgspec.msgpack.decode(value, type=m.Gap)
        self.sharing.restore(stored)

    def begin(self) -> None:
        """Begin a call: the deliveries of earlier calls are in the outboxes now."""
        self._added.clear()

    def admit(self, delivery: Deliver) -> Effect:
        """Return the delivery, or the record that its client missed it."""
        if self._has_room(delivery.link):
            return delivery
        return self._miss(delivery.link, m.Gap(delivery.message.event.id, 1))

    def admit_gaps(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return effects, those with a `Gap` for a client that is suspended, or about to be, added to its own gap."""
        return [
            self._admit_gap(effect.link, effect.message)
            if isinstance(effect, Send) and isinstance(effect.message, m.Gap)
            else effect
            for effect in effects
        ]

    def received(self, link: Link) -> int:
        """Return the number of the last message that a client has sent."""
        return self._ends[link].received

    def is_due(self, link: Link) -> bool:
        """Whether a suspended client has read enough to be resumed."""
        if link not in self.gaps:
            return False
        waiting, n_bytes = self._waiting(link)
        return 2 * waiting <= self._limit and 2 * n_bytes <= self._limit_bytes

    def resume(self) -> list[Effect]:
        """Send clients that have caught up their gaps, and deliver to them again."""
        effects: list[Effect] = []
        for link in sorted(link for link in self.gaps if self.is_due(link)):
            effects += [records.GAP.drop(link), Send(link, self.gaps.pop(link))]
        return effects

    def forget(self, link: Link) -> list[Effect]:
        """Drop the gap of a client that has gone, and the holds on its queue."""
        gap: list[Effect] = [records.GAP.drop(link)] if self.gaps.pop(link, None) is not None else []
        return gap + self.sharing.forget(link)

    def _admit_gap(self, link: Link, gap: m.Gap) -> Effect:
        return Send(link, gap) if self._has_room(link) else self._miss(link, gap)

    def _has_room(self, link: Link) -> bool:
        """Whether one more message may wait for a client, which is then counted."""
        added = self._added.get(link, 0)
        waiting, n_bytes = self._waiting(link)
        if link in self.gaps or waiting + added >= self._limit or n_bytes >= self._limit_bytes:
            return False
        self._added[link] = added + 1
        return True

    def _miss(self, link: Link, missed: m.Gap) -> Effect:
        """Add what a client misses to its gap; return what to persist."""
        gap = self.gaps.get(link, m.Gap(missed.first, 0))
        self.gaps[link] = m.Gap(gap.first, min(gap.count + missed.count, MAX_COUNT))
        return records.GAP.put(link, value=msgspec.msgpack.encode(self.gaps[link]))

    def _waiting(self, link: Link) -> tuple[int, int]:
        """Return how many messages wait for a client, and their bytes."""
        end = self._ends.get(link)
        return (0, 0) if end is None else (len(end.outbox), end.outbox.bytes)
