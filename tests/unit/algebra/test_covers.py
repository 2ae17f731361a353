"""`covers` against brute force over small worlds: the verdict is exact both ways, and the witness is true."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.algebra.conflicts import are_disjoint, conflicts
from tamis.algebra.covers import compare, covers, equivalent, is_covered
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import SchemaError
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import AllOf, AnyOf, Filter, Subscription
from tamis.model.types import Number, Timestamp
from tests.unit.algebra.small_worlds import BOOLEANS, NUMBERS, WORLDS, World, compiled, conditions, events, match_sets


def check_pair(a: Subscription, b: Subscription, in_a: int, in_b: int, schema: Schema) -> None:
    answer = compare(a.filters, b.filters, schema)
    assert answer.yes == (in_b & ~in_a == 0), (a.text, b.text, answer)
    assert not answer.unknown
    assert (answer.witness is None) == answer.yes
    if answer.witness is not None:
        event = schema.event(answer.witness)
        assert matches_subscription(event, b)
        assert not matches_subscription(event, a)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_every_pair_of_unions_on_one_attribute(world: World) -> None:
    schema = Schema({"v": world.kind})
    single = list(conditions(world, "v"))
    texts = [*single, *(f"{p} OR {q}" for p, q in itertools.combinations(single, 2)), "TRUE", "FALSE"]
    subscriptions = compiled(texts, schema)
    sets = match_sets(subscriptions, events(schema, v=world))
    for (a, in_a), (b, in_b) in itertools.product(zip(subscriptions, sets, strict=True), repeat=2):
        check_pair(a, b, in_a, in_b, schema)
        assert are_disjoint(a.filters, b.filters) == (in_a & in_b == 0)


@pytest.mark.parametrize(("first", "second"), [(NUMBERS, NUMBERS), (NUMBERS, BOOLEANS)], ids=["numbers", "mixed"])
def test_every_pair_of_conjunctions_on_two_attributes(first: World, second: World) -> None:
    schema = Schema({"p": first.kind, "q": second.kind})
    left, right = list(conditions(first, "p"))[::2], list(conditions(second, "q"))
    pairs = itertools.product(left, right)
    texts = [*left, *right, *(f"({p}) AND ({q})" for p, q in pairs)]
    subscriptions = compiled(texts, schema)
    sets = match_sets(subscriptions, events(schema, p=first, q=second))
    for (a, in_a), (b, in_b) in itertools.product(zip(subscriptions, sets, strict=True), repeat=2):
        assert is_covered(b.filters, a.filters) == (in_b & ~in_a == 0), (a.text, b.text)
    for (a, in_a), (b, in_b) in list(itertools.product(zip(subscriptions, sets, strict=True), repeat=2))[::7]:
        check_pair(a, b, in_a, in_b, schema)


PAIR_SCHEMA = Schema({"p": NUMBERS.kind, "q": BOOLEANS.kind})
PAIR_EVENTS = events(PAIR_SCHEMA, p=NUMBERS, q=BOOLEANS)
leaf = st.sampled_from([*conditions(NUMBERS, "p"), *conditions(BOOLEANS, "q")])
trees = st.recursive(
    leaf,
    lambda part: st.one_of(
        part.map("NOT ({})".format),
        st.lists(part, min_size=2, max_size=4).map(lambda some: " AND ".join(f"({text})" for text in some)),
        st.lists(part, min_size=2, max_size=4).map(lambda some: " OR ".join(f"({text})" for text in some)),
    ),
    max_leaves=8,
)


@given(trees, trees)
def test_any_combination_on_two_attributes(a: str, b: str) -> None:
    first, second = compiled([a, b], PAIR_SCHEMA)
    in_a, in_b = match_sets([first, second], PAIR_EVENTS)
    check_pair(first, second, in_a, in_b, PAIR_SCHEMA)
    assert is_covered(second.filters, first.filters) == (in_b & ~in_a == 0)
    assert equivalent(first, second) == (in_a == in_b)
    assert conflicts(first, second) == (in_a & in_b == 0)


@given(trees, trees)
def test_trees_that_were_not_expanded(a: str, b: str) -> None:
    """The same verdicts when the disjunctive form is behind a hull and a tree."""
    first, second = (_as_tree(subscription) for subscription in compiled([a, b], PAIR_SCHEMA))
    in_a, in_b = match_sets([first, second], PAIR_EVENTS)
    check_pair(first, second, in_a, in_b, PAIR_SCHEMA)


def _as_tree(subscription: Subscription) -> Subscription:
    tree = AnyOf(tuple(AllOf(filter.constraints) for filter in subscription.filters))
    return Subscription(subscription.id, (Filter((), tree),), subscription.text)


@pytest.mark.parametrize(
    ("a", "b", "yes"),
    [
        ("price < 100 OR price >= 100", "price IS NOT NULL", True),
        ("price < 100 OR price >= 100", "TRUE", False),
        ("price IS NULL OR price IS NOT NULL", "TRUE", True),
        ("s LIKE '%quake%'", "s LIKE '%earthquake%'", True),
        ("s LIKE '%earthquake%'", "s LIKE '%quake%'", False),
        ("s LIKE 'a%'", "s LIKE 'ab%c'", True),
        ("s LIKE '%'", "s IS NOT NULL", True),
        ("s LIKE '%a%' OR s NOT LIKE '%a%'", "s IS NOT NULL", True),
        ("s LIKE '%b%'", "s IN ('abc', 'b')", True),
        ("s LIKE '%b%'", "s IN ('abc', 'x')", False),
        ("s >= 'a' AND s < 'b'", "s LIKE 'a_%z'", True),
        ("s NOT LIKE 'b%x'", "s LIKE 'a_%z'", True),
        ("TRUE", "FALSE", True),
        ("FALSE", "TRUE", False),
        ("FALSE", "FALSE", True),
    ],
)
def test_single_verdicts(a: str, b: str, yes: bool) -> None:
    answer = covers(a, b)
    assert answer.yes is bool(answer) is yes
    assert not answer.unknown
    assert answer.reason
    assert (answer.witness is None) == yes


def test_a_union_of_boxes_covers_what_no_single_box_does() -> None:
    pinwheel = "(x < 2 AND y < 1) OR (x >= 2 AND y < 2) OR (x >= 1 AND y >= 2) OR (x < 1 AND y >= 1)"
    square = "x BETWEEN 0 AND 3 AND y BETWEEN 0 AND 3"
    hole: Any = covers(pinwheel, square).witness
    assert 1 <= hole["x"] < 2
    assert 1 <= hole["y"] < 2
    assert covers(f"{pinwheel} OR (x >= 1 AND x < 2 AND y >= 1 AND y < 2)", square)


def test_a_question_with_too_many_pieces_is_unknown_and_counts_as_no() -> None:
    names = [f"x{i}" for i in range(8)]
    holes = [" AND ".join(f"{name} <> {k}" for name in names) for k in range(8)]
    a, b = (compile_text(text, Schema(dict.fromkeys(names, Number()))) for text in (" OR ".join(holes), "TRUE"))
    answer = compare(a.filters, b.filters, {}, pieces=20)
    assert not answer
    assert answer.unknown or answer.witness is not None
    assert not is_covered(b.filters, a.filters, pieces=20)


def test_a_true_yes_beyond_the_budget_is_no() -> None:
    halves = (*compile_text("x < 1").filters, *compile_text("x >= 1").filters)
    present = compile_text("x IS NOT NULL").filters
    assert is_covered(present, halves)
    assert [is_covered(present, halves, pieces=n) for n in range(5)] == [False, False, False, True, True]
    answer = compare(halves, present, {}, pieces=2)
    assert not answer
    assert answer.unknown
    assert "too many pieces" in answer.reason


def test_types_are_learned_from_both_and_a_conflict_names_both() -> None:
    with pytest.raises(SchemaError, match="number.*string"):
        covers("x < 1", "x = 'one'")
    with pytest.raises(SchemaError, match="string.*number"):
        covers("x = 'one'", compile_text("x < 1"))
    moment = "x > TIMESTAMP('2026-01-01T00:00:00Z')"
    assert covers(compile_text(moment), moment)


def test_compiled_subscriptions_without_a_schema_get_whole_witnesses() -> None:
    """Whole numbers may be moments: a witness between two of them would be none."""
    schema = Schema({"at": Timestamp()})
    a, b = (compile_text(f"at <= TIMESTAMP('2026-01-01T00:00:0{i}Z')", schema) for i in (0, 1))
    witness: Any = covers(a, b).witness
    assert isinstance(witness["at"], int)


def test_json_and_text_are_the_same_question() -> None:
    a = {"op": "<", "args": [{"property": "price"}, 100]}
    assert covers(a, "price < 50")
    assert equivalent(a, "price < 100")
