"""Reducing a set that lies in parts: drop what is covered inside each part, then reduce what is left.

The contract, for whoever splits a set (Spark does):

* any split into parts will do, by space or by chance; one that keeps neighbours together drops more early;
* `reduce_partition` is a pure function of one part. What it keeps is kept in the order of the ids, and each of
  the others is covered by something it keeps, of the same namespace, that lives at least as long;
* its results may be joined and put through `reduce_partition` again, any number of times;
* `reduce_partitions` of all results gives what `reduce` gives for the whole set: the same subscriptions kept, the
  same ones merged and subsumed, and the same reason for each that is gone.

It holds because who is covered by nobody is a property of the set, and reasons are sought at the end among
those that stay. For subscriptions that are not boxes it holds as far as covering is decided within its budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.reduction.given import Subscriptions, read
from tamis.reduction.group import group_of
from tamis.reduction.item_stages import ItemStages
from tamis.reduction.reduce import covered_boxes, reduce_given, simplified
from tamis.reduction.report import Reduction
from tamis.reduction.story import Story

__all__ = ["Partition", "reduce_partition", "reduce_partitions"]


@dataclass(frozen=True, slots=True)
class Partition:
    """What one part keeps, and what it dropped because something it keeps covers it.

    ``covered`` are boxes that a box covers: at the end it is only asked which. ``others`` are dropped as well, but
    are asked about anew at the end, because covering is transitive only as far as it is proved.
    """

    kept: tuple[Subscription, ...]
    covered: tuple[Subscription, ...] = ()
    others: tuple[Subscription, ...] = ()
    impossible: tuple[Subscription, ...] = ()


def reduce_partition(subscriptions: Subscriptions, schema: Schema | None = None) -> Partition:
    """Return what of one part has to go on, and what has not. See the module's text for the contract.

    >>> from tamis.model.language.compiler import compile_text
    >>> part = reduce_partition([compile_text("x <= 9", id="a"), compile_text("x <= 5", id="b")])
    >>> [one.id for one in part.kept], [one.id for one in part.covered]
    (['a'], ['b'])
    """
    given = read(subscriptions, schema)
    simple = [simplified(one) for one in given.subscriptions]
    kept: list[int] = []
    by_boxes: set[int] = set()
    for places in given.groups():
        group = group_of(simple, places, given.schema)
        covered = {place: by for _, place, (by,) in covered_boxes(group)}
        by_boxes |= covered.keys()
        if group.has_special:
            stages = ItemStages(simple, group.places.tolist(), given.schema, Story())
            stages.drop_covered(covered)
            kept += stages.living()
        else:
            kept += group.places.tolist()
    possible = {place for place, one in enumerate(simple) if one.filters}
    parts = (kept, by_boxes, possible - by_boxes - set(kept), set(range(len(given))) - possible)
    return Partition(*(tuple(given.subscriptions[place] for place in sorted(part)) for part in parts))


def reduce_partitions(parts: Iterable[Partition], schema: Schema | None = None, *, merge: bool = True) -> Reduction:
    """Return the reduction of a whole set from its parts.

    Boxes that a part dropped for a box are compared with those that stay, and with nothing else.
    """
    every: list[Subscription] = []
    dropped: set[tuple[str, SubscriptionId]] = set()
    for part in parts:
        every += (*part.kept, *part.covered, *part.others, *part.impossible)
        dropped.update((one.namespace, one.id) for one in part.covered)
    given = read(every, schema)
    known = np.array([(one.namespace, one.id) in dropped for one in given.subscriptions], bool)
    return reduce_given(given, merge=merge, known=known)
