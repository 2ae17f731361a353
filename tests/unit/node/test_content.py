"""Filters and events as bytes: what comes out is what went in, exactly."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from decimal import Decimal
from math import inf, nan
from typing import Any

import msgspec
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tamis import Boolean, Number, Region, Schema, String, Timestamp, Vector
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import EventError, LimitError, ModelError, SchemaError
from tamis.model.language.format import format_node
from tamis.model.language.parse import parse
from tamis.model.subscription import Subscription
from tamis.node.content import Content, text_of
from tests.case_files import Case, each_case, load_cases

SCHEMA = Schema(
    {"n": Number(), "s": String(), "b": Boolean(), "at": Timestamp(), "where": Region(), "look": Vector(3)},
)


@pytest.mark.parametrize(
    "raw",
    [
        {"n": 1, "s": "é", "b": True},
        {"n": 2**64 - 1},
        {"n": Decimal("0.1000000000000000000000001")},
        {"n": Decimal("-12345678901234567890.5")},
        {"at": "2018-02-01T00:00:00.000001Z"},
        {"where": "POLYGON ((0 0, 1 0, 0.1 1, 0 0))"},
        {"where": (0.1, 0.2)},
        {"look": [0.1, 2, 3]},
        {},
    ],
)
def test_events_come_back_exactly(raw: dict[str, Any]) -> None:
    content = Content(SCHEMA)
    event, back = SCHEMA.event(raw), content.read_event(content.write_event(raw))
    assert event.keys() == back.keys()
    for name, value in event.items():
        other = back[name]
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, other)  # type: ignore[arg-type]
        elif isinstance(value, shapely.Geometry):
            assert shapely.equals_identical(value, other)
        else:
            assert (value, type(value)) == (other, type(other))


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x01", b"\x81\xa1n\xa1x", b"\x81\xa1n\x81\xa1/\xa31/0"])
def test_what_is_not_an_event_is_refused(payload: bytes) -> None:
    with pytest.raises(EventError, match="not an event|attribute 'n': expected a number"):
        Content(SCHEMA).read_event(payload)


@pytest.mark.parametrize("data", [b"", b"{", b'{"op": "<"}', b'{"op":"<","args":[{"property":"unknown"},1]}', b"5"])
def test_what_is_not_a_filter_is_refused(data: bytes) -> None:
    with pytest.raises((ModelError, SchemaError), match="CQL2-JSON|attribute 'unknown'|args"):
        Content(SCHEMA).read_filter(data)


@each_case([case for case in load_cases() if case.error is None])
def test_the_named_cases_mean_the_same_after_a_journey(case: Case) -> None:
    """What came out of bytes once is the same after every further journey."""
    content = Content(case.schema)
    sent = content.write_filter(content.compile(case.subscription))
    event = content.read_event(content.write_event(case.event))
    filters = content.read_filter(sent)
    assert content.read_filter(content.write_filter(filters)) == filters
    assert matches_subscription(event, Subscription(1, filters)) == case.expected


#: Documents with places for literals, which differ in form and type.
SHAPES = (
    '{"op":"and","args":[{"op":"between","args":[{"property":"n"},%s,%s]},{"op":"=","args":[{"property":"s"},%s]}]}',
    '{"op":"or","args":[{"op":"<","args":[{"property":"a b"},%s]},{"op":"in","args":[{"property":"n"},[%s,1]]}]}',
    '{"op":"not","args":[{"op":"like","args":[{"property":"s"},%s]}]}',
    '{"op":">=","args":[{"property":"at"},{"timestamp":%s}]}',
)
NUMBERS = ("1", "-2.5", "1e400", "-0.0", "0", "12345678901234567890123", "1e3", "4611686018427387904")
STRINGS = ('"IBM"', '"O\'B"', '"%_"', '"\\ue0001\\ue000"', '"2018-02-01T00:00:00Z"', '""', '"\\ud800"')


@pytest.mark.parametrize("shape", SHAPES)
def test_the_text_of_a_document_is_the_same_by_its_shape_and_by_its_tree(shape: str) -> None:
    content, rng, by_shape = Content(), random.Random(1), 0
    for _ in range(300):
        literals = [rng.choice(rng.choice((NUMBERS, STRINGS))) for _ in range(shape.count("%s"))]
        data = (shape % tuple(literals)).encode()
        try:
            expected = format_node(parse(msgspec.json.decode(data)))
        except (ModelError, msgspec.DecodeError):
            with pytest.raises((ModelError, msgspec.DecodeError)):
                text_of(content, data)
            continue
        by_shape += content._templates().text(data, content.schema) is not None
        assert text_of(content, data) == expected
        with contextlib.suppress(ModelError):  # a literal of another type than the first one
            content.compile_json(data)
    assert by_shape or "timestamp" in shape


def test_a_filter_with_too_many_new_attributes_names_the_schema_file() -> None:
    content = Content()
    with pytest.raises(LimitError, match=r"tamis serve --schema FILE.*257 is more than the 256 accepted"):
        content.compile(" AND ".join(f"a{i} = 1" for i in range(257)))
    assert not content.schema


@pytest.mark.parametrize("kind", [String(), String(coerce=True)], ids=["string", "any value"])
@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ({"s": "a", "n": 1}, {"s": "a", "n": 1}),
        ({"n": 1}, {"n": 1}),
        ({"s": "a", "*": "of its own"}, {"s": "a", "*": "of its own"}),
        ({"s": "a", "stranger": "b"}, {"s": "a", "*": "a\nb"}),  # the payload has no stranger, and a match may need it
    ],
)
def test_all_strings_of_an_event_are_sent_only_if_they_cannot_be_told(
    raw: dict[str, Any], sent: dict[str, Any], kind: String
) -> None:
    schema = Schema({"s": String(), "n": Number(), "*": kind})
    payload = Content(schema).write_event(raw)
    assert msgspec.msgpack.decode(payload) == sent
    assert Content(schema).read_event(payload) == schema.event(raw)


@given(
    raw=st.dictionaries(
        st.sampled_from(["n", "text", "flag", "any", "other"]),
        st.one_of(
            st.sampled_from([0, 0.0, -0.0, True, False, 2**63 - 1, 2**63, -(2**63), 2**64, 1e308, nan, inf, None]),
            st.floats(),
            st.integers(-(2**64), 2**65),
            st.text(st.characters(exclude_categories=[]), max_size=3),
        ),
    ),
    joins=st.booleans(),
)
def test_simple_events_are_written_as_all_others_are(raw: dict[str, Any], joins: bool) -> None:
    """The quick path of `write_event` gives the bytes, the event and the errors of the path for all values."""
    types = {"n": Number(), "text": String(), "flag": Boolean(), "any": String(coerce=True)}
    schema = Schema(types | ({"*": String()} if joins else {}))

    def written(write: Callable[[Content], bytes]) -> tuple[bytes, str] | str:
        content = Content(schema)
        try:
            payload = write(content)
        except EventError as error:
            return str(error)
        return payload, repr(content.read_event(payload))

    assert written(lambda content: content.write_event(raw)) == written(lambda content: content._written(raw)[1])
