"""Producers: a batch that is sent again is accepted once.

A producer that writes in numbered batches, such as a stream that starts over after a crash, names itself and the batch.
The last number of each producer is persisted in the transaction of the batch itself, so either both are on disk or
neither is (promises G11, P2). Numbers ascend; a number that is not above the last was accepted before.

Each producer has a record. Beyond `MAX_PRODUCERS` of one principal, the one that was idle for longest is forgotten.
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
        #: ``{principal: {producer: number}}``, the most recent producer last.
        self._last: dict[str, dict[str, int]] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore what an earlier life persisted."""
        batches = ((moment, key, number) for key, (number, moment) in records.PRODUCER.items(stored))
        for _, (principal, producer), number in sorted(batches):
            self._last.setdefault(principal, {})[producer] = number

    def has(self, principal: str, producer: str, number: int) -> bool:
        """Whether a batch was accepted before."""
        return self._last.get(principal, {}).get(producer, -1) >= number

    def last(self, principal: str, producer: str) -> int | None:
        """Return the last accepted number of a producer; None if there is none, or if it was forgotten."""
        return self._last.get(principal, {}).get(producer)

    def follows(self, principal: str, producer: str, after: int | None) -> bool:
        """Whether ``after`` is the last accepted number of a producer, if there is one; None: always true."""
        return after is None or self.last(principal, producer) in (None, after)

    def take(self, principal: str, producer: str, number: int, *, now: float) -> list[Effect]:
        """Note a new batch; return what to persist together with it."""
        numbers = self._last.setdefault(principal, {})
        numbers.pop(producer, None)
        numbers[producer] = number
        effects: list[Effect] = [records.PRODUCER.put(principal, producer, value=(number, round(now * 1e6)))]
        if len(numbers) > self._most:
            oldest = next(iter(numbers))
            del numbers[oldest]
            effects.append(records.PRODUCER.drop(principal, oldest))
        return effects
