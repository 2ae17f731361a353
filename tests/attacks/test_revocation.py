"""Attack: the holder of a revoked token keeps a connection that is never silent, or is hidden by a new token's name.

Streams, client sockets and links are cut within 5 seconds of the revocation: while events flow, when the same name was
issued again with other rights, and when the token file was unreadable in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tamis.errors import StoreError
from tamis.runtime.broker.machine import Connection
from tamis.runtime.broker.tokens import Tokens
from tamis.web.endpoints.websocket import _read
from tamis.web.work.pacing import Pace, Shares
from tests.attacks.callers import Guarded, guarded_broker
from tests.server.processes import HANGS

#: What is promised, and what a busy machine may add.
PROMISED, SLACK = 5.0, 5.0

CONFIG = 'schema = "{schema}"\n[[links]]\nname = "south"\n'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("revoked")
    (directory / "schema.json").write_text('{"attributes": {"n": {"type": "number"}}}')
    with guarded_broker(directory, CONFIG.format(schema=directory / "schema.json")) as broker:
        broker.add("admin", is_admin=True)
        yield broker


def publish(guarded: Guarded) -> None:
    assert guarded.ask("admin", "/v1/events", "POST", {"n": 1}).status == 200


@contextlib.asynccontextmanager
async def busy(guarded: Guarded) -> AsyncIterator[None]:
    """Publish ten times a second, so that no stream is ever silent."""

    async def run() -> None:
        while True:
            await asyncio.to_thread(publish, guarded)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def read_stream(guarded: Guarded, who: str) -> int:
    """Read a stream until the broker ends it; return how many messages came."""
    connection = http.client.HTTPConnection("127.0.0.1", guarded.broker.port, timeout=HANGS)
    headers = {"Authorization": f"Bearer {guarded.secrets[who]}"}
    connection.request("GET", f"/v1/subscriptions/{who}/events?ack=auto", headers=headers)
    stream = connection.getresponse().read()
    connection.close()
    return stream.count(b"data: ")


@pytest.mark.parametrize("again", [False, True], ids=["revoked", "issued again"])
def test_a_busy_stream_ends(guarded: Guarded, again: bool) -> None:
    who = f"stream-{again}"
    guarded.add(who)
    assert guarded.ask(who, "/v1/subscriptions", "POST", {"id": who, "filter": "n > 0"}).status == 201

    async def story() -> float:
        async with busy(guarded):
            stream = asyncio.create_task(asyncio.to_thread(read_stream, guarded, who))
            await asyncio.sleep(1)
            assert guarded.tokens.revoke(who)
            if again:
                guarded.tokens.add(who, may_publish=False)
            start = time.monotonic()
            assert await stream > 0
            return time.monotonic() - start

    assert asyncio.run(asyncio.wait_for(story(), 60)) < PROMISED + SLACK


async def until_cut(socket: ClientConnection) -> str:
    try:
        while True:
            await socket.recv()
    except ConnectionClosed as closed:
        return "" if closed.rcvd is None else closed.rcvd.reason


@pytest.mark.parametrize("kind", ["client", "broker"])
@pytest.mark.parametrize("way", ["revoked", "issued again", "file broken before"])
def test_sockets_and_links_are_cut(guarded: Guarded, kind: str, way: str) -> None:
    fields = {} if kind == "client" else {"broker": "south"}
    who = f"{kind}-{way}"
    secret = guarded.add(who, **fields)

    async def story() -> float:
        url = f"ws://127.0.0.1:{guarded.broker.port}/v1/connect?{kind}=south"
        async with connect(url, additional_headers={"Authorization": f"Bearer {secret}"}, proxy=None) as socket:
            if way == "file broken before":
                await asyncio.to_thread(break_for_a_while, guarded)
            assert guarded.tokens.revoke(who)
            if way == "issued again":
                guarded.tokens.add(who, **fields)
            start = time.monotonic()
            assert "revoked" in await until_cut(socket)
            return time.monotonic() - start

    assert asyncio.run(asyncio.wait_for(story(), 60)) < PROMISED + SLACK


def break_for_a_while(guarded: Guarded) -> None:
    """Leave the token file unreadable for some looks of the broker, which goes on with the tokens it knows."""
    good = guarded.tokens.path.read_bytes()
    guarded.tokens.path.write_bytes(b"[{")
    try:
        time.sleep(4.5)
        assert guarded.ask("admin", "/v1/subscriptions").status == 200
        records = guarded.ask("admin", "/v1/audit").json["deeds"]
        assert any(record["what"] == "token file" and "not a file of tokens" in record["detail"] for record in records)
    finally:
        guarded.tokens.path.write_bytes(good)


class _Sending:
    """A socket whose other end goes on sending and does not read, so that it cannot be closed in order."""

    async def receive(self) -> dict[str, object]:
        return {"type": "websocket.receive", "bytes": b"a packet"}


class _Driver:
    """Fails when anything is done with a packet."""


def test_nothing_is_taken_from_a_socket_that_was_cut() -> None:
    connection = Connection("c:mute:x")
    connection.close("the token was revoked or has expired")
    reading = _read(_Driver(), connection, _Sending(), Pace(Shares(), "mute"))  # type: ignore[arg-type]
    asyncio.run(asyncio.wait_for(reading, 60))


def test_a_body_that_ends_after_its_token_is_refused(guarded: Guarded) -> None:
    secret = guarded.add("slow")
    connection = http.client.HTTPConnection("127.0.0.1", guarded.broker.port, timeout=HANGS)
    connection.putrequest("POST", "/v1/events")
    connection.putheader("Authorization", f"Bearer {secret}")
    connection.putheader("Content-Length", "8")
    connection.endheaders()
    connection.send(b'{"n"')
    time.sleep(0.5)
    assert guarded.tokens.revoke("slow")
    connection.send(b": 1}")
    assert connection.getresponse().status == 401
    connection.close()


def test_an_unreadable_file_keeps_the_last_state_and_a_missing_one_keeps_none(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("alice")
    token = tokens.find(secret)
    assert token is not None
    for text in (b"[{", b"\xff", b"[" * 100_000, b'[{"name": "a:b", "sha256": "x", "created": 0}]'):
        tokens.path.write_bytes(text)
        assert tokens.is_live(token.sha256)
        assert tokens.problem
        with pytest.raises(StoreError):
            tokens.add("bob")  # nothing is written over what a person may want to mend
        with pytest.raises(StoreError):
            Tokens(tokens.path).all()
    os.unlink(tokens.path)
    assert not tokens.is_live(token.sha256)
