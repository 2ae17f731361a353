"""Brokers as processes: started, killed, started again; each in a directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Seconds after which something hangs; no verdict on a busy machine.
HANGS = 300.0

SERVE = "from tamis.cli.main import main; main()"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class BrokerProcess:
    """One `tamis serve`."""

    directory: Path
    config: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> BrokerProcess:
        self.directory.mkdir(exist_ok=True, parents=True)
        command = [sys.executable, "-c", SERVE, "serve", "--port", str(self.port), "--json"]
        if self.config:
            path = self.directory / "broker.toml"
            path.write_text(self.config)
            command += ["--config", str(path)]
        else:
            command += ["--data", str(self.directory / "data")]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
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
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self.process.returncode)

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")


@contextlib.contextmanager
def running(*brokers: BrokerProcess) -> Iterator[tuple[BrokerProcess, ...]]:
    """Start brokers, wait for them, and stop them in the end."""
    try:
        for one in brokers:
            one.start()
        for one in brokers:
            one.wait_until_ready()
        yield brokers
    finally:
        for one in brokers:
            one.stop()


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
        with urllib.request.urlopen(request, timeout=HANGS) as found:
            return Answer(found.status, dict(found.headers), found.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


os.environ.setdefault("NUMBA_NUM_THREADS", "1")
