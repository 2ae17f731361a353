"""Peers as processes, and an attacker with a socket of its own: whatever it sends, a real peer is at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tamis import Number, Schema
from tamis.overlay.seat import Shape
from tamis.runtime.peer.greeting import Attributes, Hello, Identity, PeerRefusal, Proof, read, write
from tamis.runtime.peer.process import PeerProcess
from tamis.runtime.peer.security import PeerSecurity
from tests.server.forks import ForkedProgram, can_fork, start_program
from tests.server.processes import HANGS, SERVE, wait_until

SCHEMA = Schema({"mag": Number(0, 10), "depth": Number(0, 700)})
TOKEN = "0123456789abcdef" * 4


class PeerProgram:
    """One `tamis peer`; its output and its notices are in ``log``."""

    def __init__(self, directory: Path, *arguments: str, schema: Schema = SCHEMA, token: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log_file = directory / "log"
        self.log_file.touch()
        (directory / "schema.json").write_text(schema.to_json())
        command = ["peer", "--schema", str(directory / "schema.json"), "--round-seconds", "0.2", *arguments]
        if token:
            (directory / "token").write_text(token)
            command += ["--token-file", str(directory / "token")]
        self.process: ForkedProgram | subprocess.Popen[bytes]
        if can_fork():
            self.process = start_program(command, self.log_file)
        else:
            with self.log_file.open("ab") as log:
                program = [sys.executable, "-c", SERVE, *command]
                self.process = subprocess.Popen(program, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def name(self) -> str:
        """The address of the peer; waits until it has printed it."""
        line = wait_until(lambda: next(iter(self.lines()), None) or self._ended(), "the address of a peer")
        return str(line["peer"]).removeprefix("tcp://")

    @property
    def port(self) -> int:
        return int(self.name.rpartition(":")[2])

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def lines(self) -> list[dict[str, Any]]:
        """Return what the peer has printed as JSON."""
        whole = self.log().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.startswith("{") and line.endswith("\n")]

    def wait_for(self, text: str) -> None:
        """Wait until the peer has printed a text."""
        wait_until(lambda: text in self.log(), f"{text!r} in {self.log()}")

    def memory(self) -> int:
        """Return the bytes that the process holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> None:
        """End the peer; AssertionError when an attack has ended it before, or made it print a traceback."""
        ended = self.process.poll()
        self.process.kill()
        self.process.wait()
        assert ended is None, f"it ended with {ended}: {self.log()}"
        assert "Traceback" not in self.log(), self.log()

    def _ended(self) -> None:
        assert self.process.poll() is None, self.log()


@contextlib.contextmanager
def peer_program(directory: Path, *arguments: str, **options: Any) -> Iterator[PeerProgram]:
    program = PeerProgram(directory, *arguments, **options)
    try:
        yield program
    except BaseException:
        program.process.kill()
        program.process.wait()
        raise
    program.stop()


class Attacker:
    """A socket to a peer; `greet` does what an honest peer would, `frame` sends any bytes as a frame."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=HANGS, source_address=(source, 0))

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def frame(self, data: bytes) -> None:
        self.socket.sendall(len(data).to_bytes(4, "big") + data)

    def read(self) -> bytes:
        """Return the next frame; b"" when the peer has closed the connection."""
        head = self._exactly(4)
        return self._exactly(int.from_bytes(head, "big")) if head else b""

    def word(self) -> Hello | Proof | Attributes | PeerRefusal | None:
        data = self.read()
        return read(data, "peer") if data else None

    def is_closed(self) -> bool:
        """Wait until the peer closes the connection, and close this end."""
        with self.socket, contextlib.suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True

    def greet(self, to: str, name: str = "127.0.0.1:9", token: str = "") -> None:
        """Do the whole handshake as a peer that holds ``token``."""
        identity = Identity(name, SCHEMA, Shape(), token)
        hello = write(identity.hello(to))
        self.frame(hello)
        theirs = self.read()
        self.frame(write(identity.proof("dialler", hello, theirs)))
        assert isinstance(self.word(), Proof)

    def _exactly(self, size: int) -> bytes:
        data = b""
        with contextlib.suppress(ConnectionError):
            while len(data) < size and (more := self.socket.recv(size - len(data))):
                data += more
        return data if len(data) == size else b""


@contextlib.asynccontextmanager
async def started(peer: PeerProcess) -> AsyncIterator[PeerProcess]:
    """A peer in this process, stopped in the end."""
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()


def joining(to: str, token: str = "", **options: Any) -> PeerProcess:
    """Return an honest peer that joins another one."""
    security = PeerSecurity(token)
    options = {"schema": SCHEMA, "report": [].append, **options}
    return PeerProcess(join=to, round_seconds=0.1, security=security, **options)


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def assert_serves(target: PeerProgram, token: str = "") -> None:
    """Check that a peer with the subscription ``mag >= 5`` still gets what an honest peer publishes."""

    async def story() -> None:
        count = len(target.lines())
        async with started(joining(target.name, token)) as peer:
            assert await peer.finds_contact()
            peer.publish({"mag": 7.0, "depth": 1.0})
            await until(lambda: len(target.lines()) > count or target._ended())

    asyncio.run(asyncio.wait_for(story(), HANGS))
