"""A broker with tokens, and the requests of attackers: whole HTTP, so that a test may send what urllib would not."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis.runtime.broker.tokens import Tokens
from tests.server.processes import HANGS, Answer, BrokerProcess, ask, running


@dataclass
class Guarded:
    """A broker that demands tokens, its token file, and a secret by name."""

    broker: BrokerProcess
    tokens: Tokens
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    def add(self, name: str, **fields: Any) -> str:
        self.secrets[name] = self.tokens.add(name, **fields)
        return self.secrets[name]

    def ask(self, who: str, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        return ask(self.broker.url + path, method, body, Authorization=f"Bearer {self.secrets[who]}", **headers)


def tokens_beside(directory: Path) -> Tokens:
    return Tokens(directory / "data" / "tokens.json")


@contextlib.contextmanager
def guarded_broker(directory: Path, config: str = "") -> Iterator[Guarded]:
    """Run one broker that demands tokens; ``config`` goes before its tables."""
    start = f'name = "guarded"\ndata = "{directory / "data"}"\nrequire_tokens = true\n'
    with running(BrokerProcess(directory, start + config)) as (broker,):
        yield Guarded(broker, tokens_beside(directory))


def raw(port: int, *lines: str, version: str = "1.1") -> bytes:
    """Send one request line with headers as they are; return all that comes until the broker closes."""
    head = "\r\n".join([f"{lines[0]} HTTP/{version}", *lines[1:], "Connection: close"]) + "\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as connection:
        connection.sendall(head.encode("latin-1"))
        response = b""
        while data := connection.recv(65536):
            response += data
    return response
