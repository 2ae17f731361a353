"""Bins of the joins that `match` is compared with: no pair is lost, and what they cost is known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from tamis_bench.spark.bins import Bins, BoxesAndEvents, plan_bins
from tamis_bench.workloads.boxes import BOX_WORKS, make_boxes


def work(name: str) -> BoxesAndEvents:
    made = make_boxes(name, 3_000, 400, seed=3)
    return BoxesAndEvents(made.names, made.lo, made.hi, made.points)


def met(boxes: BoxesAndEvents, bins: Bins) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells each box is copied to, and which events look into one of them."""
    copies, meets = np.ones(len(boxes.lo)), np.ones((len(boxes.points), len(boxes.lo)), bool)
    for cut in bins.cuts:
        axis = boxes.names.index(cut.name)
        lo, hi = np.maximum(boxes.lo[:, axis], cut.low), np.minimum(boxes.hi[:, axis], cut.high)
        first, last, own = (np.floor((bound - cut.low) / cut.size) for bound in (lo, hi, boxes.points[:, axis, None]))
        copies *= np.where(lo <= hi, last - first + 1, 0)
        meets &= (lo <= hi) & (first <= own) & (own <= last)
    return copies, meets


#: Works whose events have every attribute: there are no bins for missing values.
COMPLETE = tuple(name for name in BOX_WORKS if name != "ads122")


def test_only_one_work_has_events_without_some_attributes() -> None:
    assert [name for name in BOX_WORKS if np.isnan(work(name).points).any()] == ["ads122"]


@pytest.mark.parametrize("name", COMPLETE)
def test_every_pair_shares_a_bin_and_the_estimates_are_near(name: str) -> None:
    boxes = work(name)
    points = boxes.points[:, None, :]
    pairs = ((boxes.lo <= points) & (points <= boxes.hi)).all(axis=2)
    assert pairs.any()
    for bins in plan_bins(boxes):
        copies, meets = met(boxes, bins)
        assert not (pairs & ~meets).any()
        assert copies.sum() == pytest.approx(bins.copies, rel=0.01)
        assert meets.sum() / len(boxes.points) == pytest.approx(bins.candidates, rel=0.01)


def test_uniform_boxes_are_cut_on_all_attributes_and_open_sides_cost_copies() -> None:
    assert all(len(bins.cuts) == 4 for bins in plan_bins(work("uniform4")))
    symbol = plan_bins(work("stock"))[0]
    assert symbol.cuts[0].name == "symbol"
    assert all(len(bins.cuts) == 2 for bins in plan_bins(work("sparse20"), attributes=[2]))


def test_bins_of_several_attributes_make_one_number() -> None:
    for bins in plan_bins(work("uniform4")):
        largest = sum(int((cut.high - cut.low) / cut.size) * weight for cut, weight in bins.weighted)
        assert 0 < largest < 2**63
        assert all((cut.high - cut.low) / cut.size < 2**15 for cut in bins.cuts)
