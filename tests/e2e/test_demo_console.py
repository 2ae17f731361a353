"""`tamis demo console` as a process: it ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys


def test_it_ends_at_sigterm() -> None:
    command = [sys.executable, "-u", "-m", "tamis", "demo", "console", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        assert any("Stop with Ctrl-C" in line for line in console.stdout)
        console.send_signal(signal.SIGTERM)
        try:
            assert console.wait(300) == 0  # seconds after which it hangs: no verdict on a busy machine
        finally:
            console.kill()
