"""The box index against brute force: the traps, the life of a row, saving, merging."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.index.packed.boxes import coding, matching
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.matching import BoxReader
from tamis.index.packed.boxes.outputs import Outputs
from tamis.kernels import directory as at
from tamis.kernels.boxes.match import make_scratch, match_events
from tamis.kernels.boxes.quantise import ANY_VALUE
from tests.unit.kernels.naive_boxes import fast_match, naive_match, nasty_boxes, nasty_events

INF = np.inf
HUGE = np.finfo(float).max


def index_of(lo, hi, rows=None):
    lo, hi = np.atleast_2d(np.asarray(lo, float)), np.atleast_2d(np.asarray(hi, float))
    index = BoxIndex(lo.shape[1])
    index.add_boxes(lo, hi, np.arange(len(lo), dtype=np.int32) if rows is None else rows)
    return index


def matches(index, low, high=None):
    low = np.asarray(low, float)
    high = low if high is None else np.asarray(high, float)
    alone = sorted(index.match_point(low, high).tolist())
    offsets, rows = index.match_points(low.reshape(1, -1), high.reshape(1, -1))
    assert sorted(rows.tolist()) == alone
    assert offsets.tolist() == [0, len(alone)]
    return alone


def agrees(index, lo, hi, lows, highs, rows=None):
    """Compare batch and single answers with brute force."""
    rows = np.arange(len(lo)) if rows is None else rows
    offsets, got = index.match_points(lows, highs)
    for e in range(len(lows)):
        want = sorted(rows[fast_match(lo, hi, lows[e], highs[e])].tolist())
        assert sorted(got[offsets[e] : offsets[e + 1]].tolist()) == want
        assert sorted(index.match_point(lows[e], highs[e]).tolist()) == want


# ---- the traps


@pytest.mark.parametrize("bulk", [False, True], ids=["delta", "segment"])
class TestTraps:
    def make(self, lo, hi, bulk):
        index = index_of(lo, hi)
        if bulk:
            index.compact()
        return index

    def test_missing_fits_free_axes_only(self, bulk):
        lo = [[-INF, 0], [0, 0], [-INF, -INF], [ANY_VALUE, 0], [-INF, 0]]
        hi = [[INF, 1], [1, 1], [INF, INF], [INF, 1], [5, 1]]
        index = self.make(lo, hi, bulk)
        assert matches(index, [np.nan, 0.5]) == [0, 2]
        assert matches(index, [np.nan, np.nan]) == [2]
        assert matches(index, [0.5, 0.5]) == [0, 1, 2, 3, 4]
        assert matches(index, [9.0, 0.5]) == [0, 2, 3]

    def test_finite_extremes_are_not_unbounded(self, bulk):
        index = self.make([[-HUGE], [-INF], [1.0], [ANY_VALUE / 2]], [[HUGE], [INF], [HUGE], [INF]], bulk)
        assert matches(index, [np.nan]) == [1]
        assert matches(index, [HUGE]) == [0, 1, 2, 3]
        assert matches(index, [-HUGE]) == [0, 1]

    def test_equality(self, bulk):
        numbers = np.array([0.0, 1.0, np.nextafter(1.0, 2), 5e-324, -1.0, 1e308]).reshape(-1, 1)
        index = self.make(numbers, numbers, bulk)
        for i, number in enumerate(numbers[:, 0]):
            assert matches(index, [number]) == [i]
        assert matches(index, [-0.0]) == [0]

    def test_negative_zero_as_a_bound(self, bulk):
        index = self.make([[-0.0], [0.0]], [[-0.0], [0.0]], bulk)
        assert matches(index, [0.0]) == matches(index, [-0.0]) == [0, 1]

    def test_one_distinct_value_and_equal_columns(self, bulk):
        index = self.make(np.full((50, 3), 7.0), np.full((50, 3), 7.0), bulk)
        assert matches(index, [7.0, 7.0, 7.0]) == list(range(50))
        assert matches(index, [7.0, 7.0, np.nextafter(7.0, 8)]) == []

    def test_an_integer_known_only_between_two_floats(self, bulk):
        """2**53 + 1 is not a float64: it lies between its neighbours, and both must be found."""
        index = self.make([[2.0**53], [2.0**53 + 2], [0.0]], [[2.0**53], [2.0**53 + 2], [2.0**53 - 1]], bulk)
        assert matches(index, [2.0**53], [2.0**53 + 2]) == [0, 1]
        assert matches(index, [2.0**53]) == [0]

    def test_event_intervals_touch_closed_boxes(self, bulk):
        index = self.make([[0.0, 0.0]], [[1.0, 1.0]], bulk)
        assert matches(index, [1.0, 1.0], [3.0, 3.0]) == [0]
        assert matches(index, [np.nextafter(1.0, 2), 0.0], [3.0, 3.0]) == []
        assert matches(index, [-5.0, -5.0], [5.0, 5.0]) == [0]

    def test_boxes_without_any_bound(self, bulk):
        index = self.make(np.full((20, 2), -INF), np.full((20, 2), INF), bulk)
        assert matches(index, [np.nan, np.nan]) == matches(index, [1.0, HUGE]) == list(range(20))

    def test_equal_boxes_are_all_found(self, bulk):
        index = self.make(np.zeros((300, 1)), np.ones((300, 1)), bulk)
        assert matches(index, [0.5]) == list(range(300))


@pytest.mark.parametrize("seed", range(12))
def test_nasty_boxes_and_events(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 8))
    n = int(rng.choice([3, 60, 700, 3_000]))
    lo, hi = nasty_boxes(rng, n, d, free=rng.choice([0.0, 0.3, 0.7]))
    lows, highs = nasty_events(rng, lo, hi, 60, missing=rng.choice([0.0, 0.2, 0.6]))
    index = BoxIndex(d)
    for part in np.array_split(np.arange(n), 4):
        index.add_boxes(lo[part], hi[part], part.astype(np.int32))
    agrees(index, lo, hi, lows, highs)
    index.compact()
    agrees(index, lo, hi, lows, highs)
    index.check_invariants()


def test_the_two_references_agree():
    rng = np.random.default_rng(5)
    lo, hi = nasty_boxes(rng, 100, 3)
    lows, highs = nasty_events(rng, lo, hi, 50)
    for low, high in zip(lows, highs, strict=True):
        assert naive_match(lo, hi, low, high) == fast_match(lo, hi, low, high)


@pytest.mark.parametrize("n", [40, 300])
def test_the_kernel_gives_the_same_rows_as_plain_python(n):
    rng = np.random.default_rng(6)
    lo, hi = nasty_boxes(rng, n, 3)
    lows, highs = nasty_events(rng, lo, hi, 6)
    index = index_of(lo, hi)
    if n > 100:
        index.compact()
        index.add_boxes(lo[:20], hi[:20], np.arange(n, n + 20, dtype=np.int32))
    results = []
    for function in (match_events, match_events.py_func):
        offsets, out = np.zeros(7, np.int64), np.empty(4_096, np.int32)
        assert function(index.snapshot.directory, (lows, highs), 0, offsets, out, make_scratch(3)) == 6
        results.append((offsets.tolist(), out[: offsets[6]].tolist()))
    assert results[0] == results[1]


# ---- amounts


def test_an_empty_index():
    index = BoxIndex(3)
    assert matches(index, [1.0, 2.0, np.nan]) == []
    offsets, rows = index.match_points(np.zeros((0, 3)))
    assert offsets.tolist() == [0]
    assert rows.size == 0
    index.compact()
    index.add_boxes(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, np.int32))
    assert index.plan_merge() is None
    assert len(index) == 0


def test_one_event_matches_a_million_rows():
    n = 1_000_000
    index = index_of(np.zeros((n, 1)), np.ones((n, 1)))
    rows = index.match_point(np.array([0.5]))
    assert rows.size == n
    assert np.array_equal(np.sort(rows), np.arange(n))
    offsets, rows = index.match_points(np.full((3, 1), 0.5))
    assert offsets.tolist() == [0, n, 2 * n, 3 * n]
    assert np.array_equal(np.sort(rows[n : 2 * n]), np.arange(n))


def test_answers_do_not_depend_on_insertion_order():
    rng = np.random.default_rng(3)
    lo, hi = nasty_boxes(rng, 4_000, 3)
    lows, highs = nasty_events(rng, lo, hi, 50)
    answers = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(4_000)
        index = BoxIndex(3)
        for part in np.array_split(order, [10, 500, 1_600, 1_700]):
            index.add_boxes(lo[part], hi[part], part.astype(np.int32))
        offsets, rows = index.match_points(lows, highs)
        answers.append([sorted(rows[a:b].tolist()) for a, b in itertools.pairwise(offsets)])
    assert answers[0] == answers[1] == answers[2]


def test_the_same_insertions_give_the_same_bytes():
    rng = np.random.default_rng(4)
    lo, hi = nasty_boxes(rng, 3_000, 3)
    first, second = (index_of(lo, hi).to_arrays() for _ in range(2))
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name


# ---- the life of a row


def test_bad_input_changes_nothing():
    index = index_of([[0.0], [1.0]], [[1.0], [2.0]])
    unit = np.ones((1, 1))
    for lo, hi, rows in [
        (unit * 2, unit, [5]),
        (unit * np.nan, unit, [5]),
        (unit, unit, [1]),
        (unit, unit, [-1]),
        (np.ones((2, 1)), np.ones((2, 1)), [6, 6]),
        (np.ones((1, 2)), np.ones((1, 2)), [5]),
        (unit, unit, [5, 6]),
    ]:
        with pytest.raises(ValueError):
            index.add_boxes(lo, hi, np.array(rows, np.int32))
    for rows in ([9], [-1], [0, 9]):
        with pytest.raises(KeyError):
            index.remove(np.array(rows, np.int32))
    assert len(index) == 2
    assert matches(index, [1.0]) == [0, 1]
    index.check_invariants()


def test_a_removed_row_can_return_with_another_box():
    index = index_of([[0.0]], [[1.0]], np.array([4], np.int32))
    index.compact()
    index.remove(np.array([4], np.int32))
    assert matches(index, [0.5]) == []
    assert len(index) == 0
    index.add_boxes(np.array([[5.0]]), np.array([[6.0]]), np.array([4], np.int32))
    assert matches(index, [0.5]) == []
    assert matches(index, [5.5]) == [4]
    index.compact()
    assert matches(index, [0.5]) == []
    assert matches(index, [5.5]) == [4]
    index.check_invariants()


def test_a_row_removed_and_added_again_during_a_merge():
    index = index_of(np.zeros((4_000, 1)), np.ones((4_000, 1)))
    index.remove(np.arange(0, 2_000, dtype=np.int32))
    plan = index.plan_merge()
    assert plan is not None
    index.remove(np.array([3_000, 3_001], np.int32))
    index.add_boxes(np.array([[7.0]]), np.array([[8.0]]), np.array([3_001], np.int32))
    plan.run()
    assert matches(index, [0.5]) == [r for r in range(2_000, 4_000) if r not in (3_000, 3_001)]
    assert index.install(plan)
    assert not index.install(plan)
    assert matches(index, [0.5]) == [r for r in range(2_000, 4_000) if r not in (3_000, 3_001)]
    assert matches(index, [7.5]) == [3_001]
    index.check_invariants()


def test_a_plan_lapses_when_another_is_made():
    index = index_of(np.zeros((2_000, 1)), np.ones((2_000, 1)))
    index.remove(np.arange(1_000, dtype=np.int32))
    old = index.plan_merge()
    new = index.plan_merge()
    old.run()
    assert not index.install(old)
    assert not index.install(new)
    new.run()
    assert index.install(new)
    assert matches(index, [0.5]) == list(range(1_000, 2_000))


def test_everything_removed_then_merged():
    index = index_of(np.zeros((2_000, 1)), np.ones((2_000, 1)))
    index.remove(np.arange(2_000, dtype=np.int32))
    plan = index.plan_merge()
    plan.run()
    assert index.install(plan)
    assert matches(index, [0.5]) == []
    assert index.statistics()["segments"] == []


def test_a_reader_keeps_its_snapshot_while_segments_merge():
    rng = np.random.default_rng(8)
    lo = rng.random((9_000, 2))
    index = BoxIndex(2)
    for part in np.array_split(np.arange(9_000), 6):
        index.add_boxes(lo[part], lo[part] + 0.1, part.astype(np.int32))
    old = index.snapshot
    plan = index.plan_merge()
    plan.run()
    assert index.install(plan)
    event = np.array([0.5, 0.5])
    want = fast_match(lo, lo + 0.1, event, event)
    reader = BoxReader(2, Outputs())
    assert sorted(reader.match_one(old, event, event).tolist()) == want
    assert sorted(reader.match_one(index.snapshot, event, event).tolist()) == want


def test_a_delta_that_began_with_a_free_box():
    """Its only column has no knots: a box that bounds this axis must not be coded by it."""
    index = index_of([[-INF, -INF]], [[INF, INF]])
    index.add_boxes(np.array([[2.0, -INF]]), np.array([[3.0, INF]]), np.array([1], np.int32))
    assert matches(index, [2.5, np.nan]) == [0, 1]
    assert matches(index, [3.5, np.nan]) == matches(index, [np.nan, 1.0]) == [0]


def test_growing_leaves_new_axes_free():
    index = index_of([[0.0], [5.0]], [[1.0], [6.0]])
    index.compact()
    index.grow(3)
    index.add_boxes(np.array([[-INF, -INF, 2.0]]), np.array([[INF, INF, 3.0]]), np.array([2], np.int32))
    assert matches(index, [0.5, np.nan, 2.5]) == [0, 2]
    assert matches(index, [0.5, 4.0, np.nan]) == [0]
    index.compact()
    assert matches(index, [0.5, np.nan, 2.5]) == [0, 2]
    with pytest.raises(ValueError):
        index.grow(2)


def test_thousands_of_axes():
    rng = np.random.default_rng(10)
    n, d = 400, 3_000
    lo, hi = np.full((n, d), -INF), np.full((n, d), INF)
    for row in range(n):
        axes = rng.choice(d, int(rng.integers(0, 7)), replace=False)
        lo[row, axes] = rng.random(axes.size)
        hi[row, axes] = lo[row, axes] + 1
    index = index_of(lo, hi)
    lows = rng.random((20, d)) * 2
    agrees(index, lo, hi, lows, lows)
    index.compact()
    assert index.statistics()["segments"][0]["layout"] == "pairs"
    agrees(index, lo, hi, lows, lows)
    with pytest.raises(ValueError):
        index.grow(32_768)


@pytest.mark.parametrize("n", [1, 300, 1_000])
def test_boxes_with_many_constraints_do_not_overflow_the_delta(n):
    """A delta has room for eight constraints per box on average; these have forty."""
    rng = np.random.default_rng(11)
    lo = rng.random((n, 40))
    index = BoxIndex(40)
    for batch in range(4):
        index.add_boxes(lo, lo + 0.9, np.arange(batch * n, batch * n + n, dtype=np.int32))
    lows = rng.random((10, 40)) * 0.2 + 0.8
    agrees(index, np.tile(lo, (4, 1)), np.tile(lo + 0.9, (4, 1)), lows, lows)
    index.check_invariants()


def test_a_row_named_twice_is_removed_once():
    index = index_of([[0.0], [0.0]], [[1.0], [1.0]])
    index.remove(np.array([1, 1], np.int32))
    assert len(index) == 1
    index.check_invariants()


def test_read_only_and_strided_events_need_no_new_kernel():
    index = index_of(np.zeros((3, 2)), np.ones((3, 2)))
    index.match_points(np.zeros((2, 2)))
    forms = len(match_events.signatures)
    events = np.full((4, 4), 0.5)[:, ::2]
    closed = events.copy()
    closed.flags.writeable = False
    for values in (events, closed, events.astype(np.float32)):
        assert index.match_points(values)[1].size == 12
        assert index.match_point(values[0]).size == 3
    assert len(match_events.signatures) == forms
    with pytest.raises(ValueError):
        index.match_point(np.zeros(3))


# ---- kinds of segments, and chunks of tables


def sparse_boxes(rng, n):
    """Return boxes that constrain two of nine axes, and what free sides they have elsewhere."""
    lo, hi = np.full((n, 9), -INF), np.full((n, 9), INF)
    for row in range(n):
        axes = rng.choice(9, 2, replace=False)
        lo[row, axes] = rng.random(2) * 0.7
        hi[row, axes] = lo[row, axes] + 0.3
    return lo, hi


def test_one_event_meets_bitmaps_beside_other_segments():
    rng = np.random.default_rng(4)
    lo, hi = sparse_boxes(rng, 3_600)
    index = BoxIndex(9, (at.TREE,))
    for number, layout in enumerate((at.TREE, at.PAIRS, at.BITMAPS)):
        part = np.arange(1_200 * number, 1_200 * (number + 1))
        index._parts._layouts = (at.TREE, layout) if layout == at.PAIRS else (layout,)
        index.add_boxes(lo[part], hi[part], part.astype(np.int32))
    assert [segment["layout"] for segment in index.statistics()["segments"]] == ["tree", "pairs", "bitmaps"]
    points = rng.random((12, 9))
    agrees(index, lo, hi, points, points)


@pytest.mark.parametrize("layouts", [(at.TREE, at.PAIRS), (at.BITMAPS,)], ids=["pairs", "bitmaps"])
def test_the_events_of_later_chunks_keep_their_own_rows(layouts, monkeypatch):
    monkeypatch.setattr(matching, "_CHUNK", 16)
    rng = np.random.default_rng(5)
    lo, hi = sparse_boxes(rng, 2_000)
    index = BoxIndex(9, layouts)
    index.add_boxes(lo, hi, np.arange(2_000, dtype=np.int32))
    points = rng.random((50, 9))
    points[:30] += 5.0  # no box is there
    agrees(index, lo, hi, points, points)
    met = np.zeros(50, np.bool_)
    index.meet_points(points, points, met, index.snapshot)
    assert met.tolist() == [bool(fast_match(lo, hi, point, point)) for point in points]
    assert met[30:].any()
    assert not met.all()


def test_staged_rows_survive_a_larger_buffer(monkeypatch):
    """Events of a large tree whose answers are long are staged; the buffer for that begins small."""
    for name, value in (("_MANY", 8), ("_LARGE", 100), ("_SHORT", 0.0), ("_FIRST_ROOM", 64)):
        monkeypatch.setattr(matching, name, value)
    rng = np.random.default_rng(6)
    lo = rng.random((2_000, 2))
    index = BoxIndex(2, (at.TREE,))
    index.add_boxes(lo, lo + 0.5, np.arange(2_000, dtype=np.int32))
    points = rng.random((60, 2)) * 1.5
    agrees(index, lo, lo + 0.5, points, points)


# ---- parts


def test_compaction_joins_all_segments():
    lo = np.arange(2_700.0)[:, None]
    index = BoxIndex(1)
    for part in (np.arange(1_500), np.arange(1_500, 2_700)):
        index.add_boxes(lo[part], lo[part], part.astype(np.int32))
    assert sorted(index.compact().tolist()) == list(range(2_700))
    assert len(index.statistics()["segments"]) == 1


def test_a_row_that_leaves_during_a_merge_stays_away_although_the_delta_was_flushed():
    """A flush leaves the segments of a planned merge alone: they are about to be replaced."""
    index = BoxIndex(1)
    for number in range(5):
        rows = np.arange(1_100 * number, 1_100 * (number + 1), dtype=np.int32)
        index.add_boxes(np.zeros((1_100, 1)), np.ones((1_100, 1)), rows)
    more = np.arange(5_500, 5_500 + 1_400, dtype=np.int32)
    for rows in np.split(more, 2):
        index.add_boxes(np.zeros((700, 1)), np.ones((700, 1)), rows)
    plan = index.plan_merge()
    plan.run()
    index._parts.flush(absorb=16_384)
    index.remove(np.array([3], np.int32))
    assert index.install(plan)
    index.check_invariants()
    assert [len(index), 3 in matches(index, [0.5])] == [6_899, False]
    assert [segment["dead"] for segment in index.statistics()["segments"]].count(0) == 1


def test_a_delta_learns_the_axes_of_later_boxes():
    index = BoxIndex(3)
    index.add_boxes(np.array([[0.0, -INF, 0.0]]), np.array([[9.0, INF, 9.0]]), np.array([0], np.int32))
    index.add_boxes(np.array([[1.0, 2.0, -INF]]), np.array([[5.0, 6.0, INF]]), np.array([1], np.int32))
    assert matches(index, [3.0, 3.0, 7.5]) == [0, 1]
    assert matches(index, [3.0, 0.0, 7.5]) == [0]
    assert matches(index, [3.0, 3.0, 99.0]) == [1]


# ---- saving


def test_saved_arrays_open_read_only_from_files(tmp_path):
    rng = np.random.default_rng(9)
    lo, hi = nasty_boxes(rng, 5_000, 4)
    index = BoxIndex(4)
    index.add_boxes(lo[:3_000], hi[:3_000], np.arange(3_000, dtype=np.int32))
    index.add_boxes(lo[3_000:3_900], hi[3_000:3_900], np.arange(3_000, 3_900, dtype=np.int32))
    index.add_boxes(lo[3_900:], hi[3_900:], np.arange(3_900, 5_000, dtype=np.int32))
    removed = np.arange(0, 5_000, 7, dtype=np.int32)
    index.remove(removed)
    for name, array in index.to_arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    arrays = {path.name[:-4]: np.load(path, mmap_mode="r") for path in tmp_path.glob("*.npy")}
    opened = BoxIndex.from_arrays(arrays)
    opened.check_invariants()
    live = np.setdiff1d(np.arange(5_000), removed)
    lows, highs = nasty_events(rng, lo, hi, 60)
    agrees(opened, lo[live], hi[live], lows, highs, live)
    opened.remove(live[:50].astype(np.int32))
    opened.add_boxes(lo[:1], hi[:1], np.array([0], np.int32))
    live = np.concatenate(([0], live[50:]))
    agrees(opened, lo[live], hi[live], lows, highs, live)
    opened.compact()
    agrees(opened, lo[live], hi[live], lows, highs, live)


def test_the_bytes_of_the_delta_count():
    index = BoxIndex(2)
    assert index.statistics()["bytes"] == 0
    index.add_boxes(np.zeros((1, 2)), np.ones((1, 2)), np.array([0], np.int32))
    with_delta = index.statistics()["bytes"]
    assert with_delta > 100
    index.compact()
    assert 0 < index.statistics()["bytes"] < with_delta


def test_pairs_of_boxes_are_coded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second box is far away, as with alternatives: a sample of every second box would not see those."""
    monkeypatch.setattr(coding, "_SAMPLE", 1_000)
    start = np.random.default_rng(1).random(2_000)
    lo = np.stack((start, start + 2), axis=1).reshape(-1, 1)
    boxes = boxes_from_dense(lo, lo + 0.01)
    codes = Coding.train(boxes).codes_of(boxes)
    near, far = (len(np.unique(codes[first::2])) for first in (0, 1))
    assert near > 1_000
    assert far > near / 2
