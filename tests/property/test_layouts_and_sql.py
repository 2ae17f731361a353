"""Boxes in every layout beside a range join of DuckDB: the same pairs of event and box."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.kernels import directory as at
from tamis_bench.matching.peers import DuckDb
from tamis_bench.workloads.boxes import make_boxes

LAYOUTS = {"tree": (at.TREE,), "pairs": (at.TREE, at.PAIRS), "bitmaps": (at.BITMAPS,)}


def judge(name: str, layout: str, n: int, n_events: int, seed: int) -> int:
    """Compare all pairs, on values that are rounded so that many events hit an end; return how many were compared."""
    work = make_boxes(name, n, n_events, seed)
    for array in (work.lo, work.hi, work.points):
        np.round(array, 2 if name == "dense20" else 0, out=array)
    index = BoxIndex(work.lo.shape[1], LAYOUTS[layout])
    index.add_boxes(work.lo, work.hi, np.arange(n, dtype=np.int32))
    assert {segment["layout"] for segment in index.statistics()["segments"]} == {layout}
    offsets, rows = index.match_points(work.points)
    pairs = np.repeat(np.arange(n_events), np.diff(offsets)) * n + rows
    duckdb = DuckDb(work)
    event, row = duckdb.pairs(duckdb.match(duckdb.prepare(work, np.arange(n_events))))
    assert np.array_equal(np.sort(pairs), np.sort(event * n + row))
    return n * n_events


@pytest.mark.parametrize(("name", "layout"), [("dense20", "tree"), ("sparse20", "pairs"), ("dense20", "bitmaps")])
def test_a_range_join_finds_the_same_pairs(name: str, layout: str) -> None:
    assert judge(name, layout, 5_000, 200, seed=5) == 1_000_000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("dense20", "tree"),
        ("stock", "tree"),
        ("sparse20", "pairs"),
        ("ads122", "pairs"),
        ("dense20", "bitmaps"),
        ("sparse20", "bitmaps"),
    ],
)
def test_twenty_million_pairs_are_the_same(name: str, layout: str, seed: int) -> None:
    assert judge(name, layout, 50_000, 400, seed) == 20_000_000
