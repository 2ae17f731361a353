"""Computed values: their names, what has no value, hostile expressions, and functions of users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import tamis
from tamis.index.packed.axes import MOST_FORMULAS, AttributePart, Axes
from tamis.index.packed.boxes_of import boxes_of
from tamis.model.derived.formulas import event_value, formula_of, operate
from tamis.model.derived.functions import function_modules
from tamis.model.language.compiler import compile_text
from tamis.model.schema import learn_from_event, presence_of
from tamis.model.types import Date, Decimal, Number, String, Timestamp
from tests.effort import effort

SCHEMA = tamis.Schema(
    {**dict.fromkeys("abc", Number()), "s": String(), "t": String(), "at": Timestamp(), "d": Decimal(2)}
)


@pytest.fixture
def double() -> Iterator[None]:
    tamis.register_function("double", lambda x: 2 * x, returns=Number(), takes=[Number()])
    yield
    tamis.unregister_function("double")


def names_of(text: str) -> list[str]:
    return [constraint.attribute for filter in compile_text(text, SCHEMA).filters for constraint in filter.constraints]


@pytest.mark.parametrize(
    "text",
    [
        "a > b",
        "b < a",
        "NOT a <= b",
        "2 * a > 2 * b",
        "a - b > 0",
        "0 < a - b",
        "-b + a > 0",
        "a / 3 > b / 3",
        "-a < -b",
    ],
)
def test_a_sum_has_one_form(text: str) -> None:
    assert compile_text(text, SCHEMA).filters == compile_text("a - b > 0", SCHEMA).filters
    assert names_of(text) == ["=a - b"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a > 2 * 3", "a > 6"),
        ("a + 1 > 3", "a > 2"),
        ("3 - a >= 1", "a <= 2"),
        ("2 * a + 1 = a + 5", "a = 4"),
        ("a * 0.5 IN (1, 2)", "a IN (2, 4)"),
        ("a - 1 NOT BETWEEN 0 AND 2", "a NOT BETWEEN 1 AND 3"),
        ("d - 1 > 2", "d > 3"),
        ("2 < 3", "TRUE"),
        ("'a' = 'b' OR a > 1", "a > 1"),
        ("'a' < 'b' AND NOT TRUE = FALSE AND a > 1", "a > 1"),
        ("DATE('2026-01-01') < TIMESTAMP('2026-01-01T00:00:01Z')", "TRUE"),
        ("'b' IN ('a', 'b') AND 'x' IS NOT NULL", "TRUE"),
        ("a - a < 1", "a IS NOT NULL"),
        ("(a + b) * 0 = 0 AND c > 1", "a IS NOT NULL AND b IS NOT NULL AND c > 1"),
    ],
)
def test_constants_are_folded(text: str, plain: str) -> None:
    assert compile_text(text, SCHEMA).filters == compile_text(plain, SCHEMA).filters


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("div", -7, 2, -3),
        ("div", Fraction(15, 2), 2, 3),
        ("%", -7, 2, -1),
        ("%", 7, -2, 1),
        ("/", 1, 3, Fraction(1, 3)),
        ("^", 2, -2, Fraction(1, 4)),
        ("^", 0, 0, 1),
        ("^", 2, Fraction(1, 2), Fraction(1.4142135623730951)),
        *((op, 1, 0, None) for op in ("/", "%", "div")),
        ("^", 0, -1, None),
        ("^", -4, Fraction(1, 2), None),
        ("^", 10, 1_000_000, None),
        ("^", Fraction(1, 3), 1_024, Fraction(1, 3**1024)),
        ("^", Fraction(2**1000, 3), 100, None),
    ],
)
def test_operators(op: str, left: Any, right: Any, result: Any) -> None:
    assert operate(op, left, right) == result


def test_hostile_expressions_are_bounded() -> None:
    """Towers of powers and products cost microseconds per event, whatever the event holds."""
    name = "=(((a ^ 1000) ^ 1000) ^ 1000) ^ b"
    event = {"a": 1.7976931348623157e308, "b": 10**9}
    product = "=" + " * ".join(["a"] * 60)
    formula_of(name), formula_of(product)

    def evaluate() -> None:
        for _ in range(20):
            assert event_value(event, name) is None
            assert event_value({"a": 5e-324}, product) is None

    assert effort(evaluate, clock=time.thread_time) < 50  # an engine of another test may compile in its thread


@pytest.mark.parametrize("text", ["a ^ 1025 > 1", " + ".join(["a * b"] * 40) + " > 1", "a ^ 2 ^ 2 > 1", "a > 2 ^ 2000"])
def test_expressions_beyond_the_limits_are_refused(text: str) -> None:
    with pytest.raises(tamis.ModelError):
        compile_text(text, SCHEMA)


def test_names_of_computed_values_are_reserved() -> None:
    with pytest.raises(tamis.SchemaError, match="begin with '='"):
        tamis.Schema({"=a": Number()})
    assert learn_from_event(tamis.Schema(), {"=a - b": 5, "a": 1}) == tamis.Schema({"a": Number()})
    assert presence_of(tamis.Schema(), {"=a - b": 5, "a": 1}) == {"a": True}
    engine = tamis.Engine()
    engine.subscribe("a > b", id=1)
    assert engine.match({"=a - b": 5, "a": 1, "b": 2}) == []
    with pytest.raises(tamis.SubscriptionError, match="unknown"):
        engine.subscribe('"=a - b" IS NULL')
    assert engine.match_table({"=a - b": [5], "a": [1], "b": [2]}).of(0) == []


@pytest.mark.parametrize(
    "name", ["=a", "=a > 5", "=a IS NULL OR b", "=", "=no_such(a)", "=a +", "=a + b IS NULL AND c"]
)
def test_names_that_are_not_an_expression_are_refused(name: str) -> None:
    with pytest.raises(tamis.ModelError):
        Axes.from_state(([(name, "number", 0)], {}))


def test_expressions_without_an_axis_propose_by_their_attributes() -> None:
    axes = Axes()
    for i in range(MOST_FORMULAS):
        [box] = boxes_of(compile_text(f"a + {i + 2} * b > 1", SCHEMA).filters[0], axes)
        assert box.exact
    [box] = boxes_of(compile_text("a * b > 1", SCHEMA).filters[0], axes)
    assert not box.exact
    assert [axes.attribute(number) for number in box.sides] == ["a", "b"]
    assert all(dict(axes)[number].part is AttributePart.PRESENT for number in box.sides)


def test_more_expressions_than_axes_match_as_others_do() -> None:
    engine = tamis.Engine(SCHEMA)
    for i in range(MOST_FORMULAS + 40):
        engine.subscribe(f"a - {i + 2} * b > 0", id=i)
    events = [{"a": 100, "b": 1}, {"a": 290.5, "b": 1.0}, {"a": 5}]
    wanted = [
        [i for i in range(MOST_FORMULAS + 40) if "b" in event and event["a"] > (i + 2) * event["b"]] for event in events
    ]
    assert [engine.match(event) for event in events] == wanted
    columns = {"a": [100.0, 290.5, 5.0], "b": [1.0, 1.0, None]}
    assert [engine.match_table(columns).of(row) for row in range(3)] == wanted


def test_types_are_learned_from_arithmetic_and_order() -> None:
    engine = tamis.Engine()
    engine.subscribe("new_price > old_price AND price * volume > 3", id=1)
    assert set(map(type, engine.schema.values())) == {Number}
    engine.subscribe("day > DATE('2026-01-01') AND day < later", id=2)
    for text in ("x = y", "x <> y", 'state = "running"', "x IN (y, z)"):
        with pytest.raises(tamis.SubscriptionError, match="unknown attribute"):
            engine.subscribe(text)


def test_relations_of_two_attributes_show_types_and_share_one_computed_value() -> None:
    engine = tamis.Engine()
    engine.subscribe("T_DURING(at, INTERVAL(start, stop)) AND S_INTERSECTS(here, there)", id=1)
    assert {name: type(kind).__name__ for name, kind in engine.schema.items()} == {
        **dict.fromkeys(("at", "start", "stop"), "Timestamp"),
        **dict.fromkeys(("here", "there"), "Region"),
    }
    for texts in (("S_WITHIN(here, there)", "S_CONTAINS(there, here)"), ("T_AFTER(at, stop)", "stop < at")):
        first, second = (compile_text(text, engine.schema).filters for text in texts)
        assert first == second
    assert tamis.covers("S_INTERSECTS(here, there)", "S_INTERSECTS(there, here) AND at IS NULL", engine.schema)


@pytest.mark.parametrize(
    ("kind", "wide", "narrow"),
    [
        (Decimal(2), "x > 2", "x > 3"),
        (Decimal(2), "2 * x > 4.01", "2 * x > 6"),
        (Date(), "x > DATE('2026-01-01')", "x > DATE('2026-01-02')"),
        (Timestamp(), "x > DATE('2026-01-01')", "x > DATE('2026-01-02')"),
        (tamis.Ip(), "IP_WITHIN(x, '10.0.0.0/8')", "IP_WITHIN(x, '10.0.0.0/9')"),
        (tamis.Uuid(), f"x > '{'0' * 32}'", f"x = '{'a' * 32}'"),
        (tamis.Many(Decimal(2)), "x > 2", "x > 3"),
    ],
)
def test_a_witness_is_an_event_that_can_be_published(kind: Any, wide: str, narrow: str) -> None:
    schema = tamis.Schema({"x": kind})
    witness = tamis.covers(narrow, wide, schema).witness
    assert witness is not None
    engine = tamis.Engine(schema)
    engine.subscribe(wide, id="wide")
    engine.subscribe(narrow, id="narrow")
    assert engine.match(witness) == ["wide"]


@pytest.mark.parametrize(
    "text",
    ["s > a", "at < a", "s + 1 > 2", "at - at > 1", "s = at", "s IN ('x', a)", "COMPARE(a, s) = 1", "a = 'x' + 1"],
)
def test_types_that_do_not_agree_are_refused(text: str) -> None:
    with pytest.raises(tamis.ModelError):
        compile_text(text, SCHEMA)


@pytest.mark.usefixtures("double")
def test_functions_of_users() -> None:
    engine = tamis.Engine(SCHEMA)
    engine.subscribe("double(a) > b", id=1)
    engine.subscribe({"op": "=", "args": [{"op": "double", "args": [{"property": "a"}]}, 4]}, id=2)
    engine.subscribe("double(a + 1) + double(b) = 10", id=3)
    assert engine.match({"a": 2, "b": 2}) == [1, 2, 3]
    assert engine.match({"a": 2}) == [2]
    assert engine.match_table({"a": [2.0, 1.0], "b": [2.0, 3.0]}).of(0) == [1, 2, 3]
    for text in ("double(s) > 1", "double(a, b) > 1", "double(a)"):
        with pytest.raises(tamis.SubscriptionError):
            engine.subscribe(text)


def test_a_function_of_text_is_found_by_its_result() -> None:
    tamis.register_function("first", lambda text: text[:1] or None, returns=String(), takes=[String()])
    try:
        for matcher in ("packed", "linear", "counting"):
            engine = tamis.Engine(SCHEMA, matcher)
            engine.subscribe("first(s) = 'a'", id=1)
            engine.subscribe("first(s) > 'm'", id=2)
            engine.subscribe("first(s) = first(t)", id=3)
            engine.subscribe("first(s) IS NULL", id=4)
            events = [{"s": "abc", "t": "ax"}, {"s": "xyz", "t": ""}, {"s": "", "t": "a"}, {}]
            wanted = [[1, 3], [2], [4], [4]]
            assert [engine.match(event) for event in events] == wanted, matcher
            columns = {"s": [event.get("s") for event in events], "t": [event.get("t") for event in events]}
            assert [engine.match_table(columns).of(row) for row in range(4)] == wanted, matcher
    finally:
        tamis.unregister_function("first")


def test_what_a_function_raises_and_a_wrong_type_are_told_of_and_unknown() -> None:
    tamis.register_function("wrong", lambda x: "text" if x else 1 / x, returns=Number())
    try:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("wrong(a) > 1")
        with pytest.warns(RuntimeWarning, match="raised ZeroDivisionError"):
            assert engine.match({"a": 0}) == []
        with pytest.warns(RuntimeWarning, match="does not return a number"):
            assert engine.match({"a": 1}) == []
    finally:
        tamis.unregister_function("wrong")


@pytest.mark.parametrize("name", ["", "and", "S_NEAR", "compare", "Decimal", "1st", "a b", "date", "div"])
def test_names_of_the_language_are_not_functions_of_users(name: str) -> None:
    with pytest.raises(tamis.ModelError):
        tamis.register_function(name, abs, returns=Number())


@pytest.mark.usefixtures("double")
def test_a_function_is_registered_once() -> None:
    with pytest.raises(tamis.ModelError, match="already"):
        tamis.register_function("double", abs, returns=Number())
    assert __name__ in function_modules()
    with pytest.raises(tamis.ModelError, match="scalar"):
        tamis.register_function("area", abs, returns=tamis.Region())  # type: ignore[arg-type]


def test_a_process_that_does_not_know_a_function_refuses_it(double: None) -> None:
    text = compile_text("double(a) > 1", SCHEMA).text
    tamis.unregister_function("double")
    try:
        for source in (text, {"op": ">", "args": [{"op": "double", "args": [{"property": "a"}]}, 1]}):
            with pytest.raises(tamis.SubscriptionError):
                tamis.Engine(SCHEMA).subscribe(source)  # type: ignore[arg-type]
    finally:
        tamis.register_function("double", lambda x: 2 * x, returns=Number(), takes=[Number()])


def test_explanations_show_all_attributes() -> None:
    engine = tamis.Engine(SCHEMA)
    engine.subscribe("a > b + 1 AND c < 5", id="x")
    explanation = str(engine.explain({"a": 3, "c": 1}, "x"))
    assert "unknown: a is 3, b is missing" in explanation
    assert "yes: c is 1" in explanation


def test_days_are_compared() -> None:
    schema = tamis.Schema({"day": Date(), "due": Date()})
    engine = tamis.Engine(schema)
    engine.subscribe("day > due", id=1)
    assert engine.match({"day": "2026-02-01", "due": "2026-01-31"}) == [1]
    assert engine.match({"day": "2026-01-31", "due": "2026-01-31"}) == []


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("a ^ b > 1", {"a": 1e300, "b": 1.05}, False),  # 1e315 is beyond the numbers here
        ("(a * a) ^ b > 1", {"a": 1e-300, "b": -0.5}, True),
        ("(a * a) ^ b > 1", {"a": 1e300, "b": 0.5}, True),
        ("(a * a) ^ b > 0", {"a": 1e-300, "b": 0.5}, True),
        ("a > 1e-300 * 1e-300", {"a": 1}, True),
        ("a < 1e300 * 1e300 * 1e300", {"a": 1}, True),
    ],
)
def test_numbers_far_beyond_float64_between_the_operands(text: str, event: dict[str, Any], expected: bool) -> None:
    engine = tamis.Engine()
    engine.subscribe(text, id=1)
    assert (engine.match(event) == [1]) is expected


@pytest.mark.parametrize("text", ["CASEI(a) = " + "+".join("b" * 1500), "CASEI(a) = b + 1"])
def test_folded_text_is_not_compared_with_an_expression(text: str) -> None:
    with pytest.raises(tamis.SubscriptionError, match="not with an expression"):
        tamis.Engine().subscribe(text, id=1)


def test_witnesses_of_decimals_have_whole_last_digits() -> None:
    schema = tamis.Schema({"a": Decimal(2), "b": Decimal(2)})
    for wide, narrow in (("a / b > 2", "a / b > 3"), ("3*a + b > 2.99", "3*a + b > 3")):
        assert tamis.covers(wide, narrow, schema).yes
        assert not tamis.covers(narrow, wide, schema).yes


def test_a_literal_beside_decimals_is_the_decimal_that_is_written() -> None:
    schema = tamis.Schema({"p": Decimal(2), "q": Decimal(2)})
    for text in ("p - 0.1 = 0", "p + 0.1 = 0.2", "p >= q - 1.4", "p = 0.1"):
        engine = tamis.Engine(schema)
        engine.subscribe(text, id=1)
        assert engine.match({"p": "0.1", "q": "1.50"}) == [1], text


def test_a_function_that_fails_is_unknown_and_told_of() -> None:
    tamis.register_function("inverse", lambda x: 1 / x, returns=Number(), takes=[Number()])
    try:
        engine = tamis.Engine()
        engine.subscribe("inverse(a) > 0", id="holds")
        engine.subscribe("NOT inverse(a) > 0", id="fails")
        with pytest.warns(RuntimeWarning, match="inverse raised ZeroDivisionError"):
            assert engine.match({"a": 0}) == []
        assert engine.match({"a": 2}) == ["holds"]
        with pytest.raises(tamis.ModelError, match="registered already"):
            tamis.register_function("inverse", lambda x: x, returns=Number(), takes=[Number()])
    finally:
        tamis.unregister_function("inverse")
    assert engine.match({"a": 2}) == []


def test_values_of_several_types_have_no_order_among_attributes() -> None:
    schema = tamis.Schema({"a": tamis.Mixed(), "b": tamis.Mixed()})
    with pytest.raises(tamis.SubscriptionError, match="have no order"):
        tamis.Engine(schema).subscribe("a > b", id=1)


def test_a_text_that_looks_like_a_moment_is_a_text() -> None:
    assert [tamis.Mixed().canonical(text) for text in ("2024-99-99", "2024-01-01T99:00Z")] == [
        "s2024-99-99",
        "s2024-01-01T99:00Z",
    ]
