"""Attack: a reverse proxy on the broker's machine makes all its callers admins without a token.

A broker on loopback trusts what comes from this machine without a token. A request that shows that a proxy passed it on
needs one, and its headers do not choose the address that the audit notes.
"""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.attacks.callers import raw, tokens_beside
from tests.server.conftest import broker  # noqa: F401
from tests.server.processes import BrokerProcess, ask

SIGNS = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "broker.example"},
    {"X-Real-IP": "203.0.113.9"},
    {"Forwarded": "for=203.0.113.9"},
    {"Via": "1.1 proxy.example"},
]


@pytest.mark.parametrize("headers", SIGNS, ids=lambda headers: next(iter(headers)))
def test_what_a_proxy_passed_on_needs_a_token(broker: BrokerProcess, headers: dict[str, str]) -> None:  # noqa: F811
    answer = ask(f"{broker.url}/v1/subscriptions", **headers)
    assert answer.status == 401
    assert "came through a proxy" in answer.json["error"]
    secret = tokens_beside(broker.directory).add(next(iter(headers)), is_admin=True)
    assert ask(f"{broker.url}/v1/subscriptions", Authorization=f"Bearer {secret}", **headers).status == 200
    assert ask(f"{broker.url}/healthz", **headers).status == 200

    async def knock() -> str:
        url = f"ws://127.0.0.1:{broker.port}/v1/connect?client=x"
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            return "" if closed.value.rcvd is None else closed.value.rcvd.reason

    assert "came through a proxy" in asyncio.run(asyncio.wait_for(knock(), 60))


def test_so_does_what_a_proxy_without_settings_passes_on(broker: BrokerProcess) -> None:  # noqa: F811
    """Nginx by default: HTTP/1.0, the broker's own name as Host, no header of its own."""
    host = f"Host: 127.0.0.1:{broker.port}"
    assert b" 401 " in raw(broker.port, "GET /v1/subscriptions", host, version="1.0").partition(b"\r\n")[0]
    assert b" 200 " in raw(broker.port, "GET /v1/subscriptions", host).partition(b"\r\n")[0]


def test_a_header_does_not_choose_the_address_in_the_audit(broker: BrokerProcess) -> None:  # noqa: F811
    assert ask(f"{broker.url}/v1/subscriptions", X_Forwarded_For="203.0.113.9").status == 401
    deeds = ask(f"{broker.url}/v1/audit").json["deeds"]
    assert {deed["address"] for deed in deeds if deed["what"] == "refuse"} == {"loopback"}
