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
    regions = synthetic_regions(100, rng, (200.0, 100.0))
    assert (n_points(regions) == 20).all()
    assert shapely.is_valid(regions).all()
    assert (shapely.area(regions) >= 2_000).all()
    assert shapely.covers(shapely.box(0, 0, 200, 100), regions).all()


def test_message_types(rng: Rng) -> None:
    round, irregular, narrow = (message_regions(kind, 100, rng) for kind in "ABC")
    for regions in (round, irregular, narrow):
        share = sides(regions).prod(axis=1) / 1e6
        assert shapely.is_valid(regions).all()
        assert (share > 0.0099).all()
        assert (share < 0.2501).all()
        assert shapely.covers(shapely.box(0, 0, 1000, 1000).buffer(1e-6), regions).all()
    assert (n_points(round) <= 10).all()
    assert np.allclose(sides(round)[:, 0], sides(round)[:, 1])
    assert (shapely.area(round) > 0.5 * sides(round).prod(axis=1)).all()
    assert set(n_points(irregular)) <= set(range(30, 51))
    assert set(n_points(narrow)) == {4, 5}
    turned = shapely.minimum_rotated_rectangle(narrow)
    edges = np.array([[rectangle.length / 2, rectangle.area] for rectangle in turned])
    assert (edges[:, 1] < 0.06 * edges[:, 0] ** 2).all()
    with pytest.raises(ModelError, match="A, B, C"):
        message_regions("D", 1, rng)


def test_stars_and_filters(rng: Rng) -> None:
    stars = star_regions(50, 12, 5.0, rng)
    assert (n_points(stars) == 12).all()
    assert (sides(stars) <= 10).all()
    filters = constraint_filters(stars, rng, per_filter=2)
    assert len(filters) == 25
    assert all(len(filter.constraints) == 2 for filter in filters)
    assert [len(predicate.filters) for predicate in one_filter_each(filters)] == [1] * 25
    assert [len(predicate.filters) for predicate in predicates(filters, 5)] == [5] * 5
