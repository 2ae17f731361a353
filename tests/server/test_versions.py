"""Two releases at the ends of a link: each says which version of the protocol it speaks, and refuses others (G20)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from tests.server.processes import HANGS, BrokerProcess, running, wait_until


def test_another_version_is_refused_and_a_later_one_may_offer_both(tmp_path: Path) -> None:
    async def offer(broker: BrokerProcess, *versions: Any) -> tuple[str | None, str]:
        """Return the version that the broker chose, and why it closed the connection."""
        url = f"ws://127.0.0.1:{broker.port}/v1/connect?client=later"
        async with connect(url, subprotocols=versions, proxy=None) as socket:
            try:
                await asyncio.wait_for(socket.recv(), 30)
            except ConnectionClosed as error:
                return socket.subprotocol, error.rcvd.reason if error.rcvd is not None else ""
            return socket.subprotocol, ""

    with running(BrokerProcess(tmp_path)) as (broker,):
        _, reason = asyncio.run(offer(broker, "tamis.v2"))
        assert reason == "this broker speaks tamis.v1, the other end tamis.v2: upgrade the older of the two"
        assert asyncio.run(offer(broker, "tamis.v2", "tamis.v1")) == ("tamis.v1", "")


def test_a_neighbour_of_another_version_is_named_in_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        async def listen(socket: Any) -> None:
            await socket.wait_closed()

        async with serve(listen, "127.0.0.1", 0, select_subprotocol=lambda connection, offered: None) as server:
            port = server.sockets[0].getsockname()[1]
            (tmp_path / "schema.json").write_text('{"attributes": {"n": {"type": "number"}}}')
            config = f"""
                name = "new"
                data = "{tmp_path / "data"}"
                schema = "{tmp_path / "schema.json"}"
                [[links]]
                name = "old"
                url = "http://127.0.0.1:{port}"
            """
            await asyncio.to_thread(see_warning, BrokerProcess(tmp_path, config))

    def see_warning(broker: BrokerProcess) -> None:
        with running(broker):
            wait_until(lambda: "it does not speak tamis.v1" in broker.log(), "the warning")
            assert "old" in broker.log()

    asyncio.run(asyncio.wait_for(story(), HANGS))
