"""Refused events, kept until their publishers must have received the refusal.

A refusal is a word: it overtakes the queue of its client, and is lost with the connection. The acknowledgement of the
message that carried the event is not: it is said again on the next connection, and without the refusal it would read as
"accepted". So the refusals of a client's last messages are persisted in the transaction that takes the message, and
said again at the beginning of each connection, in the same packet as the acknowledgement.

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
        """Take back what an earlier life persisted."""
        kept = sorted((link, int(number), value) for (link, number), value in records.REFUSED.items(stored))
        for link, number, value in kept:
            self._kept.setdefault(link, {})[number] = msgspec.msgpack.decode(value, type=tuple[m.Refusal, ...])

    def keep(self, client: Link, number: int, refusals: Sequence[m.Refusal]) -> list[Effect]:
        """Keep the refusals of one message, and drop those that the client has received; return what to persist."""
        effects = self._drop(client, number - MESSAGES)
        if refusals:
            short = tuple(msgspec.structs.replace(one, reason=one.reason[:_REASON]) for one in refusals)
            self._kept.setdefault(client, {})[number] = short
            effects.append(records.REFUSED.put(client, str(number), value=msgspec.msgpack.encode(short)))
        return effects

    def upto(self, client: Link, number: int) -> list[m.Refusal]:
        """Return what a client may have missed of its messages up to a number, in order."""
        return [one for place, many in self._kept.get(client, {}).items() if place <= number for one in many]

    def forget(self, client: Link) -> list[Effect]:
        """Drop everything about a client that has gone."""
        return self._drop(client, max(self._kept.get(client, ()), default=0))

    def _drop(self, client: Link, number: int) -> list[Effect]:
        kept = self._kept.get(client)
        if kept is None:
            return []
        old = [place for place in kept if place <= number]
        for place in old:
            del kept[place]
        if not kept:
            del self._kept[client]
        return [records.REFUSED.drop(client, str(place)) for place in old]
