"""Covers of trees that are never multiplied out, as detection rules are."""

from __future__ import annotations

import random

import pytest

import tamis
from tamis.algebra.evaluate import matches
from tamis.algebra.proofs.budget import Budget
from tamis.algebra.proofs.trees import filter_covers
from tamis.model.language.compiler import compile_text

IMAGES = [f"image ILIKE '%\\\\tool{i}.exe'" for i in range(6)]
LINES = [f"line ILIKE '%option{i}%'" for i in range(6)]
FILTERS = [f"(parent NOT ILIKE 'c:\\\\dir{i}%' OR parent IS NULL)" for i in range(3)]


def rule(images: list[str], lines: list[str], filters: list[str]) -> str:
    return " AND ".join([f"({' OR '.join(images)})", f"({' OR '.join(lines)})", *filters])


WIDE = rule(IMAGES, LINES, FILTERS[:1])


@pytest.mark.parametrize(
    ("narrow", "covered"),
    [
        (rule(IMAGES, LINES, FILTERS), True),
        (rule(IMAGES[:5], LINES[:5], FILTERS[:2]), True),
        (rule([*IMAGES[:5], "image ILIKE '%\\\\big\\\\tool5.exe'"], LINES, FILTERS[:1]), True),
        (rule(IMAGES, [*LINES[:5], "CASEI(line) MATCHES 'x option5[a-z]'"], FILTERS[:1]), True),
        (rule(IMAGES, LINES, FILTERS[1:]), False),
        (rule([*IMAGES[:5], "image ILIKE '%tool5.exe'"], LINES, FILTERS[:1]), False),
    ],
)
def test_a_rule_with_shorter_lists_and_more_filters_is_covered(narrow: str, covered: bool) -> None:
    assert [filter.rest is not None for filter in compile_text(narrow).filters] == [True]
    assert bool(tamis.covers(WIDE, narrow)) == covered


def test_reduce_names_the_cover() -> None:
    reduced = tamis.reduce({"wide": WIDE, "narrow": rule(IMAGES[:5], LINES[:5], FILTERS)})
    assert reduced.covered == {"narrow": "wide"}


def test_what_the_structure_proves_is_true_of_random_events() -> None:
    rng = random.Random(3)
    parts = [
        "a ILIKE '%x%'",
        "a ILIKE '%xy%'",
        "a ILIKE 'x%'",
        "a IS NULL",
        "n > 1",
        "n > 2",
        "b = 'q'",
        "a NOT LIKE '%y%'",
    ]
    texts = [
        " AND ".join(f"({' OR '.join(rng.sample(parts, rng.randint(1, 3)))})" for _ in range(rng.randint(1, 3)))
        for _ in range(40)
    ]
    filters = [filter for text in texts for filter in compile_text(text).filters]
    values = {"a": ["", "x", "XY", "ax", "y", "zxy"], "n": [0, 2, 3], "b": ["q", "r"]}
    events = [{k: rng.choice(v) for k, v in values.items() if rng.random() < 0.7} for _ in range(60)]
    proved = 0
    for outer in filters:
        for inner in rng.sample(filters, min(40, len(filters))):
            if filter_covers(outer, inner, Budget(500)):
                proved += 1
                assert all(matches(event, outer) for event in events if matches(event, inner)), (outer, inner)
    assert proved > 50


def test_a_condition_beside_a_tree_restricts_the_cover() -> None:
    tree = rule(IMAGES, LINES, FILTERS[:1])
    narrow = f"n BETWEEN 0 AND 10 AND {tree}"
    [filter] = compile_text(narrow).filters
    assert filter.rest is not None
    assert filter.constraints
    assert tamis.covers(tree, narrow)
    assert not tamis.covers(narrow, tree)


def test_a_set_beside_a_tree_is_decided_exactly() -> None:
    engine = tamis.Engine()
    engine.subscribe(f"n IN ({', '.join(str(2 * i) for i in range(20))}) AND {rule(IMAGES, LINES, [])}", id="rule")
    for i in range(200):
        engine.subscribe(f"n = {i} AND b = 'q{i}'")
    event = {"image": "c:\\tool1.exe", "line": "option2"}
    assert engine.match({**event, "n": 8}) == ["rule"]
    assert engine.match({**event, "n": 7}) == []
