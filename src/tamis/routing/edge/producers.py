"""Producers that may send a batch again, and have it taken once.

A producer that writes in numbered batches, such as a stream that starts over after a crash, names itself and the batch.
The last number of each producer is persisted in the transaction of the batch itself, so either both are there or
neither is (promises G11, P2). Numbers ascend; one that is not above the last was taken before.

A producer leaves a record behind. Beyond `MAX_PRODUCERS` of one principal, the one silent for longest is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

from tamis.node import records
from tamis.node.effects import Effect, Key

__all__ = ["MAX_PRODUCERS", "Producers"]

#: Producers of one principal that are remembered.
MAX_PRODUCERS = 10_000


class Producers:
    """The last batch of each producer.

    >>> producers = Producers()
    >>> producers.has("alice", "sensors", 7), producers.take("alice", "sensors", 7, now=0.0)
    (False, [Persist(key=('producer', 'alice', 'sensors'), value=b'7 0')])
    >>> producers.has("alice", "sensors", 7)
    True
    """

    def __init__(self, most: int = MAX_PRODUCERS) -> None:
        self._most = most
        #: ``{principal: {producer: number}}``, the one that spoke last at the end.
        self._last: dict[str, dict[str, int]] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Take back what an earlier life persisted."""
        batches = ((moment, key, number) for key, (number, moment) in records.PRODUCER.items(stored))
        for _, (principal, producer), number in sorted(batches):
            self._last.setdefault(principal, {})[producer] = number

    def has(self, principal: str, producer: str, number: int) -> bool:
        """Whether a batch was taken before."""
        return self._last.get(principal, {}).get(producer, -1) >= number

    def last(self, principal: str, producer: str) -> int | None:
        """Return the last number that was taken of a producer; None when none was, or when it was forgotten."""
        return self._last.get(principal, {}).get(producer)

    def follows(self, principal: str, producer: str, after: int | None) -> bool:
        """Whether a batch that begins behind ``after`` follows what was taken last; None: any batch does."""
        return after is None or self.last(principal, producer) in (None, after)

    def take(self, principal: str, producer: str, number: int, *, now: float) -> list[Effect]:
        """Take note of a batch that is new; return what to persist together with it."""
        mine = self._last.setdefault(principal, {})
        mine.pop(producer, None)
        mine[producer] = number
        effects: list[Effect] = [records.PRODUCER.put(principal, producer, value=(number, round(now * 1e6)))]
        if len(mine) > self._most:
            oldest = next(iter(mine))
            del mine[oldest]
            effects.append(records.PRODUCER.drop(principal, oldest))
        return effects
