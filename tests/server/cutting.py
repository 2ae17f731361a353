"""A wire between a client and a broker that is cut at a chosen point: after what the client said, before the answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Cutter:
    """A TCP relay to ``port``, which `cut_next` arms.

    What the client says then reaches the broker, the broker's answer reaches no client, and the wire is gone;
    ``meanwhile`` runs before any client can connect again.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._armed = False
        self._meanwhile: Callable[[], Awaitable[None]] | None = None
        self._may_connect = asyncio.Event()
        self._may_connect.set()
        #: How many wires were cut, and the bytes that were lost with them.
        self.cuts = 0
        self.lost = b""

    async def __aenter__(self) -> Cutter:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut_next(self, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        self._armed, self._meanwhile = True, meanwhile

    async def _relay(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        await self._may_connect.wait()
        broker, to_broker = await asyncio.open_connection("127.0.0.1", self._port)
        spoke = asyncio.Event()
        up = asyncio.create_task(self._carry_up(client, to_broker, spoke))
        try:
            while data := await broker.read(65536):
                if spoke.is_set():
                    await self._cut(data, to_client, to_broker)
                    break
                to_client.write(data)
                await to_client.drain()
        except OSError:
            pass
        finally:
            up.cancel()
            for writer in (to_client, to_broker):
                with contextlib.suppress(OSError):
                    writer.close()

    async def _carry_up(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, spoke: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await client.read(65536):
                if self._armed:
                    self._armed = False
                    spoke.set()
                to_broker.write(data)
                await to_broker.drain()

    async def _cut(self, answer: bytes, *writers: asyncio.StreamWriter) -> None:
        self.cuts += 1
        self.lost += answer
        self._may_connect.clear()
        for writer in writers:
            writer.transport.abort()
        if self._meanwhile is not None:
            await self._meanwhile()
        self._may_connect.set()
