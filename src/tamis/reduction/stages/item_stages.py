"""Reduces subscriptions that are not single boxes, one at a time, with exact tests of a few candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tamis.algebra.covers import find_difference, is_covered
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription
from tamis.reduction.merge import outlives
from tamis.reduction.stages.candidates import CandidateFinder
from tamis.reduction.stages.items import COVER_PIECES, MAX_OTHERS, Item, may_match
from tamis.reduction.story import ReductionStory

__all__ = ["ItemStages"]

_T = TypeVar("_T")
#: Items that are looked up together.
_BLOCK: Final = 1_000
#: Events that are looked for to tell an item from those that match the events before, and the budget of each.
_ROUNDS: Final = 3
_DIFFERENCE_PIECES: Final = 200


class ItemStages:
    """Runs both stages on the places of a group that are not boxes; the stages share items and indexes."""

    def __init__(
        self, subscriptions: Sequence[Subscription], places: list[int], schema: Schema, story: ReductionStory
    ) -> None:
        self._subscriptions, self._schema, self._story = subscriptions, schema, story
        twins = _equal_twins(subscriptions, places)
        for place, twin in twins.items():  # reported first: the twin may be removed later
            story.remove("equivalent", place, (twin,))
        #: The place of each row; `_scan` and the methods below use rows.
        self._places = [place for place in places if place not in twins]
        self._items = [Item(subscriptions[place], schema) for place in self._places]
        self._scan = CandidateFinder(self._items)
        self._living = dict.fromkeys(range(len(self._items)))

    def tell_undecided(self) -> None:
        """Report the remaining items of which a proof ran out of its budget, unless no other matches some event."""
        rows = (row for row in self._living if self._items[row].is_undecided and not self._is_refuted(row))
        self._story.undecided(self._places[row] for row in rows)

    def _is_refuted(self, row: int) -> bool:
        """Whether some tried event matches an item and no other: then the others do not cover it, even together."""
        item, matching = self._items[row], dict[int, None]()
        for event in item.witnesses:
            matched_rows = list(itertools.islice(self._scan.matching(event, row), MAX_OTHERS))
            if not matched_rows:
                return True
            matching.update(dict.fromkeys(matched_rows))
        for _ in range(_ROUNDS if item.is_of_values_and_patterns else 0):
            others = [self._items[row] for row in matching]
            filters = [filter for other in others if other.is_of_values_and_patterns for filter in other.filters]
            witness = find_difference(filters, item.filters, self._schema, _DIFFERENCE_PIECES)
            if witness is None:
                return False
            matched_rows = list(itertools.islice(self._scan.matching(witness, row), MAX_OTHERS))
            if not matched_rows:
                return True
            matching.update(dict.fromkeys(matched_rows))
        return False

    def living(self) -> list[int]:
        """Return the remaining places, ascending."""
        return [self._places[row] for row in self._living]

    def drop_covered(self, covered: dict[int, int]) -> None:
        """Drop what a single other covers, with the reason; ``covered`` maps boxes, which are not here, to a coverer.

        Of items that cover each other, the one that expires last stays, then the first id. The reported reason is the
        first id among the remaining covers.
        """
        coverer: dict[int, int] = {}
        for rows in _blocks(range(len(self._items))):
            for row, candidates in zip(rows, self._scan.may_cover([self._items[row] for row in rows]), strict=True):
                coverer_row = self._find_coverer(row, candidates)
                if coverer_row is not None:
                    coverer[row] = coverer_row
                    self._remove(row)
        removed = [(place, Item(self._subscriptions[place], self._schema), other) for place, other in covered.items()]
        removed += (
            (self._places[row], self._items[row], self._places[coverer_row]) for row, coverer_row in coverer.items()
        )
        for block in _blocks(removed):
            candidates_of = self._scan.may_cover([item for _, item, _ in block])
            for (place, item, other), candidates in zip(block, candidates_of, strict=True):
                self._tell(place, item, candidates, other)

    def drop_subsumed(self, progress: Callable[[str, int, int], None] | None) -> None:
        """Drop what the others cover together, beginning with the last ids, so that the first ones tend to stay."""
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
        item = self._items[row]
        for candidate, is_sure in candidates:
            other = self._items[candidate]
            if candidate == row or candidate not in self._living or not _covers(other, item, is_sure):
                continue
            may_stay = row < candidate and outlives(item.subscription, other.subscription)
            if may_stay and is_covered(other.filters, item.filters, COVER_PIECES):
                continue  # the first of two equivalents stays; the other falls when its turn comes
            return candidate
        return None

    def _tell(self, place: int, item: Item, candidates: Sequence[tuple[int, bool]], otherwise: int) -> None:
        """Report the first remaining cover, and whether both are equivalent; ``otherwise`` covers, but may go."""
        staying = (self._places[row] for row, is_sure in candidates if _covers(self._items[row], item, is_sure))
        by = next(staying, otherwise)
        equal = is_covered(self._subscriptions[by].filters, item.filters, COVER_PIECES)
        self._story.remove("equivalent" if equal else "covered", place, (by,))

    def _helpers(self, row: int) -> list[int]:
        """Return rows to try, those that match a witness of the item first; none if no row matches a witness."""
        best: dict[int, None] = {}
        for event in self._items[row].witnesses:
            matching = list(itertools.islice(self._scan.matching(event, row), MAX_OTHERS))
            if not matching:
                return []
            best.update(dict.fromkeys(matching))
        rows = self._scan.may_help(row, self._items[row])
        for event in self._items[row].guesses:
            if not any(may_match(event, self._items[helper].filters) for helper in rows):
                return []
        return [*best, *(helper for helper in rows if helper not in best)]


def _covers(other: Item, item: Item, is_sure: bool) -> bool:
    """Whether an item covers another and expires no earlier; ``is_sure`` means that the cover is already proved."""
    return outlives(other.subscription, item.subscription) if is_sure else item.is_covered_by(other)


def _blocks(sequence: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the sequence in blocks that are looked up together."""
    return (sequence[at : at + _BLOCK] for at in range(0, len(sequence), _BLOCK))


def _equal_twins(subscriptions: Sequence[Subscription], places: list[int]) -> dict[int, int]:
    """Return the places with the filters of another place that stays: the one that expires last, then the first."""
    best: dict[tuple[Filter, ...], int] = {}
    for place in places:
        current = best.get(subscriptions[place].filters)
        if current is None or not outlives(subscriptions[current], subscriptions[place]):
            best[subscriptions[place].filters] = place
    return {place: twin for place in places if (twin := best[subscriptions[place].filters]) != place}
