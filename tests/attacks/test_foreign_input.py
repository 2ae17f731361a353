"""Attack: rules of other systems, schema files and confirmations of bridges that are nested, or of wrong types.

Each is refused by an error of tamis: not by a traceback, and no message of a bridge waits for an answer in vain.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tamis.errors import LimitError, RefusedError, SchemaError, SubscriptionError
from tamis.model.language.foreign.event_patterns import read_event_pattern
from tamis.model.schema import Schema
from tamis.runtime.bridges.systems.nats import _verdict


def nested(levels: int, key: str, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {key: [leaf] if key == "$or" else leaf}
    return leaf


@pytest.mark.parametrize(
    "pattern",
    [
        nested(5_000, "a", [1]),
        nested(600, "$or", {"a": [1]}),
        {"a": [nested(900, "anything-but", {"prefix": "x"})]},
    ],
    ids=["objects", "alternatives", "tests"],
)
def test_a_nested_event_pattern_is_refused(pattern: Any) -> None:
    with pytest.raises(LimitError, match="levels of an event pattern"):
        read_event_pattern(pattern)


def test_a_pattern_of_usual_depth_is_read() -> None:
    assert read_event_pattern(nested(10, "$or", {"detail": {"cpu": [{"numeric": [">", 5]}]}}))


def test_a_comparison_that_is_not_a_text_is_refused() -> None:
    with pytest.raises(SubscriptionError, match="pairs of a comparison and a number"):
        read_event_pattern({"a": [{"numeric": [[], 1]}]})


def test_a_nested_schema_file_is_refused() -> None:
    with pytest.raises(SchemaError, match="nested too deeply"):
        Schema.from_json("[" * 100_000)


@pytest.mark.parametrize(
    "data", [b"\xff", b"", b"5", b"null", b'{"error": 5}', b'{"error": {"code": []}}', b"[" * 100_000]
)
def test_a_confirmation_that_cannot_be_read_is_a_refusal_for_now(data: bytes) -> None:
    verdict = _verdict(SimpleNamespace(headers=None, data=data))
    assert isinstance(verdict, RefusedError)
    assert verdict.code == 503


def test_other_confirmations_are_read() -> None:
    assert _verdict(SimpleNamespace(headers=None, data=b'{"stream": "s", "seq": 1}')) is None
    refused = {"error": {"code": 400, "description": "no"}}
    assert isinstance(_verdict(SimpleNamespace(headers=None, data=json.dumps(refused).encode())), RefusedError)
