"""Servers of others that a benchmark starts on this machine: a port that is free, and waiting until it answers."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Final

from tamis.errors import InvariantError

__all__ = ["free_port", "started"]

#: Seconds until a server must answer.
_PATIENCE: Final = 20.0


def free_port() -> int:
    """Return a port of loopback that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(process: subprocess.Popen[bytes], port: int) -> subprocess.Popen[bytes]:
    """Return a process when it answers at a port; one that does not is killed."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    process.kill()
    process.wait()
    raise InvariantError(f"{process.args[0]!r} did not answer within {_PATIENCE:g} s")  # type: ignore[index]
