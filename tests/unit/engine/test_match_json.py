"""Events as JSON: the answers and refusals of the same events as dicts, and JSON that is not accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tamis
from tamis.errors import EventError, LimitError, TamisError
from tamis.model.strict_json import MAX_EVENT, read_event
from tests.case_files import Case, each_case, load_cases


def outcome(ask: Any, event: Any) -> object:
    try:
        return ask(event)
    except TamisError as error:
        return type(error), str(error)


@each_case(case for case in load_cases() if case.is_json)
def test_answers_are_those_of_the_dict(case: Case) -> None:
    plain, engine = tamis.Engine(case.schema), tamis.Engine(case.schema)
    try:
        plain.subscribe(case.subscription, id="x")
    except TamisError:
        return  # the case is about the subscription
    engine.subscribe(case.subscription, id="x")
    answer = outcome(engine.match_json, json.dumps(case.event).encode())
    if isinstance(case.event, dict):
        assert answer == outcome(plain.match, case.event)
        assert engine.schema == plain.schema
    else:
        assert isinstance(answer, tuple)
        assert answer[0] is EventError


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'{"a": {"b": 1, "b": 2}}', "duplicate key 'b'"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "beyond the range"),
        (b'{"a": ' + b"1" * 401 + b"}", "more than 400 digits"),
        (b'{"a": ' + b"-" + b"1" * 450 + b', "b": "' + b"x" * 500 + b'"}', "more than 400 digits"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[1]", "expected an object"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested more than 32 deep"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 32 deep"),
        (b"{" + b",".join(b'"a%d": 1' % i for i in range(70_000)) + b"}", "more than 50,000 keys in one object"),
        (7, "bytes or text"),
        (None, "bytes or text"),
    ],
)
def test_what_is_not_strict_json_is_refused(data: Any, words: str) -> None:
    with pytest.raises(EventError, match=words):
        tamis.Engine().match_json(data)


def test_too_many_bytes_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(LimitError, match="bytes of an event"):
        read_event(b'{"a": ' * MAX_EVENT)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda data: data.decode()])
def test_every_kind_of_bytes_is_read(make: Any) -> None:
    engine = tamis.Engine()
    engine.subscribe("price < 100 AND symbol = 'a:b'", id="x")
    assert engine.match_json(make(b' {"price": 99.5, "symbol": "a:b"} ')) == ["x"]
    assert engine.match_json(make(b'{"price": 100, "symbol": "a:b"}')) == []


def test_integers_stay_exact() -> None:
    engine = tamis.Engine()
    engine.subscribe("n = 9007199254740993", id="x")
    assert engine.match_json('{"n": 9007199254740993}') == ["x"]
    assert engine.match_json('{"n": 9007199254740992}') == []


def test_a_flat_event_still_teaches_new_names() -> None:
    engine = tamis.Engine()
    engine.subscribe("a > 1", id="x")
    assert engine.match_json('{"a": 2, "b": "new"}') == ["x"]
    assert set(engine.schema) == {"a", "b"}
    with pytest.raises(tamis.errors.TamisError):
        engine.subscribe("b > 1")
