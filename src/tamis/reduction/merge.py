"""Merging: one filter for two subscriptions, only when it matches exactly what the two match together.

A merge that matched more would cause unwanted traffic; this one is *perfect*, so a link that carries
the merged filter carries the same events as before. Two filters have a perfect merge iff one covers the
other or they differ on a single attribute on which their union can be written as one constraint: values
always can, conditions on one region too, two balls cannot unless one contains the other.

Implements: [mics] section 3.6, perfect merging of subscriptions.
Deviation: perfect merges on raw values only; the paper joins ranges of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tamis.algebra.covers import is_covered
from tamis.algebra.simplify import simplify_filters
from tamis.algebra.sources import Source, as_subscriptions
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.reduction.writable import is_writable

__all__ = ["merge", "merged_id", "outlives"]

#: Ids that the name of a merged subscription lists; of more it names the first, the last and their number.
MAX_NAMED = 4


def merge(a: Source, b: Source, schema: Schema | None = None) -> Subscription | None:
    """Return one subscription that matches exactly what ``a`` or ``b`` match; None if there is none.

    If one covers the other the result is that one, simplified, with its id (``a``'s when both do).
    Otherwise the result has one filter and the id ``"<id of a>+<id of b>"``. Subscriptions of different
    namespaces, or of which the wider one expires earlier, are not merged, nor are those whose merge would
    be beyond the limits of the language. Texts get the ids "a" and "b".

    >>> merge("symbol = 'IBM' AND x < 5", "symbol = 'IBM' AND x >= 5").filters == merge(
    ...     "symbol = 'IBM' AND x IS NOT NULL", "FALSE"
    ... ).filters
    True
    >>> merge("x < 5 AND y < 5", "x > 5 AND y > 5") is None
    True
    """
    [first, second], used_schema = as_subscriptions([("a", a), ("b", b)], schema)
    if first.namespace != second.namespace:
        return None
    for wide, narrow in ((first, second), (second, first)):
        if outlives(wide, narrow) and is_covered(narrow.filters, wide.filters):
            return replace(wide, filters=simplify_filters(wide.filters))
    if first.expires != second.expires:
        return None
    union = simplify_filters((*first.filters, *second.filters))
    if len(union) != 1 or not is_writable(union[0], used_schema):
        return None
    return Subscription(merged_id([first.id, second.id]), union, None, first.namespace, first.expires)


def outlives(a: Subscription, b: Subscription) -> bool:
    """Whether ``a`` expires no earlier than ``b``, so that it can replace ``b``."""
    return a.expires is None or (b.expires is not None and a.expires >= b.expires)


def merged_id(ids: Sequence[SubscriptionId]) -> str:
    """Return the id of a merge of several subscriptions.

    >>> merged_id([1, "b"]), merged_id(range(10))
    ('1+b', '0+...+9 (10)')
    """
    if len(ids) <= MAX_NAMED:
        return "+".join(str(id) for id in ids)
    return f"{ids[0]}+...+{ids[-1]} ({len(ids)})"
