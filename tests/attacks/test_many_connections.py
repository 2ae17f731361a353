"""Attack: 1,100 sockets that say nothing, or a byte now and then, until no other client can connect (slow loris).

One address has a limited number of connections, a request has a deadline for its head and its body, and a reserve is
kept for links and admins.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.web.port.connection_limits import RESERVE_OF_ADDRESS
from tests.attacks.callers import Guarded, guarded_broker
from tests.attacks.wire import assert_serves, run
from tests.server.processes import HANGS, BrokerProcess, running, wait_until

MANY, OF_ADDRESS = 1_100, 50


@pytest.fixture(autouse=True)
def files() -> None:
    """This process holds the sockets of the attack."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 65_536 else 65_536, hard))


@contextlib.contextmanager
def dialled(broker: BrokerProcess, count: int, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(dial(broker, address)) for _ in range(count)]


def dial(broker: BrokerProcess, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=HANGS, source_address=(address, 0))


def status(broker: BrokerProcess, path: str, address: str, *headers: str) -> int:
    """Return the status of one request that comes from an address of loopback."""
    with dial(broker, address) as connection:
        lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{broker.port}", "Connection: close", *headers)
        with contextlib.suppress(ConnectionError):
            connection.sendall("\r\n".join((*lines, "", "")).encode())
        return int(connection.recv(65536).split()[1])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    limits = f"max_connections_of_address = {OF_ADDRESS}\nmax_connections = {2 * OF_ADDRESS}\n"
    with guarded_broker(tmp_path_factory.mktemp("broker"), limits) as guarded:
        guarded.add("reader")
        guarded.add("boss", is_admin=True)
        yield guarded


def bearer(guarded: Guarded, name: str) -> str:
    return f"Authorization: Bearer {guarded.secrets[name]}"


def test_silent_sockets_of_one_address_keep_no_other_out(guarded: Guarded) -> None:
    broker = guarded.broker
    with dialled(broker, MANY) as sockets:
        assert status(broker, "/v1/subscriptions", "127.0.0.2", bearer(guarded, "reader")) == 200
        refused = [connection for connection in sockets[-100:] if connection.recv(65536).startswith(b"HTTP/1.1 503 ")]
        assert len(refused) == 100
        for connection in sockets[:OF_ADDRESS]:  # those that were taken are cut: they sent no head in time
            assert connection.recv(65536) == b""
        assert status(broker, "/v1/subscriptions", "127.0.0.1", bearer(guarded, "reader")) == 200


def test_a_full_broker_has_a_reserve_for_admins(guarded: Guarded) -> None:
    broker = guarded.broker
    with dialled(broker, OF_ADDRESS, "127.0.0.3"), dialled(broker, OF_ADDRESS, "127.0.0.4"):
        assert status(broker, "/v1/subscriptions", "127.0.0.5", bearer(guarded, "reader")) == 503
        assert status(broker, "/v1/subscriptions", "127.0.0.5", bearer(guarded, "boss")) == 200
        assert status(broker, "/healthz", "127.0.0.5") == 200
        with dialled(broker, RESERVE_OF_ADDRESS, "127.0.0.6"):  # one address cannot take the reserve either
            assert status(broker, "/v1/subscriptions", "127.0.0.6", bearer(guarded, "boss")) == 503
            assert status(broker, "/v1/subscriptions", "127.0.0.5", bearer(guarded, "boss")) == 200


@pytest.mark.parametrize(
    "start", ["GET /healthz HTTP/1.1\r\nHost: ", "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HT"]
)
def test_a_head_that_comes_byte_by_byte_is_cut(tmp_path: Path, start: str) -> None:
    """Each byte comes in time for itself; the head as a whole does not. The second one begins behind an answer."""
    with running(BrokerProcess(tmp_path)) as (broker,), dial(broker) as connection:
        connection.sendall(start.replace("{host}", f"127.0.0.1:{broker.port}").encode())
        connection.settimeout(0.5)
        wait_until(lambda: is_cut(connection), "the end of a connection whose head never ends")
        run(assert_serves(broker))


def is_cut(connection: socket.socket) -> bool:
    """Whether the broker has closed a connection; one more byte is sent to it."""
    try:
        connection.sendall(b"x")
        return not connection.recv(65536)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_connections_that_ended_leave_their_places(tmp_path: Path) -> None:
    config = f'data = "{tmp_path / "data"}"\nmax_connections_of_address = 8\nmax_connections = 8\n'
    with running(BrokerProcess(tmp_path, config)) as (broker,):
        for _ in range(40):
            with dialled(broker, 6):
                pass
        wait_until(lambda: status(broker, "/v1/subscriptions", "127.0.0.1") == 200, "a place")
        for _ in range(10):  # sockets of WebSocket give theirs back, too
            run(assert_serves(broker))


def test_the_limit_of_open_files_is_raised(guarded: Guarded) -> None:
    process = guarded.broker.process
    assert process is not None
    text = Path(f"/proc/{process.pid}/limits").read_text()
    soft, hard = next(line for line in text.splitlines() if line.startswith("Max open files")).split()[3:5]
    assert int(soft) == min(int(hard), 1 << 20)
