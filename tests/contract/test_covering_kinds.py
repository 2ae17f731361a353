"""The exact covering index for every kind of condition, in random histories against a scan of all rows.

Each kind draws from few values, so that conditions are equal, touch, tie and cover each other often. "mixed" draws from
all kinds, and joins them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tamis.index.dominance.index import DominanceIndex
from tamis.index.linear_scan import LinearCovering
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Number, Region, String, Timestamp, Vector

SCHEMA = Schema(
    {"x": Number(), "y": Number(), "at": Timestamp(), "name": String(), "area": Region(), "look": Vector(2)}
)
FUNCTIONS = [
    *("S_INTERSECTS", "S_WITHIN", "S_CONTAINS", "S_DISJOINT", "S_TOUCHES", "S_OVERLAPS", "S_CROSSES"),
    "S_EQUALS",
    *("RCC_MEETS", "RCC_OVERLAPS", "RCC_COVERED_BY", "RCC_COVERS", "RCC_INSIDE", "RCC_CONTAINS", "RCC_DISJOINT"),
]
PATTERNS = ["a%", "%b", "%a%", "_b", "a_%", "%a%b%", "%ab%", "__"]
#: Patterns with literals long enough to be indexed.
WORDS = ["quake", "earthquake", "Quakes", "earth", "équake", "arthq"]
NAMES = ["a", "ab", "b", "ba", "bb"]


def range_text(rng: random.Random, name: str = "x") -> str:
    low = rng.randint(0, 8)
    high = low + rng.randint(0, 4)
    forms = [f"{name} BETWEEN {low} AND {high}", f"({name} >= {low} AND {name} < {high + 1})", f"{name} > {low}"]
    return rng.choice([*forms, f"{name} < {high}.5", f"{name} = {low}", f"{name} <> {low}"])


def moment_text(rng: random.Random) -> str:
    moment = f"TIMESTAMP('2026-01-01T00:00:0{rng.randint(0, 9)}Z')"
    return f"at {rng.choice(['<', '<=', '=', '>=', '>', '<>'])} {moment}"


def set_text(rng: random.Random) -> str:
    names = ", ".join(f"'{name}'" for name in rng.sample(NAMES, rng.randint(1, 3)))
    numbers = ", ".join(map(str, rng.sample(range(6), rng.randint(1, 3))))
    return rng.choice([f"name IN ({names})", f"x IN ({numbers})", f"name NOT IN ({names})", f"name IN ({names})"])


def region_text(rng: random.Random) -> str:
    x, y, size = rng.randint(0, 4), rng.randint(0, 4), rng.randint(1, 4)
    to_x, to_y = x + size, y + rng.randint(1, 4)
    ring = f"{x} {y}, {to_x} {y}, {to_x} {to_y}, {x} {to_y}, {x} {y}"
    if rng.random() < 0.3:
        ring = f"{x} {y}, {to_x} {y}, {x} {to_y}, {x} {y}"
    text = f"{rng.choice(FUNCTIONS)}(area, POLYGON(({ring})))"
    return f"NOT {text}" if rng.random() < 0.2 else text


def ball_text(rng: random.Random) -> str:
    text = f"V_WITHIN(look, ({rng.randint(0, 3)}, {rng.randint(0, 3)}), {rng.choice([0, 1, 1.5, 2, 3])})"
    return f"NOT {text}" if rng.random() < 0.2 else text


def pattern_text(rng: random.Random) -> str:
    return f"name {rng.choice(['LIKE', 'LIKE', 'NOT LIKE'])} '{rng.choice(PATTERNS)}'"


def word_text(rng: random.Random) -> str:
    first, second = rng.choice(WORDS), rng.choice(WORDS)
    pattern = rng.choice([f"%{first}%", f"{first}%", f"%{first}", f"%{first}%{second}%", f"_{first}%", first])
    forms = ["name LIKE '{}'", "name LIKE '{}'", "name ILIKE '{}'", "name NOT LIKE '{}'"]
    return rng.choice(
        [*(form.format(pattern) for form in forms), f"name MATCHES '.*{first}(s|x)?'", f"name = '{first}'"]
    )


def missing_text(rng: random.Random) -> str:
    return f"{rng.choice(['x', 'name', 'area', 'look'])} IS {rng.choice(['', 'NOT '])}NULL"


def sum_text(rng: random.Random) -> str:
    form = rng.choice(["x + y", "x - y", "2 * x - y", "x * y", "x", "2 * y - 2 * x"])
    return range_text(rng, form)


LEAVES: dict[str, Callable[[random.Random], str]] = {
    "ranges": range_text,
    "moments": moment_text,
    "sets": set_text,
    "regions": region_text,
    "balls": ball_text,
    "patterns": pattern_text,
    "words": word_text,
    "missing": missing_text,
    "sums": sum_text,
    "mixed": lambda rng: rng.choice([*LEAVES.values()][:-1])(rng),
}


def drawn(kind: str, rng: random.Random) -> Subscription:
    """Return a condition of a kind, alone, with a range, or with others of it."""
    leaf = LEAVES[kind]
    shape = rng.randint(0, 5)
    text = leaf(rng)
    if shape in (1, 2):
        text = f"{text} AND {range_text(rng, 'y')}"
    elif shape == 3:
        text = f"{text} OR {leaf(rng)}"
    elif shape == 4:
        text = f"({text} AND {range_text(rng, 'y')}) OR ({leaf(rng)} AND {range_text(rng, 'y')})"
    elif shape == 5:
        text = f"{text} AND {leaf(rng)}"
    return compile_text(text, SCHEMA)


def run_history(kind: str, seed: int, questions: int) -> int:
    """Ask an index and a scan the same while rows come and go; return how many answers were not empty."""
    rng = random.Random(f"{kind} {seed}")
    index, oracle = DominanceIndex(), LinearCovering()
    living: list[int] = []
    answers = 0
    for row in range(10_000_000):
        more = [drawn(kind, rng) for _ in range(rng.randint(1, 3))]
        rows = [3 * row + place for place in range(len(more))]
        rng.shuffle(rows)  # the least row is not the first that came
        index.add_many(rows, more)
        for number, subscription in zip(rows, more, strict=True):
            oracle.add(number, subscription)
        living += rows
        while len(living) > 24:
            removed = living.pop(rng.randrange(len(living)))
            index.remove(removed)
            oracle.remove(removed)
        batch = [drawn(kind, rng) for _ in range(3)]
        covers = [oracle.find_cover(question) for question in batch]
        context = f"{kind} {seed}, row {row}"
        assert index.find_cover_many(batch).tolist() == [-1 if cover is None else cover for cover in covers], context
        assert index.find_cover(batch[0]) == covers[0], context
        covered = oracle.find_covered(batch[0]).tolist()
        assert index.find_covered(batch[0]).tolist() == covered, context
        answers += len(covered) + sum(cover is not None for cover in covers)
        questions -= 4
        if questions <= 0:
            index.check_invariants()
            return answers
    raise AssertionError("unreachable")


@pytest.mark.parametrize("kind", LEAVES)
def test_every_kind_is_answered_as_a_scan_answers(kind: str) -> None:
    assert run_history(kind, 0, 100) > 20


@pytest.mark.parametrize("few", [64, -1])
def test_patterns_and_equated_strings_are_answered_as_a_scan_answers(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings that are equated stand in boxes, ranges and patterns beside them; -1: the tree is always asked."""
    monkeypatch.setattr("tamis.index.dominance.store._FEW", few)
    forms = [
        "name = '{}'",
        "name = '{}' AND y BETWEEN 0 AND 3",
        "name LIKE '{}%'",
        "name LIKE '{}%' AND y BETWEEN 0 AND 3",
        "name LIKE '%{}%'",
        "name ILIKE '%{}'",
    ]
    stored = [compile_text(form.format(word), SCHEMA) for form in forms for word in WORDS]
    index, oracle = DominanceIndex(), LinearCovering()
    index.add_many(range(len(stored)), stored)
    for row, subscription in enumerate(stored):
        oracle.add(row, subscription)
    n_covered = 0
    for part in ("quake", "arth", "earthq", "kes", "equake"):
        for form in (
            "name LIKE '%{}%'",
            "name ILIKE '%{}%'",
            "name LIKE '%{}%' AND y BETWEEN 0 AND 5",
            "name LIKE '{}%'",
        ):
            question = compile_text(form.format(part), SCHEMA)
            covered = oracle.find_covered(question).tolist()
            assert index.find_covered(question).tolist() == covered, form.format(part)
            assert index.find_cover(question) == oracle.find_cover(question)
            n_covered += len(covered)
    assert n_covered > 60


@pytest.mark.soak
@pytest.mark.parametrize("part", range(25))
@pytest.mark.parametrize("kind", LEAVES)
def test_soak_every_kind_is_answered_as_a_scan_answers(kind: str, part: int) -> None:
    for seed in range(10):
        assert run_history(kind, 1_000 * part + seed + 1, 500) > 100
