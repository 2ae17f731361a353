"""`tamis bridge` as a process of a test, and what came of it."""

from __future__ import annotations

import json
from typing import Any

from tamis.runtime.client.http_calls import HttpCalls
from tests.server.forks import pipe_program
from tests.server.processes import STOPS, BrokerProcess, read_line


class BridgeProcess:
    """One `tamis bridge`; its counts are read when it ends."""

    def __init__(self, *words: str) -> None:
        self._command = ["bridge", *words, "--json"]
        self.ready: dict[str, Any] = {}

    def start(self) -> BridgeProcess:
        self.process = pipe_program(self._command)
        self.ready = json.loads(read_line(self.process))
        assert self.ready["ready"]
        return self

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(STOPS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def numbers_at(broker: BrokerProcess) -> list[int]:
    """Return the numbers of all events that the broker has, in its order."""
    calls, numbers, after = HttpCalls(broker.url), list[int](), ""
    while True:
        page = calls.read_log("all", after=after, limit=1000)
        if not page.messages:
            return numbers
        numbers += [message["event"]["n"] for message in page.messages]
        after = page.next
