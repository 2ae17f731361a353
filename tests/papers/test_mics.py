"""Worked examples and traps of the MICS paper; the numbers M.x are those of the list of its errors."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.algebra.covers import is_covered
from tamis.algebra.evaluate import matches_subscription
from tamis.curves.hilbert import HilbertCurve
from tamis.curves.runs import covered_ranges, covers, merged
from tamis.index.mics.link import RangeReceiver
from tamis.index.mics.matcher import MicsMatcher
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.subscription_index import SubscriptionIndex
from tamis.index.mics.table import RangeTable
from tamis.index.packed.core import PackedCore
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable, SubscriptionTable
from tamis.model.types import Number
from tests.link_sender import LinkSender

PLANE = Schema({"x": Number(0, 8), "y": Number(0, 8)})


def sub(text: str, id: int | str = 0, schema: Schema = PLANE) -> Subscription:
    return compile_text(text, schema, id=id)


def test_figure_3_ranges_and_publications() -> None:
    space = ContentSpace.from_schema(PLANE, bits=3, null=False)
    s1 = sub("x > 4.3 AND x <= 6.6 AND y BETWEEN 2.2 AND 5.9")
    assert space.ranges_of(s1).tolist() == [[32, 35], [45, 46], [50, 55]]
    table, receiver = LinkSender([space]), RangeReceiver([space])
    receiver.apply(table.add(s1))
    assert [receiver.matches_keys([np.array([[key, key]])]) for key in (28, 52, 50)] == [False, True, True]
    curve = HilbertCurve(2, 3)
    p1, p2, p3 = (curve.cells([key])[0] + np.array(inside) for key, inside in ((28, 0.5), (52, 0.5), (50, (0.7, 0.5))))
    for point, passes, wanted in ((p1, False, False), (p2, True, True), (p3, True, False)):
        event = {"x": float(point[0]), "y": float(point[1])}
        assert receiver.matches(event) is passes
        assert matches_subscription(event, s1) is wanted, "the third one is a false positive, as in the paper"


@pytest.mark.parametrize(("d", "side"), [(2, 4), (2, 16), (3, 4), (3, 8), (4, 4)])
def test_mean_number_of_ranges_is_the_surface_over_2d(d: int, side: int) -> None:
    """[mics] equation (1), for cubes: ``2 d side**(d - 1) / (2 d)``."""
    rng = np.random.default_rng(d)
    low = rng.integers(0, 256 - side + 1, (3_000, d))
    offsets, _ = HilbertCurve(d, 8).ranges_of(np.stack([low, low + side - 1], axis=1))
    assert np.diff(offsets).mean() == pytest.approx(side ** (d - 1), rel=0.05)


def test_mean_number_of_ranges_of_boxes_with_unequal_sides() -> None:
    rng, sides = np.random.default_rng(9), np.array([3, 10, 5])
    low = rng.integers(0, 256 - sides + 1, (3_000, 3))
    offsets, _ = HilbertCurve(3, 8).ranges_of(np.stack([low, low + sides - 1], axis=1))
    surface = 2 * (3 * 10 + 3 * 5 + 10 * 5)
    assert np.diff(offsets).mean() == pytest.approx(surface / 6, rel=0.05)


def test_covering_and_merging_of_sections_3_5_and_3_6() -> None:
    s1, s2 = merged([[0, 9], [20, 29]]), merged([[2, 5], [20, 29]])
    assert covers(s1, s2)
    assert not covers(s2, s1)
    assert covered_ranges(merged([[2, 5], [28, 31]]), s1).tolist() == [True, False]  # partial covering, Fig. 4b
    assert merged([[0, 3], [4, 9]]).tolist() == [[0, 9]]  # they touch
    assert merged([[0, 3], [7, 9]], gap=3).tolist() == [[0, 9]]  # imperfect
    assert merged([[0, 3], [8, 9]], gap=3).tolist() == [[0, 3], [8, 9]]
    assert merged([[0, 1], [4, 5], [8, 9]], gap=2).tolist() == [[0, 9]]  # merged ranges merge again


def announced(table: RangeTable, *ranges: list[int]) -> list[list[int]]:
    return table.add(merged([*ranges])).tolist()


def test_m_3_1_the_first_range_is_stored_and_forwarded_and_an_overlap_loses_nothing() -> None:
    table = RangeTable(100)
    assert announced(table, [0, 3]) == [[0, 3]]
    assert announced(table, [2, 8]) == [[4, 8]]
    assert table.ranges().tolist() == [[0, 8]]
    assert table.matches([6]).tolist() == [True]


def test_m_3_2_a_left_neighbour_that_does_not_touch_is_left_alone() -> None:
    table = RangeTable(100)
    announced(table, [0, 3], [20, 30])
    assert announced(table, [10, 19]) == [[10, 19]]
    assert table.ranges().tolist() == [[0, 3], [10, 30]]


def test_m_3_3_no_neighbour_on_either_side_and_an_empty_tree() -> None:
    table = RangeTable(100)
    assert table.matches([0, 50, 99]).tolist() == [False] * 3
    assert announced(table, [50, 60]) == [[50, 60]]
    assert announced(table, [10, 20]) == [[10, 20]]  # nothing starts before it
    assert announced(table, [90, 99]) == [[90, 99]]  # nothing follows it
    assert announced(table, [5, 70]) == [[5, 9], [21, 49], [61, 70]]  # the left neighbour itself is swallowed
    assert announced(table, [71, 89]) == [[71, 89]]  # touches on both sides
    assert table.ranges().tolist() == [[5, 99]]
    assert announced(table, [30, 95]) == []  # subsumed by five ranges, covered by none


def test_m_3_4_with_imperfect_merging_the_merged_range_travels() -> None:
    table = RangeTable(100, gap=5)
    assert announced(table, [10, 20]) == [[10, 20]]
    assert announced(table, [24, 30]) == [[21, 30]]  # with the gap before it
    assert announced(table, [21, 23]) == []
    assert table.matches([22]).tolist() == [True]


def test_m_3_5_unsubscription_after_merging_is_exact() -> None:
    table = RangeTable(100)
    announced(table, [10, 20])
    announced(table, [15, 30])
    assert table.ranges().tolist() == [[10, 30]]
    assert table.remove(merged([[15, 30]])).tolist() == [[21, 30]]
    assert table.ranges().tolist() == [[10, 20]]
    assert table.remove(merged([[10, 20]])).tolist() == [[10, 20]]
    assert table.is_empty


def test_m_3_6_open_bounds_edges_and_missing_values() -> None:
    space = ContentSpace.from_schema(PLANE, bits=4)
    receiver = RangeReceiver([space])
    receiver.apply(LinkSender([space]).add(sub("x < 8 AND x >= 0 AND y > 7")))
    for event in ({"x": 0, "y": 8}, {"x": -0.0, "y": 7.5}, {"x": 7.999, "y": 1e9}):
        assert receiver.matches(event)
    assert not receiver.matches({"x": 3.0})  # y is missing, and it is asked for
    assert not receiver.matches({})
    open_side = RangeReceiver([space])
    open_side.apply(LinkSender([space]).add(sub("x < 100")))
    assert open_side.matches({"x": -50})
    assert open_side.matches({"x": 5.0})
    assert not open_side.matches({"y": 5.0})


def test_m_3_7_cells_never_prune_exact_boxes() -> None:
    """[2.4, 5.6] and [2.1, 5.9] have the same cells; 2.2 lies only in the second."""
    schema = Schema({"x": Number(0, 8)})
    narrow, wide = (sub(f"x BETWEEN {a} AND {b}", id, schema) for id, a, b in ((0, 2.4, 5.6), (1, 2.1, 5.9)))
    space = ContentSpace.from_schema(schema, bits=3, null=False)
    assert space.ranges_of(narrow).tolist() == space.ranges_of(wide).tolist()
    matcher = MicsMatcher([space])
    matcher.add(0, narrow)
    matcher.add(1, wide)
    assert matcher.match({"x": 2.2}).tolist() == [1]
    index = SubscriptionIndex()
    index.add(0, space.ranges_of(narrow))
    assert index.possible_covers(space.ranges_of(wide)).tolist() == [0]  # a candidate, and no cover
    assert not is_covered(wide.filters, narrow.filters)
    table, receiver = LinkSender([space]), RangeReceiver([space])
    receiver.apply(table.add(narrow))
    assert table.add(wide).is_empty  # cells are all the neighbour has, so nothing needs to be said
    assert receiver.matches({"x": 2.2})
    receiver.apply(table.remove(0))
    assert receiver.matches({"x": 2.2})


def test_m_3_11_starts_find_covers_all_ranges_find_those_that_overlap() -> None:
    rng, curve = np.random.default_rng(11), HilbertCurve(2, 6)
    low = rng.integers(0, 56, (400, 2))
    ranges = [curve.ranges(*box) for box in np.stack([low, low + rng.integers(0, 8, (400, 2))], axis=1)]
    index = SubscriptionIndex()
    for owner, subscription in enumerate(ranges):
        index.add(owner, subscription)
    missed = overlapping = 0
    for subscription in ranges[:100]:
        meeting = set(index.owners_meeting(subscription).tolist())
        overlapping += len(meeting)
        assert {i for i, other in enumerate(ranges) if covers(other, subscription)} <= set(
            index.possible_covers(subscription).tolist()
        )
        _, at_starts = index.owners(subscription[:, 0])
        missed += len(meeting - set(at_starts.tolist()))
    assert round(missed / overlapping, 2) == 0.18


def test_m_3_9_table_2_contradicts_its_set_up() -> None:
    """Seven attributes constrained to 4 of 256 cells: no publication matches. Table 2 has 1325 of 10,000 that do.

    With three attributes and 2.56 cells each, as many match as in the table. A tenth of the publications of the set-up
    and all of its subscriptions are put to the matcher.
    """

    def matched(attributes: int, cells: float, publications: int = 1_000, subscriptions: int = 150_000) -> int:
        rng = np.random.default_rng(9)
        names = [f"a{i}" for i in range(attributes)]
        low = rng.uniform(0, 256 - cells, (subscriptions, attributes))
        table = SubscriptionTable.from_boxes(names, low, low + cells)
        core = PackedCore(lambda row: None)
        core.add_boxes(np.arange(subscriptions, dtype=np.int32), table)
        events = {name: rng.uniform(0, 256, publications) for name in names}
        schema = Schema({name: Number(0, 256) for name in names})
        offsets, _ = core.match_table(EventTable.of(events, schema))
        return int((np.diff(offsets) > 0).sum())

    expected = 10_000 * 150_000 * (4 / 256) ** 7
    assert round(expected, 4) == 0.0003
    assert matched(7, 4.0) == 0
    assert 100 < matched(3, 2.56) < 175
