"""Conflicts: whether no event can match both.

Two subscriptions conflict iff every filter of one excludes every filter of the other, and two filters
exclude each other iff their conjunction is impossible on some single attribute. True is a proof; False
means that some event may match both, or that no proof was found.

Implements: [crtree] section 4.2 rule 1, conflicts between constraints.
Deviation: conflicts of three conditions, none of two of which conflict, are found for scalars and LIKE,
not for balls and regions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tamis.algebra.proofs.pieces import Budget, pieces_of
from tamis.algebra.sources import Source, as_subscriptions
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["are_disjoint", "conflicts"]


def conflicts(a: Source, b: Source, schema: Schema | None = None) -> bool:
    """Whether it is proved that no event matches both ``a`` and ``b``.

    >>> conflicts("price < 10", "price >= 10"), conflicts("price < 10", "symbol = 'IBM'")
    (True, False)
    >>> conflicts("name LIKE 'a%z'", "name LIKE '%b'")
    True
    """
    [first, second], _ = as_subscriptions([("a", a), ("b", b)], schema)
    return are_disjoint(first.filters, second.filters)


def are_disjoint(a: Sequence[Filter], b: Sequence[Filter]) -> bool:
    """Whether it is proved that no event matches a filter of ``a`` and one of ``b``."""
    budget = Budget(10 * len(a) * len(b) + 10_000)
    for filter in a:
        for piece in pieces_of(filter, budget):
            if any(next(pieces_of(other, budget, piece), None) is not None for other in b):
                return False
    return not budget.exhausted
