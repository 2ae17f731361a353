"""Processes that a benchmark starts and watches: a broker as users run it, its processor time and its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tamis.errors import InvariantError

__all__ = ["BrokerProcess", "cpu_seconds", "resident_megabytes", "start_broker"]

#: Seconds between two looks at a process that starts.
_LOOK: Final = 0.5

_START: Final = "from tamis.cli.main import main; main()"


@dataclass(frozen=True)
class BrokerProcess:
    """A running ``tamis serve`` and its URL."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    def kill(self) -> None:
        """End the process at once and wait for its end."""
        self.process.kill()
        self.process.communicate()  # waits, and closes the pipe


def start_broker(*options: str, port: int = 0) -> BrokerProcess:
    """Start ``tamis serve`` with more options, on a free port unless one is named; returns when it listens and rests.

    A broker loads compiled kernels for some seconds after it has begun to listen. No figure should contain that.
    """
    command = [sys.executable, "-c", _START, "serve", "--port", str(port), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    greeting = b""
    assert process.stdout is not None
    while not greeting.rstrip().endswith(b"}"):
        line = process.stdout.readline()
        if not line:
            process.communicate()
            raise InvariantError("the broker did not start; its error message is above")
        greeting += line
    _wait_for_rest(process.pid)
    return BrokerProcess(process, json.loads(greeting)["url"])


def _wait_for_rest(pid: int) -> None:
    """Wait until a process computes next to nothing, or half a minute."""
    end = time.monotonic() + 30.0
    used = cpu_seconds(pid)
    while used is not None and time.monotonic() < end:
        time.sleep(_LOOK)
        before, used = used, cpu_seconds(pid)
        if used is None or used - before < _LOOK / 10:
            return


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process so far, None where the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float | None:
    """Return the memory of a process that is in use, None where the system does not report it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
