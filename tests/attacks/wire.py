"""A client that writes its own frames: what no client of the library would send, over a real socket."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

import tamis
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing import messages as m
from tamis.runtime.packets import join_frames, split_frames
from tests.server.processes import BrokerProcess, ask

#: Seconds after which a test hangs; no verdict on a busy machine.
HANGS = 300.0


class Wire:
    """One WebSocket to a broker, greeted; `say` sends the next numbered message."""

    def __init__(self, socket: Any, life: int, epoch: int, received: int, frames: list[Frame]) -> None:
        self.socket = socket
        self.life = life
        #: The frames of the packet with the greeting.
        self.frames = frames
        #: The epoch of the broker, and the number of the last message of this client that it has.
        self.epoch = epoch
        self.sent = received

    async def say(self, body: bytes) -> None:
        self.sent += 1
        await self.socket.send(join_frames([encode_frame(Frame(self.life, self.epoch, self.sent, 0, body))]))

    async def refusal(self) -> m.Refusal:
        """Return the next refusal that the broker sends."""
        while True:
            for frame in frames_of(await self.socket.recv()):
                word = m.decode(frame.body, "broker") if frame.body else None
                if isinstance(word, m.Refusal):
                    return word

    async def count_active(self, most: int) -> int:
        """Return how many subscriptions have become active, once ``most`` have."""
        active: set[object] = set()
        while len(active) < most:
            for frame in frames_of(await self.socket.recv()):
                word = m.decode(frame.body, "broker") if frame.body else None
                if isinstance(word, m.Status) and word.state is m.State.ACTIVE:
                    active.add(word.id)
        return len(active)

    async def closing(self) -> str:
        """Return the reason with which the broker closes this connection."""
        try:
            while True:
                await self.socket.recv()
        except ConnectionClosed as error:
            return error.rcvd.reason if error.rcvd is not None else ""


class HasUrl(Protocol):
    """A broker to connect to."""

    @property
    def url(self) -> str: ...


def frames_of(packet: bytes) -> list[Frame]:
    return [decode_frame(data, "broker") for data in split_frames(packet, "broker")]


def packed(frame: bytes) -> bytes:
    """Return the packet of one frame, whatever the frame holds."""
    return struct.pack(">I", len(frame)) + frame


@asynccontextmanager
async def dialled(
    broker: HasUrl, query: str = "client=attacker", life: int = 1, subprotocols: Sequence[Subprotocol] | None = None
) -> AsyncIterator[Wire]:
    """Connect and greet as the epoch ``life``."""
    url = f"{broker.url.replace('http', 'ws', 1)}/v1/connect?{query}"
    async with open_socket(
        url, proxy=None, compression=None, ping_interval=None, subprotocols=subprotocols, max_size=None
    ) as socket:
        await socket.send(join_frames([encode_frame(Frame(life, 0, 0, 0))]))
        while True:
            frames = frames_of(await socket.recv())
            for frame in frames:
                if frame.to == life:
                    yield Wire(socket, life, frame.epoch, frame.ack, frames)
                    return


def run(story: Any) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


async def assert_serves(broker: BrokerProcess) -> None:
    """Check that the broker still delivers events to an honest client, and has printed no traceback."""
    async with tamis.connect(broker.url) as client:
        matches = await client.subscribe("alive >= 0")
        await client.publish({"alive": 1})
        assert (await anext(matches)).event == {"alive": 1}
    assert ask(f"{broker.url}/healthz").status == 200
    assert broker.process is not None
    assert broker.process.poll() is None
    assert "Traceback" not in broker.log()
