"""The generators of regions keep what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.errors import ModelError
from tamis_bench.workloads.regions import (
    constraint_filters,
    message_regions,
    one_filter_each,
    predicates,
    star_regions,
    synthetic_regions,
)

Rng = np.random.Generator


def sides(regions: np.ndarray) -> np.ndarray:
    bounds = shapely.bounds(regions)
    return bounds[:, 2:] - bounds[:, :2]


def n_points(regions: np.ndarray) -> np.ndarray:
    return shapely.get_num_coordinates(regions) - 1


def test_synthetic_regions(rng: Rng) -> None:
    found = synthetic_regions(100, rng, (200.0, 100.0))
    assert (n_points(found) == 20).all()
    assert shapely.is_valid(found).all()
    assert (shapely.area(found) >= 2_000).all()
    assert shapely.covers(shapely.box(0, 0, 200, 100), found).all()


def test_message_types(rng: Rng) -> None:
    round, irregular, narrow = (message_regions(kind, 100, rng) for kind in "ABC")
    for found in (round, irregular, narrow):
        share = sides(found).prod(axis=1) / 1e6
        assert shapely.is_valid(found).all()
        assert (share > 0.0099).all()
        assert (share < 0.2501).all()
        assert shapely.covers(shapely.box(0, 0, 1000, 1000).buffer(1e-6), found).all()
    assert (n_points(round) <= 10).all()
    assert np.allclose(sides(round)[:, 0], sides(round)[:, 1])
    assert (shapely.area(round) > 0.5 * sides(round).prod(axis=1)).all()
    assert set(n_points(irregular)) <= set(range(30, 51))
    assert set(n_points(narrow)) == {4, 5}
    turned = shapely.minimum_rotated_rectangle(narrow)
    edges = np.array([[one.length / 2, one.area] for one in turned])
    assert (edges[:, 1] < 0.06 * edges[:, 0] ** 2).all()
    with pytest.raises(ModelError, match="A, B, C"):
        message_regions("D", 1, rng)


def test_stars_and_filters(rng: Rng) -> None:
    found = star_regions(50, 12, 5.0, rng)
    assert (n_points(found) == 12).all()
    assert (sides(found) <= 10).all()
    filters = constraint_filters(found, rng, per_filter=2)
    assert len(filters) == 25
    assert all(len(one.constraints) == 2 for one in filters)
    assert [len(one.filters) for one in one_filter_each(filters)] == [1] * 25
    assert [len(one.filters) for one in predicates(filters, 5)] == [5] * 5
