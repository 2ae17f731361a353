"""Attack: a handshake that the library of WebSockets cannot read was never answered, and kept its place for ever."""

from __future__ import annotations

import base64

import pytest

from tests.attacks.test_odd_requests import status_of, talk
from tests.attacks.wire import assert_serves, run
from tests.server.processes import BrokerProcess

HEAD = (
    "GET /v1/connect?client=odd HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\n"
)

HANDSHAKES = {
    "with a body": f"Content-Length: 40\r\n\r\n{'G' * 40}",
    "with a body in chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "with a long header": f"X: {'y' * 20_000}\r\n\r\n",
    "with many headers": "".join(f"X{number}: y\r\n" for number in range(200)) + "\r\n",
    "with many extensions": f"Sec-WebSocket-Extensions: {'a;b=c,' * 5_000}x\r\n\r\n",
}


@pytest.mark.parametrize("name", HANDSHAKES)
def test_it_is_refused_and_its_connection_ends(broker: BrokerProcess, name: str) -> None:
    answer = talk(broker.port, (HEAD + HANDSHAKES[name]).encode())  # until the broker closes
    assert status_of(answer) == 400
    assert len(answer) < 500
    assert "Traceback" not in broker.log()
    run(assert_serves(broker))
