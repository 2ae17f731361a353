"""Producers that may send a batch again, and have it taken once.

Whoever writes in numbered batches, such as a stream that starts over after a crash, says who it is and which batch this
is. The last number of each producer is persisted in the transaction of the batch itself, so either both are there or
neither is (promises G11, P2). Numbers ascend; one that is not above the last was taken before.

A producer leaves a record behind. Beyond `MAX_PRODUCERS` of one principal, the one silent for longest is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tamis.node import records
from tamis.node.effects import Effect, Key
from tamis.routing import messages as m

__all__ = ["MAX_PRODUCERS", "Once", "Producers"]

#: Producers of one principal that are remembered.
MAX_PRODUCERS = 10_000


@dataclass(frozen=True)
class Once:
    """A batch of checked events, to be taken unless this number of its producer was taken before."""

    message: m.PublishBatch
    principal: str
    producer: str
    number: int


class Producers:
    """The last batch of each producer.

    >>> producers = Producers()
    >>> batch = Once(m.PublishBatch(()), "alice", "sensors", 7)
    >>> producers.has(batch), producers.take(batch, now=0.0)
    (False, [Persist(key=('producer', 'alice', 'sensors'), value=b'7 0')])
    >>> producers.has(batch)
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

    def has(self, batch: Once) -> bool:
        """Whether a batch was taken before."""
        return self._last.get(batch.principal, {}).get(batch.producer, -1) >= batch.number

    def take(self, batch: Once, *, now: float) -> list[Effect]:
        """Take note of a batch that is new; return what to persist together with it."""
        mine = self._last.setdefault(batch.principal, {})
        mine.pop(batch.producer, None)
        mine[batch.producer] = batch.number
        record = records.PRODUCER.put(batch.principal, batch.producer, value=(batch.number, round(now * 1e6)))
        effects: list[Effect] = [record]
        if len(mine) > self._most:
            oldest = next(iter(mine))
            del mine[oldest]
            effects.append(records.PRODUCER.drop(batch.principal, oldest))
        return effects
