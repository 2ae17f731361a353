"""Which events a client has had already, so that an event that is sent again is handed out once (promises G4, G5).

The events of a publisher are numbered and usually come in order. A repeated event is usually not newer than the last
one, but an event that is not newer need not be a repeated one: a broker refuses event 5 and accepts event 6, which is
delivered; then it loses its disk before the refusal reaches the publisher. The publisher sends both again, and the new
life of the broker accepts both. So the numbers themselves are remembered, as far back as a publisher may send again.
"""

from __future__ import annotations

from tamis.routing import messages as m
from tamis.routing.edge.refusals import MESSAGES
from tamis.runtime.client.publishing import BATCH_EVENTS

__all__ = ["SeenEvents"]

#: Publishers whose events are remembered; beyond that, the one that was silent longest is forgotten.
MAX_PUBLISHERS = 10_000

#: How many numbers up to the last one are remembered: all that a client may have under way. It is 2 KiB a publisher.
NUMBERS = MESSAGES * BATCH_EVENTS
_ALL = (1 << NUMBERS) - 1


class SeenEvents:
    """The last event of each publisher, and which of the numbers before it came.

    >>> seen = SeenEvents()
    >>> [seen.add(m.EventId("alice", 1, number)) for number in (4, 6, 5, 6)]
    [True, True, True, False]
    """

    def __init__(self) -> None:
        #: ``{(publisher, epoch): (number, bits)}``: the greatest number; bit ``i`` says that ``number - i`` came.
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    def add(self, id: m.EventId) -> bool:
        """Take note of an event; returns whether it is new. One that is older than what is remembered is not."""
        publisher = (id.publisher, id.epoch)
        last, bits = self._last.pop(publisher, (0, 0))
        if len(self._last) >= MAX_PUBLISHERS:
            del self._last[next(iter(self._last))]
        ahead = id.seq - last
        if ahead > 0:
            # A publisher may be far ahead of what this client received last; only what is remembered is shifted.
            bits = (bits << ahead | 1) & _ALL if ahead < NUMBERS else 1
            is_new, last = True, id.seq
        else:
            bit = 1 << -ahead if -ahead < NUMBERS else 0
            is_new, bits = bool(bit & ~bits), bits | bit
        self._last[publisher] = (last, bits)
        return is_new
