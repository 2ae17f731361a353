"""Regions to subscribe and publish: the generators of [crtree] section 5, and stars of a given size for joins.

Implements: [crtree] section 5, "Synthetic Regions", and section 5.2, the message types A, B and C.
Deviation: "ordered in such a way that the boundary has no intersecting segments" is read as: by angle around the mean
of the points. Counts the paper leaves open (points of A and C) are drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import ModelError
from tamis.model.shapes import plain_rings
from tamis.model.subscription import Filter, Relation, Spatial, Subscription

__all__ = [
    "MESSAGE_TYPES",
    "UNIVERSE",
    "constraint_filters",
    "message_regions",
    "one_filter_each",
    "predicates",
    "star_regions",
    "synthetic_regions",
]

Rng = np.random.Generator
_Corners = npt.NDArray[np.float64]

#: The width and height of the universe.
UNIVERSE: Final = (1000.0, 1000.0)

#: Points of a synthetic region, and the least share of the universe it takes.
_POINTS, _LEAST_SHARE = 20, 0.1
#: The share of the universe that the MBR of a message's region takes, at least and at most.
_SHARES: Final = (0.01, 0.25)


def synthetic_regions(n: int, rng: Rng, universe: tuple[float, float] = UNIVERSE) -> npt.NDArray[Any]:
    """Return regions of 20 points, each at least a tenth of the universe.

    Two random points span a rectangle; three or four points lie on different sides of it, the others anywhere in it.

    >>> (region,) = synthetic_regions(1, np.random.default_rng(1))
    >>> len(region.exterior.coords) - 1, region.area >= 100_000
    (20, True)
    """
    least = _LEAST_SHARE * universe[0] * universe[1]
    return _collect(n, rng, lambda: _synthetic(rng, universe), lambda region: region.area >= least)


def _synthetic(rng: Rng, universe: tuple[float, float]) -> _Corners:
    low, high = np.sort(rng.random((2, 2)) * universe, axis=0)
    sides = rng.permutation(4)[: rng.integers(3, 5)]
    points = low + rng.random((_POINTS, 2)) * (high - low)
    for i, side in enumerate(sides.tolist()):
        points[i, side % 2] = (low if side < 2 else high)[side % 2]
    return _around(points)


def message_regions(kind: str, n: int, rng: Rng, universe: tuple[float, float] = UNIVERSE) -> npt.NDArray[Any]:
    """Return ``n`` regions for messages of a type: "A" round, "B" irregular, "C" long and narrow.

    Their MBRs take 1 to 25 % of the universe and lie inside it.
    """
    if kind not in MESSAGE_TYPES:
        raise ModelError(f"there is no message type {kind!r}; choose from {', '.join(MESSAGE_TYPES)}")
    return _collect(n, rng, lambda: _placed(MESSAGE_TYPES[kind](rng), rng, universe), lambda region: True)


def _round(rng: Rng) -> _Corners:
    """Type A, a cloud: at most 10 points, nearly a circle, a square MBR."""
    n = int(rng.integers(6, 11))
    corners = _star(rng, n, 0.85, even=True)
    low, high = corners.min(axis=0), corners.max(axis=0)
    return np.asarray((corners - low) / (high - low))


def _irregular(rng: Rng) -> _Corners:
    """Type B, a herd or a fire: 30 to 50 points, bays and spikes, an MBR of any form."""
    return _star(rng, int(rng.integers(30, 51)), 0.2, even=False) * [1.0, rng.uniform(0.4, 2.5)]


def _narrow(rng: Rng) -> _Corners:
    """Type C, the path of an aircraft: at most 5 points, some thirty times as long as wide, in any direction."""
    width = rng.uniform(0.02, 0.05)
    path = np.array([[0, 0], [1, 0], [1, width], [0.5, width * 1.2], [0, width]])
    path = path if rng.random() < 0.5 else np.delete(path, 3, axis=0)
    turn = rng.uniform(0.3, np.pi / 2 - 0.3) + rng.integers(2) * np.pi / 2
    return np.asarray(path @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]))


#: How each message type is drawn, in any size.
MESSAGE_TYPES: Final[dict[str, Callable[[Rng], _Corners]]] = {"A": _round, "B": _irregular, "C": _narrow}


def star_regions(
    n: int, vertices: int, radius: float, rng: Rng, universe: tuple[float, float] = UNIVERSE
) -> npt.NDArray[Any]:
    """Return stars with ``vertices`` corners, each at most ``radius`` from a centre anywhere in the universe."""

    def star() -> _Corners:
        return rng.random(2) * universe + radius * _star(rng, vertices, 0.4, even=False)

    return _collect(n, rng, star, lambda region: True)


def _star(rng: Rng, n: int, least: float, *, even: bool) -> _Corners:
    """Return points around the origin in order, between ``least`` and 1 away, at even angles or at any."""
    turns = 2 * np.pi * (np.arange(n) + rng.random()) / n if even else np.sort(rng.random(n) * 2 * np.pi)
    return np.column_stack([np.cos(turns), np.sin(turns)]) * rng.uniform(least, 1, (n, 1))


def _placed(corners: _Corners, rng: Rng, universe: tuple[float, float]) -> _Corners:
    """Scale corners so that their MBR takes its share of the universe, and put them into it."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    share = rng.uniform(*_SHARES) * universe[0] * universe[1]
    size = (high - low) * np.sqrt(share / (high - low).prod())
    size *= min(1.0, *(np.array(universe) / size))
    return np.asarray((corners - low) / (high - low) * size + rng.random(2) * (np.array(universe) - size))


def _around(points: _Corners) -> _Corners:
    """Order points by their angle around their mean."""
    x, y = (points - points.mean(axis=0)).T
    return points[np.argsort(np.arctan2(y, x))]


def _collect(
    n: int, rng: Rng, draw: Callable[[], _Corners], accepts: Callable[[shapely.Polygon], bool]
) -> npt.NDArray[Any]:
    """Return ``n`` simple polygons that are accepted, drawn by ``draw``."""
    accepted: list[shapely.Polygon] = []
    while len(accepted) < n:
        some = np.array([shapely.Polygon(draw()) for _ in range(max(n - len(accepted), 8))], dtype=object)
        accepted += [region for region in some[plain_rings(some)[1]] if accepts(region)]
    return np.array(accepted[:n], dtype=object)


def constraint_filters(regions: npt.NDArray[Any], rng: Rng, per_filter: int = 1) -> list[Filter]:
    """Return filters of some constraints each, one constraint per region, the operator uniform among the eight."""
    names = rng.integers(8, size=len(regions)).tolist()
    some = [
        Spatial("area", frozenset({list(Relation)[name]}), region) for name, region in zip(names, regions, strict=True)
    ]
    return [Filter(tuple(some[i : i + per_filter])) for i in range(0, len(some) - per_filter + 1, per_filter)]


def one_filter_each(filters: list[Filter]) -> list[Subscription]:
    """Return a subscription per filter: the paper's scenario 1."""
    return [Subscription(i, (filter,)) for i, filter in enumerate(filters)]


def predicates(filters: list[Filter], n: int) -> list[Subscription]:
    """Return n subscriptions that share out the filters: the paper's scenario 2."""
    return [Subscription(i, tuple(filters[i::n])) for i in range(n)]
