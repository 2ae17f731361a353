"""Laws of the algebra, over subscriptions of every kind and events drawn beside them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.algebra.conflicts import conflicts
from tamis.algebra.covers import covers, equivalent
from tamis.algebra.evaluate import matches_subscription
from tamis.algebra.simplify import simplify
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector
from tamis.reduction import merge, reduce, subsumed

SCHEMA = Schema(
    {"n": Number(), "m": Number(), "s": String(), "b": Boolean(), "t": Timestamp(), "r": Region(), "v": Vector(2)}
)

small = st.integers(0, 4)
number = st.one_of(small, st.sampled_from([0.5, 1.5, 2.25]))
word = st.text("ab", max_size=3)
pattern = st.text("ab%_", min_size=1, max_size=4)
moment = small.map("TIMESTAMP('2026-01-01T00:00:00.00000{}Z')".format)
compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def _square(x: int, y: int, side: int) -> str:
    return f"POLYGON(({x} {y}, {x + side} {y}, {x + side} {y + side}, {x} {y + side}, {x} {y}))"


squares = st.builds(_square, small, small, st.integers(1, 3))
spatial = st.sampled_from(["S_INTERSECTS", "S_WITHIN", "S_DISJOINT", "S_TOUCHES", "RCC_CONTAINS", "S_EQUALS"])
leaves = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("nm"), compare, number),
    st.builds("{} BETWEEN {} AND {}".format, st.sampled_from("nm"), small, small),
    st.builds("{} IN ({}, {})".format, st.sampled_from("nm"), small, number),
    st.builds("s {} '{}'".format, compare, word),
    st.builds("s {} '{}'".format, st.sampled_from(["LIKE", "NOT LIKE"]), pattern),
    st.builds("b = {}".format, st.sampled_from(["TRUE", "FALSE"])),
    st.builds("t {} {}".format, compare, moment),
    st.builds("{} {}".format, st.sampled_from("nmsbtrv"), st.sampled_from(["IS NULL", "IS NOT NULL"])),
    st.builds("{}(r, {})".format, spatial, squares),
    st.builds("V_WITHIN(v, ({}, {}), {})".format, small, small, small),
)
texts = st.recursive(
    leaves,
    lambda part: st.one_of(
        part.map("NOT ({})".format),
        st.builds("({}) AND ({})".format, part, part),
        st.builds("({}) OR ({})".format, part, part),
    ),
    max_leaves=5,
)
subscriptions = texts.map(lambda text: compile_text(text, SCHEMA))
MIDNIGHT = 1_767_225_600_000_000
events = st.fixed_dictionaries(
    {},
    optional={
        "n": number,
        "m": number,
        "s": word,
        "b": st.booleans(),
        "t": small.map(lambda i: MIDNIGHT + i),
        "r": st.one_of(st.tuples(small, small), squares),
        "v": st.tuples(st.integers(-1, 6), st.integers(-1, 6)),
    },
)
some_events = st.lists(events, min_size=5, max_size=25).map(lambda some: [SCHEMA.event(values) for values in some])


def hits(event: dict[str, Any], *some: Subscription) -> bool:
    return any(matches_subscription(event, subscription) for subscription in some)


@given(subscriptions)
def test_everything_covers_itself_and_nothing_and_is_covered_by_true(a: Subscription) -> None:
    assert covers(a, a, SCHEMA)
    assert covers(a, "FALSE", SCHEMA)
    assert covers("TRUE", a, SCHEMA)
    assert equivalent(a, a, SCHEMA)


#: Two texts; in half of the pairs the second one is a part of the first. What Hypothesis draws depends on the modules
#: that are loaded, so that independent texts would cover each other often in one run and hardly ever in another.
widened = st.tuples(texts, texts, st.booleans()).map(
    lambda drawn: (f"({drawn[0]}) OR ({drawn[1]})" if drawn[2] else drawn[0], drawn[1])
)


@pytest.mark.hypothesis
def test_covering_means_what_it_says() -> None:
    reached: Counter[str] = Counter()

    @given(widened, some_events)
    def law(pair: tuple[str, str], sampled: list[dict[str, Any]]) -> None:
        a, b = (compile_text(text, SCHEMA) for text in pair)
        answer = covers(a, b, SCHEMA)
        if answer.yes:
            assert answer.witness is None
            assert not answer.unknown
            for event in sampled:
                assert hits(event, a) or not hits(event, b)
                reached["yes"] += hits(event, b)
        else:
            assert answer.unknown == (answer.witness is None)
        if answer.witness is not None:
            event = SCHEMA.event(answer.witness)
            assert hits(event, b)
            assert not hits(event, a)
            reached["witness"] += 1

    law()
    assert reached["yes"] >= 10, reached
    assert reached["witness"] >= 30, reached


@given(texts, texts, texts)
def test_covering_is_transitive_along_a_chain(a: str, b: str, c: str) -> None:
    low, middle, high = f"({a}) AND ({b})", a, f"({a}) OR ({c})"
    assert covers(middle, low, SCHEMA)
    assert covers(high, middle, SCHEMA)
    assert covers(high, low, SCHEMA)


#: Two texts; half of the second ones exclude most of what the first one matches.
pairs = st.tuples(texts, texts, st.booleans()).map(
    lambda drawn: (drawn[0], f"({drawn[1]}) AND NOT ({drawn[0]})" if drawn[2] else drawn[1])
)


@pytest.mark.hypothesis
def test_what_is_proved_is_consistent() -> None:
    reached: Counter[str] = Counter()

    @given(pairs)
    def law(pair: tuple[str, str]) -> None:
        a, b = pair
        both, neither = f"({a}) AND ({b})", f"({a}) AND NOT ({a})"
        assert covers(a, both, SCHEMA)
        assert covers(b, both, SCHEMA)
        assert conflicts(neither, b, SCHEMA)
        if conflicts(a, b, SCHEMA):
            assert not matches_subscription({}, compile_text(both, SCHEMA))
            assert simplify(both, SCHEMA).filters == ()
            reached["conflict"] += 1

    law()
    assert reached["conflict"] >= 20


@pytest.mark.hypothesis
def test_no_event_matches_two_that_conflict() -> None:
    reached: Counter[str] = Counter()

    @given(pairs, some_events)
    def law(pair: tuple[str, str], sampled: list[dict[str, Any]]) -> None:
        a, b = (compile_text(text, SCHEMA) for text in pair)
        if conflicts(a, b, SCHEMA):
            assert not [event for event in sampled if hits(event, a) and hits(event, b)]
            reached["conflict"] += any(hits(event, a) for event in sampled)
            reached["conflict, other side"] += any(hits(event, b) for event in sampled)

    law()
    assert min(reached["conflict"], reached["conflict, other side"]) >= 10, reached


@given(subscriptions, some_events)
def test_simplifying_changes_no_answer_and_is_done_once(a: Subscription, sampled: list[dict[str, Any]]) -> None:
    simple = simplify(a, SCHEMA)
    assert simplify(simple, SCHEMA) == simple
    assert len(simple.filters) <= max(len(a.filters), 1)
    for event in sampled:
        assert hits(event, a) == hits(event, simple)


@pytest.mark.hypothesis
def test_a_merge_is_the_union() -> None:
    reached: Counter[bool] = Counter()

    @given(subscriptions, subscriptions, some_events)
    def law(a: Subscription, b: Subscription, sampled: list[dict[str, Any]]) -> None:
        union = merge(a, b, SCHEMA)
        if union is not None:
            for event in sampled:
                assert hits(event, union) == hits(event, a, b)
                reached[hits(event, a, b)] += 1

    law()
    assert min(reached[True], reached[False]) >= 30, reached


@pytest.mark.hypothesis
def test_subsumption() -> None:
    reached: Counter[str] = Counter()

    @given(widened, st.lists(subscriptions, max_size=3), st.booleans(), some_events)
    def law(pair: tuple[str, str], more: list[Subscription], among: bool, sampled: list[dict[str, Any]]) -> None:
        outer, a = (compile_text(text, SCHEMA) for text in pair)
        others = [outer, *more] if among else more
        answer = subsumed(a, dict(enumerate(others)), SCHEMA)
        if answer:
            used = [others[int(id)] for id in answer.by]
            assert not [event for event in sampled if hits(event, a) and not hits(event, *used)]
            reached["yes"] += any(hits(event, a) for event in sampled)
        if answer.witness is not None:
            event = SCHEMA.event(answer.witness)
            assert hits(event, a)
            assert not hits(event, *others)
            reached["witness"] += 1

    law()
    assert reached["yes"] >= 10, reached
    assert reached["witness"] >= 30, reached


@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(subscriptions, max_size=8), some_events, st.booleans())
def test_reducing_changes_no_union(originals: list[Subscription], sampled: list[dict[str, Any]], merging: bool) -> None:
    result = reduce(dict(enumerate(originals)), SCHEMA, merge=merging)
    for event in sampled:
        assert hits(event, *originals) == hits(event, *result.subscriptions)
    assert result.after == len(result.kept) + len(result.merged)
