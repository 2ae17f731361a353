"""What boxes leave open: patterns are held against strings once per table, and nothing else is taken for a pattern."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tamis import Engine, Number, Region, Schema, String, SubscriptionTable
from tamis.index.packed.axes import Axes
from tamis.index.packed.boxes_of import open_constraints
from tamis.index.packed.deciders import patterns as questions
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.matcher import FEW
from tamis.model.subscription import Like

SCHEMA = Schema({"venue": String(), "city": String(), "price": Number()})
FILTERS = [
    "venue LIKE '%a%'",
    "NOT (venue LIKE '%a%')",
    "venue LIKE '%a%' AND venue LIKE '_____%'",
    "venue LIKE '%a%' AND price < 50",
    "venue LIKE '%a%' AND NOT (city LIKE '%o%')",
    "venue LIKE '%a%' OR price > 80",
    "venue LIKE '%a%' AND (city LIKE '%o%' OR price > 80)",
    "venue LIKE 'x%a' AND city > 'l'",
    "venue LIKE '%a%' AND city IS NULL",
    "venue LIKE '%a%' AND price <> 7",
]


def some_events(rng, n):
    venues, cities = ["nasdaq", "nyse", "xetra", "arca", "", None], ["london", "paris", "rome", "oslo", None]
    prices = np.where(rng.random(n) < 0.2, 7.0, rng.random(n) * 100)
    return pa.table(
        {
            "venue": pa.array([venues[i] for i in rng.integers(0, 6, n)], pa.string()),
            "city": pa.array([cities[i] for i in rng.integers(0, 5, n)], pa.string()),
            "price": pa.array([None if missing else x for x, missing in zip(prices, rng.random(n) < 0.2, strict=True)]),
        }
    )


def engine_of(matcher, texts):
    engine = Engine(SCHEMA, matcher=matcher)
    engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"filter": texts})))
    return engine


def test_a_table_gives_the_same_rows_as_one_by_one():
    rng = np.random.default_rng(1)
    texts = [*FILTERS, *(f"{FILTERS[i % len(FILTERS)]} AND price < {i % 90}" for i in range(3 * FEW))]
    engines = [engine_of(matcher, texts) for matcher in ("packed", "linear")]
    events = some_events(rng, 300)
    for id in (1, 11, 40):
        for engine in engines:
            engine.unsubscribe(id)
    answers = [engine.match_table(events) for engine in engines]
    assert [answers[0].of(i) for i in range(300)] == [answers[1].of(i) for i in range(300)]
    assert len(answers[0]) > 5_000


def test_a_pattern_meets_a_string_once(monkeypatch):
    texts = []

    def counted(like, text):
        texts.append((like, text))
        return "a" in text

    engine = engine_of("packed", [f"venue MATCHES '[a]' AND price < {i}" for i in range(4 * FEW)])
    events = some_events(np.random.default_rng(2), 500)
    monkeypatch.setattr(questions, "meets", counted)
    matches = engine.match_table(events)
    assert len(matches) > 10_000
    assert len(texts) == len(set(texts)) == 5


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("venue LIKE '%a%' AND price < 5", [Like("venue", "%a%")]),
        ("NOT (venue LIKE '%a%') AND price < 5", [Like("venue", "%a%", negated=True)]),
        ("price < 5", []),
        ("venue LIKE '%a%' AND price <> 5", [Like("venue", "%a%")]),
    ],
)
def test_what_a_box_leaves_open(text, wanted):
    engine = Engine(SCHEMA)
    subscription = engine.subscription(engine.subscribe(text))
    assert [open_constraints(filter, Axes()) for filter in subscription.filters] == [wanted]


def test_a_missing_value_that_is_asked_for_stays_open():
    engine = Engine(SCHEMA)
    subscription = engine.subscription(engine.subscribe("venue LIKE '%a%' AND city IS NULL"))
    assert [type(constraint).__name__ for constraint in open_constraints(subscription.filters[0], Axes())] == [
        "Values",
        "Like",
    ]


GEOMETRY = [
    "NOT S_CROSSES(way, LINESTRING(0 0, 9 9))",
    "S_CROSSES(way, LINESTRING(0 0, 9 9))",
    "S_INTERSECTS(way, POLYGON((0 0, 4 0, 4 4, 0 4, 0 0)))",
    "S_DISJOINT(way, POLYGON((0 0, 4 0, 4 4, 0 4, 0 0)))",
    "S_CROSSES(way, LINESTRING(0 0, 9 9)) AND venue LIKE '%a%'",
]
WAYS = [
    *("POINT(1 1)", "POLYGON((1 1, 3 1, 3 3, 1 1))", "MULTIPOINT((1 1), (8 8))", None),
    *("MULTIPOLYGON(((1 1, 2 1, 2 2, 1 1)), ((7 7, 8 7, 8 8, 7 7)))", "LINESTRING(0 5, 5 0)", "LINESTRING(8 1, 8 2)"),
]


def test_conditions_on_geometry_are_decided_for_tables_as_one_by_one():
    """Points and polygons by arrays; geometry with several parts, and other functions, on raw values."""
    schema = Schema({"way": Region(), "venue": String(), "price": Number()})
    engines = [Engine(schema, matcher=matcher) for matcher in ("packed", "linear")]
    for i in range(3 * FEW):
        for engine in engines:
            engine.subscribe(f"{GEOMETRY[i % len(GEOMETRY)]} AND price < {i % 90}", id=i)
    events = {"way": WAYS, "venue": ["arca", None, "nyse", "arca", "arca", "xetra", None], "price": [1.0] * 7}
    answers = [engine.match_table(events) for engine in engines]
    assert [answers[0].of(i) for i in range(7)] == [answers[1].of(i) for i in range(7)]
    assert [len(answers[0].of(i)) > 0 for i in range(7)] == [True, True, True, False, True, True, True]


def test_entries_of_rows():
    entries = Entries()
    for row, boxes in ((3, 2), (4, 1), (9, 3)):
        entries.append(row, [(number, False) for number in range(boxes)])
    assert [entries.of(row) for row in (3, 4, 5, 9)] == [range(2), range(2, 3), range(3, 3), range(3, 6)]
    rows, numbers = entries.of_rows(np.array([9, 4]))
    assert rows.tolist() == [9, 9, 9, 4]
    assert numbers.tolist() == [3, 4, 5, 2]
