"""Trees of conditions on values: the answers of raw values, through hulls and through blocks of events."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import SnapshotError
from tamis.index.packed import trees as packed_trees
from tamis.index.packed.axes import Axes
from tamis.index.packed.core import PackedCore
from tamis.index.packed.texts.trees import ACCEPT, REJECT, SideStep
from tamis.index.packed.trees import PackedTrees, tree_of
from tamis.index.saved_arrays import SavedArrays
from tamis.kernels import trees as kernels
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Number, String

SCHEMA = Schema({**{f"a{k}": Number() for k in range(6)}, "s": String()})


def condition(rng: random.Random) -> str:
    name, value = f"a{rng.randrange(6)}", rng.randrange(20)
    return rng.choice(
        [
            f"{name} = {value}",
            f"{name} <> {value}",
            f"{name} BETWEEN {value} AND {value + rng.randrange(8)}",
            f"{name} NOT BETWEEN {value} AND {value + rng.randrange(8)}",
            f"{name} < {value}",
            f"{name} IN ({value}, {value + 3}, {value + 9})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"s = 'x{value}'",
            f"s IN ('x{value}', 'x{value + 1}')",
        ]
    )


def nested(rng: random.Random, size: int, operator: str = "AND") -> str:
    parts = []
    while size > 0:
        own = 1 if rng.random() < 0.5 or size == 1 else rng.randint(2, min(size, 4))
        inner = condition(rng) if own == 1 else f"({nested(rng, own, 'OR' if operator == 'AND' else 'AND')})"
        parts.append(f"NOT ({inner})" if rng.random() < 0.1 else inner)
        size -= own
    return f" {operator} ".join(parts)


def subscriptions(n: int, seed: int) -> list[Subscription]:
    rng = random.Random(seed)
    texts = [nested(rng, rng.randint(1, 8), rng.choice(["AND", "OR"])) for _ in range(n)]
    return [Subscription(row, compile_text(text, SCHEMA).filters, text) for row, text in enumerate(texts)]


def events(n: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            f"a{k}": rng.choice([rng.randrange(22), rng.randrange(22), 2**53 + 1, 0.5])
            for k in range(6)
            if rng.random() < 0.8
        }
        | ({"s": f"x{rng.randrange(22)}"} if rng.random() < 0.8 else {})
        for _ in range(n)
    ]


def core_of(some: list[Subscription]) -> PackedCore:
    core = PackedCore(dict(enumerate(some)).get)
    core.add_many(np.arange(len(some), dtype=np.int32), some)
    return core


def table_of(some: list[dict[str, Any]]) -> tamis.EventTable:
    columns = {name: [event.get(name) for event in some] for name in SCHEMA}
    return tamis.EventTable.of({name: np.array(values, dtype=object) for name, values in columns.items()}, SCHEMA)


def expected(some: list[Subscription], event: dict[str, Any]) -> list[int]:
    canonical = SCHEMA.event(event)
    return [row for row, subscription in enumerate(some) if matches_subscription(canonical, subscription)]


@pytest.mark.parametrize("candidates_per_block", [0.0, 1e9], ids=["blocks", "hulls"])
def test_answers_are_those_of_raw_values(monkeypatch: pytest.MonkeyPatch, candidates_per_block: float) -> None:
    monkeypatch.setattr(packed_trees, "_CANDIDATES_PER_BLOCK", candidates_per_block)
    some = subscriptions(250, seed=1)
    core = core_of(some)
    assert core.statistics().details["trees"] > 100
    for row in range(0, len(some), 7):
        core.remove(row)
    shown = events(90, seed=2)
    matches = core.match_table(table_of(shown))
    met = core.matches_any_of(table_of(shown))
    for i, event in enumerate(shown):
        truth = [row for row in expected(some, event) if row % 7]
        assert sorted(matches.rows[matches.offsets[i] : matches.offsets[i + 1]].tolist()) == truth, event
        assert core.match(SCHEMA.event(event)).tolist() == truth, event
        assert met[i] == core.matches_any(SCHEMA.event(event)) == bool(truth)


def test_a_table_longer_than_a_block_keeps_its_events_apart() -> None:
    some = [subscription for subscription in subscriptions(40, seed=3) if tree_of(subscription, Axes()) is not None]
    core = core_of(some)
    shown = events(60, seed=4)
    long = [shown[i % len(shown)] for i in range(2 * kernels.BLOCK + 3)]
    matches = core.match_table(table_of(long))
    truth = [expected(some, event) for event in shown]
    for i in range(len(long)):
        assert sorted(matches.rows[matches.offsets[i] : matches.offsets[i + 1]].tolist()) == truth[i % len(shown)]


def test_equal_ends_have_one_number() -> None:
    axes, trees = Axes(), PackedTrees()
    some = [subscription for subscription in subscriptions(60, seed=5) if tree_of(subscription, axes) is not None]
    built = [tree for subscription in some if (tree := tree_of(subscription, axes)) is not None]
    trees.hulls.grow(len(axes))
    trees.add(range(len(built)), built)
    ends = {(step.axis, end) for tree in built for step, _, _ in tree.steps for end in (step.low, step.high)}
    assert len(trees["value"]) == len(ends)
    assert set(zip(trees["axis"].tolist(), trees["value"].tolist(), strict=True)) == ends


def test_the_plain_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    axes, trees = Axes(), PackedTrees()
    built = [tree for subscription in subscriptions(30, seed=6) if (tree := tree_of(subscription, axes)) is not None]
    trees.hulls.grow(len(axes))
    trees.add(range(len(built)), built)
    rng = np.random.default_rng(7)
    low = rng.integers(0, 22, (70, len(axes))).astype(np.float64)
    low[rng.random(low.shape) < 0.2] = np.nan
    high = low + (rng.random(low.shape) < 0.1)
    monkeypatch.setattr(packed_trees, "_CANDIDATES_PER_BLOCK", 0.0)
    compiled = [np.array(trees.pairs(*ends, trees.snapshot)) for ends in ((low, low), (low, high))]
    for name in ("_lay_axis", "_rank", "_lay_block", "_take_all", "_take", "_all_events"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
    monkeypatch.setattr(packed_trees, "match_trees", kernels.match_trees.py_func)  # type: ignore[attr-defined]
    plain = [np.array(trees.pairs(*ends, trees.snapshot)) for ends in ((low, low), (low, high))]
    for a, b in zip(compiled, plain, strict=True):
        assert a.shape[1]
        np.testing.assert_array_equal(a, b)


def test_a_saved_engine_answers_the_same_and_goes_on(tmp_path: Path) -> None:
    some = subscriptions(200, seed=8)
    engine = tamis.Engine(SCHEMA)
    engine.subscribe_table(
        tamis.SubscriptionTable.from_arrow(
            pa.table({"id": range(len(some)), "filter": [subscription.text for subscription in some]})
        )
    )
    engine.unsubscribe(3)
    engine.save(tmp_path)
    opened = tamis.Engine.load(tmp_path)
    assert opened.statistics()["namespaces"]["default"]["trees"] > 80
    opened.unsubscribe(5)
    opened.subscribe("(a0 = 1 OR a1 = 2) AND (a0 <> 5 OR a2 IS NULL) AND (a3 < 5 OR a4 > 2) AND s <> 'x'", id="new")
    for event in events(25, seed=9):
        wanted = [row for row in expected(some, event) if row not in (3, 5)]
        assert [id for id in opened.match(event) if id != "new"] == wanted


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("yes", 0, 0, "does not lead forward"),
        ("no", -1, 40, "does not lead forward"),
        ("lower", 0, 10**6, "outside"),
        ("upper", 0, -1, "outside"),
        ("axis", 0, 99, "outside"),
        ("value", 0, np.nan, "not a number"),
        ("row", 0, 1, "ascend"),
        ("living", 0, 0, "other trees"),
        ("step_at", 1, 0, "steps"),
    ],
)
def test_damaged_arrays_are_refused(name: str, place: int, value: float, words: str) -> None:
    axes, trees = Axes(), PackedTrees()
    built = [tree for subscription in subscriptions(30, seed=6) if (tree := tree_of(subscription, axes)) is not None]
    trees.hulls.grow(len(axes))
    trees.add(range(len(built)), built)
    arrays = {key: array.copy() for key, array in trees.to_arrays().items()}
    PackedTrees.from_arrays(SavedArrays.of(arrays), len(built), len(axes))
    arrays[name][place] = value
    with pytest.raises(SnapshotError, match=words):
        PackedTrees.from_arrays(SavedArrays.of(arrays), len(built), len(axes))


@pytest.mark.parametrize(
    ("text", "is_tree"),
    [
        ("a0 BETWEEN 1 AND 2 AND a1 = 3", False),
        ("(a0 = 1 AND a1 < 3) OR (a0 = 2 AND a2 < 3)", False),
        ("a0 IS NULL", True),
        ("a0 <> 1 AND a1 <> 2 AND a2 <> 3", True),
        ("a0 <> 1", False),
        ("a0 IN (1, 2, 3) AND a1 IN (4, 5, 6)", False),
        ("s LIKE '%x' AND a0 IS NULL", False),
        ("s <> 'x' AND a0 <> 1 AND a1 <> 2 AND a2 <> 3", False),
        (" AND ".join(f"(a{k} > {k} OR a{k + 1} > 10)" for k in range(5)), True),
    ],
)
def test_what_becomes_a_tree(text: str, is_tree: bool) -> None:
    filters = compile_text(text, SCHEMA).filters
    assert (tree_of(Subscription("x", filters, text), Axes()) is not None) == is_tree


def test_a_tree_begins_with_the_sides_of_its_hull_and_does_not_repeat_them() -> None:
    text = "a0 BETWEEN 1 AND 3 AND " + " AND ".join(f"(a{k} <> {k} OR a1 > 10)" for k in range(2, 6))
    axes = Axes()
    tree = tree_of(Subscription("x", compile_text(text, SCHEMA).filters, text), axes)
    assert tree is not None
    number = {axis.attribute: i for i, axis in axes}["a0"]
    assert tree.steps[0] == (SideStep(number, 1.0, 3.0), 1, REJECT)
    assert number not in [step.axis for step, _, _ in tree.steps[1:]]


def test_steps_that_the_hull_implies_are_passed_over() -> None:
    lead, wide, other = SideStep(0, 1.0, 3.0), SideStep(0, 0.0, 3.0), SideStep(1, 5.0, 6.0)
    steps = [(wide, 1, 2), (other, ACCEPT, REJECT), (SideStep(2, 0.0, 0.0), ACCEPT, REJECT)]
    sides = packed_trees.Sides({0: (1.0, 3.0)})
    assert packed_trees._behind(sides, steps) == [(lead, 1, REJECT), (other, ACCEPT, REJECT)]
    negated = (SideStep(0, 0.0, 9.0, negated=True), ACCEPT, REJECT)
    assert packed_trees._behind(sides, [negated]) == [(lead, 1, REJECT), negated]
    assert packed_trees._behind(sides, [(wide, ACCEPT, REJECT)]) == [(lead, ACCEPT, REJECT)]


def test_a_reader_whose_snapshot_is_older_than_a_row_of_the_hulls_passes_it_over() -> None:
    """A reader between two changes: the hulls have reused the place of a removed row for one with a new tree."""
    text = "a0 <> 1 AND a0 <> 3 AND a0 <> 5 AND a1 IS NULL"
    axes, trees = Axes(), PackedTrees()
    tree = tree_of(Subscription(0, compile_text(text, SCHEMA).filters, text), axes)
    assert tree is not None
    trees.hulls.grow(len(axes))
    trees.add([0], [tree])
    older = trees.snapshot
    low = np.array(axes.place({"a0": 2}, len(axes))[0])
    rows = np.array([0, 7, -1], np.int32)  # 7: added later; -1: before all
    decided = trees._decided(low[None], low[None], np.zeros(3, np.int64), rows, older)
    assert decided[1].tolist() == [0]
