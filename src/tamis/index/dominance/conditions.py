"""Stores the conditions of components, and decides for many pairs which of them imply each other.

Regions are decided by a kernel, balls by arrays. Of patterns only a "no" is known here: a coverer must accept the
witness of what it covers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.region_sides import cover_table
from tamis.index.dominance.splitting.components import Component
from tamis.index.packed.deciders.regions import RegionTests
from tamis.kernels.covering.regions import decide_region_covers
from tamis.kernels.polygons.flat_rings import Rings, new_corners
from tamis.kernels.polygons.region_tests import NO, OPEN, YES, RegionColumns
from tamis.model.subscription import Ball, Like, Spatial
from tamis.model.text.patterns import meets

__all__ = ["Conditions", "Verdicts"]

Verdicts = npt.NDArray[np.int8]
_IntArray = npt.NDArray[np.int32]

#: Relative error of a distance in n dimensions is below (n + _EXTRA) * _UNIT; outside these bounds digits may be lost.
_UNIT, _EXTRA, _SAFE_LOW, _SAFE_HIGH = 2.3e-16, 12, 1e-290, 1e290


class Conditions:
    """The conditions of components 0, 1, ...; regions stand in flat arrays.

    A component whose balls cannot be compared by arrays is *hard*: there a proof decides.
    """

    def __init__(self, attributes: dict[str, int]) -> None:
        #: Numbers of attributes; shared by all objects that compare components.
        self._attributes = attributes
        self._regions = RegionTests()
        #: ``{number of a component: its ball}`` of those that have just one.
        self._balls: dict[int, Ball] = {}
        self._hard: set[int] = set()
        #: ``{number of a component: its patterns}``, and a string that satisfies them for each attribute.
        self._likes: dict[int, tuple[Like, ...]] = {}
        self._witnesses: dict[int, dict[str, str]] = {}
        self._n = 0

    @property
    def has_any(self) -> bool:
        """Whether some component has a condition."""
        return bool(self._balls or self._hard or self._likes or self._regions.axes)

    def append(self, components: Sequence[Component]) -> None:
        """Add the conditions of the next components."""
        for number, component in enumerate(components, self._n):
            if len(component.balls) == 1 and not component.balls[0].negated:
                self._balls[number] = component.balls[0]
            elif component.balls:
                self._hard.add(number)
            if component.hard:
                self._hard.add(number)
            if component.witnesses:
                self._likes[number] = tuple(test for test in component.filter.constraints if isinstance(test, Like))
                self._witnesses[number] = component.witnesses
        self._regions.append([[(self._number(test), test) for test in component.regions] for component in components])
        self._n += len(components)

    def remove(self, number: int) -> None:
        """Remove the ball and the patterns of a component."""
        self._balls.pop(number, None)
        self._likes.pop(number, None)
        self._witnesses.pop(number, None)
        self._hard.discard(number)

    def decide(self, coverers: _IntArray, others: Conditions, covered: _IntArray) -> Verdicts:
        """Return for each pair whether component ``covered[k]`` of others implies all conditions of ``coverers[k]``."""
        verdicts = np.full(len(coverers), YES, np.int8)
        outer, inner = self._test_columns(), others._test_columns()
        if len(outer.wanted):
            holds = np.empty(len(coverers), np.bool_)
            decide_region_covers(outer, coverers, inner, covered, cover_table(), holds, new_corners())
            verdicts[~holds] = NO
        if self._balls or self._hard:
            self._decide_balls(coverers, others, covered, verdicts)
        if self._likes:
            self._refuse_patterns(coverers, others, covered, verdicts)
        return verdicts

    def _refuse_patterns(self, coverers: _IntArray, others: Conditions, covered: _IntArray, verdicts: Verdicts) -> None:
        """Set NO for pairs with patterns that a witness of the other component does not satisfy."""
        for k in np.flatnonzero(verdicts != NO).tolist():
            texts = others._witnesses.get(int(covered[k]))
            for like in self._likes.get(int(coverers[k]), ()) if texts is not None else ():
                text = texts.get(like.attribute) if texts is not None else None
                if text is not None and not meets(like, text):
                    verdicts[k] = NO
                    break

    def _decide_balls(self, coverers: _IntArray, others: Conditions, covered: _IntArray, verdicts: Verdicts) -> None:
        """Change YES to NO or OPEN where a ball is not implied, or a proof is needed."""
        compared: list[int] = []
        for k in np.flatnonzero(verdicts == YES).tolist():
            coverer, other = int(coverers[k]), int(covered[k])
            outer, inner = self._balls.get(coverer), others._balls.get(other)
            if coverer in self._hard or (outer is not None and other in others._hard):
                verdicts[k] = OPEN
            elif outer is not None and (inner is None or inner.attribute != outer.attribute):
                verdicts[k] = NO
            elif outer is not None and inner is not None:
                verdicts[k] = OPEN
                if len(outer.center) == len(inner.center):
                    compared.append(k)
        if compared:
            outers = [self._balls[int(coverers[k])] for k in compared]
            inners = [others._balls[int(covered[k])] for k in compared]
            verdicts[compared] = _compare_balls(outers, inners)

    def _number(self, condition: Spatial) -> int:
        return self._attributes.setdefault(condition.attribute, len(self._attributes))

    def _test_columns(self) -> RegionColumns:
        columns = self._regions.to_arrays()
        rings = Rings(*(columns[name] for name in Rings._fields))
        return RegionColumns(columns["first"], columns["count"], columns["axis"], columns["wanted"], rings)


def _compare_balls(outers: Sequence[Ball], inners: Sequence[Ball]) -> Verdicts:
    """Return which balls lie in which, where rounding leaves no doubt (Proposition 2.1 of [projection])."""
    verdicts = np.full(len(outers), OPEN, np.int8)
    lengths = np.array([len(outer.center) for outer in outers])
    for n in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == n)
        positions = chosen.tolist()
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.array([outers[k].center for k in positions]) - np.array([inners[k].center for k in positions])
            distance = np.sqrt((apart * apart).sum(axis=1))
            bound = np.array([outers[k].radius - inners[k].radius for k in positions])
            slack = (n + _EXTRA) * _UNIT
            is_safe = (distance > _SAFE_LOW) & (distance < _SAFE_HIGH) & (bound > _SAFE_LOW) & (bound < _SAFE_HIGH)
            verdicts[chosen[is_safe & (distance * (1 + slack) < bound)]] = YES
            verdicts[chosen[(is_safe & (distance * (1 - slack) > bound)) | (bound < 0)]] = NO
    return verdicts
