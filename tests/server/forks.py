"""Programs of tamis that are forked from a process which has imported them: a start then costs no imports.

Brokers are started a hundred times in a run of the tests, and most of a start are imports. The process that forks has
one thread, as Arrow and OpenBLAS are told to start none; a fork is then safe. A child sets its environment, its
folder, its arguments and its streams, and goes on as the program would, to the end of the interpreter. Streams have
paths: a pipe of a test has one in /proc.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from io import FileIO
from pathlib import Path

from tamis.engine.warm_up import loading_steps

__all__ = ["ForkedProgram", "can_fork", "pipe_program", "run_program", "start_program"]

_MAIN = "from tamis.cli.main import main; main()"

#: What a broker has imported when it listens, and what other commands that are forked import beside it.
_IMPORTS = (
    *("tamis.cli.main", "tamis.cli.broker.serve", "tamis.web.serving", "uvicorn", "websockets", "apsw"),
    *("typer._adapters", "uvicorn.lifespan.off", "websockets.asyncio.client", "tamis.runtime.peer"),
    "tamis.runtime.traces.exporting",
)
_ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


class ForkedProgram:
    """A running program: the part of `subprocess.Popen` that tests use."""

    def __init__(self, parent: _Parent, pid: int) -> None:
        self._parent, self.pid = parent, pid
        self.args = ["tamis"]
        self.returncode: int | None = None
        self.stdin: FileIO | None = None
        self.stdout: FileIO | None = None

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
        self._socket, self._line = ours, ours.makefile("rw", encoding="utf-8")
        self._lock = threading.Lock()
        atexit.register(self._close)

    def _close(self) -> None:
        """End the process that forks; a fork of this one may have the line, too, so that closing it is not enough."""
        self._process.terminate()
        self._process.wait()
        self._line.close()
        self._socket.close()

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
    return _start(arguments, None, str(log), str(log))


def run_program(
    arguments: list[str], input: str | None = None, seconds: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run ``tamis`` with arguments to its end; return what it printed."""
    command = [sys.executable, "-c", _MAIN, *arguments]
    if not can_fork():
        return subprocess.run(command, capture_output=True, text=True, input=input, timeout=seconds, check=False)
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write((input or "").encode())
        stdin.flush()
        program = _start(arguments, *(_path(file.fileno()) for file in (stdin, out, err)))
        try:
            code = program.wait(seconds)
        finally:
            program.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())


def pipe_program(arguments: list[str]) -> subprocess.Popen[bytes] | ForkedProgram:
    """Start ``tamis`` with arguments; its input and its output are pipes without buffers, its errors go to ours."""
    if not can_fork():
        command = [sys.executable, "-c", _MAIN, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe()
    try:
        program = _start(arguments, _path(their_in), _path(their_out), None)
    finally:
        os.close(their_in)
        os.close(their_out)
    program.stdin, program.stdout = FileIO(our_in, "wb"), FileIO(our_out, "rb")
    return program


def _start(arguments: list[str], *streams: str | None) -> ForkedProgram:
    """Start a program whose three streams have paths; one without a path is that of this process."""
    state = {"environment": dict(os.environ), "folder": os.getcwd()}
    pid = _parent().ask(arguments=arguments, streams=streams, **state)
    assert pid is not None
    return ForkedProgram(_parent(), pid)


def _path(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


@cache
def _parent() -> _Parent:
    return _Parent()


def _serve_forks(fd: int) -> None:
    """Fork as often as asked; return in a child, which then is the program."""
    for name in _IMPORTS:
        importlib.import_module(name)
    _build_commands_once()
    for load in loading_steps():  # each broker would make these calls
        load()
    gc.collect()
    gc.freeze()  # a broker collects garbage when it starts: not among what all have imported
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
            opened = _opened(request["streams"])
            answer = os.fork()
            if answer == 0:
                line.close()
                connection.close()
                _become(request, opened)
                return
            for descriptor in opened.values():
                os.close(descriptor)
        print(json.dumps(answer), file=line, flush=True)
    os._exit(0)  # the tests are over


def _build_commands_once() -> None:
    """Build the command line here: typer builds it for each call, though it is the same in every child."""
    from typer import main

    from tamis.cli.main import app

    main.get_command = cache(main.get_command)  # type: ignore[assignment]
    main.get_command(app)


def _opened(streams: list[str | None]) -> dict[int, int]:
    """Open the streams of a program, before its parent may close them; return their descriptors."""
    flags = (os.O_RDONLY, *[os.O_WRONLY | os.O_APPEND | os.O_CREAT] * 2)
    return {number: os.open(path, flags[number], 0o644) for number, path in enumerate(streams) if path is not None}


def _become(request: dict[str, object], opened: dict[int, int]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["folder"]))
    for number, descriptor in opened.items():
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Those of the parent know whether its own files can seek.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["tamis", *request["arguments"]]  # type: ignore[misc]


if __name__ == "__main__":
    _serve_forks(int(sys.argv[1]))
    importlib.import_module("tamis.cli.main").main()
