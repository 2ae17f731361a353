"""A corner index for components: finds the boxes that may cover a component, and those that it may cover."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.corners import CornerIndex
from tamis.index.dominance.outline import AxisName, Side
from tamis.index.dominance.patterns.literal_axes import LiteralAxes
from tamis.index.dominance.sides import asked_sides, fits_of, stretched, texts_of
from tamis.index.dominance.space import DominanceSpace, Fit
from tamis.index.dominance.splitting.components import Component
from tamis.index.protocols import NO_ROWS, Rows

__all__ = ["Proposals", "ProposingTree"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]
_BoolArray = npt.NDArray[np.bool_]
#: Returns for pairs of a component in question and a stored box whether a tie of their ends counts.
TieCounts = Callable[[_IntArray, Rows], _BoolArray]


class Proposals(NamedTuple):
    """Pairs of a component in question and a stored box; ``sure``: the boxes alone decide the pair."""

    question: _IntArray
    stored: Rows
    sure: _BoolArray


class ProposingTree:
    """Boxes of components. Proposals miss no cover and nothing that is covered."""

    def __init__(self, space: DominanceSpace) -> None:
        self.space = space
        self.tree = CornerIndex(1)
        #: Sets of relations that stored conditions have, by attribute.
        self.classes: dict[str, set[int]] = {}
        #: Literals of stored patterns.
        self.literals = LiteralAxes()

    def __len__(self) -> int:
        return len(self.tree)

    def add(self, lo: _FloatArray, hi: _FloatArray, numbers: Rows) -> None:
        """Add boxes on the axes of the space; then merge segments if there are many."""
        self.grow()
        self.tree.add_boxes(lo, hi, numbers)
        plan = self.tree.plan_merge() if self.tree.wants_merge() else None
        if plan is not None:  # each box is rewritten a few times in all
            plan.run()
            self.tree.install(plan)

    def grow(self) -> None:
        """Add the new axes of the space to the tree."""
        if len(self.space) > self.tree.n_axes:
            self.tree.grow(len(self.space))

    def find_around(self, components: Sequence[Component], tie_counts: TieCounts) -> Proposals:
        """Return the boxes that may cover each component."""
        sides = [asked_sides(component, self.space, self.classes) for component in components]
        question, stored = self._match(sides, components, np.arange(len(components)))
        sure = tie_counts(question, stored)
        if not sure.all():
            open_ones = np.unique(question[~sure])
            strict = [stretched(sides[k], components[k], 1.0) for k in open_ones.tolist()]
            beyond = self._match(strict, [components[k] for k in open_ones.tolist()], open_ones)
            sure |= _are_among((question, stored), beyond)
        return Proposals(question, stored, sure)

    def find_inside(self, components: Sequence[Component], tie_counts: TieCounts) -> Proposals:
        """Return the boxes that each component may cover."""
        question, stored = self._fit(components, strict=False)
        sure = tie_counts(question, stored)
        if not sure.all():
            sure |= _are_among((question, stored), self._fit(components, strict=True))
        return Proposals(question, stored, sure)

    def find_fitting(self, options: Sequence[_FloatArray]) -> tuple[_IntArray, Rows]:
        """Return pairs of a question and a stored box that fits one of its options, float64[4, n, axes], each once."""
        self.grow()
        keys_of_options = []
        for option in options:
            offsets, stored = self.tree.find_fitting(*option)
            keys_of_options.append(np.repeat(np.arange(option.shape[1]), np.diff(offsets)) << 32 | stored)
        keys = keys_of_options[0] if len(keys_of_options) == 1 else np.unique(np.concatenate(keys_of_options))
        return keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)

    def fitting_among(self, component: Component, numbers: Rows) -> Rows:
        """Return which of the stored boxes ``numbers`` a component may cover, by testing each."""
        options = fits_of(component, self.space, self.classes, strict=False)
        sides = [
            {self.space.axis_of[place]: fit for place, fit in option.items() if place[1] != "="} for option in options
        ]
        kept = []
        for number in numbers.tolist():
            box = self.tree.find_box(number)
            if box is not None and any(_fits(fits, box) for fits in sides):
                kept.append(number)
        return np.array(kept, np.int32)

    def _match(
        self, sides: Sequence[dict[AxisName, Side]], components: Sequence[Component], numbers: _IntArray
    ) -> tuple[_IntArray, Rows]:
        self.grow()
        owner: list[int] = []
        corners: list[_FloatArray] = []
        for number, box, component in zip(numbers.tolist(), sides, components, strict=True):
            for literals in self.literals.coverer_sides(component):
                owner.append(number)
                corners.append(self.space.asked_sides(box | literals, texts_of(component)))
        if len(corners) == 1:
            stored = self.tree.find_coverers(*corners[0])
            return np.full(len(stored), numbers[0]), stored
        lo, hi = (np.array([corner[side] for corner in corners]) for side in (0, 1))
        offsets, stored = self.tree.match_points(hi, lo)
        question = np.repeat(np.array(owner, np.int64), np.diff(offsets))
        return _once(question, stored) if len(corners) > len(components) else (question, stored)

    def _fit(self, components: Sequence[Component], *, strict: bool) -> tuple[_IntArray, Rows]:
        """Return pairs of a component and a stored box that fits one of its boxes, each once."""
        self.grow()
        owner: list[int] = []
        boxes: list[_FloatArray] = []
        for k, component in enumerate(components):
            for fits in fits_of(component, self.space, self.classes, strict):
                owner.append(k)
                boxes.append(self.space.fitting(fits, component.texts))
        if not boxes:
            return np.zeros(0, np.int64), NO_ROWS
        offsets, stored = self.tree.find_fitting(*np.array(boxes).transpose(1, 0, 2))
        question = np.repeat(np.array(owner, np.int64), np.diff(offsets))
        return _once(question, stored) if len(boxes) > len(set(owner)) else (question, stored)


def _fits(fits: Mapping[int, Fit], box: tuple[Sequence[int], Sequence[float], Sequence[float]]) -> bool:
    """Whether a stored box fits sides that are known by axis."""
    ends = {axis: (low, high) for axis, low, high in zip(*box, strict=True)}
    for axis, fit in fits.items():
        low, high = ends.get(axis, (-math.inf, math.inf))
        if not (low <= fit.most_low and high >= fit.least_high):
            return False
        if low < fit.lo or high > fit.hi:
            return False
    return True


def _once(question: _IntArray, stored: Rows) -> tuple[_IntArray, Rows]:
    """Return pairs, each once."""
    keys = np.unique(question << 32 | stored)
    return keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)


def _are_among(pairs: tuple[_IntArray, Rows], others: tuple[_IntArray, Rows]) -> _BoolArray:
    """Return which pairs are among others."""
    return np.isin(pairs[0] << 32 | pairs[1], others[0] << 32 | others[1])
