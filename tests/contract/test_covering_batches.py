"""Batches of questions to the exact covering index, as columns and as components, against a scan of all rows."""

from __future__ import annotations

import random

import pytest

from tamis.index.dominance.batches import Questions
from tamis.index.dominance.index import DominanceIndex
from tamis.index.dominance.splitting import shapes
from tamis.index.linear_scan import LinearCovering
from tamis.model.language.templates import documents
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Number, String
from tamis.node.content import Content

SCHEMA = Schema({"x": Number(), "y": Number(), "name": String()})
NAMES = ("a", "ab", "b", "ba")
PATTERNS = ("a%", "%b", "%a%")


def boxes(rng: random.Random) -> str:
    low, least = rng.randint(0, 6), rng.randint(0, 6)
    return f"x >= {low} AND x <= {low + rng.randint(1, 5)} AND y >= {least}"


def named(rng: random.Random) -> str:
    return f"name = '{rng.choice(NAMES)}' AND x <= {rng.randint(0, 9)}"


def half_open(rng: random.Random) -> str:
    return f"x > {rng.randint(0, 9)}"


def pattern(rng: random.Random) -> str:
    return f"name LIKE '{rng.choice(PATTERNS)}' AND x <= {rng.randint(0, 9)}"


def either(rng: random.Random) -> str:
    return f"({named(rng)}) OR ({boxes(rng)})"


def never(rng: random.Random) -> str:
    return f"{boxes(rng)} AND x < {rng.randint(-2, 2)}"


def one_of(rng: random.Random) -> str:
    return f"name IN ('{rng.choice(NAMES)}', '{rng.choice(NAMES)}') AND x >= {rng.randint(0, 4)} AND x <= 5"


def far_apart(rng: random.Random) -> str:
    low = rng.randint(0, 5)
    near, far = (
        f"x >= {start} AND x <= {start + rng.randint(0, 3)} AND y <= {rng.randint(0, 5)}" for start in (low, 20)
    )
    return f"({near}) OR ({far})"


def unequal(rng: random.Random) -> str:
    return f"x <> {rng.randint(0, 3)} AND y > {rng.randint(0, 3)}"


def missing(rng: random.Random) -> str:
    return f"(x IS NULL OR x > {rng.randint(0, 5)}) AND y <= {rng.randint(0, 3)}"


def large(rng: random.Random) -> str:
    """Return a range whose ends are beyond the integers that float64 has, or at them."""
    return f"x IN ({2**53 + rng.randint(-1, 3)}, {rng.randint(0, 3)}) AND y <= {rng.randint(0, 3)}"


#: What the texts of a world are drawn from; each world meets other roads of the index.
WORLDS = {
    "boxes": (boxes,),
    "strings": (boxes, named),
    "open ends": (boxes, half_open),
    "patterns": (named, pattern),
    "unions": (boxes, named, either),
    "sets": (one_of, named),
    "alternatives": (far_apart, boxes),
    "holes": (unequal, half_open),
    "missing": (missing, boxes),
    "large": (large,),
    "impossible": (boxes, never),
    "all": (boxes, named, half_open, pattern, either, one_of, far_apart, unequal, missing, large, never),
}
#: Worlds whose questions have no columns, but few shapes.
SHAPED = {"sets", "alternatives", "holes", "missing", "large"}


def drawn(content: Content, rng: random.Random, world: str, n: int) -> Questions:
    """Return random questions of a world: as columns where the content makes columns of them."""
    writer = Content(SCHEMA)  # one that has not written a document learns its shape
    written = [writer.write_filter(writer.compile(rng.choice(WORLDS[world])(rng))) for _ in range(n)]
    read = content.read_filters(written)
    subscriptions = [Subscription(i, content.read_filter(document)) for i, document in enumerate(written)]
    return Questions(subscriptions, read.columns)


def run_history(world: str, seed: int, rounds: int) -> tuple[int, int, int]:
    """Ask index and scan the same while batches come and rows go.

    Return how many covers there were, and how many questions were columns or had a shape.
    """
    rng, content = random.Random(f"{world} {seed}"), Content(SCHEMA)
    index, oracle, first = DominanceIndex(), LinearCovering(), 0
    n_covers = n_columns = n_shaped = 0
    for _ in range(rounds):
        added = drawn(content, rng, world, rng.randint(1, 60))
        rows = range(first, first + len(added))
        index.batches.add(rows, added)
        for row, subscription in zip(rows, added.subscriptions, strict=True):
            oracle.add(row, Subscription(row, subscription.filters))
        first = rows.stop
        for row in sorted(rng.sample(range(first), first // 3)):
            if row in oracle._subscriptions:
                index.remove(row)
                oracle.remove(row)
        questions = drawn(content, rng, world, 30)
        questions = questions.take(sorted(rng.sample(range(30), 25)))
        n_columns += len(questions) - len(questions.others)
        n_shaped += len(questions.others) - len(shapes.group_by_shape(questions.subscriptions, questions.others)[1])
        covers = [oracle.find_cover(Subscription("q", question.filters)) for question in questions.subscriptions]
        assert index.batches.find_covers(questions).tolist() == [-1 if row is None else row for row in covers]
        covered = [
            oracle.find_covered(Subscription("q", question.filters)).tolist() for question in questions.subscriptions
        ]
        assert [rows.tolist() for rows in index.batches.find_covered(questions)] == covered
        n_covers += sum(row is not None for row in covers)
    index.check_invariants()
    return n_covers, n_columns, n_shaped


@pytest.fixture(autouse=True)
def short_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few documents, and a few subscriptions, of a shape become columns."""
    monkeypatch.setattr(documents, "_COLUMN", 2)
    monkeypatch.setattr(shapes, "_FEWEST", 2)


@pytest.mark.parametrize("world", WORLDS)
def test_batches_are_answered_as_a_scan_answers(world: str) -> None:
    n_covers, n_columns, n_shaped = run_history(world, 1, 8)
    assert n_covers > 20
    assert (n_shaped if world in SHAPED else n_columns) > 20


@pytest.mark.soak
@pytest.mark.parametrize("world", WORLDS)
def test_soak_batches_are_answered_as_a_scan_answers(world: str) -> None:
    for seed in range(2, 200):
        run_history(world, seed, 8)
