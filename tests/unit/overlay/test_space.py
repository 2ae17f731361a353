"""Boxes of subscriptions contain every event that matches: regions, balls, strings, missing values, huge numbers."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis import Boolean, ModelError, Number, Region, Schema, String, Timestamp, Vector
from tamis.algebra.evaluate import matches
from tamis.node.content import Content
from tamis.overlay.measures import meets
from tamis.overlay.space import FREE, Space, _unit

SCHEMA = Schema(
    {
        "price": Number(0, 100),
        "any": Number(),
        "symbol": String(),
        "halted": Boolean(),
        "at": Timestamp(),
        "area": Region(),
        "look": Vector(3),
    }
)
CONTENT, SPACE = Content(SCHEMA), Space(SCHEMA)
FILTERS = [
    "price < 50",
    "price > 99.5 OR price = 1",
    "price <> 3",
    "price IS NULL",
    "price IS NULL OR price < 10",
    "any BETWEEN -1e300 AND 5",
    "any = 9007199254740993",
    "symbol = 'IBM' AND price >= 10",
    "symbol LIKE 'I%' AND halted = TRUE",
    "symbol LIKE '%M'",
    "symbol IN ('a', 'zz')",
    "halted = FALSE",
    "at > TIMESTAMP('2026-01-01T00:00:00Z')",
    "S_INTERSECTS(area, POLYGON((0 0, 2 0, 2 2, 0 2, 0 0)))",
    "S_DISJOINT(area, POLYGON((0 0, 2 0, 2 2, 0 2, 0 0)))",
    "NOT S_WITHIN(area, POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))) AND price < 60",
    "V_WITHIN(look, (0, 0, 0), 1.5)",
    "NOT V_WITHIN(look, (0, 0, 0), 1.5)",
    "(price < 5 AND symbol = 'x') OR V_WITHIN(look, (5, 5, 5), 1)",
]


def random_event(rng: random.Random) -> dict[str, Any]:
    x, y = rng.uniform(-1, 4), rng.uniform(-1, 4)
    square = f"POLYGON(({x} {y}, {x + 1} {y}, {x + 1} {y + 1}, {x} {y + 1}, {x} {y}))"
    values = {
        "price": rng.choice([rng.uniform(-20, 120), 1, 3, 50, 2**63]),
        "any": rng.choice([9007199254740993, 9007199254740992, -1e308, 4.5, 0, 7]),
        "symbol": rng.choice(["IBM", "I", "a", "zz", "", "x", "ZM"]),
        "halted": rng.random() < 0.5,
        "at": rng.choice([0, 1_800_000_000_000_000]),
        "area": rng.choice([square, f"POINT({x} {y})"]),
        "look": [rng.uniform(-2, 6) for _ in range(3)],
    }
    return {name: value for name, value in values.items() if rng.random() < 0.8}


@pytest.mark.parametrize("text", FILTERS)
def test_what_matches_lies_in_the_box(text: str) -> None:
    filters = CONTENT.compile(text)
    box = SPACE.box_of(filters)
    assert box is not None
    rng, matched = random.Random(7), 0
    for _ in range(400):
        event = CONTENT.read_event(CONTENT.write_event(random_event(rng)))
        if any(matches(event, filter) for filter in filters):
            matched += 1
            assert meets(box[None], SPACE.box_of_event(event))[0]
    assert matched, "the events never met the filter"


def test_boxes_say_what_they_can() -> None:
    box = SPACE.box_of(CONTENT.compile("price BETWEEN 25 AND 50"))
    assert box is not None
    assert box[:, 0].tolist() == [0.25, 0.5]
    assert all(box[:, axis].tolist() == list(FREE) for axis in range(1, len(SPACE)))
    present = SPACE.box_of(CONTENT.compile("NOT V_WITHIN(look, (0, 0, 0), 1)"))
    assert present is not None
    assert present[:, -1].tolist() == [0.0, 1.0]  # any vector, but there must be one
    far = SPACE.box_of(CONTENT.compile("S_DISJOINT(area, POLYGON((0 0, 1 0, 1 1, 0 1, 0 0)))"))
    near = SPACE.box_of(CONTENT.compile("S_INTERSECTS(area, POLYGON((0 0, 1 0, 1 1, 0 1, 0 0)))"))
    assert far is not None
    assert near is not None
    event = SPACE.box_of_event(CONTENT.read_event(CONTENT.write_event({"area": "POINT(50 50)"})))
    assert meets(far[None], event)[0]
    assert not meets(near[None], event)[0]


def test_a_missing_value_meets_only_who_does_not_ask() -> None:
    event = SPACE.box_of_event({})
    asks, free = SPACE.box_of(CONTENT.compile("price < 50")), SPACE.box_of(CONTENT.compile("price IS NULL"))
    assert asks is not None
    assert free is not None
    assert not meets(asks[None], event)[0]
    assert meets(free[None], event)[0]


def test_what_cannot_match_has_no_box() -> None:
    assert SPACE.box_of(CONTENT.compile("price < 1 AND price > 2")) is None


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_places_keep_the_order(a: float, b: float) -> None:
    low, high = sorted((a, b))
    for domain in (None, (-5.0, 7.5), (0.0, 1e-300)):
        assert 0.0 <= _unit(low, domain) <= _unit(high, domain) <= 1.0


def test_bytes_that_do_not_hold_a_box_are_refused() -> None:
    good = np.zeros((2, len(SPACE)))
    assert np.array_equal(SPACE.read(good.tobytes()), good)
    for wrong in (b"", good.tobytes()[8:], np.full((2, len(SPACE)), math.nan).tobytes(), (good + 2).tobytes()):
        with pytest.raises(ModelError, match="a box of 160 bytes|invalid box: "):
            SPACE.read(wrong)
    with pytest.raises(ModelError, match="invalid box: "):
        SPACE.read(np.stack([good[0] + 1, good[0]]).tobytes())
    with pytest.raises(ModelError, match="at least one attribute"):
        Space(Schema())
