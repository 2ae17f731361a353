"""The books of a link: random histories against the plain set of members, for every policy."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tamis.algebra.covers import is_covered
from tamis.errors import InvariantError, ModelError, WeakGuaranteeError
from tamis.index.dominance.batches import Questions
from tamis.index.linear_scan import LinearCovering
from tamis.index.protocols import Guarantee
from tamis.model.language.compiler import compile_text
from tamis.model.subscription import Filter, Subscription
from tamis.node.content import Content
from tamis.routing.core.summary import Origin, Summary
from tamis.routing.policies import POLICIES, find_policy
from tamis.routing.policies.covering import CoveringStrategy
from tamis.routing.policies.merging import join_filters
from tests.simulation.world import CONTENT, POOL, SCHEMA, mask_of


def compiled(text: str, id: str = "a") -> Subscription:
    return compile_text(text, SCHEMA, id=id)


def one_filter(text: str) -> Filter:
    [filter] = compiled(text).filters
    return filter


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_the_neighbour_holds_the_union_of_the_members_after_every_step(name: str, seed: int) -> None:
    rng, policy = random.Random(seed), POLICIES[name]
    summary, live, held = Summary(policy.make()), dict[Origin, Subscription](), dict[str, Subscription]()
    for number in range(60):
        if live and rng.random() < 0.45:
            origin = rng.choice(sorted(live))
            del live[origin]
            summary.remove(origin)
        else:
            origin = Origin(rng.choice("pq"), f"{number}")
            live[origin] = Subscription(origin.key, CONTENT.read_filter(rng.choice(POOL)))
            summary.add(origin, live[origin])
        changes = summary.take_changes()
        held |= {str(content.id): content for content in changes.announce}
        for key in changes.retract:
            del held[key]
        summary.check_invariants(exact=policy.exact)
        assert held == {str(content.id): content for content in summary.contents()}
        wanted, announced = (union(items.values()) for items in (live, held))
        assert wanted & ~announced == 0
        assert announced == wanted or not policy.exact
    for origin in sorted(live):
        summary.remove(origin)
    assert len(summary) == 0


def union(items: object) -> int:
    mask = 0
    for item in items:  # type: ignore[attr-defined]
        mask |= mask_of(item.filters)
    return mask


def questions_of(arrivals: Sequence[tuple[Origin, Subscription]]) -> Questions:
    reader = Content(SCHEMA)  # one that has not written a document learns its shape
    columns = reader.read_filters([CONTENT.write_filter(subscription.filters) for _, subscription in arrivals]).columns
    return Questions([subscription for _, subscription in arrivals], columns)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(2))
def test_batches_tell_the_neighbour_no_less_and_no_more(name: str, seed: int) -> None:
    rng, policy = random.Random(seed), POLICIES[name]
    summary, live, held = Summary(policy.make()), dict[Origin, Subscription](), dict[str, Subscription]()
    for _ in range(6):
        for origin in rng.sample(sorted(live), len(live) // 3):
            del live[origin]
            summary.remove(origin)
        keys = {Origin(rng.choice("pq"), f"{rng.randrange(200)}") for _ in range(40)} - live.keys()
        arrivals = [
            (origin, Subscription(origin.key, CONTENT.read_filter(rng.choice(POOL)))) for origin in sorted(keys)
        ]
        for source in "pq":  # what one neighbour says has each key once
            mine = [arrival for arrival in arrivals if arrival[0].source == source]
            summary.add_many(mine, questions_of(mine))
        live |= dict(arrivals)
        while True:
            changes = summary.take_changes()
            held |= {str(content.id): content for content in changes.announce}
            for key in changes.retract:
                del held[key]
            summary.check_invariants(exact=policy.exact)
            wanted, sent = (union(items.values()) for items in (live, held))
            assert wanted & ~sent == 0
            assert sent == wanted or not policy.exact or summary.is_busy  # an ending group says more for a while
            if not changes.again and not summary.is_busy:
                break
            summary.advance()
        assert held == {str(content.id): content for content in summary.contents()}
    for origin in sorted(live):
        summary.remove(origin)
    while summary.is_busy:
        summary.take_changes()
        summary.advance()
    assert len(summary) == 0


def test_a_batch_announces_only_what_nothing_else_in_it_covers() -> None:
    rng, summary = random.Random(5), Summary(POLICIES["covering"].make())
    arrivals = [(Origin("p", f"{n}"), Subscription(f"{n}", CONTENT.read_filter(rng.choice(POOL)))) for n in range(80)]
    summary.add_many(arrivals, questions_of(arrivals))
    filters = {subscription.filters for _, subscription in arrivals}
    broadest = {
        narrow
        for narrow in filters
        if all(
            is_covered(other, narrow) for other in filters if is_covered(narrow, other)
        )  # at most equal ones cover it
    }
    announced = [content.filters for content in summary.contents()]
    assert set(announced) <= broadest
    assert all(any(is_covered(narrow, other) for other in announced) for narrow in filters)
    assert not any(is_covered(a, b) for a, b in itertools.permutations(announced, 2))
    assert len(summary) < len(arrivals)


def test_policies_announce_ever_less() -> None:
    """[mics] Fig. 7: none, then covering, then subsumption; merging keeps the smallest table."""
    sizes = {}
    for name in ("identity", "covering", "subsumption", "merging", "gap"):
        rng, summary = random.Random(1), Summary(POLICIES[name].make())
        for number in range(60):
            summary.add(Origin("p", f"{number}"), Subscription(f"{number}", CONTENT.read_filter(rng.choice(POOL))))
        sizes[name] = len(summary)
    assert sizes["identity"] > sizes["covering"] >= sizes["subsumption"]
    assert sizes["covering"] >= sizes["merging"] >= sizes["gap"]


def test_beyond_a_few_groups_the_index_takes_over() -> None:
    class Counted(LinearCovering):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.made += 1

    summary = Summary(CoveringStrategy(Counted, few=3))
    for number in range(6):
        assert Counted.made == (number > 3)
        summary.add(Origin("p", f"{number}"), compiled(f"a = {number}", f"{number}"))
    summary.add(Origin("p", "wide"), compiled("a >= 2", "wide"))
    summary.add(Origin("p", "in"), compiled("a = 5 AND b = 1", "in"))
    summary.check_invariants(exact=True)
    assert sorted(str(content.id) for content in summary.contents()) == ["0", "1", "wide"]
    for number in (2, 3, 4, 5, 0, 1):
        summary.remove(Origin("p", f"{number}"))
    summary.remove(Origin("p", "wide"))
    assert [str(content.id) for content in summary.contents()] == ["in"]
    assert Counted.made == 1


def test_who_stands_for_what_was_suppressed() -> None:
    summary = Summary(POLICIES["subsumption"].make())
    for key, text in [("low", "a <= 3"), ("high", "a >= 3"), ("part", "a BETWEEN 2 AND 4"), ("in", "a = 1")]:
        summary.add(Origin("p", key), compiled(text, key))
    assert dict(summary.suppressed()) == {Origin("p", "part"): ("high", "low"), Origin("p", "in"): ("low",)}


def test_a_key_that_is_taken_by_another_filter_gets_a_name_of_its_own() -> None:
    summary = Summary(POLICIES["identity"].make())
    summary.add(Origin("p", "k"), compiled("a = 1", "k"))
    summary.add(Origin("q", "k"), compiled("a = 2", "k"))
    assert sorted(str(content.id) for content in summary.contents()) == ["k", "k@q"]
    summary.remove(Origin("p", "k"))
    summary.check_invariants(exact=True)
    assert [str(content.id) for content in summary.contents()] == ["k@q"]


def test_the_same_key_with_the_same_filter_is_announced_once() -> None:
    class Blind(CoveringStrategy):
        def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
            return None

        def covered(self, subscription: Subscription) -> tuple[str, ...]:
            return ()

    summary = Summary(Blind(LinearCovering))
    for source in "pq":
        summary.add(Origin(source, "k"), compiled("a = 1", "k"))
    assert len(summary) == 1
    summary.remove(Origin("p", "k"))
    assert [content.id for content in summary.take_changes().announce] == ["k"]
    summary.check_invariants(exact=True)


def test_invariants_can_fail() -> None:
    summary = Summary(POLICIES["covering"].make())
    summary.add(Origin("p", "wide"), compiled("a <= 3", "wide"))
    summary.add(Origin("p", "in"), compiled("a = 1", "in"))
    group = summary._groups["wide"]
    group.content = replace(group.content, filters=compiled("a >= 2").filters)
    with pytest.raises(InvariantError, match="withheld"):
        summary.check_invariants(exact=True)
    group.content = replace(group.content, filters=compiled("a <= 9").filters)
    with pytest.raises(InvariantError, match="matches more than its parts"):
        summary.check_invariants(exact=True)
    group.contributors = {Origin("p", "gone")}
    with pytest.raises(InvariantError, match="stale"):
        summary.check_invariants(exact=False)


def test_a_covering_index_that_is_not_sound_is_refused() -> None:
    class Guess(LinearCovering):
        guarantee = Guarantee.COMPLETE

    with pytest.raises(WeakGuaranteeError, match="is only COMPLETE"):
        CoveringStrategy(Guess)


@pytest.mark.parametrize(
    ("a", "b", "gap", "joined"),
    [
        ("a < 3", "a >= 3", 0.0, "a IS NOT NULL"),
        ("a < 3 AND b = 1", "a >= 2 AND b = 1", 0.0, "a IS NOT NULL AND b = 1"),
        ("a = 1", "a = 2", 0.0, "a IN (1, 2)"),
        ("a IS NULL", "a < 3", 0.0, "a IS NULL OR a < 3"),
        ("a IS NULL", "a IS NOT NULL", 0.0, "TRUE"),
        ("a BETWEEN 0 AND 4", "a BETWEEN 6 AND 10", 0.1, None),
        ("a BETWEEN 0 AND 4", "a BETWEEN 6 AND 10", 0.2, "a BETWEEN 0 AND 10"),
        ("a < 4", "a > 6", 0.9, None),
        ("a < 3 AND b = 1", "a >= 3 AND b = 2", 0.0, None),
        ("a < 3", "b < 3", 0.0, None),
        ("a < 3", "a < 3 AND b < 3", 0.0, None),
    ],
)
def test_joining_filters(a: str, b: str, gap: float, joined: str | None) -> None:
    union = join_filters(one_filter(a), one_filter(b), (lambda _, whole, empty: empty <= gap * whole) if gap else None)
    if joined is None and union is not None:  # joined, but no gap was filled
        assert mask_of((union,)) == mask_of(compiled(f"({a}) OR ({b})").filters)
        assert len(next(c for c in union.constraints).allowed.cuts) > 1  # type: ignore[union-attr]
    else:
        wanted = None if joined is None else mask_of(compiled(joined).filters)
        assert (None if union is None else mask_of((union,))) == wanted


def test_an_unknown_policy_is_refused_with_a_hint() -> None:
    with pytest.raises(ModelError, match="did you mean 'covering'"):
        find_policy("covring")
    assert find_policy(POLICIES["flood"]).name == "flood"


@pytest.mark.parametrize("texts", [("x <= 999", "x <= 500", "y = 1"), ("x <= 999", "y = 1", "x <= 2", "y = 2")])
def test_a_client_that_changes_a_broad_filter_again_and_again_hides_no_other(texts: tuple[str, ...]) -> None:
    """A key that is free must not be that of a group which is ending: its members would stay behind another filter."""
    summary, changed = Summary(find_policy("covering").make()), Origin("c", "k")
    summary.add(changed, compile_text(texts[0], id="k"))
    for number in range(300):
        summary.add(Origin("c", f"m{number}"), compile_text(f"x = {number}", id=f"m{number}"))
    summary.take_changes()
    for text in texts[1:]:
        summary.remove(changed)
        summary.add(changed, compile_text(text, id="k"))
        summary.take_changes()
        summary.advance()
    while summary.is_busy:
        summary.take_changes()
        summary.advance()
    summary.check_invariants(exact=True)
