"""Those who listen in the benchmark of a broker: they note when what came, and acknowledge it.

A reader holds thousands of subscriptions, so it speaks the protocol through the client's own link (`ClientLink`)
instead of keeping an iterator for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from tamis.errors import InvariantError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.routing import messages as m
from tamis.runtime.client.client_link import ClientLink, Outgoing
from tamis.runtime.dialling import websocket_url
from tamis.runtime.packets import MAX_PACKET, SUBPROTOCOL

__all__ = ["Arrivals", "ReaderClient", "subscribe_message"]

#: Subscriptions that a reader asks for in one message, before it waits for their answers.
AT_ONCE = 100


class Arrivals:
    """When each copy of an event came, of all readers together; copies are awaited for ``patience`` seconds."""

    def __init__(self, patience: float = 300.0) -> None:
        #: (number of the event, moment) in the order of arrival.
        self.seen: list[tuple[int, float]] = []
        self._patience = patience
        self._wanted = 0
        self._done = asyncio.Event()

    def note(self, seq: int, moment: float) -> None:
        """Take note of a copy."""
        self.seen.append((seq, moment))
        if len(self.seen) == self._wanted:
            self._done.set()

    async def wait(self, wanted: int) -> None:
        """Wait until ``wanted`` copies have arrived in all."""
        self._wanted = wanted
        if len(self.seen) < wanted:
            self._done.clear()
            async with asyncio.timeout(self._patience):
                await self._done.wait()


def subscribe_message(id: int, text: str) -> m.Subscribe:
    """Return the message that asks for a durable subscription."""
    about = msgspec.json.encode(m.About(text=text, durable=True))
    return m.Subscribe(id, msgspec.json.encode(to_json(parse(text))), about=about)


class ReaderClient:
    """A client with many subscriptions; a token may allow it more of them."""

    def __init__(self, url: str, name: str, arrivals: Arrivals, token: str = "") -> None:
        self._url = f"{websocket_url(url)}?client={name}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._link = ClientLink(name)
        self._arrivals = arrivals
        #: Subscriptions that every broker knows.
        self.active = 0
        self._news = asyncio.Event()

    async def open(self) -> ReaderClient:
        """Connect."""
        from websockets.asyncio.client import connect

        self._socket: Any = await connect(
            self._url,
            additional_headers=self._headers,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            max_size=MAX_PACKET,
            compression=None,
            proxy=None,
        )
        await self._socket.send(self._link.greeting())
        self._task = asyncio.create_task(self._listen())
        return self

    async def subscribe(self, messages: Sequence[m.Subscribe]) -> None:
        """Ask for many things; returns when all are active."""
        for first in range(0, len(messages), AT_ONCE):
            part = messages[first : first + AT_ONCE]
            wanted = self.active + len(part)
            self._link.unsent.append(Outgoing(m.encode(m.SubscribeBatch(tuple(part))), lambda: None))
            await self._flush()
            while self.active < wanted:
                self._news.clear()
                await self._news.wait()
                if self._task.done():
                    self._task.result()
                    raise InvariantError(f"reader {self._link.name} was cut off: {self._socket.close_reason}")

    def stall(self) -> None:
        """Read no more, and leave the connection open."""
        self._task.cancel()

    async def close(self) -> None:
        """End the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._socket.close()

    async def _listen(self) -> None:
        try:
            await self._take_packets()
        finally:
            asyncio.get_running_loop().call_soon(self._news.set)  # when the task is seen to have ended

    async def _take_packets(self) -> None:
        async for packet in self._socket:
            moment = time.perf_counter()
            for number, message in self._link.take(packet):
                if isinstance(message, m.Delivery):
                    self._arrivals.note(message.event.id.seq, moment)
                    self._link.hand_out(number, 0)
                elif isinstance(message, m.Status) and message.state is m.State.ACTIVE:
                    self.active += 1
                elif isinstance(message, m.Refusal):
                    raise InvariantError(f"reader {self._link.name} was refused: {message.reason}")
            self._link.settle()
            self._news.set()
            await self._flush()

    async def _flush(self) -> None:
        while (packet := self._link.packet()) is not None:
            await self._socket.send(packet)
