"""Relations on polygons that nearly touch, against rational arithmetic; and on many pairs, against shapely.

A vertex is moved by one unit in the last place towards or across another polygon's edge, along it, or onto a point
computed in float64, which is almost on the edge. GEOS is not the judge there: `naive.exact_relation` is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely

from tamis.geometry.relations import relation_of, relations
from tamis.kernels.polygons import flat_rings, polygon
from tamis.kernels.polygons.region_tests import ANY, NO, YES, RegionColumns, decide_regions
from tamis.model import shapes
from tests import naive
from tests.conftest import SEED
from tests.region_worlds import cell_regions, mixed_regions, points, rewritten

Rng = np.random.Generator


def nudged(rng: Rng, x: float) -> float:
    """Move a number by at most two units in its last place."""
    for _ in range(int(rng.integers(3))):
        x = float(np.nextafter(x, rng.choice([-np.inf, np.inf])))
    return x


def small_polygon(rng: Rng) -> npt.NDArray[np.float64]:
    n = int(rng.integers(3, 6))
    turns = np.sort(rng.uniform(0, 2 * np.pi, n))
    scale = 10.0 ** rng.integers(-3, 4)
    return scale * (
        rng.uniform(-1, 1, 2) + rng.uniform(0.3, 2, n)[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])
    )


def near(rng: Rng, ring: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a ring whose vertices are, or nearly are, on the boundary of another."""
    vertices = []
    for _ in range(int(rng.integers(3, 6))):
        i = int(rng.integers(len(ring)))
        p, q = ring[i], ring[(i + 1) % len(ring)]
        kind = rng.integers(4)
        if kind == 0:
            vertices.append(p)
        elif kind == 1:
            vertices.append(rng.uniform(ring.min(), ring.max(), 2))
        else:
            vertices.append(p + (q - p) * (0.5 if kind == 2 else rng.random()))
    return np.array([[nudged(rng, x), nudged(rng, y)] for x, y in vertices])


def near_pairs(rng: Rng) -> Iterator[tuple[shapely.Polygon, shapely.Polygon]]:
    while True:
        ring = small_polygon(rng)
        other = near(rng, ring)
        if len(np.unique(other, axis=0)) < 3:
            continue
        a, b = shapely.Polygon(ring), shapely.Polygon(other)
        if shapes.plain_rings(np.array([a, b], dtype=object))[1].all():
            yield a, b
            yield b, a


def compare_near(rng: Rng, n: int) -> npt.NDArray[np.int64]:
    pairs = near_pairs(rng)
    a, b = (np.array(some, dtype=object) for some in zip(*(next(pairs) for _ in range(n)), strict=True))
    codes = relations(a, b)
    want = np.array([naive.RELATIONS.index(naive.exact_relation(p, q)) for p, q in zip(a, b, strict=True)])
    different = [(p.wkb_hex, q.wkb_hex) for p, q in zip(a[codes != want][:3], b[codes != want][:3], strict=True)]
    assert not different, f"{(codes != want).sum()} of {n}"
    return np.bincount(codes, minlength=8)


def test_regions_that_nearly_touch(rng: Rng) -> None:
    counts = compare_near(rng, 2_000)
    assert (counts > 0).sum() >= 6, counts


@pytest.mark.soak
@pytest.mark.parametrize("round", range(1, 11))
def test_soak_regions_that_nearly_touch(round: int) -> None:
    """Ten times 5,000 pairs."""
    compare_near(np.random.default_rng(SEED + round), 5_000)


