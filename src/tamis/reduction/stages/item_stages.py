"""Reducing subscriptions that are not single boxes: one after the other, exact questions to few candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tamis.algebra.covers import is_covered
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription
from tamis.reduction.merge import outlives
from tamis.reduction.stages.candidates import Candidates
from tamis.reduction.stages.items import COVER_PIECES, MAX_OTHERS, Item, may_match
from tamis.reduction.story import Story

__all__ = ["ItemStages"]

_T = TypeVar("_T")
#: Items that are asked about at once.
_BLOCK: Final = 1_000


class ItemStages:
    """Some places of a set on their way through both stages, which share the items and the indexes over them."""

    def __init__(self, subscriptions: Sequence[Subscription], places: list[int], schema: Schema, story: Story) -> None:
        self._subscriptions, self._schema, self._story = subscriptions, schema, story
        twins = _equal_twins(subscriptions, places)
        for place, twin in twins.items():  # told first: the twin may go yet
            story.remove("equivalent", place, (twin,))
        #: Places by row; rows are what `_scan` and the methods below speak of.
        self._places = [place for place in places if place not in twins]
        self._items = [Item(subscriptions[place], schema) for place in self._places]
        self._scan = Candidates(self._items)
        self._living = dict.fromkeys(range(len(self._items)))

    def living(self) -> list[int]:
        """Return the places that are left, ascending."""
        return [self._places[row] for row in self._living]

    def drop_covered(self, covered: dict[int, int]) -> None:
        """Drop what a single other covers, and tell why; ``covered`` are boxes that are not here, each with a coverer.

        Of those that cover each other the longest lived stays, then the first id. The reason told is the first id
        among those that stay and cover.
        """
        coverer: dict[int, int] = {}
        for rows in _blocks(range(len(self._items))):
            for row, candidates in zip(rows, self._scan.may_cover([self._items[row] for row in rows]), strict=True):
                found = self._find_coverer(row, candidates)
                if found is not None:
                    coverer[row] = found
                    self._remove(row)
        gone = [(place, Item(self._subscriptions[place], self._schema), other) for place, other in covered.items()]
        gone += ((self._places[row], self._items[row], self._places[found]) for row, found in coverer.items())
        for block in _blocks(gone):
            candidates_of = self._scan.may_cover([item for _, item, _ in block])
            for (place, item, other), candidates in zip(block, candidates_of, strict=True):
                self._tell(place, item, candidates, other)

    def drop_subsumed(self, progress: Callable[[str, int, int], None] | None) -> None:
        """Drop what the others cover together, the last ids first, so that the first ones tend to stay."""
        if all(self._items[row].is_conditions_only for row in self._living):
            return
        place_of = {item.id: place for item, place in zip(self._items, self._places, strict=True)}
        rows = list(self._living)
        for done, row in enumerate(reversed(rows)):
            union = self._items[row].find_union(self._items[helper] for helper in self._helpers(row))
            if union is not None:
                self._story.remove("subsumed", self._places[row], tuple(sorted(place_of[id] for id in union)))
                self._remove(row)
            if progress is not None and done % 100 == 0:
                progress("subsume", done, len(rows))

    def _remove(self, row: int) -> None:
        self._scan.remove(row)
        del self._living[row]

    def _find_coverer(self, row: int, candidates: Sequence[tuple[int, bool]]) -> int | None:
        one = self._items[row]
        for candidate, is_sure in candidates:
            other = self._items[candidate]
            if candidate == row or candidate not in self._living or not _covers(other, one, is_sure):
                continue
            may_stay = row < candidate and outlives(one.subscription, other.subscription)
            if may_stay and is_covered(other.filters, one.filters, COVER_PIECES):
                continue  # the first of two equivalents stays; the other falls when its turn comes
            return candidate
        return None

    def _tell(self, place: int, one: Item, candidates: Sequence[tuple[int, bool]], otherwise: int) -> None:
        """Tell the first that stays and covers, and whether both are equivalent; ``otherwise`` covers, but may go."""
        staying = (self._places[row] for row, is_sure in candidates if _covers(self._items[row], one, is_sure))
        by = next(staying, otherwise)
        equal = is_covered(self._subscriptions[by].filters, one.filters, COVER_PIECES)
        self._story.remove("equivalent" if equal else "covered", place, (by,))

    def _helpers(self, row: int) -> list[int]:
        """Return rows worth trying, those that match a witness of the item first; none if no row matches one."""
        best: dict[int, None] = {}
        for event in self._items[row].witnesses:
            some = list(itertools.islice(self._scan.matching(event, row), MAX_OTHERS))
            if not some:
                return []
            best.update(dict.fromkeys(some))
        rows = self._scan.may_help(row, self._items[row])
        for event in self._items[row].guesses:
            if not any(may_match(event, self._items[place].filters) for place in rows):
                return []
        return [*best, *(place for place in rows if place not in best)]


def _covers(other: Item, one: Item, is_sure: bool) -> bool:
    """Whether an item covers another and lives as long; ``is_sure``: that it covers is known."""
    return outlives(other.subscription, one.subscription) if is_sure else one.is_covered_by(other)


def _blocks(some: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield parts of what is asked about at once."""
    return (some[at : at + _BLOCK] for at in range(0, len(some), _BLOCK))


def _equal_twins(subscriptions: Sequence[Subscription], places: list[int]) -> dict[int, int]:
    """Return who has the same filters as another that stays: the longest lived, then the first."""
    best: dict[tuple[Filter, ...], int] = {}
    for place in places:
        known = best.get(subscriptions[place].filters)
        if known is None or not outlives(subscriptions[known], subscriptions[place]):
            best[subscriptions[place].filters] = place
    return {place: twin for place in places if (twin := best[subscriptions[place].filters]) != place}
