"""Attack: random frames that know the format (`tests.fuzz.frames`), sent to a broker over a socket.

The broker must serve an honest client before and after, and print no traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from websockets.exceptions import ConnectionClosed

from tests.attacks.wire import Wire, assert_serves, dialled, frames_of, packed
from tests.fuzz.frames import frame
from tests.server.processes import BrokerProcess


async def fuzz(broker: BrokerProcess, count: int, seed: int) -> int:
    """Send ``count`` frames, each after the answer to the one before; return how many the broker took as messages."""
    rng, left, taken = random.Random(seed), count, 0
    while left:
        async with dialled(broker, f"client=fuzz{rng.randrange(4)}") as wire:
            with contextlib.suppress(ConnectionClosed):
                while left:
                    left -= 1
                    await wire.socket.send(packed(frame(rng, wire.epoch, wire.sent + 1)))
                    taken += await is_taken(wire)
    return taken


async def is_taken(wire: Wire) -> bool:
    """Wait until the broker has acknowledged the next message; it does not answer a frame without one."""
    try:
        async with asyncio.timeout(0.1):
            while not any(frame.ack > wire.sent for frame in frames_of(await wire.socket.recv())):
                pass
    except TimeoutError:
        return False
    wire.sent += 1
    return True


@pytest.mark.parametrize("count", [250, pytest.param(300_000, marks=pytest.mark.soak, id="soak-attacks")])
def test_structured_nonsense_harms_no_other_client(broker: BrokerProcess, count: int) -> None:
    async def story() -> None:
        assert await fuzz(broker, count, seed=7) >= count // 10  # most others end their connection
        await assert_serves(broker)

    asyncio.run(asyncio.wait_for(story(), 300 if count < 1_000 else 7_200))
