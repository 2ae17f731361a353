"""Reduces a set of subscriptions to those that a link must forward so that no event is missed.

The stages, each of which leaves the union of what remains unchanged:

1. simplify each subscription; drop those that can never match (*impossible*);
2. of those that match the same events one stays (*equivalent*), and each that a single other covers goes (*covered*);
3. drop each that several others cover together (*subsumed*), under a budget;
4. join those that have a perfect merge (*merged*).

Nothing crosses a namespace, and an item is removed only for items that live at least as long. What is one closed
box goes through arrays (`box_stages`), a million in seconds; the rest is compared one by one (`item_stages`), with
candidates from indexes. No two items are dropped because of each other: of equivalents the first id stays.

The result does not depend on the order of the input, nor, for the covered, on how it was partitioned
(`partition`). Reducing shrinks what a *link* has to carry; every client still gets all its deliveries.

Implements: [crtree] section 4.2 rules 1 to 3 over a set of subscriptions; [mics] sections 3.6 and 3.7; [zcurve]
section 1.1, covering as dominance.
Deviation: sequential (erratum S.3.6), exact on raw values, merges are perfect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tamis.algebra.simplify import simplify_filters
from tamis.index.paused_collection import paused_collection
from tamis.model.schema import Schema
from tamis.model.subscription import Constraint, Relation, Spatial, Subscription, Values
from tamis.reduction.input import Input, Subscriptions, read
from tamis.reduction.report import Reduction
from tamis.reduction.stages.box_stages import find_covered_boxes, find_subsumed_boxes
from tamis.reduction.stages.group import Group, boxes_of_table, group_of
from tamis.reduction.stages.item_stages import ItemStages
from tamis.reduction.stages.perfect_merges import merge_places
from tamis.reduction.story import ReductionStory

__all__ = ["Progress", "covered_boxes", "groups_of", "reduce", "reduce_input", "simplified", "simplified_each"]

#: Called with the name of a stage, the number of steps done and their total.
Progress = Callable[[str, int, int], None]


def reduce(
    subscriptions: Subscriptions, schema: Schema | None = None, *, merge: bool = True, progress: Progress | None = None
) -> Reduction:
    """Return which subscriptions remain, and why the others need not be forwarded.

    ``subscriptions`` maps ids to CQL2 text, CQL2-JSON or compiled subscriptions, or lists compiled ones, or is a
    table of boxes or texts (a row without an id is called by its number, or by a free one if that is taken).

    Examples
    --------
    >>> result = reduce({"a": "x < 9", "b": "x < 5", "c": "9 > x", "d": "x < 1 AND x > 2", "e": "y = 1", "f": "y = 2"})
    >>> result.kept, result.covered, result.equivalent, result.impossible, result.merged
    (('a',), {'b': 'a'}, {'c': 'a'}, ('d',), {'e+f': ('e', 'f')})
    """
    return reduce_input(read(subscriptions, schema), merge=merge, progress=progress)


def reduce_input(
    input: Input,
    *,
    merge: bool = True,
    progress: Progress | None = None,
    is_covered: npt.NDArray[np.bool_] | None = None,
) -> Reduction:
    """Reduce the input; ``is_covered`` bool[n] marks places that are already proved to be covered."""
    story = ReductionStory()
    with paused_collection():
        simple = simplified_each(input, story, progress)
        for group in groups_of(input, simple):
            _reduce_group(group, story, progress, is_covered)
            if merge:
                merge_places(group, story)
            else:
                story.keep(group.places.tolist())
        return story.reduction(input, simple)


def simplified_each(input: Input, story: ReductionStory, progress: Progress | None = None) -> Sequence[Subscription]:
    """Return the subscriptions simplified; those that can never match are reported, and have no filters."""
    if input.table is not None:
        return input.subscriptions
    simple = []
    for place, subscription in enumerate(input.subscriptions):
        simple.append(simplified(subscription))
        if not simple[-1].filters:
            story.impossible(place)
        if progress is not None and place % 1_000 == 0:
            progress("simplify", place, len(input))
    return simple


def simplified(subscription: Subscription) -> Subscription:
    """Return a subscription with simplified filters; unchanged if each attribute has one value set or one region."""
    filters = subscription.filters
    if len(filters) == 1 and filters[0].rest is None and _is_simple(filters[0].constraints):
        return subscription
    return replace(subscription, filters=simplify_filters(filters))


def _is_simple(constraints: Sequence[Constraint]) -> bool:
    if all(type(part) is Values for part in constraints):
        return True
    if len({part.attribute for part in constraints}) < len(constraints):
        return False
    return all(
        type(part) is Values or (type(part) is Spatial and 0 < len(part.relations) < len(Relation))
        for part in constraints
    )


def groups_of(input: Input, simple: Sequence[Subscription]) -> Iterator[Group]:
    """Yield the groups of subscriptions that may replace each other, one per namespace."""
    if input.table is None or input.order is None:
        yield from (group_of(simple, places, input.schema) for places in input.groups())
        return
    boxes, space = boxes_of_table(input.table)
    boxes = boxes.take(input.order)
    for places in input.groups():
        yield Group(simple, input.schema, places, places, boxes.take(places), space)


def _reduce_group(
    group: Group, story: ReductionStory, progress: Progress | None, is_covered: npt.NDArray[np.bool_] | None
) -> None:
    """Drop what others cover, alone or together."""
    reasons = covered_boxes(group, None if is_covered is None else is_covered[group.plain])
    if not group.has_special:
        for removal in reasons:
            story.remove(*removal)
        _drop_subsumed_boxes(group, story, progress)
        return
    stages = ItemStages(group.subscriptions, group.places.tolist(), group.schema, story)
    stages.drop_covered(
        {place: by for _, place, (by,) in reasons}
    )  # a box may be covered by something that is not a box
    stages.drop_subsumed(progress)
    stages.tell_undecided()
    group.keep(stages.living())


def covered_boxes(group: Group, is_covered: npt.NDArray[np.bool_] | None = None) -> list[tuple[str, int, tuple[int]]]:
    """Drop the boxes of a group that another box covers; return the removals: reason, place, and the covers."""
    cover = find_covered_boxes(group.boxes, is_covered)
    covered, by = group.plain[cover.places].tolist(), group.plain[cover.by].tolist()
    group.drop(covered)
    words = ("equivalent" if is_equal else "covered" for is_equal in cover.is_equal.tolist())
    return [(word, place, (other,)) for word, place, other in zip(words, covered, by, strict=True)]


def _drop_subsumed_boxes(group: Group, story: ReductionStory, progress: Progress | None) -> None:
    watched = None if progress is None else (lambda done, total: progress("subsume", done, total))
    unions = find_subsumed_boxes(group.boxes, watched)
    plain = group.plain.tolist()
    for place, by in unions.items():
        story.remove("subsumed", plain[place], tuple([plain[other] for other in by]))
    group.drop([plain[place] for place in unions])
