"""How numbered messages become events exactly once, without a connection.

A lane is a sequence of messages with ascending numbers: a partition, or the part of a stream that a filter selects.
The broker keeps the last number that it took of each lane in the transaction of the events
(`tamis.routing.edge.producers`), so a bridge that starts again asks the broker where to go on, and not the system that
it reads.

Two things could break that. A bridge could publish behind a number that another bridge of the same name has passed:
each batch names the number that it follows, and the broker refuses (409) what does not follow. A bridge could leave out
messages that were read and lost on the way: each message names the one that was read before it, and a `Lane` takes
nothing but the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tamis.routing.edge.limits import MAX_NAME
from tamis.runtime.bridges.system import IncomingMessage

__all__ = ["Lane", "halved", "producer_of"]


@dataclass
class Lane:
    """How far a lane was read: the broker ``taken`` so far, everything up to ``seen`` was dealt with.

    >>> lane, message = Lane(taken=7, seen=7), IncomingMessage("a", b"{}", "l", number=9, after=7)
    >>> stale = IncomingMessage("a", b"{}", "l", number=12, after=11)
    >>> [one.number for one in lane.following([stale, message])]
    [9]
    """

    #: The last number that the broker took; None: it knows nothing of the lane.
    taken: int | None
    seen: int

    def following(self, messages: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Return the messages that follow one another from ``seen``; others were read before a rewind."""
        chain: list[IncomingMessage] = []
        last = self.seen
        for message in messages:
            if message.after == last:
                chain.append(message)
                last = message.number
        return chain

    def is_repeated(self, message: IncomingMessage) -> bool:
        """Whether the broker has a message already."""
        return self.taken is not None and message.number <= self.taken


def producer_of(kind: str, name: str, lane: str) -> str:
    """Return the name of a lane at the broker; a long one is shortened to a digest.

    >>> producer_of("nats", "bridge", "EVENTS")
    'nats:bridge:EVENTS'
    """
    text = f"{kind}:{name}:{lane}"
    if len(text) <= MAX_NAME and text.isprintable():
        return text
    return f"{kind}:{name}:{hashlib.sha256(lane.encode()).hexdigest()[:40]}"


def halved(messages: Sequence[IncomingMessage]) -> list[Sequence[IncomingMessage]]:
    """Return the second and the first half of some messages, as a stack from which the first is taken first."""
    middle = len(messages) // 2
    return [messages[middle:], messages[:middle]]
