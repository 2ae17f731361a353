"""Attack: a request of 16 MiB that holds millions of tiny events, or a packet of 400,000 frames.

Parsing them before the limit is applied would hold the event loop for tens of seconds and take a gigabyte. Lines,
items, frames and bytes are counted while they are read: the refusal comes before the rest is parsed, or even sent.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
from collections.abc import Iterator

import pytest

from tamis.node.frames import Frame, encode_frame
from tamis.routing import messages as m
from tamis.routing.edge.limits import (
    MAX_EVENT_TEXT,
    MAX_EVENTS,
    MAX_FRAMES,
    MAX_READING_OF_PRINCIPAL,
    MAX_SUBSCRIPTIONS_AT_ONCE,
)
from tamis.runtime.packets import join_frames
from tests.attacks.wire import assert_serves, dialled, run
from tests.server.processes import HANGS, BrokerProcess, ask

NDJSON = "application/x-ndjson"


@contextlib.contextmanager
def begun(broker: BrokerProcess, path: str, kind: str) -> Iterator[socket.socket]:
    """A request whose body goes on for ever: chunked, without an end."""
    lines = (f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{broker.port}", f"Content-Type: {kind}")
    head = "\r\n".join((*lines, "Transfer-Encoding: chunked", "", ""))
    with socket.create_connection(("127.0.0.1", broker.port), timeout=HANGS) as connection:
        connection.sendall(head.encode())
        yield connection


def send_chunk(to: socket.socket, body: bytes) -> None:
    to.sendall(b"%x\r\n" % len(body) + body + b"\r\n")


def status_line(of: socket.socket) -> bytes:
    return of.recv(65536).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("path", "most"), [("/v1/events", MAX_EVENTS), ("/v1/subscriptions", MAX_SUBSCRIPTIONS_AT_ONCE)]
)
def test_lines_are_refused_before_the_body_has_ended(broker: BrokerProcess, path: str, most: int) -> None:
    with begun(broker, path, NDJSON) as connection:
        send_chunk(connection, b"{}\n" * (most + 1))
        assert b" 413 " in status_line(connection)
    run(assert_serves(broker))


@pytest.mark.parametrize(
    ("path", "most"), [("/v1/events", MAX_EVENTS), ("/v1/subscriptions", MAX_SUBSCRIPTIONS_AT_ONCE)]
)
def test_items_beyond_the_limit_are_not_parsed(broker: BrokerProcess, path: str, most: int) -> None:
    """Invalid JSON follows the first item too many; a parser that read on would answer 400."""
    answer = ask(broker.url + path, "POST", "[" + "{}," * (most + 1) + "garbage")
    assert answer.status == 413
    assert f"{most:,}" in answer.json["error"] or str(most) in answer.json["error"]
    run(assert_serves(broker))


@pytest.mark.parametrize("kind", [NDJSON, "application/json", "application/cloudevents+json"])
@pytest.mark.parametrize("is_array", [False, True], ids=["object", "array"])
def test_one_object_is_not_parsed_beyond_its_limit(broker: BrokerProcess, kind: str, is_array: bool) -> None:
    """One object of 4 MiB of brackets; the last one is missing, which a parser of the whole would say."""
    bomb = '{"a":"' + "x" * (2 * MAX_EVENT_TEXT) + '","b":['
    answer = ask(f"{broker.url}/v1/events", "POST", "[" * is_array + bomb, Content_Type=kind)
    assert answer.status in (400, 413)
    assert "bytes of one object" in answer.json["error"] or "longer than" in answer.json["error"]
    run(assert_serves(broker))


def test_bytes_that_one_principal_has_in_memory_are_bounded(broker: BrokerProcess) -> None:
    """Requests that never end, each below the limit of a request; together they are beyond the principal's.

    Which one is refused depends on the order in which the broker reads its sockets.
    """
    size = 15 * 1024 * 1024
    with contextlib.ExitStack() as stack:
        count = MAX_READING_OF_PRINCIPAL // size + 1
        requests = [stack.enter_context(begun(broker, "/v1/events", "application/json")) for _ in range(count)]
        for request in requests[:-1]:
            send_chunk(request, b" " * size)
        for _ in range(size // 4096):  # until the answer comes: what is sent behind it would reset the connection
            send_chunk(requests[-1], b" " * 4096)
            if select.select(requests, [], [], 0)[0]:
                break
        answered = select.select(requests, [], [], HANGS)[0]
        assert [b" 503 " in status_line(request) for request in answered] == [True]
    run(assert_serves(broker))  # what was held is free again


def test_frames_of_one_packet_are_bounded(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with dialled(broker) as wire:
            frame = encode_frame(Frame(1, wire.epoch, 0, 0))
            await wire.socket.send(join_frames([frame] * (MAX_FRAMES + 1)))
            assert f"more than {MAX_FRAMES:,} frames" in await wire.closing()
        async with dialled(broker) as wire:
            await wire.socket.send(join_frames([frame] * MAX_FRAMES))
            await wire.say(m.encode(m.Subscribe("x", b'"\xff"')))
            assert (await wire.refusal()).subject == "subscription 'x'"
        await assert_serves(broker)

    run(story())


EVENT = m.Published(m.EventId("", 1, 1), "default", b"\x80")
FILTER = json.dumps({"op": ">=", "args": [{"property": "n"}, 1]}).encode()


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (m.PublishBatch((EVENT,) * (MAX_EVENTS + 1)), "10,001 events"),
        (
            m.SubscribeBatch(tuple(m.Subscribe(str(n), FILTER) for n in range(MAX_SUBSCRIPTIONS_AT_ONCE + 1))),
            "1,001 subscriptions",
        ),
    ],
    ids=["events", "subscriptions"],
)
def test_pieces_of_one_message_are_bounded(broker: BrokerProcess, message: m.Message, problem: str) -> None:
    async def story() -> None:
        async with dialled(broker) as wire:
            await wire.say(m.encode(message))
            assert problem in await wire.closing()
        await assert_serves(broker)
        shown = ask(f"{broker.url}/v1/subscriptions").json["subscriptions"]
        assert not [client for client in shown if client["client"] == "attacker"]

    run(story())
