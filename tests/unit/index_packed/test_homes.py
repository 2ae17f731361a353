"""Where rows live: each broken invariant is noticed, and a refused row changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.errors import InvariantError, SnapshotError
from tamis.index.packed.boxes.box_index import BoxIndex


def two_parts() -> BoxIndex:
    """Return an index with 2,000 rows in a segment and 10 in the delta."""
    index = BoxIndex(1)
    lo = np.arange(3_000.0)[:, None]
    index.add_boxes(lo[:2_000], lo[:2_000] + 1, np.arange(2_000, dtype=np.int32))
    index.add_boxes(lo[2_000:2_010], lo[2_000:2_010] + 1, np.arange(2_000, 2_010, dtype=np.int32))
    return index


@pytest.fixture
def index() -> BoxIndex:
    index = two_parts()
    index.remove(np.array([5, 2_003], np.int32))
    index.check_invariants()
    return index


def test_rows_and_their_homes(index: BoxIndex) -> None:
    homes = index._parts.homes
    assert len(homes) == len(index) == 2_008
    assert [row in homes for row in (-1, 0, 5, 2_003, 2_009, 2_010)] == [False, True, False, False, True, False]
    assert homes.rows().tolist() == [row for row in range(2_010) if row not in (5, 2_003)]
    for row in (0, 2_009):
        home = homes.find(row)
        assert home is not None
        assert home[0].rows[home[1]] == row
    assert homes.find(5) is None


@pytest.mark.parametrize("rows", [[2_010, 7], [-1], [2_010, 2_010]], ids=["in use", "negative", "named twice"])
def test_a_refused_row_adds_nothing(index: BoxIndex, rows: list[int]) -> None:
    box = np.zeros((len(rows), 1))
    with pytest.raises(ValueError, match="row "):
        index.add_boxes(box, box, np.array(rows, np.int32))
    index.check_invariants()
    assert len(index) == 2_008


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda homes, part: part.kill_one(9), "lives|rows"),
        (lambda homes, part: part.count_dead(1), "counts"),
        (lambda homes, part: homes.move(part, np.array([2_001], np.int32), np.array([5], np.int32)), "elsewhere"),
        (lambda homes, part: homes.move(part, np.array([5], np.int32), np.array([5], np.int32)), "homes"),
        (lambda homes, part: homes.forget(part), "living slots|snapshot"),
    ],
    ids=["dead slot", "wrong count", "two homes", "removed row", "missing part"],
)
def test_a_broken_invariant_is_noticed(index: BoxIndex, fault, message: str) -> None:
    fault(index._parts.homes, index._parts.present()[0])
    with pytest.raises(InvariantError, match=message):
        index.check_invariants()


def test_a_snapshot_of_other_parts_is_noticed(index: BoxIndex) -> None:
    index._parts.flush()
    with pytest.raises(InvariantError, match="snapshot"):
        index.check_invariants()


def test_rows_of_several_parts_leave_together() -> None:
    index = two_parts()
    index.remove(np.array([7, 2_005, 8], np.int32))
    assert len(index) == 2_007
    assert index.match_points(np.array([[7.5], [2_005.5]]))[1].tolist() == []
    index.check_invariants()


def test_a_row_leaves_alone(index: BoxIndex) -> None:
    index.remove_one(2_005)
    assert len(index) == 2_007
    index.check_invariants()
    with pytest.raises(KeyError):
        index.remove_one(2_005)


@pytest.mark.parametrize("segment", ["segment0", "segment1"])
def test_a_saved_row_that_is_named_twice_is_refused(index: BoxIndex, segment: str) -> None:
    arrays = index.to_arrays()
    rows = arrays[f"{segment}.rows"] = arrays[f"{segment}.rows"].copy()
    rows[0] = rows[1] if segment == "segment0" else arrays["segment0.rows"][0]
    with pytest.raises(SnapshotError, match="names a row twice"):
        BoxIndex.from_arrays(arrays)
