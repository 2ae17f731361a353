"""Costly messages of neighbours enter the routing table in slices, before they are taken (promise S26).

A filter with 256 alternatives takes up to 30 ms to enter the table, and a message of a neighbour may have hundreds of
them. `slices_of` cuts such a message into `EarlyEntries`, one per step. The message itself is taken last: it finds its
entries in the table, and only retracts, drops what is stale, and is acknowledged and confirmed.

Early entries only add: the filters that they replace are kept under other keys until the message is taken
(`tamis.routing.table_parts`), so at any moment the table forwards what it forwarded before. After a crash the neighbour
sends the message again, because it was not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from tamis.routing import messages as m
from tamis.routing.edge.limits import SHORT_FILTER, SLICE_BYTES, SLICE_SUBSCRIPTIONS

__all__ = ["EarlyEntries", "slices_of", "weight_of"]

#: What a filter weighs that is not read as a column, because its shape is rare.
RARE = 8


@dataclass(frozen=True, slots=True)
class EarlyEntries:
    """Some entries of a message that a neighbour has sent: ``message`` announces only these.

    Its ranges are with the first entries, so that wrong ones are noticed before anything is applied.
    """

    message: m.Update | m.TablePart


def weight_of(document: bytes, alternatives: int | None, *, is_announced: bool) -> int:
    """Return which part of a step a filter takes, in simple filters; ``alternatives`` is None if it is one.

    A filter that is announced to neighbours, and that is long or has alternatives, is a step of its own: up to 75 ms
    are spent on proofs of what it covers on each link (`tamis.routing.policies.covering`). Any other filter takes the
    time that its boxes take, which grows with its length.

    >>> [weight_of(b"true", alternatives, is_announced=True) for alternatives in (None, 1, 2)]
    [1, 8, 256]
    >>> weight_of(b"true", 2, is_announced=False), weight_of(b" " * 80_000, 256, is_announced=False)
    (1, 256)
    """
    if not is_announced:
        return min(SLICE_SUBSCRIPTIONS, 1 + max(0, len(document) - SHORT_FILTER) * SLICE_SUBSCRIPTIONS // SLICE_BYTES)
    if len(document) > SHORT_FILTER or (alternatives is not None and alternatives > 1):
        return SLICE_SUBSCRIPTIONS
    return 1 if alternatives is None else RARE


def slices_of(message: m.Update | m.TablePart, weight: Callable[[m.Entry], int]) -> Iterator[EarlyEntries]:
    """Yield the entries of a message in slices; none if the message is no more than one slice.

    ``weight`` returns the weight of an entry, and of the entry that it replaces.

    >>> entries = tuple(m.Entry(str(n), "default", b"true") for n in range(3))
    >>> [len(early.message.announce) for early in slices_of(m.Update(1, entries), lambda entry: 100)]
    [2, 1]
    >>> list(slices_of(m.Update(1, entries), lambda entry: 1))
    []
    """
    start = used = 0
    for n, entry in enumerate(message.announce):
        own_weight = weight(entry)
        if n > start and used + own_weight > SLICE_SUBSCRIPTIONS:
            yield _slice(message, start, n)
            start, used = n, 0
        used += own_weight
    if start:
        yield _slice(message, start, len(message.announce))


def _slice(message: m.Update | m.TablePart, start: int, end: int) -> EarlyEntries:
    ranges = () if start else message.ranges
    return EarlyEntries(msgspec.structs.replace(message, announce=message.announce[start:end], ranges=ranges))
