"""The vocabulary as bytes: stable, versioned, and closed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tamis.errors import RemoteProtocolError
from tamis.routing import messages as m

EVENT = m.Published(m.EventId("zoe", 1, 2), "default", b"\x80")
MESSAGES: list[Any] = [
    m.Subscribe("a", b"true"),
    m.Subscribe(7, b"true", "other", 5),
    m.Unsubscribe("a"),
    m.Publish(EVENT),
    m.PublishBatch((EVENT, EVENT)),
    m.Status("a", "default", m.State.ACTIVE),
    m.Delivery(EVENT, ("a", 7)),
    m.Refusal("event 1", "why"),
    m.Update(3, (m.Entry("k", "default", b"true"),), ("gone",), True),
    m.Confirm(3),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_round_trip(message: m.Message) -> None:
    assert m.decode(m.encode(message), "east") == message


def test_the_bytes_stay_what_they_are() -> None:
    assert m.encode(m.Confirm(3)) == b"\x01\x92\t\x03"
    assert m.encode(m.Update(1, (m.Entry("k", "n", b"true"),))) == (
        b"\x01\x96\x08\x01\x91\x93\xa1k\xa1n\xc4\x04true\x90\xc2\x90"
    )


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x02\x92\t\x03", b"\x01", b"\x01\x92\x63\x03", b"\x01\x92\t\xa1x"])
def test_what_is_not_a_message_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="link 'east'"):
        m.decode(data, "east")


def test_damaged_bytes_are_refused_or_mean_something_but_never_crash() -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(3_000):
        data = bytearray(m.encode(rng.choice(MESSAGES)))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            m.decode(bytes(data[: rng.randrange(len(data)) + 1]), "east")
        except RemoteProtocolError:
            refused += 1
    assert refused > 1_000


def test_event_ids_are_ordered_by_publisher_life_and_number() -> None:
    ids = [m.EventId("b", 1, 1), m.EventId("a", 2, 1), m.EventId("a", 1, 10), m.EventId("a", 1, 9)]
    assert sorted(ids) == ids[::-1]
