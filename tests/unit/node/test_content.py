"""Filters and events as bytes: what comes out is what went in, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import shapely

from tamis import Boolean, Number, Region, Schema, String, Timestamp, Vector
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import EventError, ModelError, SchemaError
from tamis.model.subscription import Subscription
from tamis.node.content import Content
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
    there, back = SCHEMA.event(raw), content.read_event(content.write_event(raw))
    assert there.keys() == back.keys()
    for name, value in there.items():
        other = back[name]
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, other)  # type: ignore[arg-type]
        elif isinstance(value, shapely.Geometry):
            assert shapely.equals_identical(value, other)
        else:
            assert (value, type(value)) == (other, type(other))


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x01", b"\x81\xa1n\xa1x", b"\x81\xa1n\x81\xa1/\xa31/0"])
def test_what_is_no_event_is_refused(payload: bytes) -> None:
    with pytest.raises(EventError, match="not an event|attribute 'n': expected a number"):
        Content(SCHEMA).read_event(payload)


@pytest.mark.parametrize("data", [b"", b"{", b'{"op": "<"}', b'{"op":"<","args":[{"property":"unknown"},1]}', b"5"])
def test_what_is_no_filter_is_refused(data: bytes) -> None:
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
