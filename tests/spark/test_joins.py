"""Joins of DataFrames give the pairs that the laptop's own functions give."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest
import shapely
from pyspark.errors import PythonException

import tamis
from tamis.algebra.evaluate import matches
from tamis.curves.hilbert import HilbertCurve
from tamis.errors import ModelError, TableError
from tamis.model.language.compiler import compile_text
from tamis.overlay.space import Space
from tamis.spark import (
    ball_join,
    covers_join,
    find_covers,
    hilbert_keys,
    hilbert_ranges,
    overlay_plan,
    range_join,
    relation_join,
)
from tamis.spark.joins.overlay_boxes import curve_keys
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
    wanted = [
        (a, b) for a, outer_text in outer for b, inner_text in inner if tamis.covers(outer_text, inner_text, SCHEMA).yes
    ]
    assert len(wanted) > len(inner)
    assert _pairs(covers_join(*frames, schema=SCHEMA, parts=2)) == sorted(wanted)
    best = {b: min(a for a, other in wanted if other == b) for _, b in wanted}
    assert _pairs(find_covers(frames[1], frames[0], schema=SCHEMA)) == sorted(best.items())


def test_covers_join_with_the_options_of_each_index(spark: Any) -> None:
    """A kind that is only SOUND gives true pairs; with its options set to find everything it gives all of them."""
    schema = tamis.Schema({"a": tamis.Number(0, 100), "b": tamis.Number(0, 100)})
    rng = random.Random(48)

    def boxes(n: int, width: int) -> list[tuple[int, str]]:
        corners = [(rng.randrange(90), rng.randrange(90)) for _ in range(n)]
        return [
            (i, f"a BETWEEN {x} AND {x + width} AND b BETWEEN {y} AND {y + width}") for i, (x, y) in enumerate(corners)
        ]

    outer, inner = boxes(30, 40), boxes(40, 5)
    frames = [spark.createDataFrame(rows, "id int, filter string") for rows in (outer, inner)]
    every = {
        (a, b) for a, outer_text in outer for b, inner_text in inner if tamis.covers(outer_text, inner_text, schema).yes
    }
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("zcurve", {"epsilon": 0.0, "k": 12, "curve": "hilbert"}),
        ("zcurve", {"epsilon": 0.3, "k": 8, "curve": "gray", "probes": 50}),
        ("cells", {"k": 5, "axes": 2, "groups": 1}),
    ]
    for kind, options in kinds:
        pairs = _pairs(covers_join(*frames, schema=schema, kind=kind, parts=2, **options))
        assert len(pairs) == len(set(pairs)), kind
        assert set(pairs) <= every, kind
        assert set(pairs) == every or kind != "zcurve" or options["epsilon"], kind
    assert len(every) > 20
    balls = tamis.Schema({"v": tamis.Vector(3)})
    texts_of_balls = [(i, f"V_WITHIN(v, ({i % 7}, {i % 5}, {i % 3}), {1 + i % 4})") for i in range(40)]
    sets = spark.createDataFrame(texts_of_balls, "id int, filter string")
    wanted = [
        (a, b)
        for a, outer_text in texts_of_balls
        for b, inner_text in texts_of_balls
        if tamis.covers(outer_text, inner_text, balls).yes
    ]
    options = {"kind": "projection", "k": 2, "seed": 7, "draw": "gaussian", "pick": "largest"}
    assert _pairs(covers_join(sets, sets, schema=balls, parts=2, **options)) == sorted(wanted)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kind": "best"}, "unknown covering index 'best'; choose from cells, exact"),
        ({"epsilon": 0.1}, "'exact' has no option 'epsilon'; it is an option of zcurve"),
        (
            {"kind": "zcurve", "epsilom": 0.1},
            "no option 'epsilom'; 'zcurve' takes epsilon, k, curve, probes, truncated",
        ),
        ({"kind": "zcurve", "epsilon": 2}, "epsilon is a share, at least 0 and below 1, not 2"),
        ({"kind": "zcurve", "curve": "peano"}, "unknown curve 'peano'; choose from gray, hilbert, z"),
        ({"kind": "zcurve", "k": 40}, "a side of the curve has 1 to 32 bits, not 40"),
        ({"kind": "projection", "pick": "any"}, "pick must be one of"),
        ({"parts": 0}, "parts: expected a whole number of at least 1, got 0"),
    ],
)
def test_options_of_covers_join_are_checked_at_once(spark: Any, options: dict[str, Any], problem: str) -> None:
    frame = spark.createDataFrame([(1, "price < 5")], "id int, filter string")
    for join in (covers_join, find_covers):
        with pytest.raises(ModelError, match=problem):
            join(frame, frame, schema=SCHEMA, **options)


def test_a_filter_that_cannot_be_joined_is_named(spark: Any) -> None:
    good = spark.createDataFrame([(1, "price < 5")], "id int, filter string")
    for text, problem in (("price >>", "filter of 7: expected"), (None, "filter of 7: it is missing")):
        bad = good.union(spark.createDataFrame([(7, text)], "id int, filter string"))
        for sides in ((bad, good), (good, bad)):
            with pytest.raises(PythonException, match=problem):
                covers_join(*sides, schema=SCHEMA, parts=1).collect()


def test_a_row_without_an_id_is_an_error(spark: Any) -> None:
    good = spark.createDataFrame([(1, "price < 5")], "id int, filter string")
    bad = good.union(spark.createDataFrame([(None, "price < 4")], "id int, filter string"))
    for join, sides in ((covers_join, (bad, good)), (covers_join, (good, bad)), (find_covers, (bad, good))):
        with pytest.raises(PythonException, match=r"a row has no id \(its filter: 'price < 4'\); give every row an id"):
            join(*sides, schema=SCHEMA, parts=1).collect()


def test_relation_join(spark: Any) -> None:
    rng = random.Random(43)

    def regions(n: int) -> list[tuple[int, bytes | None]]:
        boxes = [(rng.randrange(20), rng.randrange(20), rng.randrange(1, 9), rng.randrange(1, 9)) for _ in range(n)]
        return [(i, shapely.to_wkb(shapely.box(x, y, x + w, y + h))) for i, (x, y, w, h) in enumerate(boxes)]

    left, right = regions(60), [*regions(60), (60, left_wkb := shapely.to_wkb(shapely.box(-9, -9, 99, 99))), (61, None)]
    left.append((60, left_wkb))
    frames = [spark.createDataFrame(rows, "id int, region binary") for rows in (left, right)]
    every = [(i, j, str(tamis.relation(a, b))) for i, a in left for j, b in right if b is not None]
    wanted = [pair for pair in every if pair[2] in RELATIONS]
    assert {pair[2] for pair in wanted} == set(RELATIONS)
    assert _pairs(relation_join(*frames, RELATIONS)) == sorted(wanted)
    assert _pairs(relation_join(*frames, ["inside"])) == sorted(pair for pair in wanted if pair[2] == "inside")
    with pytest.raises(TableError, match="disjoint.*choose from"):
        relation_join(*frames, ["disjoint"])
    assert _pairs(relation_join(frames[0].limit(0), frames[1].limit(0), ["meets"])) == []
    nested = struct.pack("<BII", 1, 7, 1) * 40_000
    bad = frames[0].limit(3).union(spark.createDataFrame([(77, nested)], "id int, region binary"))
    with pytest.raises(PythonException, match="region of 77: a collection inside a collection"):
        relation_join(bad, frames[1], ["meets"])


def test_ball_join(spark: Any) -> None:
    rng = np.random.default_rng(44)
    points, centers = rng.uniform(-1, 1, (40, 3)), rng.uniform(-1, 1, (30, 3))
    radii = rng.uniform(1e-6, 1, 30)
    left = spark.createDataFrame(
        [(i, point.tolist()) for i, point in enumerate(points)], "id long, vector array<double>"
    )
    balls = [(i, center.tolist(), float(radii[i])) for i, center in enumerate(centers)]
    right = spark.createDataFrame(balls, "id long, center array<double>, radius double")
    distances = np.linalg.norm(points[:, None] - centers[None], axis=2)
    assert _pairs(ball_join(left, right, dimensions=3)) == [tuple(pair) for pair in np.argwhere(distances <= radii)]


def test_keys_in_ranges(spark: Any) -> None:
    rng, bits = np.random.default_rng(45), 6
    cells = rng.integers(0, 1 << bits, (50, 2))
    corners = np.sort(rng.integers(0, 1 << bits, (20, 2, 2)), axis=1)
    keys = hilbert_keys(
        spark.createDataFrame([(i, cell.tolist()) for i, cell in enumerate(cells)], "id int, cell array<int>"),
        bits=bits,
    )
    curve = HilbertCurve(2, bits)
    assert [key for _, key in _pairs(keys)] == curve.keys(cells).tolist()
    boxes = [(i, low.tolist(), high.tolist()) for i, (low, high) in enumerate(corners)]
    ranges = hilbert_ranges(spark.createDataFrame(boxes, "id int, low array<int>, high array<int>"), bits=bits)
    local = [(i, *run) for i, (low, high) in enumerate(corners) for run in curve.ranges(low, high).tolist()]
    assert _pairs(ranges) == sorted(local)
    inside = ((corners[None, :, 0] <= cells[:, None]) & (cells[:, None] <= corners[None, :, 1])).all(axis=2)
    assert _pairs(range_join(keys, ranges, key_bits=2 * bits)) == [tuple(pair) for pair in np.argwhere(inside)]


def local_tree(boxes: dict[Any, Any], fanout: int) -> list[tuple[Any, ...]]:
    """Return (level, node, parent, owner, box) of the tree over boxes, computed without Spark."""
    ids = list(boxes)
    keys = curve_keys(np.array([boxes[id].mean(axis=0) for id in ids]))
    level = [(id, boxes[id]) for _, id in sorted(zip(keys.tolist(), ids, strict=True))]
    nodes: list[tuple[Any, ...]] = []
    for number in range(99):
        top = len(level) == 1
        nodes += [(number, i, None if top else i // fanout, *bounds) for i, bounds in enumerate(level)]
        if top:
            return nodes
        groups = [level[i : i + fanout] for i in range(0, len(level), fanout)]
        level = [(min((-np.prod(box[1] - box[0]), id) for id, box in group)[1], around(group)) for group in groups]
    raise AssertionError("no root")


def is_match(event: dict[str, float], text: str, schema: tamis.Schema) -> bool:
    """Return what the oracle says."""
    return any(matches(schema.event(event), filter) for filter in compile_text(text, schema).filters)


def around(group: list[tuple[Any, Any]]) -> Any:
    """Return the box around boxes."""
    boxes = np.array([box for _, box in group])
    return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])


def test_a_plan_of_peers_is_the_tree_that_is_computed_here(spark: Any) -> None:
    rng, schema = random.Random(47), tamis.Schema({"a": tamis.Number(0, 100), "b": tamis.Number(0, 100)})
    rules = {
        f"p{i}": f"a BETWEEN {(x := rng.randrange(90))} AND {x + rng.randrange(1, 30)} AND b > {rng.randrange(100)}"
        for i in range(60)
    } | {"never": "a < 1 AND a > 2", "odd": "a <> 5 AND b < 50"}
    space = Space(schema)
    boxes = {id: space.box_of(compile_text(text, schema).filters) for id, text in rules.items()}
    tree = local_tree({id: box for id, box in boxes.items() if box is not None}, fanout=4)
    plan = overlay_plan(spark.createDataFrame(list(rules.items()), "id string, filter string"), schema=schema, fanout=4)
    nodes = {
        (row["level"], row["node"]): (row["parent"], row["owner"], row["low"], row["high"])
        for row in plan.nodes.collect()
    }
    assert nodes == {(level, node): (parent, owner, *box.tolist()) for level, node, parent, owner, box in tree}
    assert plan.height == 3
    events = [(i, float(rng.randrange(-5, 105)), None if i % 7 == 0 else float(rng.randrange(101))) for i in range(40)]
    reached = plan.receptions(spark.createDataFrame(events, "event_id long, a double, b double"))
    wanted = set()
    for id, a, b in events:
        event = {name: value for name, value in (("a", a), ("b", b)) if value is not None}
        point = space.box_of_event(event)[0]
        owners = {owner for *_, owner, box in tree if (box[0] <= point).all() and (point <= box[1]).all()}
        wanted |= {(id, owner, is_match(event, rules[owner], schema)) for owner in owners}
    assert {tuple(row) for row in reached.collect()} == wanted
    assert {hit for *_, hit in wanted} == {True, False}
    hits = {(id, owner) for id, owner, hit in wanted if hit}
    everyone = [(id, {"a": a} if b is None else {"a": a, "b": b}) for id, a, b in events]
    assert hits == {(id, who) for id, event in everyone for who, text in rules.items() if is_match(event, text, schema)}
    plan.release()
    bad = spark.createDataFrame([("x", "a >>")], "id string, filter string")
    with pytest.raises(Exception, match="filter of 'x'"):
        overlay_plan(bad, schema=schema)
    with pytest.raises(TableError, match="fanout: expected a whole number of at least 2, got 1"):
        overlay_plan(bad, schema=schema, fanout=1)
    single = overlay_plan(bad.selectExpr("id", "'a < 1' AS filter"), schema=schema)
    assert [(row["level"], row["parent"], row["owner"]) for row in single.nodes.collect()] == [(0, None, "x")]
    nothing = overlay_plan(bad.selectExpr("id", "'a < 1 AND a > 2' AS filter"), schema=schema)
    assert (nothing.nodes.count(), nothing.height) == (0, 0)
