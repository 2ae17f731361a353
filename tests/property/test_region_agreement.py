"""Random regions and relations, answered by tamis, by shapely's predicates and by sets of grid cells.

Regions on a small grid touch, nest, share edges and equal each other all the time, which is where relations
go wrong; those made of whole cells have a second oracle that knows no geometry (`naive.grid_relations`).
Others have slanted edges between grid points, or no grid at all. Points are events, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely

from tamis.engine import Engine
from tamis.index.registry import MATCHERS
from tamis.model import shapes
from tamis.model.schema import Schema
from tamis.model.types import Region
from tamis.model.values import UnfitError
from tests import naive
from tests.conftest import SEED

SIDE = 6
SCHEMA = Schema({"area": Region()})
FUNCTIONS = sorted(naive.FUNCTIONS)

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
    found: list[tuple[Cells, shapely.Polygon]] = []
    kinds: Sequence[Callable[[Rng], Cells]] = (box, notched, joined, grown, speck)
    while len(found) < n:
        cells = kinds[len(found) % len(kinds)](rng)
        polygon = outline(cells)
        if polygon is not None:
            found.append((cells, polygon))
    return np.array([cells for cells, _ in found]), np.array([polygon for _, polygon in found])


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
    found: list[shapely.Polygon] = []
    while len(found) < n:
        polygon = kinds[len(found) % len(kinds)](rng)
        if polygon is not None and polygon.is_valid:
            found.append(polygon)
    return np.array(found)


def points(rng: Rng, n: int) -> npt.NDArray[Any]:
    """Return points on grid points, on edges between them, and in the middle of cells."""
    return shapely.points(rng.integers(2 * SIDE + 1, size=(n, 2)) / 2)


def as_text(polygon: shapely.Polygon) -> str:
    """Write a polygon with all its digits; shapely's own WKT rounds the seventeenth."""
    corners = (f"{x!r} {y!r}" for x, y in shapely.get_coordinates(polygon).tolist())
    return f"POLYGON(({', '.join(corners)}))"


def answers_of_tamis(texts: Sequence[str], events: npt.NDArray[Any], matcher: str) -> npt.NDArray[np.bool_]:
    engine = Engine(SCHEMA, matcher)
    for column, text in enumerate(texts):
        engine.subscribe(text, id=column)
    matches = engine.match_table({"area": events})
    found = np.zeros((len(events), len(texts)), dtype=bool)
    found[matches.event, matches.subscription] = True
    return found


def compare(rng: Rng, events: npt.NDArray[Any], operands: npt.NDArray[Any], held: npt.NDArray[np.int64]) -> None:
    """Ask one random function of each operand, sometimes negated, and compare with the relations that hold."""
    functions, negated = rng.choice(FUNCTIONS, len(operands)), rng.random(len(operands)) < 0.3
    texts = [
        f"{'NOT ' if no else ''}{function}(area, {as_text(operand)})"
        for function, no, operand in zip(functions, negated, operands, strict=True)
    ]
    among = np.array([[name in naive.FUNCTIONS[function] for name in naive.RELATIONS] for function in functions])
    wanted = among[np.arange(len(operands)), held] != negated
    for matcher in MATCHERS:
        found = answers_of_tamis(texts, events, matcher)
        different = [(texts[s], events[e].wkt) for e, s in np.argwhere(found != wanted)[:5]]
        assert not different, f"{matcher}: {int((found != wanted).sum())} pairs differ"


def compare_cells(rng: Rng, n: int) -> Counter[str]:
    """Compare n x n pairs of regions made of cells; return how often each relation held."""
    b_cells, b = cell_regions(rng, n)
    a_cells, a = cell_regions(rng, n - n // 2)
    again = rng.integers(n, size=n // 2)  # equal regions are rare otherwise
    a_cells, a = np.concatenate([a_cells, b_cells[again]]), np.concatenate([a, rewritten(rng, b[again])])
    held = naive.grid_relations(a_cells, b_cells)
    assert (naive.relations(a[:, None], b[None, :]) == held).all()
    compare(rng, a, b, held)
    return counted(held)


def compare_mixed(rng: Rng, n: int) -> Counter[str]:
    """Compare n x n pairs of other regions, a third of the events points; return how often each relation held."""
    b = mixed_regions(rng, n)
    a = np.concatenate([mixed_regions(rng, n // 3), rewritten(rng, rng.choice(b, n // 3)), points(rng, n // 3)])
    held = naive.relations(a[:, None], b[None, :])
    compare(rng, a, b, held)
    return counted(held)


def rewritten(rng: Rng, polygons: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return equal polygons whose rings start elsewhere and run either way."""
    rings = [shapely.get_coordinates(one)[:-1] for one in polygons]
    turned = [np.roll(ring, rng.integers(len(ring)), axis=0)[:: rng.choice([-1, 1])] for ring in rings]
    return np.array([shapely.Polygon(ring) for ring in turned])


def counted(held: npt.NDArray[np.int64]) -> Counter[str]:
    return Counter(dict(zip(naive.RELATIONS, np.bincount(held.ravel(), minlength=8).tolist(), strict=True)))


def test_two_hundred_thousand_pairs(rng: Rng) -> None:
    counts = compare_cells(rng, 400) + compare_mixed(rng, 300)
    assert counts.total() >= 200_000
    assert min(counts.values()) >= 500, counts
    assert len(counts) == 8


@pytest.mark.soak
@pytest.mark.parametrize("round", range(1, 41))
def test_soak_region_pairs(round: int) -> None:
    rng = np.random.default_rng(SEED + round)
    compare_cells(rng, 600)
    compare_mixed(rng, 600)
