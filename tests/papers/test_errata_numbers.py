"""The numbers of the list of errata (docs/papers/errata.md): each is computed here or in the test that it names."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import pytest
import shapely

from tamis.algebra.evaluate import matches_subscription
from tamis.curves import zcurve as z
from tamis.curves.hilbert import HilbertCurve
from tamis.geometry.rcc8 import COMPOSITION, INVERSE, compose, sets_conflict
from tamis.geometry.relations import relation_of
from tamis.index.balls.projections import pass_probability
from tamis.index.dominance.index import DominanceIndex
from tamis.index.mics.table import RangeTable
from tamis.index.projection import ProjectionIndex
from tamis.index.zcurve.index import ZCurveIndex
from tamis.index.zcurve.sfc_array import SfcArray
from tamis.model.schema import Schema
from tamis.model.subscription import Ball, Filter, Relation, Subscription
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis_lab.drtree.trees import SPLITS, grow
from tamis_lab.peers.containment import containment_boxes
from tamis_lab.peers.tree_statistics import reach_of, tree_statistics
from tamis_lab.projection import cubes, error
from tamis_lab.regions.find_relation import _find_relation, find_relation
from tamis_lab.regions.real import TABLE_3
from tamis_lab.zcurve.counting import count_all_cubes, cubes_needed

Range = tuple[int, int]


# ---- covering and links


@dataclass
class Net:
    """A tree of brokers that flood subscriptions, withhold covered ones, and send events back along the links."""

    links: dict[int, list[int]]
    #: Whether a cover counts that was sent over the same link, or any that the broker knows (as printed).
    per_link: bool
    held: dict[int, list[tuple[Range, int]]] = field(default_factory=dict)
    sent: dict[tuple[int, int], list[Range]] = field(default_factory=dict)

    def subscribe(self, broker: int, wanted: Range, source: int) -> None:
        earlier = [other for other, _ in self.held.setdefault(broker, [])]
        self.held[broker].append((wanted, source))
        for link in self.links[broker]:
            covers = self.sent.setdefault((broker, link), []) if self.per_link else earlier
            if link != source and not any(low <= wanted[0] and wanted[1] <= high for low, high in covers):
                self.sent.setdefault((broker, link), []).append(wanted)
                self.subscribe(link, wanted, broker)

    def publish(self, broker: int, value: int, source: int) -> int:
        """Return how many subscriptions an event reaches."""
        here = [(wanted, origin) for wanted, origin in self.held.get(broker, []) if wanted[0] <= value <= wanted[1]]
        delivered = sum(origin < 0 for _, origin in here)
        ways = {origin for _, origin in here if origin >= 0} - {source}
        return delivered + sum(self.publish(way, value, broker) for way in ways)


def test_r_b_covering_against_all_known_subscriptions_loses_events() -> None:
    """20 random trees of 7 brokers, 40 subscriptions and 100 events each: 1,240 deliveries lost, none per link."""
    lost = {True: 0, False: 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parents = [int(rng.integers(child)) for child in range(1, 7)]
        links: dict[int, list[int]] = {broker: [] for broker in range(7)}
        for child, parent in enumerate(parents, 1):
            links[child].append(parent)
            links[parent].append(child)
        wanted = [(int(low), int(low + rng.integers(1, 500))) for low in rng.integers(0, 1_000, 40)]
        places, events = rng.integers(0, 7, 40).tolist(), rng.integers(0, 1_000, (100, 2)).tolist()
        for per_link in lost:
            net = Net(links, per_link)
            for each, broker in zip(wanted, places, strict=True):
                net.subscribe(broker, each, -1)
            for value, broker in events:
                expected = sum(low <= value <= high for low, high in wanted)
                lost[per_link] += expected - net.publish(broker % 7, value, -1)
    assert lost[True] == 0
    assert lost[False] == 1_240


# ---- zcurve


def test_z_3_8_truncating_to_more_bits_than_there_are_changes_nothing() -> None:
    for x in range(1, 64):
        bits = x.bit_length()
        assert [z.truncate(x, m) for m in range(bits, bits + 3)] == [x] * 3
        assert [z.keep_from(x, i) for i in range(bits, bits + 3)] == [0] * 3


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
def test_z_3_10_a_hit_in_the_same_cells_is_verified_at_any_epsilon(epsilon: float) -> None:
    """The region of the question is one cube, so both boxes lie in the first run: the first covers in cells alone."""
    index = ZCurveIndex(Schema({"x": Number(0, 32)}), epsilon=epsilon, k=5)
    index.add_boxes(np.array([0, 1], np.int32), SubscriptionTable.from_boxes(["x"], [[15.4], [15.1]], [[16.6], [16.9]]))
    question = SubscriptionTable.from_boxes(["x"], [[15.2]], [[16.8]]).box_subscription(0, 0)
    assert index.find_cover(question) == 1
    index.remove(1)
    assert index.find_cover(question) is None


def test_z_3_11_an_open_attribute_leaves_cells_alone() -> None:
    """Three attributes of 256 cells, sides of 101 and 106: 37 billion cubes, 0.3 million at 70 %; one attribute open:
    115 million, and 80 million at 70 %."""
    sides = (101, 106)
    exhaustive, part = count_all_cubes(sides * 3), cubes_needed(sides * 3, 0.7)
    assert (round(exhaustive / 1e9), round(part / 1e6, 1)) == (37, 0.3)
    is_open = (*sides * 2, 1, 1)
    exhaustive, part = count_all_cubes(is_open), cubes_needed(is_open, 0.7)
    assert (round(exhaustive / 1e6), round(part / 1e6)) == (115, 80)
    assert part == math.ceil(0.7 * exhaustive)  # nothing saved but the share itself


def test_z_3_11_the_index_keeps_open_ends_apart() -> None:
    """Without a cap on look-ups: the search for covers of a box with an open attribute looks up few cubes."""
    names = ["x", "y", "z"]
    index = ZCurveIndex(Schema({name: Number(0, 256) for name in names}), epsilon=0.3, k=8, capped=False)
    lo = np.array([[90.0, 90.0, -np.inf], [10.0, 10.0, 10.0]])
    hi = np.array([[160.0, 160.0, np.inf], [20.0, 20.0, 20.0]])
    index.add_boxes(np.array([0, 1], np.int32), SubscriptionTable.from_boxes(names, lo, hi))
    question = SubscriptionTable.from_boxes(names, [[100.0, 100.0, -np.inf]], [[150.0, 150.0, np.inf]])
    index.find_cover(question.box_subscription(0, 0))
    assert index.statistics().details["last_cubes"] < 100_000  # 80 million if the open attribute were a range


def test_z_3_12_what_an_approximate_search_costs() -> None:
    """Sides of 12 bits, 50 draws: 1,100 and 40,000 look-ups for d = 4 at 70 and 90 %, 400,000 for d = 6 at 70 %."""
    rng, means = np.random.default_rng(12), []
    for d, coverage in ((4, 0.7), (4, 0.9), (6, 0.7), (8, 0.7)):
        queries = [tuple(map(int, rng.integers(2**11, 2**12, d))) for _ in range(50)]
        means.append(float(np.mean([float(cubes_needed(lengths, coverage)) for lengths in queries])))
    assert [float(f"{mean:.1g}") for mean in means] == [1_000, 40_000, 400_000, 2e9]
    assert round(means[0], -2) == 1_100
    assert means[2] > 100_000  # a scan of 100,000 boxes looks at fewer


def test_z_3_13_covers_that_are_slightly_larger_lie_in_the_part_left_out() -> None:
    """d = 4, 5 bits, epsilon = 0.1: of covers one cell larger on each side fewer than 90 % are found: 69 %."""
    rng, hits = np.random.default_rng(13), 0
    for _ in range(200):
        point = rng.integers(4, 28, 4)
        array = SfcArray(4, 5)
        array.insert(tuple((point + 1).tolist()), row=7)
        hits += any(len(rows) for rows in array.runs(array.begin(point.tolist(), (1, 10), most=2**60)))
    assert round(hits / 200, 2) == 0.69 < 0.9 == 1 - 0.1


# ---- mics


def test_m_3_12_cells_and_values_save_different_subscriptions() -> None:
    """[2.4, 5.6] and then [2.1, 5.9] on cells of 1: cells withhold the second, values do not."""
    curve = HilbertCurve(1, 3)
    table, index = RangeTable(curve.n_keys), DominanceIndex()
    lo, hi = [[2.4], [2.1]], [[5.6], [5.9]]
    boxes = SubscriptionTable.from_boxes(["x"], lo, hi)
    sent = {"cells": 0, "values": 0}
    for row in range(2):
        sent["cells"] += bool(
            len(table.add(curve.ranges(np.floor(lo[row]).astype(int), np.floor(hi[row]).astype(int))))
        )
        if index.find_cover(boxes.box_subscription(row, row)) is None:
            index.add(row, boxes.box_subscription(row, row))
            sent["values"] += 1
    assert sent == {"cells": 1, "values": 2}


# ---- crtree

SQUARE = shapely.box(0, 0, 10, 10)
SPIKE = shapely.Polygon([(11, 0), (21, 0), (21, 11), (11, 11), (11, 5.6), (9.9, 5.5), (11, 5.4)])


def test_s_3_4_how_many_combinations_conflict_or_cover() -> None:
    """64 cells, 193 triples; of 512 combinations 319 conflict and 27 cover."""
    singleton = {relation: frozenset({relation}) for relation in Relation}
    combinations = [(a, q, b) for q in Relation for a in Relation for b in Relation]
    assert (len(COMPOSITION), sum(map(len, COMPOSITION.values())), len(combinations)) == (64, 193, 512)
    assert sum(sets_conflict(singleton[a], q, singleton[b]) for a, q, b in combinations) == 319
    assert sum(compose(singleton[b], INVERSE[q]) <= singleton[a] for a, q, b in combinations) == 27


def test_s_3_7_a_sampled_relation_deletes_a_filter_that_can_match() -> None:
    """Inside the square and inside the block with a spike: disjoint by samples, so the filter is dropped for good."""
    inside = frozenset({Relation.INSIDE})
    sampled, truth = find_relation(SQUARE, SPIKE, 1, halo=False), relation_of(SQUARE, SPIKE)
    assert sets_conflict(inside, sampled, inside)
    assert not sets_conflict(inside, truth, inside)
    event = SQUARE.intersection(SPIKE).buffer(-0.001)
    assert relation_of(event, SQUARE) is relation_of(event, SPIKE) is Relation.INSIDE


def test_s_3_8_d_samples_that_all_lie_on_the_boundary() -> None:
    """A triangle inscribed in a square, end points alone, the square first: meets, where the square covers it."""
    inscribed = shapely.Polygon([(0, 0), (10, 0), (10, 10)])
    assert relation_of(SQUARE, inscribed) is Relation.COVERS
    assert _find_relation(SQUARE, inscribed, 0, False, False, np.zeros(1, np.int64)) is Relation.MEETS


def test_s_3_12_two_blocks_of_table_3_are_one() -> None:
    blocks = {
        (place, part): [times[part] for times in kinds.values()] for place, kinds in TABLE_3.items() for part in (0, 1)
    }
    alike = [pair for pair in combinations(blocks, 2) if set(blocks[pair[0]]) & set(blocks[pair[1]])]
    assert alike == [(("Rhone-Alpes", 1), ("London", 0))]
    assert blocks["Rhone-Alpes", 1] == blocks["London", 0]


# ---- projection


def test_r_3_4_the_numbers_of_one_and_six_projections() -> None:
    """0.713 at z = 0.9 in the plane; at z = 0.6, k = 6: 0.976 for d = 20 against 0.067."""
    assert round(pass_probability(0.9, 2), 3) == 0.713
    assert round(pass_probability(0.6, 20) ** 6, 3) == 0.976
    assert round((2 / math.pi) ** 6, 3) == 0.067


def test_r_3_5_and_r_3_6_most_reported_covers_are_false() -> None:
    """About 69 % of reports for d = 4, k = 2, and one candidate misses 78 %; d = 20, k = 10: more than 99 %."""
    rows = {}
    for d, radii in ((4, "uniform"), (20, "uniform")):
        config = {"d": d, "radii": radii, "kind": "gaussian", "n": 1_500, "queries": 1_500 if d == 20 else 300}
        rows[d] = error._run(config, np.random.default_rng(5))[d // 2 - 1]
    assert 1 - rows[4]["precision"] == pytest.approx(0.69, abs=0.05)
    assert round(rows[4]["redundant"] / rows[4]["covered"], 2) == pytest.approx(0.78, abs=0.05)
    assert (rows[20]["k"], rows[4]["k"]) == (10, 2)
    assert 1 - rows[20]["precision"] > 0.99
    assert rows[20]["redundant"] >= 0.99 * rows[20]["covered"]


def test_r_3_9_two_cubes_leave_few_pairs_open() -> None:
    """5 to 18 % of pairs with r > r', for 2 to 20 dimensions."""
    shares = [cubes._run({"d": d, "n": 600}, np.random.default_rng(d))[0]["ambiguous"] for d in (2, 4, 8, 12, 20)]
    assert [round(share, 2) for share in (min(shares), max(shares))] == [0.05, 0.18]