def compare_many(rng: Rng, n: int) -> npt.NDArray[np.int64]:
    """Compare n x n pairs with shapely's DE-9IM; half of the first regions are also second ones, rewritten."""
    b = np.concatenate([cell_regions(rng, n // 2)[1], mixed_regions(rng, n - n // 2)])
    a = np.concatenate(
        [cell_regions(rng, n // 4)[1], rewritten(rng, b[: n // 2]), mixed_regions(rng, n - n // 4 - n // 2)]
    )
    p, q = (grid.ravel() for grid in np.meshgrid(a, b))
    codes, want = relations(p, q), _from_matrices(shapely.relate(p, q))
    assert (codes == want).all(), [
        (x.wkt, y.wkt) for x, y in zip(p[codes != want][:3], q[codes != want][:3], strict=True)
    ]
    return np.bincount(codes, minlength=8)


def _from_matrices(matrices: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Read the relation off DE-9IM matrices."""
    letters = matrices.astype("U9").view("U1").reshape(-1, 9) != "F"
    inner, touch, a_out, b_out = letters[:, 0], letters[:, 4], letters[:, 2], letters[:, 6]
    conditions = [~inner & ~touch, ~inner, ~a_out & ~b_out, ~a_out & touch, ~a_out, ~b_out & touch, ~b_out]
    names = ["disjoint", "meets", "equals", "covered_by", "inside", "covers", "contains"]
    return np.select(conditions, [naive.RELATIONS.index(name) for name in names], naive.RELATIONS.index("overlaps"))


def test_fifty_thousand_region_pairs_like_shapely(rng: Rng) -> None:
    counts = compare_many(rng, 224)
    assert counts.sum() >= 50_000
    assert counts.min() >= 100, counts


@pytest.mark.soak
def test_soak_a_million_region_pairs_like_shapely() -> None:
    """At least 1,000,000 pairs with at least 10,000 of each relation; equal ones need many small rounds."""
    counts = np.zeros(8, np.int64)
    for round in range(1, 2_000):
        counts += compare_many(np.random.default_rng(SEED + round), 120 if counts.sum() < 1_000_000 else 40)
        if counts.sum() >= 1_000_000 and counts.min() >= 10_000:
            return
    pytest.fail(f"only {counts}")


def test_the_kernels_as_plain_python(rng: Rng) -> None:
    """The compiled kernels and their Python forms say the same."""
    a, b = mixed_regions(rng, 12), np.concatenate([cell_regions(rng, 6)[1], mixed_regions(rng, 3), points(rng, 3)])
    mine, yours = (shapes.plain_rings(some)[0] for some in (a, b))
    corners, (i, j) = flat_rings.new_corners(), np.indices((12, 12)).reshape(2, 144)
    numbers, set_bytes = np.arange(12, dtype=np.int32), np.ones(12, np.uint8)
    questions = RegionColumns(
        numbers, set_bytes, np.zeros(12, np.int32), rng.integers(256, size=12).astype(np.uint8), mine
    )
    codes, verdicts = np.zeros((2, 144), np.uint8), np.full((2, 144), YES, np.int8)
    for form, find, decide in (
        (0, polygon.find_relations, decide_regions),
        (1, polygon.find_relations.py_func, decide_regions.py_func),
    ):
        find(yours, j, mine, i, codes[form], corners)
        decide(questions, i.astype(np.int32), yours, j, ANY, verdicts[form], corners)
    assert np.array_equal(*codes)
    assert np.array_equal(*verdicts)
    assert {NO, YES} == set(verdicts[0].tolist())
    assert (verdicts[0] == YES).tolist() == (questions.wanted[i] >> codes[0] & 1).tolist()
    again = flat_rings.new_rings(mine.xy, mine.start)
    flat_rings.measure.py_func(again, corners)
    assert all((x == y).all() for x, y in zip(again, mine, strict=True))


def test_extreme_coordinates() -> None:
    """No overflow, no underflow: the integers are exact for every float64."""
    for scale in (5e-324, 1e-300, 1e150, 4e307):
        square = shapely.Polygon(np.array([[0, 0], [4, 0], [4, 4], [0, 4]]) * scale)
        corner = shapely.Polygon(np.array([[4, 4], [4, 3], [3, 4]]) * scale)
        beside = shapely.Polygon(np.array([[4, 4], [5, 3], [5, 4]]) * min(scale, 3.4e307))
        assert relation_of(corner, square) == "covered_by"
        assert relation_of(beside, square) == ("meets" if scale < 4e307 else "overlaps")
        assert relation_of(square, square) == "equals"


def test_long_rings_are_compared_by_blocks(rng: Rng) -> None:
    """Coasts of thousands of vertices, one of them a hair inside the other, touching in one vertex, or shifted."""
    turns = np.linspace(0, 2 * np.pi, 4_001)[:-1]
    radii = 100 + np.cumsum(rng.normal(0, 0.01, len(turns)))
    ring = radii[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])
    coast, inner = shapely.Polygon(ring), shapely.Polygon(ring * 0.999)
    touching = ring * 0.999
    touching[1_234] = ring[1_234]
    assert relation_of(inner, coast) == "inside"
    assert relation_of(shapely.Polygon(touching), coast) == "covered_by"
    assert relation_of(coast, shapely.Polygon(touching)) == "covers"
    assert relation_of(coast, shapely.Polygon(ring[::-1])) == "equals"
    assert relation_of(coast, shapely.Polygon(ring + np.array([0.3, 0.1]))) == "overlaps"
    assert relation_of(coast, shapely.Polygon(ring + np.array([300, 0]))) == "disjoint"
