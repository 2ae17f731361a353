"""The limits of what a client sends over WebSocket, each at N, N + 1 and 100 N (promises S14, S19)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import tamis
from tamis.errors import RefusedError
from tests.server.processes import HANGS, BrokerProcess, ask

Make = Callable[[int], bytes]


def nested(depth: int) -> bytes:
    """An event of ``depth`` levels, itself included, written without recursion."""
    return b"\x81\xa4deep" + b"\x91" * (depth - 2) + b"\x90"


def attributes(n: int) -> bytes:
    return msgspec.msgpack.encode({f"x{i}": None for i in range(n)})


def sized(n: int) -> bytes:
    """An event whose payload has ``n`` bytes."""
    empty = len(msgspec.msgpack.encode({"text": "x" * 70_000})) - 70_000
    return msgspec.msgpack.encode({"text": "x" * (n - empty)})


LIMITS: list[tuple[str, Make, int]] = [
    ("depth", nested, 32),
    ("attributes", attributes, 256),
    ("bytes", sized, 256 * 1024),
]


@pytest.mark.parametrize(("name", "make", "limit"), LIMITS, ids=[case[0] for case in LIMITS])
def test_limits_of_events(broker: BrokerProcess, name: str, make: Make, limit: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("tamis.runtime.client.client.encode_event", lambda payload: payload)

    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            await client.publish([make(limit)])  # type: ignore[list-item]
            with pytest.raises(RefusedError, match="nested|attributes|bytes"):
                await client.publish([make(limit + 1)])  # type: ignore[list-item]
            if name != "bytes":  # a packet of 25 MB ends its connection: tests/server/test_overload.py
                with pytest.raises(RefusedError, match="nested|attributes|not an event"):
                    await client.publish([make(100 * limit)])  # type: ignore[list-item]
            if name == "depth":  # as deep as it can be read, which is deeper than it could be printed
                for depth in (200, 900, 1_000):
                    with pytest.raises(RefusedError, match="nested|not an event"):
                        await client.publish([make(depth)])  # type: ignore[list-item]
            await client.publish([msgspec.msgpack.encode({"fine": 1})])  # type: ignore[list-item]

    asyncio.run(asyncio.wait_for(story(), HANGS))
    assert ask(f"{broker.url}/healthz").status == 200
    assert "Traceback" not in broker.log()


@pytest.mark.parametrize(("length", "good"), [(128, True), (129, False), (12_800, False)])
def test_limits_of_names(broker: BrokerProcess, length: int, good: bool) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            for ask_for in ({"id": "i" * length}, {"namespace": "n" * length}):
                if good:
                    await client.subscribe("a = 1", **ask_for)
                else:
                    with pytest.raises(RefusedError, match="128"):
                        await client.subscribe("a = 1", **ask_for)

    asyncio.run(asyncio.wait_for(story(), HANGS))


@pytest.mark.parametrize(("id", "good"), [(2**63 - 1, True), (-(2**63), True), (2**63, False), (2**64 - 1, False)])
def test_limits_of_ids_that_are_numbers(broker: BrokerProcess, id: int, good: bool) -> None:
    async def story() -> None:
        async with tamis.connect(broker.url) as client:
            if good:
                await client.subscribe("a = 1", id=id)
            else:
                with pytest.raises(RefusedError, match="64 bits"):
                    await client.subscribe("a = 1", id=id)
            await client.publish({"a": 1})

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_what_has_no_form_on_the_wire_is_refused_here(broker: BrokerProcess) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with tamis.connect(broker.url) as client, pytest.raises(tamis.errors.EventError, match="cannot be sent"):
        client.publish({"deep": deep})
