"""Subscriptions of every kind of condition, to measure covering with.

============== ======================================================================================
intersects     ``S_INTERSECTS`` a hexagon, up to a fiftieth of the world wide
within         ``S_WITHIN`` such a hexagon
disjoint       ``S_DISJOINT`` such a hexagon
region+range   ``S_INTERSECTS`` and a range, which is up to all of its attribute wide
in+range       one of two names out of a thousand, and a range
or             one of two rectangles
open           a name, an open end and a range
ball+range     a ball of four dimensions and a range
like+range     a pattern of two words, and a range
in+region      one of two names out of a thousand, and ``S_INTERSECTS`` a hexagon
or+region      ``S_INTERSECTS`` a hexagon and a range, or a rectangle far away
============== ======================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.subscription import Ball, Filter, Like, Relation, Spatial, Subscription, Values
from tamis.model.value_set import ValueSet

__all__ = ["CONDITIONS", "make_conditions"]

_FloatArray = npt.NDArray[np.float64]

_WITHIN: Final = frozenset({Relation.INSIDE, Relation.COVERED_BY, Relation.EQUALS})
_APART: Final = frozenset({Relation.DISJOINT})
_MEETING: Final = ALL_RELATIONS - _APART
_SIDES, _NAMES = 6, 1_000


class _Draws:
    """Numbers for n subscriptions."""

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng([seed, n])
        self.x, self.y, self.width = rng.random(n), rng.random(n), rng.random((2, n))
        self.names = rng.integers(0, _NAMES, (n, 2))
        self.centres = rng.random((n, 4))
        turn = (np.arange(_SIDES) + 0.8 * rng.random((n, _SIDES))) / _SIDES * 2 * np.pi
        radius = 0.01 * rng.random((n, 1))
        ring = np.stack((self.x[:, None] + radius * np.cos(turn), self.y[:, None] + radius * np.sin(turn)), axis=-1)
        self._rings = np.concatenate((ring, ring[:, :1]), axis=1)

    def regions(self) -> npt.NDArray[Any]:
        """Return hexagons."""
        polygons: npt.NDArray[Any] = shapely.polygons(self._rings)
        return polygons


def _between(name: str, middle: float, width: float) -> Values:
    return Values(name, ValueSet(((float(middle - width / 2), 0), (float(middle + width / 2), 1))))


def _names(*names: object) -> Values:
    texts = sorted({f"n{name}" for name in names})
    return Values("name", ValueSet.from_intervals(((text, 0), (f"{text}\0", 0)) for text in texts))


def _regions(relations: frozenset[Relation], *, ranges: bool = False) -> Callable[[_Draws], list[tuple[Filter, ...]]]:
    def draw(draws: _Draws) -> list[tuple[Filter, ...]]:
        spatial = [Spatial("area", relations, region) for region in draws.regions()]
        if not ranges:
            return [(Filter((condition,)),) for condition in spatial]
        width = draws.width[0]
        return [(Filter((condition, _between("x", 0.5, width[i]))),) for i, condition in enumerate(spatial)]

    return draw


def _sets(draws: _Draws) -> list[tuple[Filter, ...]]:
    sides = zip(draws.names.tolist(), draws.x, draws.width[0], strict=True)
    return [(Filter((_names(*names), _between("x", x, 0.05 * width))),) for names, x, width in sides]


def _alternatives(draws: _Draws) -> list[tuple[Filter, ...]]:
    return [
        tuple(Filter((_between("x", x + far, 0.05 * w), _between("y", y, 0.1 * v))) for far in (0, 2))
        for x, y, w, v in zip(draws.x, draws.y, *draws.width, strict=True)
    ]


def _open_ends(draws: _Draws) -> list[tuple[Filter, ...]]:
    return [
        (Filter((_names(name), Values("x", ValueSet(((float(x), 0),), from_below=True)), _between("y", y, 0.1 * w))),)
        for (name, _), x, y, w in zip(draws.names.tolist(), draws.x, draws.y, draws.width[0], strict=True)
    ]


def _balls(draws: _Draws) -> list[tuple[Filter, ...]]:
    return [
        (Filter((Ball("look", tuple(centre), 0.3 * float(w)), _between("x", 0.5, v))),)
        for centre, w, v in zip(draws.centres.tolist(), *draws.width, strict=True)
    ]


def _patterns(draws: _Draws) -> list[tuple[Filter, ...]]:
    return [
        (Filter((Like("name", f"%w{a}%z{b % 7}%"), _between("x", x, 0.05 * w))),)
        for (a, b), x, w in zip(draws.names.tolist(), draws.x, draws.width[0], strict=True)
    ]


def _sets_and_regions(draws: _Draws) -> list[tuple[Filter, ...]]:
    regions = zip(draws.names.tolist(), draws.regions(), strict=True)
    return [(Filter((Spatial("area", _MEETING, region), _names(*names))),) for names, region in regions]


def _regions_or_ranges(draws: _Draws) -> list[tuple[Filter, ...]]:
    return [
        (
            Filter((Spatial("area", _MEETING, region), _between("x", 0.5, w))),
            Filter((_between("x", x + 2, 0.05 * w), _between("y", y, 0.1 * v))),
        )
        for region, x, y, w, v in zip(draws.regions(), draws.x, draws.y, *draws.width, strict=True)
    ]


#: How the filters of each kind are drawn.
CONDITIONS: Final[dict[str, Callable[[_Draws], list[tuple[Filter, ...]]]]] = {
    "intersects": _regions(_MEETING),
    "within": _regions(_WITHIN),
    "disjoint": _regions(_APART),
    "region+range": _regions(_MEETING, ranges=True),
    "in+range": _sets,
    "or": _alternatives,
    "open": _open_ends,
    "ball+range": _balls,
    "like+range": _patterns,
    "in+region": _sets_and_regions,
    "or+region": _regions_or_ranges,
}


def make_conditions(kind: str, n: int, seed: int = 1) -> list[Subscription]:
    """Draw n subscriptions of a kind; the same arguments give the same ones.

    >>> [len(one.filters) for one in make_conditions("or", 2)]
    [2, 2]
    """
    return [Subscription(i, filters) for i, filters in enumerate(CONDITIONS[kind](_Draws(n, seed)))]