def test_r_3_10_the_logarithm_of_the_range_tree_exceeds_a_scan() -> None:
    """k = 3 and n = 10,000: log^(2k-1) n is about 400,000."""
    assert round(math.log2(10_000) ** (2 * 3 - 1), -5) == 400_000


def test_r_3_12_units_change_a_ball_and_a_radius_of_0_is_harmless() -> None:
    def ball(*center: float, radius: float) -> Subscription:
        return Subscription(0, (Filter((Ball("look", center, radius),)),))

    unit = ball(0.0, 0.0, radius=1.0)
    assert matches_subscription({"look": np.array([0.0, 0.9])}, unit)
    assert not matches_subscription({"look": np.array([0.0, 9.0])}, unit)  # the second value in tenths
    point, index = ball(0.5, 0.0, radius=0.0), ProjectionIndex()
    assert matches_subscription({"look": np.array([0.5, 0.0])}, point)
    index.add(3, point)
    assert index.find_cover(point) == 3
    index.add(4, unit)
    assert index.find_cover(ball(0.5, 0.0, radius=0.1)) == 4


# ---- drtree


def test_d_3_1_levels_of_a_large_tree() -> None:
    """400 peers, m = 2: the formula gives 8 levels, the tree has 5; for 10,000 the formula gives 13."""
    seats = grow(*containment_boxes("zipf-25:75", 400), "quadratic", (2, 5))
    assert math.ceil(math.log2(400)) - 1 == 8
    assert tree_statistics(seats).height == 5
    assert math.ceil(math.log2(10_000)) - 1 == 13


