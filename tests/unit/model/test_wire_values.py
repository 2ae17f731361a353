"""Values between brokers: what is written to a payload is read again as the same value, and shown as it was sent."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import msgspec
import pytest

import tamis
from tamis.algebra.evaluate import matches
from tamis.model.types import AttributeType
from tamis.node.content import Content
from tamis.runtime.event_json import payload_as_json

LONG = decimal.Decimal("0.1234567890123456789012")
MOMENT = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)

#: Values of each type but vectors: plain ones, ends of ranges, and texts that look like something else.
VALUES: dict[str, tuple[AttributeType, tuple[Any, ...]]] = {
    "boolean": (tamis.Boolean(), (True, False)),
    "number": (tamis.Number(), (0, -1, 0.5, 2**64 - 1, -(2**63), 1e300, 5e-324, LONG)),
    "string": (tamis.String(), ("", "b1", "\u00e4", "2024-02-29")),
    "timestamp": (tamis.Timestamp(), (MOMENT, "1969-12-31T23:59:59.999999Z")),
    "region": (tamis.Region(), ("POINT (1 2)", "POLYGON ((0 0, 4 0, 0 4, 0 0))")),
    "date": (tamis.Date(), ("2024-02-29", dt.date(1969, 12, 31))),
    "ip": (tamis.Ip(), ("10.0.0.1", "::1", "ffff::1")),
    "uuid": (tamis.Uuid(), ("c9bf9e57-1685-4c89-bafb-ff5af830be8a",)),
    "version": (tamis.Version(), ("1.2.3", "10.0.0")),
    "decimal": (tamis.Decimal(), ("1.25", "-0.01", 7)),
    "mixed": (tamis.Mixed(), (True, False, 1, 0.5, 2**64 - 1, 1e300, LONG, "", "b1", "n1", "2024-02-29", MOMENT)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_read_again_from_the_wire_and_from_json(name: str) -> None:
    kind, values = VALUES[name]
    for value in values:
        canonical = kind.canonical(value)
        wire = msgspec.msgpack.decode(msgspec.msgpack.encode(kind.to_wire(canonical)))
        assert kind.from_wire(wire) == canonical
        assert kind.wire_to_json(wire) == kind.to_json(canonical)
        if value is not LONG:  # a long decimal is a text in JSON
            assert kind.canonical(kind.to_json(canonical)) == canonical


@pytest.mark.parametrize("name", [name for name in VALUES if name != "region"])
def test_many_values_are_read_again(name: str) -> None:
    kind, values = VALUES[name]
    many = tamis.Many(kind)
    canonical = many.canonical(list(values))
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(many.to_wire(canonical)))
    assert many.from_wire(wire) == canonical
    assert many.wire_to_json(wire) == many.to_json(canonical)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"flags": [True]}, "A_CONTAINS(flags, (TRUE))"),
        ({"flags": [True, 1, "x"]}, "A_CONTAINS(flags, (TRUE, 1))"),
        ({"host": {"flags": [False, True]}}, "A_CONTAINS(host.flags, (TRUE))"),
    ],
)
def test_booleans_in_lists_reach_the_next_broker(event: dict[str, Any], text: str) -> None:
    """They were written as ``b1``, which the next broker took for a string."""
    here, other = Content(), Content()
    payload = here.write_event(event)
    (filter,) = other.compile(text)
    assert matches(other.read_event(payload), filter)
    assert payload_as_json(payload, here.schema) == event
