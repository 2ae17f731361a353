"""Which layout a segment gets: by the cost of events, inside the budget, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.errors import SnapshotError
from tamis.index.packed.boxes import choosing
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import directory as at
from tamis.kernels.bitmaps import order
from tamis_bench.workloads.boxes import make_boxes


def index_of(lo, hi, *layouts):
    index = BoxIndex(lo.shape[1], *layouts)
    index.add_boxes(lo, hi, np.arange(len(lo), dtype=np.int32))
    return index


def layout_of(index):
    (segment,) = index.statistics()["segments"]
    return segment["layout"]


@pytest.mark.parametrize(
    ("name", "layout"), [("dense20", "bitmaps"), ("uniform4", "tree"), ("zipf4", "tree"), ("stock", "tree")]
)
def test_each_work_gets_the_layout_that_suits_it(name, layout):
    work = make_boxes(name, 10_000, 1)
    assert layout_of(index_of(work.lo, work.hi)) == layout


def test_many_axes_are_beyond_the_budget():
    work = make_boxes("ads122", 5_000, 1)
    index = index_of(work.lo, work.hi)
    assert layout_of(index) == "pairs"
    assert index.statistics()["most_bytes_per_row"] == choosing.MOST_BYTES


def test_bitmaps_beyond_the_budget_are_given_up(monkeypatch):
    work = make_boxes("dense20", 10_000, 1)
    bytes_per_row = index_of(work.lo, work.hi).statistics()["bytes"] / 10_000
    assert bytes_per_row < choosing.MOST_BYTES
    monkeypatch.setattr(choosing, "MOST_BYTES", bytes_per_row - 5)
    index = index_of(work.lo, work.hi)
    assert layout_of(index) == "tree"
    costs = index.statistics()["segments"][0]["costs"]
    assert costs["bitmaps"] < costs["tree"]


def test_recent_events_decide():
    """Events that lie outside of all boxes cost a tree nothing, whatever the boxes look like."""
    work = make_boxes("dense20", 10_000, 64)
    index = index_of(work.lo, work.hi)
    assert layout_of(index) == "bitmaps"
    index.match_points(work.points + 5.0)
    index.compact()
    assert layout_of(index) == "tree"
    for point in work.points:
        index.match_point(point)
    index.compact()
    assert layout_of(index) == "bitmaps"


def test_a_merge_chooses_the_layout_again():
    work = make_boxes("dense20", 9_000, 64)
    index = BoxIndex(20)
    for part in np.array_split(np.arange(9_000), 6):  # too few in each for bitmaps
        index.add_boxes(work.lo[part], work.hi[part], part.astype(np.int32))
    assert {segment["layout"] for segment in index.statistics()["segments"]} == {"tree"}
    plan = index.plan_merge()
    plan.run()
    assert index.install(plan)
    assert "bitmaps" in {segment["layout"] for segment in index.statistics()["segments"]}
    index.check_invariants()


def test_a_full_delta_is_flushed_into_a_tree():
    """That happens while a subscriber waits: bitmaps take ten times as long."""
    work = make_boxes("dense20", 6_000, 1)
    index = BoxIndex(20)
    for begin in range(0, 6_000, 500):
        part = np.arange(begin, begin + 500)
        index.add_boxes(work.lo[part], work.hi[part], part.astype(np.int32))
    assert {segment["layout"] for segment in index.statistics()["segments"]} == {"tree"}


def test_the_cost_of_some_boxes_is_no_more_than_that_of_all(monkeypatch):
    work = make_boxes("dense20", 20_000, 64)
    for layout in ("tree", "bitmaps"):
        monkeypatch.setattr(choosing, "_JUDGED", 2_000)
        monkeypatch.setattr(choosing, "MOST_BYTES", 400 if layout == "bitmaps" else 362)
        costs = index_of(work.lo, work.hi).statistics()["segments"][0]["costs"]
        assert costs["bitmaps"] < costs.get("at least", costs.get("tree"))


@pytest.fixture
def built(monkeypatch):
    """Return the layouts that are built, with the number of boxes; few boxes count as many."""
    for name, value in (("_JUDGED", 2_048), ("_MANY", 8_192), ("_CHEAP", 0.0)):
        monkeypatch.setattr(choosing, name, value)
    layouts, build = [], Segment.build

    def noted(boxes, rows, coding, layout):
        layouts.append((layout, len(rows)))
        return build(boxes, rows, coding, layout)

    monkeypatch.setattr(Segment, "build", noted)
    return layouts


def test_bitmaps_of_some_boxes_tell_that_those_of_all_do_not_pay(built):
    work = make_boxes("sparse20", 20_000, 1)
    index = index_of(work.lo, work.hi)
    assert layout_of(index) == "pairs"
    assert max(n for layout, n in built if layout == at.BITMAPS) <= 2_048
    costs = index.statistics()["segments"][0]["costs"]
    assert costs["pairs"] < costs["bitmaps, projected"]


def test_bitmaps_that_may_pay_are_made(built):
    work = make_boxes("dense20", 20_000, 1)
    assert layout_of(index_of(work.lo, work.hi)) == "bitmaps"
    assert [n for layout, n in built if n > 2_048] == [20_000]


@pytest.mark.parametrize("name", ["sparse20", "dense20"])
def test_projected_costs_are_near_the_costs(name, built):
    work = make_boxes(name, 20_000, 1)
    boxes, columns = boxes_from_dense(work.lo, work.hi), np.arange(20, dtype=np.int32)
    coding = Coding.train(boxes)
    sample = choosing._sample_codes(boxes, coding, columns, None)
    segment = Segment.build(boxes, np.arange(20_000, dtype=np.int32), coding, at.BITMAPS)
    cost = choosing._cost(segment, sample) - choosing._CODED
    assert 0.6 * cost < choosing._projected_cost(boxes, coding, sample) - choosing._CODED < 1.1 * cost


def test_events_narrower_than_the_boxes_lack_the_axes_that_came_later():
    recent = choosing.RecentEvents()
    for _ in range(20):
        recent.note(np.array([1.0, 2.0]))
    sample = recent.sample(3)
    assert sample.shape == (20, 3)
    assert sample[0, :2].tolist() == [1.0, 2.0]
    assert np.isnan(sample[:, 2]).all()
    assert choosing.RecentEvents().sample(3).shape == (0, 3)


def test_the_choice_is_the_same_each_time():
    work = make_boxes("sparse20", 5_000, 1)
    costs = [index_of(work.lo, work.hi).statistics()["segments"][0]["costs"] for _ in range(2)]
    assert costs[0] == costs[1] != {}


def test_only_the_given_layouts_are_used():
    work = make_boxes("dense20", 5_000, 1)
    for layouts, name in (((at.TREE,), "tree"), ((at.TREE, at.PAIRS), "tree"), ((at.BITMAPS,), "bitmaps")):
        assert layout_of(index_of(work.lo, work.hi, layouts)) == name


def test_a_quarter_of_a_sample_of_recent_events_is_enough():
    recent = choosing.RecentEvents()
    recent.note_some(np.ones((choosing._SAMPLE // 4 - 1, 2)))
    assert not len(recent.sample(2))
    recent.note([1.0, 1.0])
    assert len(recent.sample(2)) == choosing._SAMPLE // 4


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (order.SKIP, 0, "leads back"),
        (order.SKIP, 1 << 20, "leads back, or beyond"),
        (order.COLUMN, 20, "names a column"),
        (order.DEPTH, 0, "without a parent"),
        (order.LEAF, 7, "does not number"),
        (order.STOP, 1, "do not hold each"),
    ],
)
def test_saved_bitmaps_whose_walk_would_fail_are_refused(column, value, message):
    work = make_boxes("dense20", 3_000, 1)
    arrays = index_of(work.lo, work.hi, (at.BITMAPS,)).to_arrays()
    nodes = arrays["segment0.nodes"] = arrays["segment0.nodes"].copy()
    leaves = np.flatnonzero(nodes[:, order.LEAF] >= 0)
    nodes[leaves[1], column] = value
    with pytest.raises(SnapshotError, match=message):
        BoxIndex.from_arrays(arrays)
