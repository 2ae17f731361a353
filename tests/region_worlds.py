"""Random regions for tests: made of grid cells, with slanted edges between grid points, and anywhere; points.

Regions on a small grid touch, nest, share edges and equal each other all the time, which is where relations go
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from tamis.model import shapes
from tamis.model.values import UnfitError

SIDE = 6

Cells = npt.NDArray[np.bool_]
Rng = np.random.Generator


def box(rng: Rng) -> Cells:
    cells = np.zeros((SIDE, SIDE), dtype=bool)
    (top, bottom), (left, right) = (np.sort(rng.choice(SIDE + 1, 2, replace=False)) for _ in range(2))
    cells[top:bottom, left:right] = True
    return cells


def notched(rng: Rng) -> Cells:
    return box(rng) & ~box(rng)


def joined(rng: Rng) -> Cells:
    return box(rng) | box(rng)


def grown(rng: Rng) -> Cells:
    """Grow a region cell by cell from a seed: arms, bays and spikes."""
    cells = np.zeros((SIDE, SIDE), dtype=bool)
    cells[tuple(rng.integers(SIDE, size=2))] = True
    for _ in range(rng.integers(2, 14)):
        beside = np.zeros_like(cells)
        beside[1:] |= cells[:-1]
        beside[:-1] |= cells[1:]
        beside[:, 1:] |= cells[:, :-1]
        beside[:, :-1] |= cells[:, 1:]
        cells[tuple(rng.choice(np.argwhere(beside & ~cells)))] = True
    return cells


def speck(rng: Rng) -> Cells:
    """Return a single cell, mostly: small enough to lie inside others."""
    cells = np.zeros((SIDE, SIDE), dtype=bool)
    row, column = rng.integers(SIDE, size=2)
    cells[row : row + rng.integers(1, 3), column] = True
    return cells


def outline(cells: Cells) -> shapely.Polygon | None:
    """Return the polygon around cells; None when it has holes, falls apart or touches itself."""
    squares = [shapely.box(x, y, x + 1, y + 1) for x, y in np.argwhere(cells).tolist()]
    try:
        return shapes.polygon(shapely.union_all(squares))
    except UnfitError:
        return None


def cell_regions(rng: Rng, n: int) -> tuple[Cells, npt.NDArray[Any]]:
    """Return regions of grid cells, and the polygons around them."""
    drawn: list[tuple[Cells, shapely.Polygon]] = []
    kinds: Sequence[Callable[[Rng], Cells]] = (box, notched, joined, grown, speck)
    while len(drawn) < n:
        cells = kinds[len(drawn) % len(kinds)](rng)
        polygon = outline(cells)
        if polygon is not None:
            drawn.append((cells, polygon))
    return np.array([cells for cells, _ in drawn]), np.array([polygon for _, polygon in drawn])


def slanted(rng: Rng) -> shapely.Geometry:
    """Return a polygon of three to seven grid points, in order around their middle."""
    places = rng.choice((SIDE + 1) ** 2, rng.integers(3, 8), replace=False)
    corners = np.column_stack(np.divmod(places, SIDE + 1))
    offsets = corners - corners.mean(axis=0)
    return shapely.Polygon(corners[np.argsort(np.arctan2(offsets[:, 1], offsets[:, 0]))])


def free(rng: Rng) -> shapely.Geometry:
    """Return a star with corners anywhere."""
    turns = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 12)))
    radii = rng.uniform(0.2, 3, len(turns))[:, None]
    return shapely.Polygon(rng.uniform(0, SIDE, 2) + radii * np.column_stack([np.cos(turns), np.sin(turns)]))


def mixed_regions(rng: Rng, n: int) -> npt.NDArray[Any]:
    kinds: Sequence[Callable[[Rng], shapely.Geometry | None]] = (slanted, free, lambda rng: outline(grown(rng)))
    drawn: list[shapely.Polygon] = []
    while len(drawn) < n:
        polygon = kinds[len(drawn) % len(kinds)](rng)
        if polygon is not None and polygon.is_valid:
            drawn.append(polygon)
    return np.array(drawn)


def points(rng: Rng, n: int) -> npt.NDArray[Any]:
    """Return points on grid points, on edges between them, and in the middle of cells."""
    return shapely.points(rng.integers(2 * SIDE + 1, size=(n, 2)) / 2)


def rewritten(rng: Rng, polygons: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return equal polygons whose rings start elsewhere and run either way."""
    rings = [shapely.get_coordinates(polygon)[:-1] for polygon in polygons]
    turned = [np.roll(ring, rng.integers(len(ring)), axis=0)[:: rng.choice([-1, 1])] for ring in rings]
    return np.array([shapely.Polygon(ring) for ring in turned])
