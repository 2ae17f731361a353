"""Subsumption: a subscription that several announced filters cover together is not announced.

The proof is exact and has a budget; beyond it the subscription is announced (promise S19). When one of the filters of
a proof is removed, everything that it helped to withhold is checked again (promise R9); the summary keeps the records
for that.

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
from tamis.routing.policies.covering import PIECES, CoveringStrategy

__all__ = ["SubsumptionStrategy"]

#: Pieces that one subscription may be split into; such a proof takes a few milliseconds at most.
BUDGET = 500
#: Groups that may overlap the subscription; with more of them no proof is tried.
MAX_GROUPS = 100

#: ``{attribute: (low, high)}``.
Bounds = dict[str, tuple[float, float]]


class SubsumptionStrategy(CoveringStrategy):
    """A home is a group that covers a subscription, or several groups that cover it together."""

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
        #: ``{key: bounds}`` of the groups: those that do not overlap a subscription cannot help to cover it.
        self._places: dict[str, Bounds] = {}

    def opened(self, content: Subscription) -> None:
        """Note a new group."""
        super().opened(content)
        self._places[str(content.id)] = _bounds(content)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: a subscription may have several groups as its home."""

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""
        super().closed(content)
        del self._places[str(content.id)]

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups whose union covers a subscription; a single group if one is enough."""
        homes = super().find_homes(subscription)
        if homes is not None:
            return homes
        attributes = {name for filter in subscription.filters for name in filter.attributes}
        bounds = _bounds(subscription)
        near = [
            (key, content)
            for key, content in self._contents.items()
            if _meet(bounds, self._places[key]) and _uses_only(content, attributes)
        ]
        if not 2 <= len(near) <= self._near:
            return None
        union = find_union(subscription.filters, near, self._budget)
        return None if union is None else tuple(map(str, union))


def _bounds(content: Subscription) -> Bounds:
    """Return the range of numbers that each attribute must lie in; empty for several filters."""
    bounds: Bounds = {}
    for constraint in content.filters[0].constraints if len(content.filters) == 1 else ():
        parts = (
            list(constraint.allowed.intervals())
            if isinstance(constraint, Values) and not constraint.allowed.missing
            else []
        )
        if parts:
            low, high = parts[0][0], parts[-1][1]
            bounds[constraint.attribute] = (_number(low, -math.inf), _number(high, math.inf))
    return bounds


def _number(cut: Cut | None, otherwise: float) -> float:
    return float(cut[0]) if cut is not None and isinstance(cut[0], Real) else otherwise


def _meet(a: Bounds, b: Bounds) -> bool:
    """Whether two bounds overlap on each attribute that both have; rounding errors only change the candidates."""
    return all(low <= b[name][1] and b[name][0] <= high for name, (low, high) in a.items() if name in b)


def _uses_only(content: Subscription, attributes: set[str]) -> bool:
    """Whether a filter of the group constrains no other attributes: only such a filter can help to cover."""
    return any(attributes.issuperset(filter.attributes) for filter in content.filters)
