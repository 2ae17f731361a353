"""Regions in the packed core: decided in batches, without the raw subscriptions; far away ones without a look."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import shapely

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import InvariantError
from tamis.geometry.relations import relation_of, rings_of
from tamis.index.packed.axes import Axes
from tamis.index.packed.boxes_of import boxes_of
from tamis.index.packed.core import PackedCore
from tamis.index.packed.deciders.regions import RegionTests
from tamis.kernels.polygons.region_tests import NO, OPEN, YES
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Spatial, Subscription, Values
from tamis.model.tables import EventTable
from tamis.model.types import Number, Region
from tamis.model.value_set import ValueSet
from tests.region_worlds import cell_regions, mixed_regions, points

SCHEMA = Schema({"area": Region(), "place": Region(), "x": Number()})

Rng = np.random.Generator


def refuse(row: int) -> Subscription | None:
    raise InvariantError(f"row {row} was looked up")


def random_subscription(rng: Rng, row: int, regions: np.ndarray) -> Subscription:
    constraints: list[Any] = []
    for name in rng.choice(["area", "area", "place"], rng.integers(1, 4)):
        some = rng.choice(list(Relation), rng.integers(1, 8), replace=False)
        region = regions[rng.integers(len(regions))]
        constraints.append(Spatial(str(name), frozenset(Relation(str(relation)) for relation in some), region))
    if rng.random() < 0.3:
        constraints.append(Values("x", ValueSet.between(None, (int(rng.integers(3)), 1))))
    return Subscription(row, (Filter(tuple(sorted(constraints, key=lambda constraint: constraint.attribute))),))


@pytest.fixture(scope="module")
def world() -> tuple[PackedCore, list[Subscription], list[dict[str, Any]]]:
    rng = np.random.default_rng(8)
    regions = np.concatenate([cell_regions(rng, 40)[1], mixed_regions(rng, 40)])
    core = PackedCore(refuse)
    subscriptions = [random_subscription(rng, row, regions) for row in range(400)]
    for subscription in subscriptions:
        core.add(int(subscription.id), subscription)
    shapes = np.concatenate([regions, points(rng, 40)])
    events: list[dict[str, Any]] = []
    for _ in range(120):
        event: dict[str, Any] = {"area": shapes[rng.integers(len(shapes))], "x": float(rng.integers(3))}
        events.append(event | ({"place": shapes[rng.integers(len(shapes))]} if rng.random() < 0.7 else {}))
    return core, subscriptions, events


def wanted(subscriptions: list[Subscription], event: dict[str, Any]) -> list[int]:
    return [int(subscription.id) for subscription in subscriptions if matches_subscription(event, subscription)]


def table_of(events: list[dict[str, Any]]) -> EventTable:
    columns = {}
    for name in ("area", "place"):
        columns[name] = np.empty(len(events), dtype=object)
        columns[name][:] = [event.get(name) for event in events]
    return EventTable.of(columns | {"x": np.array([event["x"] for event in events])}, SCHEMA)


def test_single_events_need_no_raw_subscription(world: Any) -> None:
    core, subscriptions, events = world
    for event in events:
        assert core.match(event).tolist() == wanted(subscriptions, event)


def test_tables_need_none_either(world: Any) -> None:
    core, subscriptions, events = world
    offsets, rows = core.match_table(table_of(events))
    for i, event in enumerate(events):
        assert sorted(rows[offsets[i] : offsets[i + 1]].tolist()) == wanted(subscriptions, event)


def test_a_saved_core_has_the_polygons(world: Any) -> None:
    core, subscriptions, events = world
    again = PackedCore.from_arrays(refuse, *core.to_arrays())
    extra = Subscription(
        900, (Filter((Spatial("area", frozenset({Relation.DISJOINT}), shapely.box(50, 50, 51, 51)),)),)
    )
    again.add(900, extra)
    for event in events[:30]:
        assert again.match(event).tolist() == wanted([*subscriptions, extra], event)


def test_what_is_far_away_is_found_by_boxes() -> None:
    """A condition that allows disjoint is four exact boxes and one that asks."""
    square = Spatial("area", frozenset({Relation.DISJOINT}), shapely.box(0, 0, 1, 1))
    boxes = boxes_of(Filter((square,)), Axes())
    assert [(box.exact, len(box.regions)) for box in boxes] == [(False, 1)] + [(True, 0)] * 4


def test_many_such_conditions_in_a_filter_stay_few_boxes() -> None:
    some = [Spatial("area", frozenset({Relation.DISJOINT}), shapely.box(i, i, i + 1, i + 1)) for i in range(6)]
    boxes = boxes_of(Filter(tuple(some)), Axes())
    assert len(boxes) <= 16
    core = PackedCore(refuse)
    core.add(0, Subscription(0, (Filter(tuple(some)),)))
    for x, want in ((0.5, []), (5.5, []), (9.0, [0]), (-3.0, [0])):
        assert core.match({"area": shapely.Point(x, x)}).tolist() == want
        assert core.match({"area": shapely.box(x, 7, x + 0.1, 9)}).tolist() == [0]


def test_the_edge_of_numbers() -> None:
    """Nothing is left or right of a polygon that reaches the largest float64."""
    largest = np.finfo(np.float64).max
    wide = shapely.box(-largest, 0, largest, 1)
    core = PackedCore(refuse)
    core.add(0, Subscription(0, (Filter((Spatial("area", frozenset({Relation.DISJOINT}), wide),)),)))
    assert core.match({"area": shapely.Point(5, 2)}).tolist() == [0]
    assert core.match({"area": shapely.Point(5, 1)}).tolist() == []


def test_a_long_table_is_taken_in_another_order(world: Any) -> None:
    """From 512 events on they are matched in the order of the tree; each still gets its own rows, each once."""
    core, subscriptions, events = world
    core.compact()
    offsets, rows = core.match_table(table_of(events * 6))
    want = [wanted(subscriptions, event) for event in events]
    assert [sorted(rows[a:b].tolist()) for a, b in itertools.pairwise(offsets)] == want * 6


def test_regions_are_laid_out_in_the_order_of_their_boxes(rng: Rng) -> None:
    """A new layout, and entries that come between making and taking it over, change no answer."""
    regions = np.concatenate([cell_regions(rng, 40)[1], mixed_regions(rng, 40)])
    some = [random_subscription(rng, row, regions) for row in range(120)]
    groups = [
        [(0, c) for f in subscription.filters for c in f.constraints if isinstance(c, Spatial)][:3]
        for subscription in some
    ]
    groups[::9] = [[] for _ in groups[::9]]
    tests = RegionTests()
    tests.append(groups[:80])
    laid_out = tests.laid_out(rng.permutation(60).astype(np.int32))
    tests.append(groups[80:])
    entries = np.arange(120, dtype=np.int32).repeat(7)
    event = rng.integers(80, size=len(entries))
    before, n_open = tests.decide(lambda _: rings_of(regions), event, entries)
    tests.adopt(laid_out)
    after, _ = tests.decide(lambda _: rings_of(regions), event, entries)
    assert np.array_equal(before, after)
    assert {YES, NO, OPEN} == set(before.tolist())
    assert (before == OPEN).tolist() == [not groups[entry] for entry in entries]
    assert n_open == (before == OPEN).sum()
    held = [
        all(relation_of(regions[i], c.region) in c.relations for _, c in groups[e])
        for i, e in zip(event, entries, strict=True)
    ]
    assert (before != NO).tolist() == held


def test_entries_without_regions_need_no_region_of_the_event() -> None:
    tests = RegionTests()
    tests.append([[], []])
    verdicts, n_open = tests.decide(
        lambda _: pytest.fail("asked for"), np.zeros(2, np.int64), np.arange(2, dtype=np.int32)
    )
    assert (verdicts.tolist(), n_open) == ([OPEN, OPEN], 2)
