"""Joins of DataFrames give the pairs that the laptop's own functions give."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import shapely

import tamis
from tamis.curves.hilbert import HilbertCurve
from tamis.errors import TableError
from tamis.spark import ball_join, covers_join, find_covers, hilbert_keys, hilbert_ranges, range_join, relation_join
from tests.spark.worlds import SCHEMA, texts

RELATIONS = ["meets", "overlaps", "equals", "inside", "contains", "covers", "covered_by"]


def _pairs(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_covers_join_and_find_covers(spark: Any) -> None:
    outer = [(f"o{i}", text) for i, text in enumerate([*texts(15, seed=41), "price < 90", "TRUE"])]
    inner = [(i, text) for i, text in enumerate([*texts(15, seed=42), "price < 5 AND symbol = 'IBM'"])]
    frames = [
        spark.createDataFrame(rows, f"id {kind}, filter string") for rows, kind in ((outer, "string"), (inner, "long"))
    ]
    wanted = [(a, b) for a, one in outer for b, two in inner if tamis.covers(one, two, SCHEMA).yes]
    assert len(wanted) > len(inner)
    assert _pairs(covers_join(*frames, schema=SCHEMA, groups=2)) == sorted(wanted)
    best = {b: min(a for a, other in wanted if other == b) for _, b in wanted}
    assert _pairs(find_covers(frames[1], frames[0], schema=SCHEMA)) == sorted(best.items())


def test_relation_join(spark: Any) -> None:
    rng = random.Random(43)

    def regions(n: int) -> list[tuple[int, bytes | None]]:
        boxes = [(rng.randrange(20), rng.randrange(20), rng.randrange(1, 9), rng.randrange(1, 9)) for _ in range(n)]
        return [(i, shapely.to_wkb(shapely.box(x, y, x + w, y + h))) for i, (x, y, w, h) in enumerate(boxes)]

    left, right = regions(60), [*regions(60), (60, left_wkb := shapely.to_wkb(shapely.box(-9, -9, 99, 99))), (61, None)]
    left.append((60, left_wkb))
    frames = [spark.createDataFrame(rows, "id int, region binary") for rows in (left, right)]
    every = [(i, j, str(tamis.relation(a, b))) for i, a in left for j, b in right if b is not None]
    wanted = [one for one in every if one[2] in RELATIONS]
    assert {one[2] for one in wanted} == set(RELATIONS)
    assert _pairs(relation_join(*frames, RELATIONS)) == sorted(wanted)
    assert _pairs(relation_join(*frames, ["inside"])) == sorted(one for one in wanted if one[2] == "inside")
    with pytest.raises(TableError, match="disjoint.*choose from"):
        relation_join(*frames, ["disjoint"])
    assert _pairs(relation_join(frames[0].limit(0), frames[1].limit(0), ["meets"])) == []


def test_ball_join(spark: Any) -> None:
    rng = np.random.default_rng(44)
    points, centers = rng.uniform(-1, 1, (40, 3)), rng.uniform(-1, 1, (30, 3))
    radii = rng.uniform(1e-6, 1, 30)
    left = spark.createDataFrame([(i, one.tolist()) for i, one in enumerate(points)], "id long, vector array<double>")
    balls = [(i, one.tolist(), float(radii[i])) for i, one in enumerate(centers)]
    right = spark.createDataFrame(balls, "id long, center array<double>, radius double")
    distances = np.linalg.norm(points[:, None] - centers[None], axis=2)
    assert _pairs(ball_join(left, right, dimensions=3)) == [tuple(one) for one in np.argwhere(distances <= radii)]


def test_keys_in_ranges(spark: Any) -> None:
    rng, bits = np.random.default_rng(45), 6
    cells = rng.integers(0, 1 << bits, (50, 2))
    corners = np.sort(rng.integers(0, 1 << bits, (20, 2, 2)), axis=1)
    keys = hilbert_keys(
        spark.createDataFrame([(i, one.tolist()) for i, one in enumerate(cells)], "id int, cell array<int>"), bits=bits
    )
    curve = HilbertCurve(2, bits)
    assert [key for _, key in _pairs(keys)] == curve.keys(cells).tolist()
    boxes = [(i, low.tolist(), high.tolist()) for i, (low, high) in enumerate(corners)]
    ranges = hilbert_ranges(spark.createDataFrame(boxes, "id int, low array<int>, high array<int>"), bits=bits)
    local = [(i, *run) for i, (low, high) in enumerate(corners) for run in curve.ranges(low, high).tolist()]
    assert _pairs(ranges) == sorted(local)
    inside = ((corners[None, :, 0] <= cells[:, None]) & (cells[:, None] <= corners[None, :, 1])).all(axis=2)
    assert _pairs(range_join(keys, ranges, key_bits=2 * bits)) == [tuple(one) for one in np.argwhere(inside)]
