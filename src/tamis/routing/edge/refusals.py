"""Refused events, kept until their publishers must have received the refusal.

A refusal overtakes the queue of its client, and is lost with the connection. The acknowledgement of the message that
carried the event is not lost: it is sent again on the next connection, and without the refusal it would mean
"accepted". So the refusals of a client's last messages are persisted in the transaction that takes the message, and
sent again at the beginning of each connection, in the same packet as the acknowledgement.

A client has at most `MESSAGES` messages under way (docs/server.md, Frames). A client that sends number ``n`` has
therefore received the answer to ``n - MESSAGES``, and its refusals can be dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tamis.node import records
from tamis.node.effects import Effect, Key, Link
from tamis.routing import messages as m

__all__ = ["MESSAGES", "Refusals"]

#: Messages of one client that may be under way.
MESSAGES = 64

#: Characters of a reason that are kept.
_REASON = 100


class Refusals:
    """``{client: {number of its message: refusals}}``, exactly those that may not have reached the client.

    >>> refusals = Refusals()
    >>> kept = refusals.keep("alice", 7, [m.Refusal("event 1 2", "too large", m.EventId("", 1, 2))])
    >>> [one.reason for one in refusals.upto("alice", 7)], refusals.upto("alice", 6)
    (['too large'], [])
    """

    def __init__(self) -> None:
        self._kept: dict[Link, dict[int, tuple[m.Refusal, ...]]] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore what an earlier life persisted."""
        rows = sorted((link, int(number), value) for (link, number), value in records.REFUSED.items(stored))
        for link, number, value in rows:
            self._kept.setdefault(link, {})[number] = msgspec.msgpack.decode(value, type=tuple[m.Refusal, ...])

    def keep(self, client: Link, number: int, refusals: Sequence[m.Refusal]) -> list[Effect]:
        """Keep the refusals of one message, and drop those that the client has received; return what to persist."""
        effects = self._drop(client, number - MESSAGES)
        if refusals:
            short = tuple(msgspec.structs.replace(refusal, reason=refusal.reason[:_REASON]) for refusal in refusals)
            self._kept.setdefault(client, {})[number] = short
            effects.append(records.REFUSED.put(client, str(number), value=msgspec.msgpack.encode(short)))
        return effects

    def upto(self, client: Link, number: int) -> list[m.Refusal]:
        """Return the refusals that a client may have missed, of its messages up to a number, in order."""
        return [
            refusal
            for message_number, kept_refusals in self._kept.get(client, {}).items()
            if message_number <= number
            for refusal in kept_refusals
        ]

    def forget(self, client: Link) -> list[Effect]:
        """Drop everything about a client that has gone."""
        return self._drop(client, max(self._kept.get(client, ()), default=0))

    def _drop(self, client: Link, number: int) -> list[Effect]:
        by_number = self._kept.get(client)
        if by_number is None:
            return []
        received = [message_number for message_number in by_number if message_number <= number]
        for message_number in received:
            del by_number[message_number]
        if not by_number:
            del self._kept[client]
        return [records.REFUSED.drop(client, str(message_number)) for message_number in received]