@pytest.mark.parametrize(("attributes", "least", "most"), [(4, 0.5, 0.75), (8, 0.9, 1.0)])
def test_d_3_4_most_messages_are_in_vain(attributes: int, least: float, most: float) -> None:
    """150 peers, 4 attributes: 50 to 75 % of what is received is in vain; with 8, more than 90 %."""
    for split in SPLITS:
        seats = grow(*containment_boxes("zipf-25:75", 150, attributes), split)
        reach = reach_of(seats, np.random.default_rng(5).random((400, attributes)))
        assert least < reach.false_positives / reach.received < most
        assert reach.false_positives < 0.05


def test_d_3_5_a_publisher_that_does_not_match_adds_its_own_path() -> None:
    """150 peers: 1.6 % of them receive in vain what is injected at the root, 2.3 % what a random peer publishes."""
    seats = grow(*containment_boxes("zipf-25:75", 150), "quadratic")
    by_name, events = {seat.name: seat for seat in seats}, np.random.default_rng(5).random((200, 4))
    rng, at_root, at_peers = np.random.default_rng(6), 0, 0
    for event in events:
        wanted = {seat.name for seat in seats if _has(seat.box, event)}
        reached = {seat.name for seat in seats if _has(seat.mbr(seat.top), event)}
        path = [seats[int(rng.integers(len(seats)))].name]
        while (parent := by_name[path[-1]].parent) is not None:
            path.append(parent)
        at_root += len(reached - wanted)
        at_peers += len((reached | set(path[1:])) - wanted)
    shares = [count / len(seats) / len(events) for count in (at_root, at_peers)]
    assert [round(share, 3) for share in shares] == [0.016, 0.023]
    assert all(by_name[a].parent == b for a, b in pairwise(path))


def _has(box: np.ndarray, event: np.ndarray) -> bool:
    return bool(((box[0] <= event) & (box[1] >= event)).all())
