"""Reducing subscriptions that are not single boxes: one after the other, exact questions to few candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tamis.algebra.covers import is_covered
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription
from tamis.reduction.candidates import Candidates
from tamis.reduction.items import COVER_PIECES, MAX_OTHERS, Item, may_match
from tamis.reduction.merge import outlives
from tamis.reduction.story import Story

__all__ = ["drop_covered", "drop_subsumed"]


def drop_covered(
    subscriptions: Sequence[Subscription], places: list[int], covered: list[int], schema: Schema, story: Story
) -> list[int]:
    """Tell who is covered, and return the places that go; ``covered`` are known to be and were left out before.

    Of those that cover each other the longest lived stays, then the first id. The reason is the first id among
    those that stay and cover.
    """
    twins = _equal_twins(subscriptions, places)
    for place, twin in twins.items():  # told first: the twin may go yet
        story.remove("equivalent", place, (twin,))
    distinct = [place for place in places if place not in twins]
    items = [Item(subscriptions[place], schema) for place in distinct]
    scan = Candidates(items)
    coverer: dict[int, int] = {}
    for row, one in enumerate(items):
        found = _find_coverer(row, one, items, scan)
        if found is not None:
            coverer[row] = found
            scan.remove(row)
    for row, first_found in coverer.items():
        by, reason = _reason(row, items[row], items, scan, first_found)
        story.remove(reason, distinct[row], (distinct[by],))
    for place in covered:
        known = Item(subscriptions[place], schema)
        items.append(known)
        by, reason = _reason(len(items) - 1, known, items, scan, None)
        story.remove(reason, place, (distinct[by],))
    return [*twins, *(distinct[row] for row in coverer)]


def _equal_twins(subscriptions: Sequence[Subscription], places: list[int]) -> dict[int, int]:
    """Return who has the same filters as another that stays: the longest lived, then the first."""
    best: dict[tuple[Filter, ...], int] = {}
    for place in places:
        known = best.get(subscriptions[place].filters)
        if known is None or not outlives(subscriptions[known], subscriptions[place]):
            best[subscriptions[place].filters] = place
    return {place: twin for place in places if (twin := best[subscriptions[place].filters]) != place}


def _find_coverer(row: int, one: Item, items: Sequence[Item], scan: Candidates) -> int | None:
    for candidate in scan.may_cover(row):
        other = items[candidate]
        if not one.is_covered_by(other):
            continue
        mutual = is_covered(other.filters, one.filters, COVER_PIECES)
        if mutual and row < candidate and outlives(one.subscription, other.subscription):
            continue  # the first of two equivalents stays; the other falls when its turn comes
        return candidate
    return None


def _reason(row: int, one: Item, items: Sequence[Item], scan: Candidates, otherwise: int | None) -> tuple[int, str]:
    """Return the first that stays and covers, and whether the two are equivalent."""
    found = (candidate for candidate in scan.may_cover(row) if one.is_covered_by(items[candidate]))
    by = next(found, otherwise)
    assert by is not None  # a box that another box covers finds one that stays
    return by, "equivalent" if is_covered(items[by].filters, one.filters, COVER_PIECES) else "covered"


def drop_subsumed(
    subscriptions: Sequence[Subscription],
    places: list[int],
    schema: Schema,
    story: Story,
    progress: Callable[[str, int, int], None] | None,
) -> list[int]:
    """Tell what the others cover together, the last ids first, so that the first ones tend to stay."""
    items = [Item(subscriptions[place], schema) for place in places]
    scan = Candidates(items)
    place_of = {item.subscription.id: place for item, place in zip(items, places, strict=True)}
    gone = []
    for row in reversed(range(len(items))):
        union = items[row].find_union(items[helper] for helper in _helpers(row, items, scan))
        if union is not None:
            story.remove("subsumed", places[row], tuple(sorted(place_of[id] for id in union)))
            gone.append(places[row])
            scan.remove(row)
        if progress is not None and row % 100 == 0:
            progress("subsume", len(items) - row, len(items))
    return gone


def _helpers(row: int, items: Sequence[Item], scan: Candidates) -> list[int]:
    """Return rows worth trying, those that match a sample of the item first; none if no row matches one."""
    best: dict[int, None] = {}
    for event in items[row].witnesses:
        some = list(itertools.islice(scan.matching(event, row), MAX_OTHERS))
        if not some:
            return []
        best.update(dict.fromkeys(some))
    rows = scan.may_help(row)
    for event in items[row].guesses:
        if not any(may_match(event, items[place].filters) for place in rows):
            return []
    return [*best, *(place for place in rows if place not in best)]
