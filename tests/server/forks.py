"""Programs of tamis that are forked from a process which has imported them: a start then costs no imports.

Brokers are started a hundred times in a run of the tests, and most of a start are imports. The process that forks has
one thread, as Arrow and OpenBLAS are told to start none; a fork is then safe. A child sets its environment, its
folder, its arguments and its log, and goes on as the program would, to the end of the interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

__all__ = ["ForkedProgram", "can_fork", "start_program"]

#: What a broker has imported when it listens.
_IMPORTS = ("tamis.cli.main", "tamis.cli.broker.serve", "tamis.web.serving", "uvicorn", "websockets", "apsw")
_ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


class ForkedProgram:
    """A running program: the part of `subprocess.Popen` that tests use."""

    def __init__(self, parent: _Parent, pid: int) -> None:
        self._parent, self.pid = parent, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._parent.ask(pid=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(["tamis"], timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Parent:
    """The process that forks, and the line to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.server.forks", str(theirs.fileno())]
        root = str(Path(__file__).parents[2])
        environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join([f"{root}/src", root])}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, cwd=root)
        theirs.close()
        self._line, self._lock = ours.makefile("rw", encoding="utf-8"), threading.Lock()

    def ask(self, **request: object) -> int | None:
        with self._lock:
            print(json.dumps(request), file=self._line, flush=True)
            answer = json.loads(self._line.readline())
        return None if answer is None else int(answer)


def can_fork() -> bool:
    """Whether programs are forked here: on Linux, and where their coverage is not measured from their start."""
    return sys.platform == "linux" and not any(name.startswith("COVERAGE_") for name in os.environ)


def start_program(arguments: list[str], log: Path) -> ForkedProgram:
    """Start ``tamis`` with arguments; what it prints is added to a log."""
    state = {"environment": dict(os.environ), "folder": os.getcwd()}
    pid = _parent().ask(arguments=arguments, log=str(log), **state)
    assert pid is not None
    return ForkedProgram(_parent(), pid)


@cache
def _parent() -> _Parent:
    return _Parent()


def _serve_forks(fd: int) -> None:
    """Fork as often as asked; return in a child, which then is the program."""
    for name in _IMPORTS:
        importlib.import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a fork would not be safe: {len(threads)} threads after the imports"
    connection = socket.socket(fileno=fd)
    line = connection.makefile("rw", encoding="utf-8")
    for text in line:
        request = json.loads(text)
        if "pid" in request:
            done, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if done else None
        else:
            answer = os.fork()
            if answer == 0:
                line.close()
                connection.close()
                _become(request)
                return
        print(json.dumps(answer), file=line, flush=True)
    os._exit(0)  # the tests are over


def _become(request: dict[str, object]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["folder"]))
    log = os.open(str(request["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    sys.argv = ["tamis", *request["arguments"]]  # type: ignore[misc]


if __name__ == "__main__":
    _serve_forks(int(sys.argv[1]))
    importlib.import_module("tamis.cli.main").main()
