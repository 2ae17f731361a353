"""The short road of single events gives the answers and errors of the ordinary one, and is taken where it can be."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import Engine, Number, Schema, String, TamisError
from tamis.index.direct import DirectReader
from tamis.index.packed.core import PackedCore
from tests.effort import effort

SCHEMA = Schema({"price": Number(), "symbol": String(), "volume": Number(), "note": String()})
FILTERS = (
    "symbol = 'IBM' AND price BETWEEN 1 AND 5",
    "symbol = 'Ünal'",
    "symbol IN ('IBM')",
    "price >= 9007199254740993",
    "price <= 0",
    "volume = 3",
    "volume BETWEEN -1 AND 1 AND price > 2",
)
N_SUBSCRIPTIONS = 210  # more than an engine asks one by one


def engine_of(matcher: str = "packed", filters: tuple[str, ...] = FILTERS, schema: Schema = SCHEMA) -> Engine:
    engine = Engine(schema, matcher=matcher)
    for i in range(N_SUBSCRIPTIONS // len(filters)):
        for j, text in enumerate(filters):
            engine.subscribe(text, id=f"{i}-{j}")
    return engine


def core_of(engine: Engine) -> PackedCore:
    core = engine.namespaces()[0].matcher._core
    assert isinstance(core, PackedCore)
    return core


def road_of(engine: Engine) -> DirectReader | None:
    return core_of(engine).roads.find(engine.schema)


PACKED, LINEAR = engine_of(), engine_of("linear")

NUMBERS = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1, 3, 5.0, 2**53, 2**53 + 1, -(2**53) - 1, 2**70, 1e308, math.inf, math.nan, True, None, "3"]
    ),
    st.floats(-2, 7),
)
TEXTS = st.sampled_from(["IBM", "Ünal", "other", "änderes", "\ud800", "a:b", "", 5, None])
EVENTS = st.fixed_dictionaries(
    {}, optional={"price": NUMBERS, "volume": NUMBERS, "symbol": TEXTS, "note": TEXTS, "unknown": st.just(1)}
)


def answer(match: Any, event: object) -> object:
    """Return the ids, or the kind and words of the error."""
    try:
        return match(event)
    except TamisError as error:
        return type(error), str(error)


@settings(max_examples=400)
@given(EVENTS)
def test_answers_and_errors_are_those_of_the_ordinary_road(event: dict[str, Any]) -> None:
    assert answer(PACKED.match, event) == answer(LINEAR.match, event)
    text = json.dumps(event).encode()
    assert answer(PACKED.match_json, text) == answer(LINEAR.match_json, text)


@pytest.mark.parametrize(
    "event",
    [
        {"price": 2.5, "symbol": "IBM", "volume": 3.0, "note": "any"},
        {"price": 2, "symbol": "Ünal", "volume": 2**53, "note": "x"},
        {"price": 2.5, "symbol": "unknown"},
        {"price": -0.0},
    ],
)
def test_plain_events_take_the_short_road(event: dict[str, Any]) -> None:
    road, expected = road_of(PACKED), LINEAR.match(event)
    assert road is not None
    for rows in (road.match(event), road.match_json(json.dumps(event).encode())):
        assert rows is not None
        assert sorted(PACKED.namespaces()[0].ids.of(np.array(rows, np.int32))) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        b'{"price": 1.0, "price": 2.0}',
        b'{"price": 1.0, "unknown": 2.0}',
        b'{"price": 1.0, "symbol": null}',
        b'{"price": true}',
        b'{"price": 9007199254740993}',
        b'{"price": 1e999}',
        b'{"price": NaN}',
        b'{"symbol": "\\ud800"}',
        b'{"symbol": "a:b"}',
        b"[1.0]",
        b"{",
    ],
)
def test_other_events_are_left_to_the_ordinary_road(text: bytes) -> None:
    road = road_of(PACKED)
    assert road is not None
    assert road.match_json(text) is None


@pytest.mark.parametrize(
    "event",
    [
        *({"price": math.nan}, {"price": True}, {"price": "1"}, {"symbol": "\ud800"}, {"x": 1}, [1]),
        *({"price": np.array([1.0, 2.0])}, {"price": np.array([None])}, {"symbol": np.array(["IBM"])}),
    ],
)
def test_other_dicts_are_left_to_the_ordinary_road(event: Any) -> None:
    road = road_of(PACKED)
    assert road is not None
    assert road.match(event) is None


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e308])
def test_a_schema_of_numbers_alone_refuses_what_is_not_finite(value: float) -> None:
    """Finite numbers whose sum is not are left to the ordinary road too, which takes them."""
    schema, filters = Schema({"x": Number(), "y": Number()}), ("x > 1", "y <= 5")
    packed, linear = engine_of(filters=filters, schema=schema), engine_of("linear", filters, schema)
    road = road_of(packed)
    assert road is not None
    assert road.match({"x": 2.0, "y": 1.0}) == list(range(N_SUBSCRIPTIONS))
    event = {"x": value, "y": value}
    assert road.match(event) is None
    assert answer(packed.match, event) == answer(linear.match, event)


def test_the_road_closes_while_a_filter_is_not_a_plain_box() -> None:
    engine = engine_of()
    assert road_of(engine) is not None
    for text in ("price = 1 OR symbol = 'IBM'", "note LIKE '%a%'", "price <> 1 AND volume <> 2 AND price <> 3"):
        engine.subscribe(text, id="late")
        assert road_of(engine) is None
        assert "late" in engine.match({"price": 0.5, "symbol": "IBM", "volume": 5.0, "note": "a"}), text
        engine.unsubscribe("late")
        assert core_of(engine)._store.is_plain


def test_a_new_axis_makes_a_new_road() -> None:
    engine = engine_of(filters=("price > 1",))
    first = road_of(engine)
    engine.subscribe("volume > 7", id="late")
    assert engine.match({"price": 0.5, "volume": 8.0, "symbol": "a", "note": "b"}) == ["late"]
    assert road_of(engine) is not first


def test_a_learning_engine_learns_on_the_ordinary_road() -> None:
    engine = Engine()
    for i in range(200):
        engine.subscribe("price > 1", id=i)
    assert len(engine.match_json(b'{"price": 2.0}')) == 200
    assert len(engine.match_json(b'{"price": 2.0, "size": 3.0}')) == 200
    assert "size" in engine.schema
    assert len(engine.match({"price": 2.0, "size": 3.0})) == 200


@pytest.mark.parametrize("name", ["price.limit", "*"])
def test_schemas_that_look_inside_or_join_strings_have_no_short_road(name: str) -> None:
    schema = Schema({"price": Number(), name: Number() if "." in name else String()})
    assert road_of(engine_of(filters=("price > 1",), schema=schema)) is None


def test_more_matches_than_there_is_room_for() -> None:
    engine = Engine(Schema({"a": Number(), "b": Number()}))
    engine.subscribe_boxes(("a", "b"), np.zeros((20_000, 2)), np.ones((20_000, 2)))
    assert engine.match({"a": 0.5, "b": 1.0}) == list(range(20_000))
    assert engine.match_json(b'{"a": 0.5, "b": 1.1}') == []


def test_boxes_in_bitmaps_take_the_short_road_too() -> None:
    rng = np.random.default_rng(3)
    names = [f"a{i}" for i in range(20)]
    low = np.where(rng.random((4_000, 20)) < 0.5, rng.random((4_000, 20)) * 0.6, -np.inf)
    engine = Engine(Schema(dict.fromkeys(names, Number())))
    engine.subscribe_boxes(names, low, np.where(np.isinf(low), np.inf, low + 0.4))
    engine.wait()
    assert "boxes_in_bitmaps" in engine.statistics()["namespaces"]["default"]
    for point in rng.random((20, 20)):
        inside = ((low <= point) & (np.isinf(low) | (point <= low + 0.4))).all(axis=1)
        assert engine.match(dict(zip(names, point.tolist(), strict=True))) == np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("name", ['a"b', "back\\slash", "line\nbreak", "\ud800"])
def test_a_name_that_json_escapes_has_no_short_road_and_breaks_nothing(name: str) -> None:
    engine = Engine(Schema({"price": Number(), name: Number()}))
    engine.subscribe("price > 1", id="dear")
    for i in range(200):
        engine.subscribe(f"price BETWEEN {i + 10} AND {i + 11}")
    assert road_of(engine) is None
    assert engine.match({"price": 2.0}) == ["dear"]
    assert engine.match_json(b'{"price": 2.0}') == ["dear"]
    if name.isascii():
        assert engine.match({"price": 2.0, name: 3.0}) == ["dear"]


def test_an_event_that_matches_thousands_is_not_slowed_by_the_short_road() -> None:
    """Thousands of rows were sorted and named one by one, in ten times the time of the ordinary road."""
    engine = Engine(Schema({"price": Number(), "unasked": String()}))
    n = 20_000
    ids = engine.subscribe_boxes(["price"], np.zeros((n, 1)), np.full((n, 1), 9.0))
    event, odd = {"price": 1.0}, {"price": np.float64(1.0)}
    road = road_of(engine)
    assert road is not None
    assert (road.match(odd), road.match(event)) == (None, list(range(n)))
    assert engine.match(event) == engine.match(odd) == list(ids)
    short = effort(lambda: [engine.match(event) for _ in range(20)])
    assert short < 2 * effort(lambda: [engine.match(odd) for _ in range(20)]) + 0.5
