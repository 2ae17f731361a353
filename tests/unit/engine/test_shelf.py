"""A shelf under churn: it is renewed, it catches up, and what was removed leaves nothing behind."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.algebra.compiling import compile_source
from tamis.algebra.compiling_texts import compile_texts
from tamis.engine import shelf as shelf_module
from tamis.engine.namespace import Namespace
from tamis.engine.shelf import MergeAtOnce, Merging, Shelf
from tamis.engine.text_batch import LazyBatch, text_batches
from tamis.index.packed.core import PackedCore
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import Mergeable
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable, SubscriptionTable
from tests.effort import effort

SCHEMA = tamis.Schema({"x": tamis.Number(), "s": tamis.String(), "p": tamis.Region(), "v": tamis.Vector(2)})

#: A filter around a place between 0 and 1, of each kind that leaves something else behind.
KINDS: dict[str, Callable[[int, float], str]] = {
    "ranges": lambda number, at: f"x BETWEEN {at} AND {at + 0.01}",
    "texts": lambda number, at: f"s = 'word {number}' AND x < {at}",
    "patterns": lambda number, at: f"s LIKE 'word%{number}' AND x < {at}",
    "regions": lambda number, at: f"S_INTERSECTS(p, POLYGON(({at} 0, {at + 0.01} 0, {at} 0.01, {at} 0)))",
    "balls": lambda number, at: f"V_WITHIN(v, ({at}, 0), 0.01)",
}


def ask(text: str, id: int) -> Subscription:
    return Subscription(id, compile_source(text, SCHEMA).filters)


class MergeWhenAsked(MergeAtOnce):
    """Merges nothing: the test makes the plans."""

    def nudge(self, index: Mergeable) -> None:
        """Leave the index as it is."""


def new_shelf(merging: Merging | None = None) -> Shelf:
    return Shelf("default", PackedMatcher, merging or MergeAtOnce())


@pytest.fixture
def few_dead(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(shelf_module, "DEAD_ROWS", 200)
    return 200


def churn(shelf: Shelf, kind: str, rounds: int, n: int = 300) -> None:
    """Replace every subscription of a shelf of constant size, again and again."""
    rng, make = random.Random(7), KINDS[kind]
    shelf.add([ask(make(id, rng.random()), id) for id in range(n)])
    for number in range(n, n * (rounds + 1)):
        shelf.remove(number - n)
        shelf.add([ask(make(number, rng.random()), number)])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_removed_leaves_nothing_behind(kind: str, few_dead: int) -> None:
    shelf = new_shelf()
    churn(shelf, kind, rounds=6)
    now = shelf.now
    assert isinstance(now.matcher, PackedMatcher)
    core = now.matcher._core
    assert isinstance(core, PackedCore)
    most = 2 * 300 + few_dead + shelf_module.TIDY_EVERY + 1
    store = core._store
    assert len(shelf) == 300
    assert now.ids.n_rows <= most
    assert len(store.entries) <= most
    assert len(store.deciders._regions.to_arrays()["wanted"]) <= most
    assert sum(map(len, store.axes.codes.values())) <= most
    assert now.ids.of(np.array(sorted(now.ids.live_rows()), np.int32)) == list(range(6 * 300, 7 * 300))


def test_churn_makes_matching_no_dearer(few_dead: int) -> None:
    fresh, old = new_shelf(), new_shelf()
    churn(old, "ranges", rounds=8)
    churn(fresh, "ranges", rounds=0)
    rng = random.Random(3)
    table = EventTable.of({"x": np.array([rng.random() for _ in range(2_000)])}, SCHEMA)
    assert effort(lambda: old.match_table(table)) < 3 * effort(lambda: fresh.match_table(table)) + 0.5


def test_a_renewal_catches_up_with_what_changed_meanwhile(few_dead: int) -> None:
    shelf = new_shelf(MergeWhenAsked())
    shelf.add([ask(f"x < {id}", id) for id in range(1, 401)])
    for id in range(1, 301):
        shelf.remove(id)
    plan = shelf.plan_merge()
    assert plan is not None
    shelf.remove(301)
    shelf.add([ask("x < 1000", 1)])
    plan.run()
    shelf.remove(302)
    shelf.remove(1)
    shelf.add([ask("x < 2000", 1), ask("x < 3000", 500)])
    before = shelf.now
    shelf.install(plan)
    assert shelf.now is not before
    assert shelf.match({"x": 350}) == [*range(351, 401), 1, 500]
    assert (len(shelf), shelf.now.n_dead) == (100, 2)


def test_a_renewal_that_a_table_of_boxes_overtook_lapses(few_dead: int) -> None:
    shelf = new_shelf(MergeWhenAsked())
    shelf.add([ask(f"x < {id}", id) for id in range(1, 401)])
    for id in range(1, 301):
        shelf.remove(id)
    plan = shelf.plan_merge()
    assert plan is not None
    plan.run()
    shelf.add_boxes(SubscriptionTable.from_boxes(["x"], np.array([[0.0]]), np.array([[5000.0]]), [900]), [900])
    shelf.install(plan)
    assert shelf.match({"x": 399.5}) == [400, 900]


def half_dead_shelf() -> Shelf:
    """Return a shelf of 400 subscriptions of which 300 have left, 100 more than make a renewal pay."""
    shelf = new_shelf(MergeWhenAsked())
    shelf.add([ask(f"x < {id}", id) for id in range(1, 401)])
    for id in range(1, 301):
        shelf.remove(id)
    return shelf


def test_a_renewal_that_a_table_of_texts_overtook_lapses(few_dead: int) -> None:
    shelf, texts = half_dead_shelf(), ["x < 5000", "x < 6000"]
    plan = shelf.plan_merge()
    assert plan is not None
    plan.run()
    table = SubscriptionTable.from_arrow(pa.table({"id": [900, 901], "filter": texts}))
    (batch,) = text_batches(table, [900, 901], compile_texts(texts, SCHEMA)).values()
    shelf.add_texts(batch, lambda record: pytest.fail(f"{record} was compiled again"))
    shelf.install(plan)
    assert shelf.match({"x": 399.5}) == [400, 900, 901]
    assert shelf.now.n_dead == 300


def test_a_renewal_repeats_lazy_additions(few_dead: int) -> None:
    shelf, lazy = half_dead_shelf(), [ask("x < 5000", 900), ask("x < 6000", 901)]
    plan = shelf.plan_merge()
    assert plan is not None
    plan.run()
    shelf.add_lazy(LazyBatch([900, 901], [], list(enumerate(lazy)), lazy.__getitem__))
    shelf.install(plan)
    assert shelf.match({"x": 399.5}) == [400, 900, 901]
    assert shelf.now.n_dead == 0


def test_a_renewal_lapses_when_another_is_planned(few_dead: int) -> None:
    shelf = half_dead_shelf()
    old = shelf.plan_merge()
    assert old is not None
    old.run()
    new = shelf.plan_merge()
    assert new is not None
    shelf.add([ask("x < 5000", 900)])
    before = shelf.now
    shelf.install(old)
    assert shelf.now is before
    new.run()
    shelf.install(new)
    assert shelf.now is not before
    assert shelf.match({"x": 399.5}) == [400, 900]


def test_a_subscription_ends_at_its_moment() -> None:
    shelf = new_shelf()
    shelf.add([replace(ask("x < 9", id), expires=end) for id, end in ((1, 100), (2, 101), (3, None))])
    for moment, ids in ((99, [1, 2, 3]), (100, [2, 3]), (100, [2, 3]), (500, [3])):
        shelf.expire(moment)
        assert shelf.match({"x": 0.0}) == ids


@pytest.mark.parametrize(("most", "n_events"), [(None, 4), (1, 1), (2, 1), (3, 3), (5, 3), (6, 4), (99, 4)])
def test_a_bounded_answer_ends_with_the_event_that_reaches_the_bound(most: int | None, n_events: int) -> None:
    shelf = new_shelf()
    shelf.add([ask(f"x < {limit}", limit) for limit in (1, 2, 3)])
    events = EventTable.of({"x": np.array([1.5, 5.0, 0.5, 2.5])}, SCHEMA)
    wanted = [[2, 3], [], [1, 2, 3], [3]]
    assert shelf.match_table(events, most) == wanted[:n_events]


def test_many_are_added_all_or_none() -> None:
    shelf = new_shelf()
    shelf.add([ask("x < 1", 1)])
    with pytest.raises(tamis.DuplicateSubscriptionError):
        shelf.add([ask("x < 2", 2), ask("x < 3", 1)])
    assert shelf.match({"x": 0}) == [1]
    shelf.add([ask("x < 2", 2)])
    assert shelf.match({"x": 0}) == [1, 2]


def test_what_the_matcher_refuses_leaves_its_ids_free(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = new_shelf()
    with monkeypatch.context() as broken:
        broken.setattr(PackedMatcher, "add_many", lambda self, rows, some: [][0])
        with pytest.raises(IndexError):
            shelf.add([ask("x < 1", 1), ask("x < 2", 2)])
    assert (len(shelf), list(shelf)) == (0, [])
    shelf.add([ask("x < 1", 1), ask("x < 2", 2)])
    assert shelf.match({"x": 1.5}) == [2]


def test_one_match_of_very_many_is_found_without_the_others() -> None:
    space = Namespace("default", PackedMatcher)
    space.add_many([ask(f"x BETWEEN {-id} AND {id}", id) for id in range(1, 20_001)])
    table: dict[str, Any] = {"x": np.zeros(64)}
    events, link = EventTable.of(table, SCHEMA), space.roles.link
    assert link is not None
    assert link.matches_any_of(events).all()
    assert effort(lambda: link.matches_any_of(events)) < effort(lambda: space.matcher.match_table(events)) / 10


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_minutes_of_churn(kind: str, few_dead: int) -> None:
    shelf, rng, end, number = new_shelf(), random.Random(5), time.monotonic() + 60, 1_000
    shelf.add([ask(KINDS[kind](id, rng.random()), id) for id in range(1_000)])
    while time.monotonic() < end:
        shelf.remove(number - 1_000)
        shelf.add([ask(KINDS[kind](number, rng.random()), number)])
        number += 1
        assert shelf.now.ids.n_rows <= 2 * 1_000 + shelf_module.TIDY_EVERY + few_dead
    assert len(shelf) == 1_000
