"""Matching of balls through the engine: dimensions 1 to 1,024, points on the rim, both doors, saving and loading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.index.registry import MATCHERS
from tests import naive_balls


def expected(centers, radii, ids, points):
    truth = naive_balls.cover_matrix((centers, radii), (points, np.zeros(len(points))))
    return [[id for id, hit in zip(ids, truth[:, e], strict=True) if hit] for e in range(len(points))]


def lattice(d, n, m):
    """Balls and points of integers: many points lie on a rim, exactly."""
    rng = np.random.default_rng(d)
    reach = 3 if d < 50 else 1
    centers = rng.integers(-reach, reach + 1, (n, d)).astype(np.float64)
    points = np.concatenate((centers[: m // 2], rng.integers(-reach, reach + 1, (m - m // 2, d)))).astype(np.float64)
    points[0, 0] += 1
    apart = np.rint(((centers - points[rng.integers(0, m, n)]) ** 2).sum(axis=1))
    return centers, np.floor(np.sqrt(apart)), points


def answers(engine, points):
    table = engine.match_table({"look": list(points)})
    return [table.of(i) for i in range(len(points))]


@pytest.mark.parametrize("d", [1, 2, 3, 8, 20, 64, 384, 1024])
def test_both_doors_match_as_rational_arithmetic_does(d):
    n = 400 if d < 300 else 150
    centers, radii, points = lattice(d, n, 12)
    engine = tamis.Engine(tamis.Schema({"look": tamis.Vector(d)}))
    ids = list(engine.subscribe_balls("look", centers, radii))
    apart = ((centers[:, None] - points) ** 2).sum(axis=2)  # small integers: exact
    want = [[ids[i] for i in np.flatnonzero(apart[:, e] <= radii**2)] for e in range(len(points))]
    assert answers(engine, points) == want
    assert [engine.match({"look": point}) for point in points] == want
    assert any(want)


@pytest.mark.parametrize("matcher", MATCHERS)
def test_texts_and_arrays_say_the_same(matcher):
    centers, radii, points = lattice(2, 300, 20)
    engine, texts = tamis.Engine(matcher=matcher), tamis.Engine(matcher=matcher)
    engine.subscribe_balls("look", centers, radii, ids=[f"b{i}" for i in range(300)])
    for i, (center, radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
        texts.subscribe(f"V_WITHIN(look, ({center[0]}, {center[1]}), {radius})", id=f"b{i}")
    assert answers(engine, points) == answers(texts, points)
    assert engine.subscription("b7").filters == texts.subscription("b7").filters
    assert str(engine.explain({"look": points[0]}, "b7")).splitlines()[1].strip().startswith("V_WITHIN(look, (")


def test_balls_live_beside_boxes_and_texts(tmp_path: Path):
    rng = np.random.default_rng(1)
    engine = tamis.Engine(tamis.Schema({"x": tamis.Number(), "look": tamis.Vector(3)}))
    balls = engine.subscribe_balls("look", rng.normal(size=(700, 3)), np.full(700, 0.9))
    engine.subscribe_boxes(["x"], np.arange(300.0)[:, None], np.arange(300.0)[:, None] + 5)
    for i in range(40):
        engine.subscribe(f"V_WITHIN(look, (0, 0, 0), {i / 20}) AND x < {i}", id=f"mixed {i}")
        engine.subscribe(f"NOT V_WITHIN(look, (0, 0, 0), {i / 20})", id=f"far {i}")
    for id in list(balls)[::3]:
        engine.unsubscribe(id)
    events = [{"x": float(i), "look": rng.normal(size=3)} for i in range(20)]
    events += [{"x": 3.0}, {"look": np.zeros(3)}, {}]
    oracle = tamis.Engine(engine.schema, matcher="linear")
    for subscription in engine:
        oracle._admit([subscription])
    engine.save(tmp_path)
    for tried in (engine, tamis.Engine.load(tmp_path)):
        assert len(tried) == len(oracle)
        for event in events:
            assert tried.match(event) == oracle.match(event)
        table = {name: [event.get(name) for event in events] for name in ("x", "look")}
        matches, want = tried.match_table(table), oracle.match_table(table)
        assert [matches.of(i) for i in range(len(events))] == [want.of(i) for i in range(len(events))]
    assert sum(len(oracle.match(event)) for event in events) > 100


def test_a_bad_row_matches_nothing_and_others_do():
    engine = tamis.Engine(tamis.Schema({"look": tamis.Vector(2)}))
    engine.subscribe_balls("look", np.zeros((300, 2)), np.ones(300))
    table = pa.table({"look": pa.array([[0.0, 0.5], [float("nan"), 0.0], None, [2.0, 0.0]], pa.list_(pa.float64(), 2))})
    matches = engine.match_table(table, on_bad="skip")
    assert [len(matches.of(i)) for i in range(4)] == [300, 0, 0, 0]


def test_an_id_can_return_as_another_ball():
    engine = tamis.Engine()
    engine.subscribe_balls("look", np.zeros((300, 1)), np.ones(300), ids=[f"{i}" for i in range(300)])
    engine.unsubscribe("7")
    engine.subscribe_balls("look", [[50.0]], [1.0], ids=["7"])
    assert engine.match({"look": [50.5]}) == ["7"]
    assert "7" not in engine.match({"look": [0.0]})


def test_statistics_tell_how_balls_are_searched():
    engine = tamis.Engine()
    engine.subscribe_balls("look", np.random.default_rng(1).random((2_000, 2)), np.full(2_000, 0.01))
    engine.match({"look": [0.5, 0.5]})
    numbers = engine.statistics()["namespaces"]["default"]
    assert (numbers["balls"], numbers["balls.look.way"], numbers["balls.look.dimension"]) == (2_000, "tree", 2)
    assert numbers["balls.look.asked"] == 1


@pytest.mark.parametrize(
    ("centers", "radii", "ids", "message"),
    [
        ([[0.0, np.nan]], [1.0], None, "row 0: a ball has a finite center"),
        ([[0.0], [1.0]], [1.0, -1.0], None, "row 1: a ball has a finite center and a finite radius, not negative"),
        ([[0.0]], [np.inf], None, "the radius is inf"),
        ([0.0], [1.0], None, r"expected centers \[n, d\] and radii \[n\], got \(1,\) and \(1,\)"),
        ([["a"]], [1.0], None, "centers of balls are numbers, not an array of"),
        ([[0.0]], [1.0], ["a", "b"], "2 ids for 1 balls"),
    ],
)
def test_bad_balls_name_the_row(centers, radii, ids, message):
    engine = tamis.Engine()
    with pytest.raises(tamis.TableError, match=message):
        engine.subscribe_balls("look", centers, radii, ids)
    assert len(engine) == 0


def test_a_ball_of_another_dimension_is_refused():
    engine = tamis.Engine(tamis.Schema({"look": tamis.Vector(3)}))
    with pytest.raises(tamis.TamisError):
        engine.subscribe_balls("look", [[0.0, 0.0]], [1.0])
    assert len(engine) == 0


@pytest.mark.soak
@pytest.mark.parametrize("d", [2, 8, 64])
def test_soak_matching_of_balls(d):
    rng = np.random.default_rng(d)
    centers, radii = rng.random((20_000, d)), rng.random(20_000) * np.sqrt(d) / 3
    engine = tamis.Engine()
    engine.subscribe_balls("look", centers, radii)
    points = rng.random((40, d))
    want = expected(centers, radii, range(20_000), points)
    assert answers(engine, points) == want


@pytest.mark.parametrize("d", [1, 3, 70])
def test_balls_with_other_constraints_are_decided_without_raw_values(d, monkeypatch):
    """Numbers, strings and one ball, plain or negated: the box and the ball kernel decide, and no filter is asked."""
    centers, radii, points = lattice(d, 200, 16)
    engine, oracle = (tamis.Engine(matcher=name) for name in ("packed", "linear"))
    for i, (center, radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
        ball = f"V_WITHIN(look, ({', '.join(map(str, center))}), {radius})"
        text = f"{'NOT ' if i % 3 == 0 else ''}{ball} AND x < {i % 7}" + (" AND name IN ('a', 'b')" if i % 2 else "")
        engine.subscribe(text, id=i)
        oracle.subscribe(text, id=i)
    events = [{"look": point, "x": i % 5, "name": "abc"[i % 3]} for i, point in enumerate(points)]
    events += [{"x": 1}, {"look": points[0]}, {"look": points[1], "x": 2}]
    want = [oracle.match(event) for event in events]
    table = {name: [event.get(name) for event in events] for name in ("look", "x", "name")}
    from tamis.index.packed import search

    def refuse(*_: object) -> bool:
        raise AssertionError("a filter was asked")

    monkeypatch.setattr(search, "matches", refuse)
    assert [engine.match(event) for event in events] == want
    matches = engine.match_table(table)
    assert [matches.of(i) for i in range(len(events))] == want
    assert sum(map(len, want)) > 100


def test_a_vector_within_rounding_of_a_rim_is_asked_on_raw_values():
    engine = tamis.Engine()
    engine.subscribe_boxes(["x"], np.zeros((200, 1)), np.ones((200, 1)))
    rng = np.random.default_rng(5)
    points = rng.normal(size=(30, 3))
    radii = np.linalg.norm(points, axis=1)
    for i, radius in enumerate(radii.tolist()):
        engine.subscribe(f"V_WITHIN(look, (0, 0, 0), {radius!r}) AND x <= 1", id=f"rim {i}")
    truth = naive_balls.cover_matrix((np.zeros((30, 3)), radii), (points, np.zeros(30)))
    matches = engine.match_table({"look": points, "x": np.full(30, 5.0) / 5})
    for e in range(30):
        got = [id for id in matches.of(e) if isinstance(id, str)]
        assert got == sorted(f"rim {i}" for i in np.flatnonzero(truth[:, e]))
