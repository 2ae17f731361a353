"""Subsumption: whether several others together cover a subscription, even if no single one does.

The filters of all the others are one union, and the question is `covers` with that union. The walk notes
which filters took something away; the ids of those are the answer's ``by``, made smaller by leaving out
one id after the other as long as the proof still holds.

Implements: [mics] section 3.7, subsumption of a subscription by the union of those already announced.
Deviation: exact on raw values, under a budget; the paper's ranges of cells are exact for the cells only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.algebra.covers import compare, find_cover, find_cover_within
from tamis.algebra.proofs.pieces import MAX_PIECES, Budget
from tamis.algebra.sources import Source, as_subscriptions
from tamis.errors import ModelError
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription, SubscriptionId, id_order
from tamis.model.tables import checked_id

__all__ = ["Subsumption", "find_union", "subsumed"]

#: A set of covering ids up to this size is made smaller; a larger one is returned as it was found.
MAX_TRIMMED = 16


@dataclass(frozen=True, slots=True)
class Subsumption:
    """The answer of `subsumed`; true when ``yes``.

    ``by`` are ids whose union covers the subscription; ``witness`` is an event that matches it and none of
    the others; ``unknown`` says that neither was found.
    """

    yes: bool
    by: tuple[SubscriptionId, ...] = ()
    witness: dict[str, Any] | None = field(default=None, compare=False)
    unknown: bool = False
    reason: str = ""

    def __bool__(self) -> bool:
        return self.yes


def subsumed(
    a: Source, others: Mapping[SubscriptionId, Source] | Iterable[Source], schema: Schema | None = None
) -> Subsumption:
    """Whether every event that matches ``a`` matches one of ``others``, with the ids that prove it.

    ``others`` maps ids to subscriptions, or lists compiled ones (texts in a list are numbered from 0).

    Examples
    --------
    >>> subsumed("x BETWEEN 2 AND 8", {"low": "x < 5", "high": "x >= 5", "other": "y = 1"}).by
    ('high', 'low')
    >>> subsumed("x BETWEEN 2 AND 8", {"low": "x < 5", "high": "x > 5"}).witness
    {'x': 5}
    """
    named = _named(others)
    [first, *rest], used_schema = as_subscriptions([("the subscription", a), *named], schema)
    ids = [id for id, _ in named]
    union = find_union(first.filters, list(zip(ids, rest, strict=True)))
    if union is not None:
        return Subsumption(True, union, reason="every event that matches it matches one of the others")
    answer = compare([filter for subscription in rest for filter in subscription.filters], first.filters, used_schema)
    reason = answer.reason.replace("the second subscription and not the first", "it and none of the others")
    return Subsumption(False, (), answer.witness, answer.unknown, reason)


def find_union(
    inner: Sequence[Filter],
    others: Sequence[tuple[SubscriptionId, Subscription]],
    pieces: int = MAX_PIECES,
    budget: Budget | None = None,
) -> tuple[SubscriptionId, ...] | None:
    """Return a small set of ids whose union covers ``inner``, in order; None when no proof was found.

    A ``budget`` of ``pieces`` that the caller made is exhausted afterwards where None decides nothing.
    """
    owners = [(id, filter) for id, subscription in others for filter in subscription.filters]
    used = find_cover_within(inner, [filter for _, filter in owners], budget or Budget(pieces))
    if used is None:
        return None
    ids = sorted({owners[position][0] for position in used}, key=id_order)
    for id in reversed(ids) if len(ids) <= MAX_TRIMMED else ():
        fewer = [filter for owner, filter in owners if owner in ids and owner != id]
        if find_cover(inner, fewer, pieces) is not None:
            ids = [other for other in ids if other != id]
    return tuple(ids)


def _named(others: Mapping[SubscriptionId, Source] | Iterable[Source]) -> list[tuple[SubscriptionId, Source]]:
    if isinstance(others, Mapping):
        return [(checked_id(id), source) for id, source in others.items()]
    if isinstance(others, str | bytes | Subscription) or not isinstance(others, Iterable):
        kind = type(others).__name__
        raise ModelError(f"expected the others as a list or as a mapping of ids to subscriptions, not {kind}")
    return [
        (source.id if isinstance(source, Subscription) else position, source) for position, source in enumerate(others)
    ]
