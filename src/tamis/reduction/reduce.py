"""Reducing a set of subscriptions to what has to be carried so that no event is missed.

The stages, each of which leaves the union of what remains unchanged:

1. simplify each subscription; drop those that can never match (*impossible*);
2. of those that match the same events one stays (*equivalent*);
3. drop each that a single other covers (*covered*);
4. drop each that several others cover together (*subsumed*), under a budget;
5. join those that have a perfect merge (*merged*).

Items are removed one after the other, and each is compared only with what is still there, so no two can
vouch for each other. An item is removed only for items of the same namespace that live at least as long.
Everything runs in the order of the ids (whole numbers, then strings), so the result does not depend on
the order of the input. Reducing shrinks what a *link* has to carry; deliveries still go to everybody.

Implements: [crtree] section 4.2 rules 1 to 3 over a set of subscriptions; [mics] sections 3.6 and 3.7.
Deviation: sequential (PAPERS S.3.6), exact on raw values, merges are perfect.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tamis.algebra.covers import is_covered
from tamis.algebra.simplify import simplify_filters
from tamis.algebra.sources import Source, as_subscriptions
from tamis.errors import DuplicateSubscriptionError, ModelError, shorten
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription, SubscriptionId, id_order
from tamis.model.tables import SubscriptionTable, checked_id
from tamis.reduction.box_scan import BoxScan, Candidates
from tamis.reduction.items import COVER_PIECES, MAX_OTHERS, Item, may_match
from tamis.reduction.merge import outlives
from tamis.reduction.perfect_merges import perfect_merges
from tamis.reduction.report import Reduction
from tamis.reduction.story import Story

__all__ = ["reduce"]


def reduce(
    subscriptions: Mapping[SubscriptionId, Source] | Iterable[Subscription] | SubscriptionTable,
    schema: Schema | None = None,
    *,
    merge: bool = True,
) -> Reduction:
    """Return which subscriptions remain, and why the others need not be carried.

    ``subscriptions`` maps ids to CQL2 text, CQL2-JSON or compiled subscriptions, or lists compiled ones, or is a
    table of boxes or texts (a row without an id is called by its number, or by a free one if that is taken).

    Examples
    --------
    >>> result = reduce({"a": "x < 9", "b": "x < 5", "c": "9 > x", "d": "x < 1 AND x > 2", "e": "y = 1", "f": "y = 2"})
    >>> result.kept, result.covered, result.equivalent, result.impossible, result.merged
    (('a',), {'b': 'a'}, {'c': 'a'}, ('d',), {'e+f': ('e', 'f')})
    """
    items, known = _items(subscriptions, schema)
    story = Story()
    alive = _possible(items, story)
    taken = {one.id for one in items}
    for namespace in sorted({one.namespace for one in alive}):
        distinct = _one_of_equals([one for one in alive if one.namespace == namespace], story)
        group = _unsubsumed(_uncovered([Item(one, known) for one in distinct], story), story)
        remaining = [one.subscription for one in group]
        story.keep(perfect_merges(remaining, taken, known) if merge else [((one.id,), one) for one in remaining])
    return story.reduction(len(items))


def _items(
    subscriptions: Mapping[SubscriptionId, Source] | Iterable[Subscription] | SubscriptionTable, schema: Schema | None
) -> tuple[list[Subscription], Schema]:
    """Compile, check that ids are unique, and sort; return them with their schema."""
    if isinstance(subscriptions, SubscriptionTable):
        found, known = _rows(subscriptions, schema)
    elif isinstance(subscriptions, Mapping):
        named = [(checked_id(id), one) for id, one in subscriptions.items()]
        compiled, known = as_subscriptions(named, schema)
        found = [replace(one, id=id) for (id, _), one in zip(named, compiled, strict=True)]
    else:
        found, known = as_subscriptions(_listed(subscriptions), schema)
    seen: set[SubscriptionId] = set()
    for one in found:
        if one.id in seen:
            raise DuplicateSubscriptionError(one.id)
        seen.add(one.id)
    return sorted(found, key=lambda one: id_order(one.id)), known


def _listed(subscriptions: Iterable[Subscription]) -> Iterator[tuple[SubscriptionId, Subscription]]:
    """Yield compiled subscriptions with their ids, or raise `ModelError` that says what is expected."""
    expected = "expected a mapping of ids to subscriptions, compiled subscriptions or a table"
    if isinstance(subscriptions, str | bytes | Subscription) or not isinstance(subscriptions, Iterable):
        raise ModelError(f"{expected}, not {type(subscriptions).__name__}")
    for one in subscriptions:
        if not isinstance(one, Subscription):
            raise ModelError(f"{expected}; {shorten(one)} has no id")
        checked_id(one.id)
        yield one.id, one


def _row_ids(table: SubscriptionTable) -> list[SubscriptionId]:
    """Return the ids of a table; a row without one is called by its number unless another is called so."""
    given = list(table.ids) if table.ids is not None else [None] * len(table)
    taken = {id for id in given if id is not None}
    ids: list[SubscriptionId] = []
    for row, id in enumerate(given):
        number = row
        while id is None and number in taken:
            number += len(table)
        ids.append(number if id is None else id)
        taken.add(ids[-1])
    return ids


def _rows(table: SubscriptionTable, schema: Schema | None) -> tuple[list[Subscription], Schema]:
    """Compile the rows of a table, each with its namespace and end."""
    ids = _row_ids(table)
    if table.texts is None:
        return as_subscriptions(((id, table.box_subscription(row, id)) for row, id in enumerate(ids)), schema)
    compiled, known = as_subscriptions(zip(ids, table.texts, strict=True), schema)
    ends = table.expires if table.expires is not None else [None] * len(table)
    return [replace(one, namespace=table.namespace(row), expires=ends[row]) for row, one in enumerate(compiled)], known


def _possible(items: list[Subscription], story: Story) -> list[Subscription]:
    alive = []
    for one in items:
        simple = replace(one, filters=simplify_filters(one.filters))
        if simple.filters:
            alive.append(simple)
        else:
            story.impossible(one.id)
    return alive


def _one_of_equals(group: list[Subscription], story: Story) -> list[Subscription]:
    """Keep one of those that are the same object after simplifying: the longest lived, then the first."""
    best: dict[tuple[Filter, ...], Subscription] = {}
    for one in group:
        known = best.get(one.filters)
        if known is None or not outlives(known, one):
            best[one.filters] = one
    for one in group:
        if best[one.filters] is not one:
            story.remove("equivalent", one.id, (best[one.filters].id,))
    return [one for one in group if best[one.filters] is one]


def _uncovered(group: list[Item], story: Story) -> list[Item]:
    scan: Candidates = BoxScan([one.subscription for one in group])
    kept = []
    for row, one in enumerate(group):
        matching = [scan.may_match(event) for event in one.samples]
        for candidate in scan.may_cover(row):
            other = group[candidate]
            if not all(candidate in some for some in matching) or not one.is_covered_by(other):
                continue
            mutual = is_covered(other.filters, one.filters, COVER_PIECES)
            if mutual and row < candidate and outlives(one.subscription, other.subscription):
                continue  # the first of two equivalents stays; the other falls when its turn comes
            story.remove("equivalent" if mutual else "covered", one.id, (other.id,))
            scan.remove(row)
            break
        else:
            kept.append(one)
    return kept


def _unsubsumed(group: list[Item], story: Story) -> list[Item]:
    """Drop what the others cover together, the last ids first, so that the first ones tend to stay."""
    scan: Candidates = BoxScan([one.subscription for one in group])
    kept = []
    for row in reversed(range(len(group))):
        one = group[row]
        union = one.find_union(group[place] for place in _helpers(row, group, scan))
        if union is None:
            kept.append(one)
        else:
            story.remove("subsumed", one.id, union)
            scan.remove(row)
    return kept[::-1]


def _helpers(row: int, group: list[Item], scan: Candidates) -> list[int]:
    """Return rows worth trying, those that match a sample of the item first; none if no row matches one."""
    rows = scan.may_help(row)
    best: dict[int, None] = {}
    for event in group[row].samples:
        places = scan.may_match(event)
        matching = (place for place in rows if place in places and may_match(event, group[place].filters))
        some = list(itertools.islice(matching, MAX_OTHERS))
        if not some:
            return []
        best.update(dict.fromkeys(some))
    return [*best, *(place for place in rows if place not in best)]
