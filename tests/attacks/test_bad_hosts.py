"""Attack: headers and cursors that Python cannot parse, for an answer 500 without the headers that keep pages apart.

A broker answers them with 4xx and its usual headers, and logs no traceback.
"""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.attacks.callers import raw
from tests.server.conftest import broker  # noqa: F401
from tests.server.processes import BrokerProcess

DIGITS = "1" * 5_000

REQUESTS = [
    ("GET /healthz", "Host: ["),
    ("GET /v1/events", "Host: [::1"),
    ("GET /v1/events", "Host: [zz]:8080"),
    ("GET /v1/events", f"Host: 127.0.0.1:{DIGITS}"),
    ("GET /v1/events", f"Host: {DIGITS}"),
    ("GET /nowhere", "Host: ["),
    ("PATCH /v1/events", "Host: ["),
    ("GET /v1/events", "Host: 127.0.0.1", "Origin: http://["),
    (f"GET /v1/subscriptions?after={DIGITS}", "Host: 127.0.0.1"),
    (f"GET /v1/events?limit={DIGITS}", "Host: 127.0.0.1"),
    (f"GET /v1/subscriptions/{DIGITS}", "Host: 127.0.0.1"),
    (f"GET /v1/subscriptions/x/log?after={DIGITS}-1", "Host: 127.0.0.1"),
    (f"GET /v1/audit?before={DIGITS}", "Host: 127.0.0.1"),
    ("GET /v1/audit?before=%C2%B2", "Host: 127.0.0.1"),
]


@pytest.mark.parametrize("lines", REQUESTS, ids=lambda lines: " ".join(lines)[:40])
def test_it_is_answered_below_500_and_with_all_headers(
    broker: BrokerProcess,  # noqa: F811
    lines: tuple[str, ...],
) -> None:
    head = raw(broker.port, *lines).partition(b"\r\n\r\n")[0]
    status = int(head.split()[1])
    assert status < 500, head
    assert b"content-security-policy" in head.lower()
    assert "Traceback" not in broker.log()


@pytest.mark.parametrize("cursor", [f"{DIGITS}-1", f"1-{DIGITS}", "\u0661-\u0661", "x"])
def test_a_socket_with_a_cursor_that_is_none_is_closed_with_a_reason(
    broker: BrokerProcess,  # noqa: F811
    cursor: str,
) -> None:
    async def knock() -> str:
        url = f"ws://127.0.0.1:{broker.port}/v1/connect?client=x&after={cursor}"
        async with connect(url, proxy=None) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            return "" if closed.value.rcvd is None else closed.value.rcvd.reason

    try:
        assert "expected the cursor of a message" in asyncio.run(asyncio.wait_for(knock(), 60))
    except InvalidStatus as error:
        pytest.fail(f"the handshake ended with {error.response.status_code}")
    assert "Traceback" not in broker.log()
