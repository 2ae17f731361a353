"""`tamis bridge` as a process of a test, and what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tamis.runtime.client.http_calls import HttpCalls
from tests.server.processes import SERVE, STOPS, BrokerProcess, read_line


class BridgeProcess:
    """One `tamis bridge`; its counts are read when it ends."""

    def __init__(self, *words: str) -> None:
        self._command = [sys.executable, "-c", SERVE, "bridge", *words, "--json"]
        self.ready: dict[str, Any] = {}

    def start(self) -> BridgeProcess:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, bufsize=0)
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
        assert self.process.stdout is not None
        self.process.stdout.close()


def numbers_at(broker: BrokerProcess) -> list[int]:
    """Return the numbers of all events that the broker has, in its order."""
    calls, numbers, after = HttpCalls(broker.url), list[int](), ""
    while True:
        page = calls.read_log("all", after=after, limit=1000)
        if not page.messages:
            return numbers
        numbers += [one["event"]["n"] for one in page.messages]
        after = page.next
