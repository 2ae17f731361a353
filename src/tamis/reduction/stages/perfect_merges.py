"""Finds perfect merges in a set: joins filters that differ on one attribute only.

Two filters that agree on all attributes but one have the same *remainder* without it, so a table from
remainder to filters finds all joinable groups at once, without comparing pairs; the values of a group are
united in one go. That is repeated over the attributes until no more filters join. What the language
could not read back, because it is beyond a limit, is not joined: such a group is parted until it fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tamis.algebra.simplify import join_filters
from tamis.model.language.normalise import filter_of
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription, SubscriptionId, Values, id_order
from tamis.model.value_set import ValueSet
from tamis.reduction.merge import merged_id
from tamis.reduction.stages.box_stages import ClosedBoxes, find_shared_remainders
from tamis.reduction.stages.group import Group, IntArray
from tamis.reduction.story import ReductionStory
from tamis.reduction.writable import is_writable

__all__ = ["merge_places", "perfect_merges"]

#: Filters of one group that are compared pair by pair, where sets of values alone do not join them.
MAX_PAIRWISE = 64

#: More boxes than this are sifted by arrays before they become objects.
MANY = 5_000


@dataclass(frozen=True, slots=True)
class _Item:
    """One filter that remains, and the ids of the subscriptions it stands for."""

    ids: tuple[SubscriptionId, ...]
    filter: Filter
    expires: int | None


def perfect_merges(
    group: Sequence[Subscription], taken: Collection[SubscriptionId], schema: Schema
) -> list[tuple[tuple[SubscriptionId, ...], Subscription]]:
    """Return the remaining subscriptions of a group of one namespace, each with the ids that it replaces.

    Subscriptions of several filters, or with a tree, and those of different expiry are left alone.
    """
    items = [
        _Item((subscription.id,), subscription.filters[0], subscription.expires)
        for subscription in group
        if _is_plain(subscription)
    ]
    names = sorted({name for item in items for name in item.filter.attributes})
    while True:
        before = len(items)
        for name in names:
            items = _joined_on(name, items, schema)
        if len(items) == before:
            break
    by_id = {subscription.id: subscription for subscription in group}
    result: list[tuple[tuple[SubscriptionId, ...], Subscription]] = []
    result += (((subscription.id,), subscription) for subscription in group if not _is_plain(subscription))
    used = set(taken)
    for item in sorted(items, key=lambda item: id_order(item.ids[0])):
        first = by_id[item.ids[0]]
        result.append((item.ids, first if len(item.ids) == 1 else _named(item, first.namespace, used)))
    return sorted(result, key=lambda pair: id_order(pair[0][0]))


def merge_places(group: Group, story: ReductionStory) -> None:
    """Report which places of a group are kept unchanged and which are merged.

    Of many boxes only those that share a remainder with another are looked at, and those that share one with
    what these became, until there are no more.
    """
    chosen = group.places
    if len(chosen) > MANY and not group.has_special:
        chosen = group.plain[find_shared_remainders(group.boxes)]
    while True:
        candidates = [group.subscriptions[place] for place in chosen.tolist()]
        merged = perfect_merges(candidates, {subscription.id for subscription in candidates}, group.schema)
        more = _sharing(group, chosen, [subscription for ids, subscription in merged if len(ids) > 1])
        if not more.size:
            break
        chosen = np.union1d(chosen, more)
    place_of = {subscription.id: place for subscription, place in zip(candidates, chosen.tolist(), strict=True)}
    story.keep(np.setdiff1d(group.places, chosen, assume_unique=True).tolist())
    for names, subscription in merged:
        places = tuple(sorted(place_of[name] for name in names))
        if len(places) == 1:
            story.keep(places)
        else:
            story.merge(places, subscription)


def _sharing(group: Group, chosen: IntArray, merged: Sequence[Subscription]) -> IntArray:
    """Return boxes that were not tried yet and equal a merged one on all axes but one."""
    left = np.flatnonzero(~np.isin(group.plain, chosen))
    if not left.size or not merged:
        return np.zeros(0, np.int64)
    boxes = group.boxes_like(merged)
    joined = ClosedBoxes(np.vstack((group.boxes.lo[left], boxes.lo)), np.vstack((group.boxes.hi[left], boxes.hi)))
    sharing = find_shared_remainders(joined)
    return group.plain[left[sharing[sharing < left.size]]] if (sharing >= left.size).any() else np.zeros(0, np.int64)


def _is_plain(subscription: Subscription) -> bool:
    return len(subscription.filters) == 1 and subscription.filters[0].rest is None


def _named(item: _Item, namespace: str, used: set[SubscriptionId]) -> Subscription:
    id = merged_id(item.ids)
    while id in used:
        id += "'"
    used.add(id)
    return Subscription(id, (item.filter,), None, namespace, item.expires)


def _joined_on(name: str, items: Sequence[_Item], schema: Schema) -> list[_Item]:
    """Join the items whose filters agree on everything but this attribute."""
    groups: dict[object, dict[object, list[_Item]]] = {}
    for item in items:
        remainder = tuple(constraint for constraint in item.filter.constraints if constraint.attribute != name)
        conditions = tuple(
            constraint
            for constraint in item.filter.constraints
            if constraint.attribute == name and not isinstance(constraint, Values)
        )
        groups.setdefault((item.expires, remainder), {}).setdefault(conditions, []).append(item)
    result: list[_Item] = []
    for by_conditions in groups.values():
        united = [joined for alternatives in by_conditions.values() for joined in _united(name, alternatives, schema)]
        different = len(by_conditions) > 1 and len(united) <= MAX_PAIRWISE
        result += _joined_pairwise(united, schema) if different else united
    return result


def _united(name: str, items: Sequence[_Item], schema: Schema) -> list[_Item]:
    """Join items that differ in the values of one attribute only, into as few as can be written."""
    if len(items) == 1:
        return list(items)
    first = items[0].filter
    allowed = ValueSet.any_of([item.filter.allowed(name) for item in items])
    others = tuple(
        constraint
        for constraint in first.constraints
        if not (isinstance(constraint, Values) and constraint.attribute == name)
    )
    joined = filter_of((*others, Values(name, allowed)))
    assert joined is not None  # each of the items could hold
    if is_writable(joined, schema):
        return [_Item(_ids(items), joined, items[0].expires)]
    half = len(items) // 2
    return [*_united(name, items[:half], schema), *_united(name, items[half:], schema)]


def _joined_pairwise(items: Sequence[_Item], schema: Schema) -> list[_Item]:
    done: list[_Item] = []
    waiting = list(reversed(items))
    while waiting:
        item = waiting.pop()
        for position, other in enumerate(done):
            union = join_filters(other.filter, item.filter)
            if union is not None and is_writable(union, schema):
                del done[position]
                waiting.append(_Item(_ids((other, item)), union, item.expires))
                break
        else:
            done.append(item)
    return done


def _ids(items: Sequence[_Item]) -> tuple[SubscriptionId, ...]:
    return tuple(sorted((id for item in items for id in item.ids), key=id_order))
