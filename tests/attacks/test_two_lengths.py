"""Attack: a request with two lengths; a proxy that believes the other one does not see what is hidden behind it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.server.processes import HANGS, BrokerProcess, running

HIDDEN = b"GET /v1/subscriptions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"

LENGTHS = {
    "both": (b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "both, the other way round": (b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", b"0\r\n\r\n"),
    "two of one kind": (b"Content-Length: %d\r\nContent-Length: 5\r\n", b"0\r\n\r\n"),
    "another coding": (b"Content-Length: %d\r\nTransfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> object:
    with running(BrokerProcess(Path(tmp_path_factory.mktemp("lengths")))) as (broker,):
        yield broker


@pytest.mark.parametrize("name", LENGTHS)
def test_the_connection_ends_and_nothing_behind_it_is_answered(broker: BrokerProcess, name: str) -> None:
    lengths, body = LENGTHS[name]
    hidden = HIDDEN % broker.port
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % broker.port
    with socket.create_connection(("127.0.0.1", broker.port), timeout=HANGS) as wire:
        wire.sendall(head + lengths % len(body + hidden) + b"\r\n" + body + hidden)
        answer = b""
        while data := wire.recv(65_536):  # until the broker closes
            answer += data
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"subscriptions" not in answer
