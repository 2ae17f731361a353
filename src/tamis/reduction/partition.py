"""Reduces a set in parts: drop what is covered inside each part, then reduce what is left.

The contract for a caller that splits a set (Spark does):

* any split into parts works, by space or at random; a split that keeps neighbours together drops more early;
* `reduce_partition` is a pure function of one part. What it keeps is kept in the order of the ids, and each of
  the others is covered by something it keeps, of the same namespace, that lives at least as long;
* its results may be joined and put through `reduce_partition` again, any number of times;
* `reduce_partitions` of all results gives what `reduce` gives for the whole set: the same subscriptions kept, the
  same ones merged and subsumed, and the same reason for each that is gone.

It holds because which subscriptions are covered by no other is a property of the set, and reasons are searched at the
end among those that stay. For subscriptions that are not boxes it holds where covering is decided within its budget.

Where no machine can hold all results, `cover_partition` decides inside one part for good: of a part that holds, with
some subscriptions, everything that might cover one of them. The decision about these is then the same as in the
whole set, whatever else is in the part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.corners import CornerIndex
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.reduction.input import Subscriptions, read
from tamis.reduction.reduce import covered_boxes, groups_of, reduce_input, simplified, simplified_each
from tamis.reduction.report import Reduction
from tamis.reduction.stages.box_stages import ClosedBoxes
from tamis.reduction.stages.group import Group, group_of
from tamis.reduction.stages.item_stages import ItemStages
from tamis.reduction.story import ReductionStory

__all__ = ["Partition", "cover_partition", "reduce_partition", "reduce_partitions"]


@dataclass(frozen=True, slots=True)
class Partition:
    """The subscriptions that one part keeps, and those that it dropped because a kept one covers them.

    ``covered`` are boxes that a box covers: at the end only their covers are searched. ``others`` are dropped as well,
    but are tested again at the end, because covering is transitive only as far as it is proved.
    """

    kept: tuple[Subscription, ...]
    covered: tuple[Subscription, ...] = ()
    others: tuple[Subscription, ...] = ()
    impossible: tuple[Subscription, ...] = ()


def reduce_partition(subscriptions: Subscriptions, schema: Schema | None = None) -> Partition:
    """Return which subscriptions of one part are kept and which are dropped; the module's docstring has the contract.

    >>> from tamis.model.language.compiler import compile_text
    >>> part = reduce_partition([compile_text("x <= 9", id="a"), compile_text("x <= 5", id="b")])
    >>> [kept.id for kept in part.kept], [covered.id for covered in part.covered]
    (['a'], ['b'])
    """
    input = read(subscriptions, schema)
    simple = [simplified(subscription) for subscription in input.subscriptions]
    kept: list[int] = []
    by_boxes: set[int] = set()
    for places in input.groups():
        group = group_of(simple, places, input.schema)
        covered = {place: by for _, place, (by,) in covered_boxes(group)}
        by_boxes |= covered.keys()
        if group.has_special:
            stages = ItemStages(simple, group.places.tolist(), input.schema, ReductionStory())
            stages.drop_covered(covered)
            kept += stages.living()
        else:
            kept += group.places.tolist()
    possible = {place for place, subscription in enumerate(simple) if subscription.filters}
    parts = (kept, by_boxes, possible - by_boxes - set(kept), set(range(len(input))) - possible)
    return Partition(*(tuple(input.subscriptions[place] for place in sorted(part)) for part in parts))


def reduce_partitions(parts: Iterable[Partition], schema: Schema | None = None, *, merge: bool = True) -> Reduction:
    """Return the reduction of a whole set from its parts.

    Boxes that a part dropped because a box covers them are compared with the kept boxes only.
    """
    every: list[Subscription] = []
    dropped: set[tuple[str, SubscriptionId]] = set()
    for part in parts:
        every += (*part.kept, *part.covered, *part.others, *part.impossible)
        dropped.update((subscription.namespace, subscription.id) for subscription in part.covered)
    input = read(every, schema)
    is_dropped = np.array(
        [(subscription.namespace, subscription.id) in dropped for subscription in input.subscriptions], bool
    )
    return reduce_input(input, merge=merge, is_covered=is_dropped)


def cover_partition(subscriptions: Subscriptions, schema: Schema | None = None) -> Reduction:
    """Return the impossible subscriptions and those that a single other covers; unions and merges are not tried.

    The reported reason for each is the first id among the kept subscriptions that cover it, so it depends on nothing
    but its covers. See the module's docstring.

    >>> from tamis.model.language.compiler import compile_text
    >>> texts = {"c": "x <= 9", "a": "x <= 5", "b": "x <= 7 AND y > 0", "d": "y > 0"}
    >>> reduction = cover_partition([compile_text(text, id=id) for id, text in texts.items()])
    >>> reduction.kept, reduction.covered
    (('c', 'd'), {'a': 'c', 'b': 'c'})
    """
    input = read(subscriptions, schema)
    story = ReductionStory()
    for group in groups_of(input, simplified_each(input, story)):
        plain, boxes = group.plain, group.boxes
        removals = covered_boxes(group)
        if group.has_special:
            stages = ItemStages(group.subscriptions, group.places.tolist(), group.schema, story)
            stages.drop_covered({place: by for _, place, (by,) in removals})
            story.keep(stages.living())
            continue
        dropped = boxes.take(np.searchsorted(plain, [place for _, place, _ in removals]))
        for (reason, place, _), first in zip(removals, _first_covers(group, dropped), strict=True):
            story.remove(reason, place, (first,))
        story.keep(group.places.tolist())
    return story.reduction(input, input.subscriptions)


def _first_covers(group: Group, dropped: ClosedBoxes) -> list[int]:
    """Return for each dropped box the first place of the group that covers it."""
    if not len(dropped):
        return []
    index = CornerIndex(group.boxes.lo.shape[1])
    rows: npt.NDArray[np.int32] = np.arange(len(group.boxes), dtype=np.int32)
    index.add_boxes(group.boxes.lo, group.boxes.hi, rows)
    first: list[int] = group.plain[index.find_least_covers(*dropped.question_sides())].tolist()
    return first
