"""Arithmetic against fractions: every matcher and the table path agree with an evaluator that knows nothing of forms.

Filters are random expressions of three attributes, events have small integers, floats of few and of many digits,
numbers beyond 2**53 and missing values. Sums, products and quotients of them are equal often, and often differ by less
than a float64 can say.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.algebra.evaluate import matches_subscription
from tamis.model.derived.formula_columns import formula_points
from tamis.model.language.arithmetic.reading import condition_of
from tamis.model.language.compiler import compile_node, compile_text
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Arithmetic, Calculated, Expression, Node, Not, Or, Property
from tamis.model.language.parse import parse
from tamis.model.language.unbind import unbind
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable
from tests import naive

SCHEMA = Schema(dict.fromkeys("abc", tamis.Number()))
LITERALS: list[Any] = [0, 1, 2, 3, -1, 0.5, 0.1, 0.3, 10, 2**53, 1e6]
VALUES: list[Any] = [0, 1, 2, 3, -1, -2, 0.5, 0.1, 0.2, 0.3, 0.7, 99.95, 1e-9, 10, 2**53, 2**53 + 1, 2**60 + 1, 1e16]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def expression(rng: random.Random, depth: int) -> Expression:
    """Return a random expression; exponents are small whole numbers."""
    if depth == 0 or rng.random() < 0.25:
        return Property(rng.choice("abc")) if rng.random() < 0.7 else rng.choice(LITERALS)
    op = rng.choice(["+", "-", "*", "+", "-", "*", "/", "%", "div", "^"])
    if op == "^":
        return Arithmetic(op, expression(rng, depth - 1), rng.choice([0, 1, 2, 3, -1]))
    return Arithmetic(op, expression(rng, depth - 1), expression(rng, depth - 1))


def condition(rng: random.Random) -> Node:
    op = rng.choice([*OPERATORS, *OPERATORS, "BETWEEN", "IN", "NULL"])
    count = {"BETWEEN": 3, "IN": 3, "NULL": 1}.get(op, 2)
    operands = [expression(rng, rng.choice([1, 2, 3]))]
    operands += [expression(rng, rng.choice([0, 0, 1])) for _ in range(count - 1)]
    negated = op in ("BETWEEN", "IN", "NULL") and rng.random() < 0.3
    return condition_of(op, tuple(operands), None, negated)


def tree(rng: random.Random) -> Node:
    shape = rng.random()
    if shape < 0.5:
        return condition(rng)
    if shape < 0.65:
        return Not(condition(rng))
    return (And if shape < 0.85 else Or)((condition(rng), condition(rng)))


def event(rng: random.Random) -> dict[str, Any]:
    return {name: rng.choice(VALUES) for name in "abc" if rng.random() < 0.9}


def drawn(rng: random.Random, count: int) -> list[tuple[Node, Subscription]]:
    """Return random subscriptions, without those that are refused because they divide by a constant zero."""
    drawn: list[tuple[Node, Subscription]] = []
    while len(drawn) < count:
        node = tree(rng)
        try:
            drawn.append((node, Subscription(len(drawn), compile_node(node, SCHEMA))))
        except tamis.SubscriptionError as error:
            if not any(words in str(error) for words in ("division by zero", "has no value")):
                raise
    return drawn


def agree(seed: int, n_subscriptions: int, n_events: int, matchers: tuple[str, ...]) -> int:
    """Compare all answers for random subscriptions and events; return how many pairs match."""
    rng = random.Random(seed)
    subscriptions, events = drawn(rng, n_subscriptions), [event(rng) for _ in range(n_events)]
    wanted = [[i for i, (node, _) in enumerate(subscriptions) if naive.evaluate(node, event)] for event in events]
    for raw, want in zip(events, wanted, strict=True):
        canonical = SCHEMA.event(raw)
        assert [
            i for i, (_, subscription) in enumerate(subscriptions) if matches_subscription(canonical, subscription)
        ] == want, raw
    for matcher in matchers:
        engine = tamis.Engine(SCHEMA, matcher)
        for i, (node, _) in enumerate(subscriptions):
            engine.subscribe(format_node(node), id=i)
        assert [engine.match(event) for event in events] == wanted, matcher
        columns = {name: [event.get(name) for event in events] for name in "abc"}
        table = engine.match_table(columns)
        assert [table.of(row) for row in range(n_events)] == wanted, matcher
    return sum(map(len, wanted))


@pytest.mark.parametrize("seed", range(3))
def test_all_matchers_agree_with_fractions(seed: int) -> None:
    assert agree(seed, 60, 30, ("linear", "packed", "counting", "mics")) > 200


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_soak_arithmetic(part: int) -> None:
    for seed in range(100):
        assert agree(1_000 + 100 * part + seed, 250, 100, ("packed",)) > 200


def test_floats_of_a_table_are_computed_exactly() -> None:
    """Columns of float64 and int64 take the quick way, which must not round a decision away."""
    rng = np.random.default_rng(5)
    digits = rng.integers(1, 10_000, (3, 400)) / 100
    columns = {"a": digits[0], "b": digits[1], "c": digits[2]}
    columns["c"][::3] = (columns["a"] - columns["b"])[
        ::3
    ]  # the nearest float64: equal to the difference only sometimes
    columns["c"][1::3] = (columns["a"] * columns["b"])[1::3]
    texts = ["a - b = c", "a - b < c", "a * b >= c", "a * b <> c", "a / b > c", "a ^ 2 - b > 2 * c", "0.1 * a + b < c"]
    engine = tamis.Engine(SCHEMA)
    for text in texts:
        engine.subscribe(text, id=text)
    table = engine.match_table(columns)
    trees = {text: parse(text) for text in texts}
    answers = 0
    for row in range(400):
        event = {name: float(column[row]) for name, column in columns.items()}
        want = [text for text in texts if naive.evaluate(trees[text], event)]
        assert sorted(table.of(row)) == sorted(want), event
        answers += "a - b = c" in want
    assert answers > 10


FORMS = [
    "a - b",
    "a + b",
    "a * b",
    "a / b",
    "a ^ 3",
    "a * b - c",
    "a - b + c",
    "0.1 * a + b",
    "(a - b) / c",
    "a * b / c",
]


@pytest.mark.parametrize("form", FORMS)
def test_intervals_hold_the_exact_values(form: str) -> None:
    """The interval of float64 around a computed value holds it, and is a point only where a float64 is the value."""
    rng = np.random.default_rng(FORMS.index(form))
    digits = np.round(rng.uniform(-100, 100, (3, 400)), 2)
    digits[:, ::4] = rng.integers(-5, 6, (3, 100))
    digits[:, 1::16] = [[1e300], [1e-300], [1e200]]
    digits[:, 2::16] = [[5e-324], [2.0**60], [1e-320]]
    table = EventTable.of(dict(zip("abc", digits, strict=True)), SCHEMA)
    values = formula_points(table.columns, f"={form}", 400)
    node = parse(f"{form} IS NULL")
    assert isinstance(node, Calculated)
    points = 0
    for row in range(400):
        value = naive.number_of(node.operands[0], table.event(row))
        assert (value is not None) == values.present[row], row
        if value is not None:
            low, high = Fraction(values.low[row]), Fraction(values.high[row])
            assert low <= value <= high, row
            assert low == high or values.high[row] - values.low[row] <= 1e-10 * max(abs(values.low[row]), 1), row
            points += low == high
    assert points > 5


@pytest.mark.parametrize("seed", range(4))
def test_filters_are_written_and_read_again(seed: int) -> None:
    for _, subscription in drawn(random.Random(f"written {seed}"), 60):
        node = unbind(subscription.filters, SCHEMA)
        assert compile_node(node, SCHEMA) == subscription.filters
        text = format_node(node)
        assert compile_text(text, SCHEMA).filters == subscription.filters


@pytest.mark.parametrize("seed", range(4))
def test_covering_never_errs(seed: int) -> None:
    """A yes has no counterexample among many events, and a no has one."""
    rng = random.Random(f"covers {seed}")
    events = [SCHEMA.event(event(rng)) for _ in range(200)]
    forms = ["a - b", "2 * a - 2 * b", "a + b", "a * b", "a", "a / b"]
    yes = 0
    for _ in range(150):
        texts = [f"{rng.choice(forms)} {rng.choice(OPERATORS)} {rng.choice(LITERALS)}" for _ in range(2)]
        outer, inner = (compile_node(parse(text), SCHEMA) for text in texts)
        answer = tamis.covers(*texts, SCHEMA)
        sides = [Subscription(i, filters) for i, filters in enumerate((outer, inner))]
        if answer.yes:
            yes += 1
            assert all(
                matches_subscription(event, sides[0]) for event in events if matches_subscription(event, sides[1])
            )
        elif not answer.unknown:
            assert answer.witness is not None
            assert not matches_subscription(SCHEMA.event(answer.witness), sides[0])
            assert matches_subscription(SCHEMA.event(answer.witness), sides[1])
    assert yes > 0
