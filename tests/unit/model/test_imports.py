"""Rules of other systems mean the same as subscriptions of tamis; what has no equivalent is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import tamis
from tamis.errors import SubscriptionError, TamisError
from tamis.model.language.foreign.event_patterns import read_event_pattern
from tamis.model.language.foreign.message_filters import read_amqp_filter, read_cloudevents_sql
from tamis.model.language.foreign.selectors import read_selector, rewritten_selector
from tamis.model.language.format import format_node


def matches(text: str, event: dict[str, Any]) -> bool:
    engine = tamis.Engine()
    engine.subscribe(text, id=1)
    return engine.match(event) == [1]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ({"source": ["aws.ec2"]}, {"source": "aws.ec2"}, {"source": "aws.s3"}),
        ({"n": [1, 2]}, {"n": 2}, {"n": 3}),
        ({"detail": {"state": ["on"]}}, {"detail.state": "on"}, {"detail.state": "off"}),
        ({"n": [{"numeric": [">", 0, "<=", 5]}]}, {"n": 5}, {"n": 0}),
        ({"name": [{"prefix": "a_"}]}, {"name": "a_b"}, {"name": "ab"}),
        ({"name": [{"suffix": ".png"}]}, {"name": "x.png"}, {"name": "x.pngs"}),
        ({"name": [{"wildcard": "a*c%"}]}, {"name": "abc%"}, {"name": "abcd"}),
        ({"x": [{"exists": True}], "n": [1]}, {"x": "1", "n": 1}, {"n": 1}),
        ({"x": [{"exists": False}], "n": [1]}, {"n": 1}, {"x": "1", "n": 1}),
        ({"x": [{"anything-but": ["a", "b"]}]}, {"x": "c"}, {"x": "a"}),
        ({"x": [{"anything-but": "a"}], "n": [1]}, {"x": "c", "n": 1}, {"n": 1}),
        ({"x": [{"anything-but": {"prefix": "a"}}]}, {"x": "ba"}, {"x": "ab"}),
        ({"$or": [{"x": ["a"]}, {"n": [{"numeric": ["=", 3]}]}]}, {"n": 3}, {"n": 4}),
        ({"x": ["a", {"prefix": "b"}]}, {"x": "bc"}, {"x": "cb"}),
    ],
)
def test_event_patterns(pattern: dict[str, Any], yes: dict[str, Any], no: dict[str, Any]) -> None:
    text = format_node(read_event_pattern(pattern))
    assert matches(text, yes), text
    assert not matches(text, no), text


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ({}, "at least one attribute"),
        ({"x": []}, "expected a list"),
        ({"x": "a"}, "expected a list"),
        ({"x": [{"cidr": "10.0.0.0/24"}]}, "'cidr'"),
        ({"x": [{"equals-ignore-case": "A"}]}, "'equals-ignore-case'"),
        ({"x": [{"prefix": {"equals-ignore-case": "A"}}]}, "expected a string"),
        ({"x": [{"numeric": [">"]}]}, "numeric holds pairs"),
        ({"x": [{"numeric": ["~", 1]}]}, "numeric holds pairs"),
        ({"x": [{"exists": "yes"}]}, "exists is true or false"),
        ({"x": [{}]}, "the test ''"),
        ({"x": [["a"]]}, "a string, a number, true or false"),
        ({"$or": []}, "[$]or holds a list"),
        ({"$or": [3]}, "at least one attribute"),
    ],
)
def test_patterns_without_an_equivalent_are_refused(pattern: dict[str, Any], words: str) -> None:
    with pytest.raises(SubscriptionError, match=words):
        read_event_pattern(pattern)


@pytest.mark.parametrize(
    ("selector", "yes", "no"),
    [
        ("JMSPriority >= 7 AND Region = 'EU'", {"JMSPriority": 7, "Region": "EU"}, {"JMSPriority": 7, "Region": "US"}),
        ("weight > 2500L", {"weight": 2501}, {"weight": 2500}),
        ("flags = 0x1F", {"flags": 31}, {"flags": 30}),
        ("price <= 9.5D", {"price": 9.5}, {"price": 9.6}),
        ("colour != 'blue'", {"colour": "red"}, {"colour": "blue"}),
        (
            "phone LIKE '12%3' AND age NOT BETWEEN 15 AND 19",
            {"phone": "12993", "age": 20},
            {"phone": "12993", "age": 15},
        ),
        ("word LIKE 'l_se'", {"word": "lose"}, {"word": "loose"}),
        ("under LIKE '!_%' ESCAPE '!'", {"under": "_foo"}, {"under": "bar"}),
        ("path LIKE 'C:\\%'", {"path": "C:\\temp"}, {"path": "C:%"}),
        ("name = 'it''s != ESCAPE'", {"name": "it's != ESCAPE"}, {"name": "its"}),
        ("prop IS NULL AND n = 1", {"n": 1}, {"n": 1, "prop": "x"}),
        ("Country NOT IN ('UK', 'US')", {"Country": "FR"}, {"Country": "UK"}),
        ("`order total` > 5 OR [order id] = 3", {"order total": 6}, {"order total": 5}),
        ("NOT (a = 1 AND b = 2)", {"a": 2, "b": 2}, {"a": 1, "b": 2}),
        ("JMS$x = 1", {"JMS$x": 1}, {"JMS$x": 2}),
    ],
)
def test_selectors(selector: str, yes: dict[str, Any], no: dict[str, Any]) -> None:
    text = format_node(read_selector(selector))
    assert matches(text, yes), text
    assert not matches(text, no), text


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("a / 2 > 2", r"division \(/\) is not imported"),
        ("c > 1 OR 2 * (a / b) > 2", r"division \(/\) is not imported"),
        ("a ^ 2 > 4", r"\^ is not imported"),
        ("x LIKE '1' ESCAPE 'ab'", "ESCAPE 'c' at column 12"),
        ("ESCAPE '!'", "ESCAPE 'c' at column 1"),
        ("", "expected an attribute"),
        ("a == ", "expected a value at column 4"),
        ("f(a) = 1", "function F"),
    ],
)
def test_selectors_without_an_equivalent_are_refused(selector: str, words: str) -> None:
    with pytest.raises(TamisError, match=words):
        read_selector(selector)


def test_text_inside_of_strings_stays() -> None:
    assert rewritten_selector("a = '!= 10L `x`'") == "a = '!= 10L `x`'"


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        ("source = '/s' AND type != 'b'", {"source": "/s", "type": "a"}, {"source": "/s", "type": "b"}),
        ('type = "a\'b\\"c"', {"type": "a'b\"c"}, {"type": "ab"}),
        ("type = 'it\\'s'", {"type": "it's"}, {"type": "its"}),
        ("EXISTS subject AND n = 1", {"subject": "x", "n": 1}, {"n": 1}),
        ("NOT EXISTS subject AND n = 1", {"n": 1}, {"subject": "x", "n": 1}),
        ("type LIKE 'com.\\_%'", {"type": "com._x"}, {"type": "com.ax"}),
        ("type NOT LIKE '%test' OR n IN (1, 2)", {"type": "test", "n": 2}, {"type": "test", "n": 3}),
        (
            "(n > 1) AND TRUE AND note = 'a != XOR EXISTS b'",
            {"n": 2, "note": "a != XOR EXISTS b"},
            {"n": 2, "note": "a"},
        ),
    ],
)
def test_cloudevents_sql(expression: str, yes: dict[str, Any], no: dict[str, Any]) -> None:
    text = format_node(read_cloudevents_sql(expression))
    assert matches(text, yes), text
    assert not matches(text, no), text


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        ("p.subject = 'a'", {"properties": {"subject": "a"}}, {"properties": {"subject": "b"}}),
        ("properties.subject = 'p.x'", {"properties": {"subject": "p.x"}}, {"p": {"subject": "p.x"}}),
        (
            "h.priority >= 4L AND EXISTS(region)",
            {"header": {"priority": 4}, "region": "eu"},
            {"header": {"priority": 4}},
        ),
        ("NOT EXISTS(p.group) AND n != 1", {"n": 2}, {"n": 2, "properties": {"group": "g"}}),
        ("name LIKE '!_%' ESCAPE '!'", {"name": "_a"}, {"name": "a"}),
        ("ap.p.x = 1", {"ap": {"p": {"x": 1}}}, {"ap": {"properties": {"x": 1}}}),
    ],
)
def test_amqp_filters(expression: str, yes: dict[str, Any], no: dict[str, Any]) -> None:
    text = format_node(read_amqp_filter(expression))
    assert matches(text, yes), text
    assert not matches(text, no), text


@pytest.mark.parametrize(
    ("expression", "words"), [("a = 1 XOR b = 2", "XOR is not"), ("LEFT(type, 3) = 'com'", "LEFT")]
)
def test_cloudevents_sql_without_an_equivalent_is_refused(expression: str, words: str) -> None:
    with pytest.raises(SubscriptionError, match=words):
        read_cloudevents_sql(expression)


def test_moments_of_sql_have_no_parentheses() -> None:
    days = "at >= TIMESTAMP '2026-01-01 00:00:00+00' AND at < timestamp '2026-01-02 00:00:00.5-05'"
    text = f"{days} AND d < DATE '2026-02-01'"
    assert rewritten_selector(text) == (
        "at >= TIMESTAMP ('2026-01-01 00:00:00+00:00') AND at < timestamp ('2026-01-02 00:00:00.5-05:00') "
        "AND d < DATE ('2026-02-01')"
    )
    written = format_node(read_selector(text))
    assert matches(written, {"at": "2026-01-02T05:00:00Z", "d": "2026-01-31T00:00:00Z"})
    assert not matches(written, {"at": "2026-01-02T05:00:01Z", "d": "2026-01-31T00:00:00Z"})
    with pytest.raises(SubscriptionError, match="a time without a zone"):
        read_selector("at > TIMESTAMP '2026-01-01 00:00:00'")
