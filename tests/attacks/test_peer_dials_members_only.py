"""Attack: a message names an address, and the peer that gets it connects there (request forgery, port scans)."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from tamis.errors import ModelError
from tamis.overlay import messages as m
from tamis.runtime.peer.address import Address, resolve
from tamis.runtime.peer.greeting import Hello, read
from tests.attacks.peers import Attacker, assert_serves, peer_program
from tests.server.processes import wait_until

BOX = bytes(16) + b"\x00\x00\x00\x00\x00\x00\xf0?" * 2


class Victim:
    """A server that is not a peer: it notes what is sent to it, and never answers."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.received: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while more := connection.recv(65536):
                data += more
            self.received.append(data)


def test_what_is_not_a_peer_gets_a_greeting_and_nothing_else(tmp_path: Path) -> None:
    victim = Victim()
    with victim.server, peer_program(tmp_path, "--subscribe", "mag >= 5") as target:
        with Attacker(target.port) as attacker:
            attacker.greet(target.name)
            for number in range(50):
                seat = f"{victim.name}/attacker chooses this {number}"
                attacker.frame(m.encode(m.Ping(f"{target.name}/0", seat, 0, seat, 0, BOX, 0, 0)))
            assert_serves(target)
            wait_until(lambda: victim.received, "a connection to the address that was named")
        for data in victim.received:  # one greeting, without a word of the attacker's
            hello = read(data[4:], "peer")
            assert isinstance(hello, Hello)
            assert (int.from_bytes(data[:4], "big"), hello.name, hello.to) == (len(data) - 4, target.name, victim.name)
            assert b"attacker" not in data


#: Addresses that a peer on loopback, or one on a network, never connects to.
FORBIDDEN = {
    True: ["192.0.2.1:80", "10.0.0.1:80", "169.254.169.254:80", "0.0.0.0:80", "[2001:db8::1]:80", "[::]:80"],
    False: [
        "127.0.0.1:80",
        "localhost:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
        "169.254.169.254:80",
        "0.0.0.0:80",
        "[::]:80",
        "224.0.0.1:80",
        "240.0.0.1:80",
        "[fe80::1]:80",
        "[ff02::1]:80",
    ],
}


@pytest.mark.parametrize(("loopback", "name"), [(key, name) for key, names in FORBIDDEN.items() for name in names])
def test_forbidden_addresses(loopback: bool, name: str) -> None:
    with pytest.raises(ModelError):
        asyncio.run(resolve(Address.parse(name), from_loopback=loopback))


def test_allowed_addresses() -> None:
    for loopback, name in (
        (True, "127.0.0.1:80"),
        (True, "[::1]:80"),
        (False, "192.168.1.7:80"),
        (False, "10.1.2.3:1"),
    ):
        endpoint = asyncio.run(resolve(Address.parse(name), from_loopback=loopback))
        assert (endpoint.ip, endpoint.port) == Address.parse(name)


def test_a_host_name_is_judged_by_what_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(ip: str) -> None:
        async def lookup(host: str, port: int, **_: object) -> list[object]:
            return [(0, 0, 0, "", ("203.0.113.7", port)), (0, 0, 0, "", (ip, port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
        await resolve(Address.parse("peers.example:4000"), from_loopback=False)

    asyncio.run(story("198.51.100.7"))
    with pytest.raises(ModelError, match="loopback"):
        asyncio.run(story("127.0.0.1"))


NO_ADDRESSES = [
    "",
    "x",
    ":1",
    "a:0",
    "a:65536",
    "a:1 ",
    " a:1",
    "a b:1",
    "a/b:1",
    "a:+1",
    "a:١",
    "[a]:1",
    "::1:80",
    "a@b:1",
]


@pytest.mark.parametrize("name", [*NO_ADDRESSES, "a\n:1", "[::1%eth0]:1", "x" * 300 + ":1", "-a:1", "a:1#", "a?:1"])
def test_what_is_not_an_address_is_never_looked_up(name: str) -> None:
    with pytest.raises(ModelError, match="expected host:port"):
        Address.parse(name)
