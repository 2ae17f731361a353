"""Attack: a neighbour that was dialled sends thousands of messages as one packet, so that no other is served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve

from tamis.node.frames import Frame, encode_frame
from tamis.routing import messages as m
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.links.keeping import keep_linked
from tamis.runtime.packets import SUBPROTOCOL, join_frames
from tests.attacks.wire import run

MESSAGES = 500


def packet(to: int) -> bytes:
    """Return a packet of frames, each a message with an event."""
    payload = msgspec.msgpack.encode({"n": 1})
    return join_frames(
        encode_frame(
            Frame(1, to, number, 0, m.encode(m.Publish(m.Published(m.EventId("p", 1, number), "default", payload))))
        )
        for number in range(1, MESSAGES + 1)
    )


def test_others_are_served_between_the_messages_of_a_packet(tmp_path: Path) -> None:
    async def attack(socket: ServerConnection) -> None:
        await socket.send(packet(epoch()))
        async for _ in socket:
            pass

    (tmp_path / "schema.json").write_text('{"attributes": {"n": {"type": "number"}}}')
    driver: Any = None

    def epoch() -> int:
        return int(driver.machine.node.life_on("evil"))

    async def story() -> set[int]:
        nonlocal driver
        async with serve(attack, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], compression=None) as server:  # type: ignore[list-item]
            port = next(iter(server.sockets)).getsockname()[1]
            link = LinkConfig("evil", f"http://127.0.0.1:{port}")
            config = BrokerConfig(data=str(tmp_path / "data"), schema=str(tmp_path / "schema.json"), links=(link,))
            driver = open_broker(config)
            await driver.start()
            linked = asyncio.create_task(keep_linked(driver, config, link))
            seen = {0}
            async with asyncio.timeout(60):
                while MESSAGES not in seen:
                    await asyncio.sleep(0)
                    seen.add(driver.machine.node.ends["evil"].received)
            linked.cancel()
            await driver.stop()
            return seen

    assert len(run(story())) > MESSAGES // 2
