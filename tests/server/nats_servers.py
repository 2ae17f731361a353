"""nats-server with JetStream as processes of a test, alone or as a cluster of three, and a client for the test."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import HANGS, ReservedPort

#: Debian puts servers where a user's PATH may not lead.
PROGRAM = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")

needs_nats = pytest.mark.skipif(PROGRAM is None, reason="not run: nats-server is not installed (make setup-ci)")


@dataclass
class NatsServer:
    """One server on loopback with its own store."""

    directory: Path
    name: str = "n0"
    port: ReservedPort = field(default_factory=ReservedPort)
    cluster_port: ReservedPort = field(default_factory=ReservedPort)
    routes: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port.number}"

    def start(self) -> NatsServer:
        self.directory.mkdir(exist_ok=True, parents=True)
        config = [f'server_name: {self.name}\nlisten: "127.0.0.1:{self.port.number}"']
        config += [f'jetstream {{ store_dir: "{self.directory}/js" }}']
        if self.routes:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes)
            listen = f'listen: "127.0.0.1:{self.cluster_port.number}"'
            config += [f"cluster {{ name: tests, {listen}, routes: [{routes}] }}"]
        path = self.directory / "nats.conf"
        path.write_text("\n".join(config))
        with (self.directory / "log").open("ab") as log:
            assert PROGRAM is not None
            self.process = subprocess.Popen([PROGRAM, "-c", str(path)], stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)


@contextlib.contextmanager
def nats_running(directory: Path, count: int = 1) -> Iterator[list[NatsServer]]:
    """Start servers, as one cluster when there are several, and kill them in the end."""
    servers = [NatsServer(directory / f"n{number}", f"n{number}") for number in range(count)]
    for server in servers:
        server.routes = tuple(node.cluster_port.number for node in servers) if count > 1 else ()
        server.start()
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


def with_jetstream(servers: list[NatsServer], story: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """Run a story with a client and its JetStream context."""

    async def run() -> Any:
        import nats

        urls = [server.url for server in servers]
        async with asyncio.timeout(HANGS):
            client = await _connected(nats, urls)
            try:
                return await story(client, client.jetstream(timeout=2))
            finally:
                await client.close()

    return asyncio.run(run())


async def _connected(nats: Any, urls: list[str]) -> Any:
    while True:
        try:
            return await nats.connect(urls, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=_ignored)
        except (OSError, nats.errors.Error, TimeoutError):
            await asyncio.sleep(0.1)


async def _ignored(error: Exception) -> None:
    pass


async def patiently(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeat a call until JetStream answers: a cluster has no leader for a while after a start and after a kill."""
    import nats

    while True:
        try:
            return await call()
        except (nats.errors.Error, TimeoutError):
            await asyncio.sleep(0.1)
