"""Every shared case through every way an answer is given: single events, tables, explanations, other forms."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tamis import conflicts, covers, errors, reduce, simplify
from tamis.algebra.evaluate import matches
from tamis.engine import Engine
from tamis.index.registry import MATCHERS
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.lexer import FUNCTIONS
from tamis.model.language.nodes import Compare, Leaf, Node, SpatialTest, leaves
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tests import naive
from tests.case_files import Case, arrow_row, each_case, load_cases

CASES = load_cases()
ANSWERED = [case for case in CASES if case.error is None]
REFUSED = [case for case in CASES if case.error is not None]
FILES = sorted({case.file for case in CASES})
#: Files with a schema: their subscriptions and events can live in one engine.
TYPED = sorted({case.file for case in CASES if case.schema is not None})


def engine_of(case: Case, matcher: str = "linear") -> Engine:
    engine = Engine(case.schema, matcher)
    engine.subscribe(case.subscription, id=case.name)
    return engine


def canonical(case: Case, engine: Engine) -> tuple[Schema, dict[str, Any]]:
    """Return what the engine knows of the attributes after it has seen the event, and the canonical event."""
    engine.match(case.event)
    return engine.schema, engine.schema.event(case.event)


def wanted(case: Case) -> list[str]:
    return [case.name] if case.expected else []


@each_case(ANSWERED)
def test_answer(case: Case) -> None:
    for matcher in MATCHERS:
        assert engine_of(case, matcher).match(case.event) == wanted(case), matcher


@each_case(ANSWERED)
def test_explanation(case: Case) -> None:
    explanation = engine_of(case).explain(case.event, case.name)
    assert explanation.matched is case.expected
    assert (explanation.tree.outcome is True) is case.expected, "the steps add up to the answer"
    assert str(explanation).startswith("match" if case.expected else "no match")


@each_case(ANSWERED)
def test_answer_in_a_table(case: Case) -> None:
    rows = {name: [value] for name, value in case.event.items()} or {"nothing": [None]}
    for matcher in MATCHERS:
        engine = engine_of(case, matcher)
        assert engine.match_table(rows).of(0) == wanted(case), matcher
        if not case.has_columns:
            continue
        if case.schema is None:  # what the first table taught the engine must not help with the second
            engine = engine_of(case, matcher)
        schema, _ = canonical(case, engine)
        matches = engine.match_table(arrow_row(case.event, schema))
        assert matches.of(0) == wanted(case), matcher
        assert matches.of(1) == engine.match({}), matcher


#: The naive evaluator knows no types, so that it cannot read the literals of addresses, dates, decimals and mixed sets.
WITHOUT_TYPES = [case for case in ANSWERED if case.file not in ("small-types", "mixed-sets", "missing-operands")]


@each_case(WITHOUT_TYPES)
def test_answer_by_the_naive_evaluator(case: Case) -> None:
    _, event = canonical(case, engine_of(case))
    assert (naive.evaluate(parse(case.subscription), event) is True) is case.expected


@each_case(ANSWERED)
def test_answer_in_another_form(case: Case) -> None:
    node = parse(case.subscription)
    document = to_json(node)
    for form in (format_node(node), document, format_node(from_json(document))):
        engine = Engine(case.schema)
        engine.subscribe(form, id=case.name)
        assert engine.match(case.event) == wanted(case), form


@each_case(REFUSED)
def test_refusal(case: Case) -> None:
    if case.error == "EventError":
        engine = engine_of(case)
        with pytest.raises(errors.EventError) as caught:
            engine.match(case.event)
    else:
        engine = Engine(case.schema)
        with pytest.raises(errors.ModelError) as caught:
            engine.subscribe(case.subscription, id=case.name)
        assert len(engine) == 0
    assert type(caught.value).__name__ == case.error
    assert not [words for words in case.mentions if words not in str(caught.value)], str(caught.value)


@each_case([case for case in REFUSED if case.error == "EventError" and isinstance(case.event, dict)])
def test_refusal_in_a_table(case: Case) -> None:
    rows = {name: [None, value] for name, value in case.event.items()}
    with pytest.raises(errors.EventError) as caught:
        engine_of(case).match_table(rows)
    assert caught.value.row == 1
    assert not [words for words in case.mentions if words not in str(caught.value)], str(caught.value)
    skipped = engine_of(case).match_table(rows, on_bad="skip")
    assert skipped.of(1) == []


@pytest.mark.parametrize("file", FILES)
def test_answers_after_saving(file: str, tmp_path: Path) -> None:
    cases = [case for case in ANSWERED if case.file == file]
    for place, group in enumerate(_engines(cases)):
        engine = Engine(group[0].schema)
        for case in group:
            engine.subscribe(case.subscription, id=case.name)
        engine.save(tmp_path / str(place))
        loaded = Engine.load(tmp_path / str(place))
        assert len(loaded) == len(group)
        assert {case.name: case.name in loaded.match(case.event) for case in group} == {
            case.name: case.expected for case in group
        }


def _engines(cases: list[Case]) -> list[list[Case]]:
    """Return the cases that may share an engine: all with a schema, each alone when types are learned."""
    return [[case] for case in cases] if cases[0].schema is None else [cases]


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize(
    "file", [file for file in TYPED if file not in ("small-types", "mixed-sets", "missing-operands")]
)
def test_every_subscription_of_a_file_against_every_event(file: str, matcher: str) -> None:
    cases = [case for case in ANSWERED if case.file == file]
    engine = Engine(cases[0].schema, matcher)
    for case in cases:
        engine.subscribe(case.subscription, id=case.name)
    for case in cases:
        assert engine.match(case.event) == naive_answers(file)[case.name], case.name


@functools.cache
def naive_answers(file: str) -> dict[str, list[str]]:
    """Return for each case of a file the subscriptions of the file that its event matches; every matcher needs them."""
    cases = [case for case in ANSWERED if case.file == file]
    schema = cases[0].schema
    assert schema is not None
    trees = {case.name: parse(case.subscription) for case in cases}
    events = {case.name: schema.event(case.event) for case in cases}
    return {
        name: sorted(other for other, tree in trees.items() if naive.evaluate(tree, event) is True)
        for name, event in events.items()
    }


def test_there_are_enough_cases_with_names_of_their_own() -> None:
    assert len(CASES) >= 150
    assert not [name for name, count in Counter(case.name for case in CASES).items() if count > 1]


def test_every_operator_is_seen_to_hold_and_to_fail() -> None:
    seen = {(words, case.expected) for case in ANSWERED for words in _words(parse(case.subscription))}
    comparisons = [f"Compare {op}" for op in ("=", "<>", "<", "<=", ">", ">=")]
    others = ["Between", "Between negated", "IsIn", "IsIn negated", "IsLike", "IsLike negated"]
    others += ["IsNull", "IsNull negated", "WithinBall", "Constant", "And", "Or", "Not"]
    needed = itertools.product([*comparisons, *others, *SPATIAL_FUNCTIONS], [True, False])
    assert not [pair for pair in needed if pair not in seen]


def test_every_function_is_seen_to_hold_and_to_fail() -> None:
    """What has a case goes through every door that reads the cases: matchers, tables, saving, brokers, Spark."""
    texts = [(str(case.subscription).upper(), case.expected) for case in ANSWERED]
    operators = [*(f"{name}(" for name in (*FUNCTIONS, "INTERVAL")), " ILIKE '", " MATCHES '"]
    seen = {(name, expected) for text, expected in texts for name in operators if name in text}
    assert not [pair for pair in itertools.product(operators, [True, False]) if pair not in seen]


def test_every_function_is_seen_with_a_missing_value() -> None:
    """Neither the condition nor its negation holds: one case says both."""
    texts = [str(case.subscription) for case in ANSWERED if case.name.startswith("missing: ") and not case.expected]
    operators = [*(f"({name}(" for name in FUNCTIONS), " ILIKE ", " MATCHES ", " LIKE ", " IN (", " BETWEEN "]
    operators += [f" {op} " for op in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "div", "^")]
    assert not [
        operator for operator in operators if not any(operator in text and ") OR NOT (" in text for text in texts)
    ]


@each_case([case for case in ANSWERED if case.schema is not None])
def test_algebra(case: Case) -> None:
    """Nothing that is proved about a subscription denies its cases, and its simplest form answers them."""
    assert case.schema is not None
    simple, contradicts_itself = _judged(format_node(parse(case.subscription)), case.schema)
    event = case.schema.event(case.event)
    assert any(matches(event, filter) for filter in simple.filters) is case.expected
    assert not (case.expected and contradicts_itself)


@functools.cache
def _judged(text: str, schema: Schema) -> tuple[Subscription, bool]:
    """Return the simplest form of a subscription, and whether it is proved that nothing matches."""
    assert covers(text, text, schema).witness is None
    assert len(reduce({"one": text, "two": text}, schema).kept) <= 1
    return simplify(text, schema), conflicts(text, text, schema)


def _words(node: Node) -> set[str]:
    """Name what a subscription is made of; the outcome of a case is the outcome of the whole."""
    return {_word(leaf) for leaf in leaves(node)} | {type(node).__name__}


def _word(leaf: Leaf) -> str:
    if isinstance(leaf, Compare):
        return f"Compare {leaf.op}"
    if isinstance(leaf, SpatialTest):
        return leaf.function
    return type(leaf).__name__ + (" negated" if getattr(leaf, "negated", False) else "")
