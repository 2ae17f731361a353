"""Predicates of mixed types before and after the simplifier: the same answer for every message."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.algebra.evaluate import matches_subscription
from tamis.algebra.simplify import simplify_filters, simplify_regions
from tamis.engine import Engine
from tamis.model.language.compiler import compile_text
from tamis.model.language.literals import region_text
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Subscription
from tamis.model.types import Number, Region, String
from tests.conftest import SEED
from tests.region_worlds import cell_regions, mixed_regions, points

SCHEMA = Schema({"area": Region(), "place": Region(), "x": Number(), "name": String()})
FUNCTIONS = [*(f"RCC_{relation.name}" for relation in Relation), "S_INTERSECTS", "S_WITHIN", "S_CONTAINS", "S_DISJOINT"]

Rng = np.random.Generator


def random_predicate(rng: Rng, regions: list[str], n: int) -> str:
    """Write a disjunction of filters with one to three region conditions and perhaps others."""
    filters = []
    for _ in range(n):
        parts = [
            f"{'NOT ' if rng.random() < 0.2 else ''}{rng.choice(FUNCTIONS)}"
            f"({'area' if rng.random() < 0.8 else 'place'}, {rng.choice(regions)})"
            for _ in range(rng.integers(1, 4))
        ]
        if rng.random() < 0.4:
            parts.append(f"x < {rng.integers(5)}")
        if rng.random() < 0.2:
            parts.append(f"name = '{rng.choice(['a', 'b'])}'")
        filters.append(" AND ".join(parts))
    return " OR ".join(f"({text})" for text in filters)


def random_events(rng: Rng, shapes: list[shapely.Geometry], n: int) -> list[dict[str, object]]:
    drawn = []
    for _ in range(n):
        event: dict[str, object] = {"area": shapes[rng.integers(len(shapes))], "x": int(rng.integers(5))}
        event |= {"place": shapes[rng.integers(len(shapes))]} if rng.random() < 0.7 else {}
        event |= {"name": str(rng.choice(["a", "b", "c"]))} if rng.random() < 0.7 else {}
        drawn.append(event)
    return drawn


def compare(rng: Rng, n_predicates: int, n_events: int) -> tuple[int, int]:
    """Compare predicates of 12 filters with what the simplifier makes of them; return filters before and after."""
    shapes = [*cell_regions(rng, 25)[1], *mixed_regions(rng, 15)]
    regions = [region_text(shape) for shape in shapes]
    events = [SCHEMA.event(values) for values in random_events(rng, [*shapes, *points(rng, 10)], n_events)]
    before = after = 0
    for _ in range(n_predicates):
        raw = compile_text(random_predicate(rng, regions, 12), SCHEMA).filters
        simple = simplify_filters(raw)
        before, after = before + len(raw), after + len(simple)
        for event in events:
            assert _matches(event, raw) == _matches(event, simple)
    return before, after


def _matches(event: object, filters: tuple[Filter, ...]) -> bool:
    return matches_subscription(event, Subscription(0, filters))  # type: ignore[arg-type]


def test_no_answer_changes(rng: Rng) -> None:
    before, after = compare(rng, 25, 60)
    assert after < 0.8 * before, "the simplifier does something"


@pytest.mark.soak
@pytest.mark.parametrize("round", range(1, 7))
def test_soak_regions_simplifier(round: int) -> None:
    compare(np.random.default_rng(SEED + round), 100, 200)


def test_it_is_applied_to_new_subscriptions_and_keeps_what_was_written() -> None:
    inner, outer = "BBOX(1, 1, 2, 2)", "BBOX(0, 0, 3, 3)"
    text = f"S_WITHIN(area, {inner}) OR S_WITHIN(area, {outer})"
    engine = Engine(SCHEMA)
    engine.subscribe(text, id="both")
    engine.subscribe(f"S_WITHIN(area, {inner}) AND S_DISJOINT(area, {outer})", id="never")
    assert len(engine.subscription("both").filters) == 1
    assert engine.subscription("both").text == text
    assert engine.subscription("never").filters == ()
    event = {"area": shapely.box(1.2, 1.2, 1.8, 1.8)}
    assert engine.match(event) == ["both"]
    assert str(engine.explain(event, "both")).count("S_WITHIN") >= 2
    engine.unsubscribe("both")
    engine.unsubscribe("never")
    assert len(engine) == 0


def test_filters_without_regions_to_compare_are_left_alone() -> None:
    filters = compile_text("x < 1 OR x < 2", SCHEMA).filters
    assert simplify_regions(filters) is filters
