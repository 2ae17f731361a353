"""Random regions and relations, answered by tamis, by shapely's predicates and by sets of grid cells.

Regions on a small grid touch, nest, share edges and equal each other all the time, which is where relations
go wrong; those made of whole cells have a second oracle that knows no geometry (`naive.grid_relations`).
Others have slanted edges between grid points, or no grid at all. Points are events, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely

from tamis.engine import Engine
from tamis.index.registry import MATCHERS
from tamis.model.schema import Schema
from tamis.model.types import Region
from tests import naive
from tests.conftest import SEED
from tests.region_worlds import cell_regions, mixed_regions, points, rewritten

SCHEMA = Schema({"area": Region()})
FUNCTIONS = sorted(naive.FUNCTIONS)

Rng = np.random.Generator


def as_text(polygon: shapely.Polygon) -> str:
    """Write a polygon with all its digits; shapely's own WKT rounds the seventeenth."""
    corners = (f"{x!r} {y!r}" for x, y in shapely.get_coordinates(polygon).tolist())
    return f"POLYGON(({', '.join(corners)}))"


def answers_of_tamis(texts: Sequence[str], events: npt.NDArray[Any], matcher: str) -> npt.NDArray[np.bool_]:
    engine = Engine(SCHEMA, matcher)
    for column, text in enumerate(texts):
        engine.subscribe(text, id=column)
    matches = engine.match_table({"area": events})
    matrix = np.zeros((len(events), len(texts)), dtype=bool)
    matrix[matches.event, matches.subscription] = True
    return matrix


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
        matrix = answers_of_tamis(texts, events, matcher)
        different = [(texts[s], events[e].wkt) for e, s in np.argwhere(matrix != wanted)[:5]]
        assert not different, f"{matcher}: {int((matrix != wanted).sum())} pairs differ"


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


def counted(held: npt.NDArray[np.int64]) -> Counter[str]:
    return Counter(dict(zip(naive.RELATIONS, np.bincount(held.ravel(), minlength=8).tolist(), strict=True)))


def test_a_hundred_thousand_pairs(rng: Rng) -> None:
    counts = compare_cells(rng, 280) + compare_mixed(rng, 210)
    assert counts.total() >= 100_000
    assert min(counts.values()) >= 250, counts
    assert len(counts) == 8


@pytest.mark.soak
@pytest.mark.parametrize("round", range(1, 41))
def test_soak_region_pairs(round: int) -> None:
    rng = np.random.default_rng(SEED + round)
    compare_cells(rng, 600)
    compare_mixed(rng, 600)
