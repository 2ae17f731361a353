"""Brokers as processes: started, killed, started again; each in a directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.server.forks import ForkedProgram, can_fork, start_program

T = TypeVar("T")

#: Seconds after which something hangs; no verdict on a busy machine. Less than the time limit of a test in
#: pyproject.toml: what was waited for is then named.
HANGS = 240.0

#: Seconds in which a broker ends after SIGTERM; it gives its connections 2.
STOPS = 120.0

SERVE = "from tamis.cli.main import main; main()"


class ReservedPort:
    """A port of loopback at which a server of this test may listen, and to which no other socket is bound meanwhile.

    A bound socket is kept open as long as this object lives. Linux lets a second socket bind to the same port when both
    set SO_REUSEADDR and the first does not listen; it gives the port to no socket that leaves the choice to the system.
    Other systems refuse the second socket, so the first is closed there.
    """

    def __init__(self) -> None:
        with socket.socket() as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(("127.0.0.1", 0))
            self.number = int(bound.getsockname()[1])
            if sys.platform == "linux":
                weakref.finalize(self, os.close, bound.detach())


@dataclass
class BrokerProcess:
    """One `tamis serve`."""

    directory: Path
    config: str = ""
    reserved: ReservedPort = field(default_factory=ReservedPort)
    process: subprocess.Popen[bytes] | ForkedProgram | None = None

    @property
    def port(self) -> int:
        return self.reserved.number

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> BrokerProcess:
        self.directory.mkdir(exist_ok=True, parents=True)
        command = ["serve", "--port", str(self.port), "--json"]
        if self.config:
            path = self.directory / "broker.toml"
            path.write_text(self.config)
            command += ["--config", str(path)]
        else:
            command += ["--data", str(self.directory / "data")]
        if can_fork():
            self.process = start_program(command, self.directory / "log")
            return self
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-c", SERVE, *command], stdout=log, stderr=log)
        return self

    def wait_until_ready(self, seconds: float = HANGS) -> BrokerProcess:
        """Wait while the process lives; the limit is for one that hangs, not a verdict on a busy machine."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                if answer.status == 200:
                    return self
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            time.sleep(0.05)
        raise TimeoutError(self.log())

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End the broker; AssertionError when it does not end by itself, or when its log has a traceback."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOPS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"still running {STOPS:.0f} s after SIGTERM\n{self.log()}") from None
        assert "Traceback (most recent call last)" not in self.log(), self.log()
        return int(self.process.returncode)

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")


@contextlib.contextmanager
def running(*brokers: BrokerProcess) -> Iterator[tuple[BrokerProcess, ...]]:
    """Start brokers, wait for them, and stop each of them in the end; see `BrokerProcess.stop` for what is checked."""
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.stop)
            broker.start()
        for broker in brokers:
            broker.wait_until_ready()
        yield brokers


def wait_until(look: Callable[[], T | None], what: str, seconds: float = HANGS) -> T:
    """Return the first true value of ``look``; TimeoutError names ``what`` when none comes."""
    end = time.monotonic() + seconds
    while not (value := look()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)
    return value


def read_line(process: subprocess.Popen[bytes] | ForkedProgram, seconds: float = HANGS) -> bytes:
    """Return the next line of a process that was started with ``bufsize=0``; TimeoutError when none comes."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], seconds)[0]:
        raise TimeoutError(f"no line from {process.args} in {seconds:.0f} s")
    return bytes(process.stdout.readline())


def a_line(directory: Path, names: str = "abc", schema: str = "", extra: str = "") -> list[BrokerProcess]:
    """Brokers in a line, each dialling the one before it."""
    directory.mkdir(exist_ok=True, parents=True)
    (directory / "schema.json").write_text(
        schema or '{"attributes": {"mag": {"type": "number"}, "n": {"type": "number"}}}'
    )
    brokers: list[BrokerProcess] = []
    for i, name in enumerate(names):
        lines = [
            f'name = "{name}"',
            f'data = "{directory / name / "data"}"',
            f'schema = "{directory / "schema.json"}"',
            extra,
        ]
        if i:
            lines += ["[[links]]", f'name = "{names[i - 1]}"', f'url = "{brokers[-1].url}"']
        if i + 1 < len(names):
            lines += ["[[links]]", f'name = "{names[i + 1]}"']
        brokers.append(BrokerProcess(directory / name, "\n".join(lines)))
    return brokers


@dataclass(frozen=True)
class Answer:
    """What a request got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str, method: str = "GET", body: bytes | str | dict[str, Any] | list[Any] | None = None, **headers: str
) -> Answer:
    """Send one request; `Content_Type` stands for Content-Type."""
    data = json.dumps(body) if isinstance(body, dict | list) else body
    raw = data.encode() if isinstance(data, str) else data
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=raw, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=HANGS) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


os.environ.setdefault("NUMBA_NUM_THREADS", "1")
