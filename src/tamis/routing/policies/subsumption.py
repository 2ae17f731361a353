"""Subsumption: what several announced filters cover together is not announced.

The proof is exact and under a budget; where the budget ends the subscription is announced (promise S19). When one
of the filters of a proof is removed, everything that it helped to withhold is checked again (promise R9); the summary
keeps the records for that.

Implements: [mics] section 3.7, subsumption.
Deviation: exact on raw values; the paper's ranges of cells are exact for the cells only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real

from tamis.index.dominance.batches import Questions
from tamis.index.protocols import CoveringIndex
from tamis.model.subscription import Subscription, Values
from tamis.model.value_set import Cut
from tamis.reduction.subsume import find_union
from tamis.routing.core.summary import Wanted
from tamis.routing.policies.covering import PIECES, Covering

__all__ = ["Subsumption"]

#: Pieces that one question may fall into; such a proof takes a few milliseconds at most.
BUDGET = 500
#: Groups that may have events in common with the question; with more of them the question is not asked.
MAX_GROUPS = 100

#: ``{attribute: (low, high)}``.
Bounds = dict[str, tuple[float, float]]


class Subsumption(Covering):
    """A home is one group that covers, or several that do so together."""

    def __init__(
        self,
        make_index: Callable[[], CoveringIndex],
        few: int = 0,
        pieces: int = PIECES,
        budget: int = BUDGET,
        near: int = MAX_GROUPS,
    ) -> None:
        super().__init__(make_index, few, pieces)
        self._budget, self._near = budget, near
        #: ``{key: bounds}`` of the groups: those that lie elsewhere cannot help to cover.
        self._places: dict[str, Bounds] = {}

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        super().opened(content)
        self._places[str(content.id)] = _bounds(content)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: several groups may stand for each of them."""

    def closed(self, content: Wanted) -> None:
        """Take note that a group has ended."""
        super().closed(content)
        del self._places[str(content.id)]

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups whose union covers, one if one is enough."""
        found = super().find_homes(subscription)
        if found is not None:
            return found
        asked = {name for filter in subscription.filters for name in filter.attributes}
        place = _bounds(subscription)
        near = [
            (key, one)
            for key, one in self._contents.items()
            if _meet(place, self._places[key]) and _speaks_only_of(one, asked)
        ]
        if not 2 <= len(near) <= self._near:
            return None
        union = find_union(subscription.filters, near, self._budget)
        return None if union is None else tuple(map(str, union))


def _bounds(content: Subscription) -> Bounds:
    """Return the range of numbers that each attribute must lie in; of several filters nothing is said."""
    found: Bounds = {}
    for one in content.filters[0].constraints if len(content.filters) == 1 else ():
        parts = list(one.allowed.intervals()) if isinstance(one, Values) and not one.allowed.missing else []
        if parts:
            low, high = parts[0][0], parts[-1][1]
            found[one.attribute] = (_number(low, -math.inf), _number(high, math.inf))
    return found


def _number(cut: Cut | None, otherwise: float) -> float:
    return float(cut[0]) if cut is not None and isinstance(cut[0], Real) else otherwise


def _meet(one: Bounds, other: Bounds) -> bool:
    """Whether two places share a value on each attribute that both bound; rounding may err, for this only chooses."""
    return all(low <= other[name][1] and other[name][0] <= high for name, (low, high) in one.items() if name in other)


def _speaks_only_of(content: Subscription, asked: set[str]) -> bool:
    """Whether a filter of the group asks for nothing else: only such a filter can help to cover."""
    return any(asked.issuperset(filter.attributes) for filter in content.filters)
