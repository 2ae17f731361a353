"""The subscriptions of one namespace during a reduction: what is left, and which of them are boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.outline import Outline, outline_of
from tamis.index.dominance.space import DominanceSpace
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, Values
from tamis.model.tables import SubscriptionTable
from tamis.reduction.stages.box_stages import ClosedBoxes

__all__ = ["Group", "boxes_of_table", "group_of"]

IntArray = npt.NDArray[np.int64]


@dataclass
class Group:
    """Places of subscriptions, ascending; ``boxes`` are those of ``plain``, the places that are one closed box each."""

    subscriptions: Sequence[Subscription]
    schema: Schema
    places: IntArray
    plain: IntArray
    boxes: ClosedBoxes
    space: DominanceSpace

    @property
    def has_special(self) -> bool:
        """Whether some subscription is not a box."""
        return len(self.places) > len(self.plain)

    def drop(self, places: Sequence[int] | IntArray) -> None:
        """Remove places from the group."""
        dropped = np.array(places, np.int64)
        self.places = np.setdiff1d(self.places, dropped, assume_unique=True)
        stays = ~np.isin(self.plain, dropped)
        if not stays.all():
            self.plain, self.boxes = self.plain[stays], self.boxes.take(np.flatnonzero(stays))

    def keep(self, places: Sequence[int]) -> None:
        """Remove all other places from the group."""
        self.drop(np.setdiff1d(self.places, np.array(places, np.int64)))

    def boxes_like(self, some: Sequence[Subscription]) -> ClosedBoxes:
        """Return the boxes of new subscriptions on the axes of the group; skips subscriptions that are not boxes."""
        outlines = [(outline_of(subscription.filters), subscription.expires) for subscription in some]
        single = [(outline, expires) for outline, expires in outlines if outline is not None and outline.single]
        boxes = _stacked(self.space, [outline for outline, _ in single])
        return _with_expiry(boxes, [expires for _, expires in single], self.boxes.lo.shape[1] > boxes.lo.shape[1])


def group_of(simple: Sequence[Subscription], places: IntArray, schema: Schema) -> Group:
    """Return the group of subscriptions that are simplified already; those without filters are left out."""
    possible = [place for place in places.tolist() if simple[place].filters]
    outlines: list[Outline] = []
    plain: list[int] = []
    for place in possible:
        filters = simple[place].filters
        is_other = len(filters) > 1 or any(type(constraint) is not Values for constraint in filters[0].constraints)
        outline = None if is_other else outline_of(filters)
        if outline is not None and outline.single:
            outlines.append(outline)
            plain.append(place)
    space = DominanceSpace()
    expires = [simple[place].expires for place in plain]
    boxes = _with_expiry(_stacked(space, outlines), expires, any(end is not None for end in expires))
    return Group(simple, schema, np.array(possible, np.int64), np.array(plain, np.int64), boxes, space)


def boxes_of_table(table: SubscriptionTable) -> tuple[ClosedBoxes, DominanceSpace]:
    """Return the boxes of a table, and the axes they are on."""
    space = DominanceSpace()
    boxes = ClosedBoxes(*space.stored_boxes(table))
    expires = table.expires
    if expires is None or all(end is None for end in expires):
        return boxes, space
    return _with_expiry(boxes, expires, True), space


def _stacked(space: DominanceSpace, outlines: Sequence[Outline]) -> ClosedBoxes:
    corners = [space.stored(outline) for outline in outlines]
    lo, hi = (np.full((len(corners), len(space)), free) for free in (-np.inf, np.inf))
    for i, (low, high) in enumerate(corners):
        lo[i, : low.size], hi[i, : high.size] = low, high
    return ClosedBoxes(lo, hi)


def _with_expiry(boxes: ClosedBoxes, expires: Sequence[int | None], wanted: bool) -> ClosedBoxes:
    """Return boxes with an axis for the expiry, from 0 to the end, so that a longer life is a wider side."""
    if not wanted:
        return boxes
    ends = np.array([np.inf if end is None else float(end) for end in expires]).reshape(-1, 1)
    return ClosedBoxes(np.hstack([boxes.lo, np.full_like(ends, -1e300)]), np.hstack([boxes.hi, ends]))
