"""Drivers, masters and workers as processes of their own: started, watched, killed with -9, and gone at the end.

All descendants carry a mark in their environment, for Spark's Python daemons leave the process group they are
born in: what carries the mark when a test is over is killed, whatever happened.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyspark.find_spark_home import _find_spark_home

import tamis
from tamis.spark.running import daemon

__all__ = [
    "SHORT_LIVED",
    "Caller",
    "Driver",
    "DriverError",
    "Family",
    "Standalone",
    "children_of",
    "kill",
    "parent_of",
    "wait_for",
]

T = TypeVar("T")

_DRIVER = Path(__file__).with_name("driver.py")
_LOOPBACK = "127.0.0.1"
_PATIENCE = 240.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
#: Options of a JVM that lives for a minute or two: most of what a JVM does for its later years is not worth its while,
#: nor is it to verify Spark's classes, a seventh of the processor time of a start.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


def wait_for(what: str, look: Callable[[], T | None], patience: float = _PATIENCE) -> T:
    """Return what ``look`` finds, as soon as it finds something."""
    deadline = time.monotonic() + patience
    while not (value := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:.0f} s for {what}")
        time.sleep(0.01)
    return value


class Family:
    """Processes that share a mark and a place for their files; a context that ends with all of them killed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._mark = f"TAMIS_TEST_FAMILY={uuid.uuid4().hex}"
        self._home = place / "spark-home"
        self._home.mkdir(parents=True)
        for entry in Path(_find_spark_home()).iterdir():  # Spark writes into its home: give it one of ours
            if entry.name != "conf":
                (self._home / entry.name).symlink_to(entry)
        (self._home / "conf").mkdir()
        # `session` chooses this daemon for a local master only; here executors have tamis when they start.
        (self._home / "conf" / "spark-defaults.conf").write_text(f"spark.python.daemon.module {daemon.__name__}\n")

    def environment(self, **more: str) -> dict[str, str]:
        """Return what every process gets."""
        name, value = self._mark.split("=")
        source = str(Path(tamis.__file__).parents[1])
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "PYSPARK"))}
        ours = {"PYTHONPATH": source, "SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": _LOOPBACK, name: value}
        scratch = {"SPARK_LOCAL_DIRS": str(self.place / "scratch"), "PYSPARK_PYTHON": sys.executable}
        scratch["JAVA_TOOL_OPTIONS"] = SHORT_LIVED
        return {**kept, **ours, **scratch, **more}

    def start(self, command: list[str], log: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a process that dies with this one; what it says goes to a log."""
        environment = more.pop("env", None) or self.environment()
        with (self.place / log).open("ab") as errors:
            return subprocess.Popen(
                command, cwd=self.place, env=environment, stderr=errors, preexec_fn=_die_with_parent, **more
            )

    def members(self, containing: str = "") -> list[int]:
        """Return the living processes of the family whose command line contains a text."""
        members = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or self._mark.encode() not in (entry / "environ").read_bytes():
                    continue
                if containing in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                    members.append(int(entry.name))
            except (OSError, UnicodeDecodeError):  # gone meanwhile
                continue
        return members

    def __enter__(self) -> Family:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def kill_all(self) -> None:
        """Kill every process of the family."""

        def none_left() -> bool:
            members = self.members()
            for pid in members:
                kill(pid)
            return not members

        wait_for("the end of all processes", none_left, patience=30)


class DriverError(Exception):
    """A command failed in the driver; ``name`` is the class of its error, the message what a user reads."""

    def __init__(self, name: str, message: str, trace: str) -> None:
        super().__init__(name, message, trace)
        self.name = name
        self.message = message
        self.trace = trace

    def __str__(self) -> str:
        return self.trace


class Caller(Protocol):
    """What does the commands of ``driver.py``."""

    def call(self, do: str, **arguments: Any) -> Any:
        """Return the answer to a command."""


class _ConnectPort:
    """The right to start a Spark Connect server: its client knows only port 15002, so test runs take turns.

    The lock is a name of the whole machine: test runs may have different directories for temporary files.
    """

    def __enter__(self) -> None:
        self._lock = wait_for("port 15002, which another process uses", self._locked, patience=900)

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def _locked(self) -> socket.socket | None:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind("\0tamis-tests-connect-15002")  # gone when this process is
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((_LOOPBACK, 15002))
        except OSError:
            lock.close()
            return None
        return lock


class Driver:
    """A driver process and its session; a context that ends with all of its family killed."""

    def __init__(self, family: Family, env: dict[str, str] | None = None, **settings: Any) -> None:
        self.family = family
        self._connect = _ConnectPort() if "remote" in settings else contextlib.nullcontext()
        self._connect.__enter__()
        self._process = family.start(
            [sys.executable, str(_DRIVER)], "driver.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        try:
            self.about = self.call("session", **settings)
        except BaseException:
            self.__exit__()
            raise

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a command and do not wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, patience: float = _PATIENCE) -> Any:
        """Return the answer to the oldest command that has none yet, or raise its `DriverError`."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], patience)[0]:
            raise TimeoutError(f"no answer in {patience:.0f} s; log: {self.family.place / 'driver.log'}")
        line = stdout.readline()
        if not line:
            raise EOFError(f"the driver is gone; log: {(self.family.place / 'driver.log').read_text()[-3000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise DriverError(reply["error"], reply["message"], reply["trace"])
        return reply["answer"]

    def is_busy(self) -> bool:
        """Whether a command that was sent has not been answered."""
        return not select.select([self._process.stdout], [], [], 0)[0]

    def call(self, do: str, **arguments: Any) -> Any:
        """Send a command and return its answer."""
        self.ask(do, **arguments)
        return self.answer()

    def kill(self) -> None:
        """Kill the driver with -9, its Python and its JVM, and whatever else is of its family."""
        self._process.kill()
        self._process.wait()
        self.family.kill_all()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._connect.__exit__(None, None, None)


class Standalone:
    """A standalone master with workers, all on loopback, at ports the system chooses."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self.family = Family(place)
        self._processes: list[subprocess.Popen[bytes]] = []
        master = self._start("master", "org.apache.spark.deploy.master.Master")
        self.url = wait_for("the master", lambda: self._logged("master", r"Starting Spark master at (spark://\S+)"))
        assert master.poll() is None
        self.workers = [self.start_worker(number) for number in range(workers)]
        for number in range(workers):
            name = f"worker-{number}"
            wait_for(name, lambda name=name: self._logged(name, r"(Successfully registered with master)"))

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        """Start a worker with one core."""
        more = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.family.place / "work"), self.url]
        return self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *more)

    def _start(self, name: str, kind: str, *more: str) -> subprocess.Popen[bytes]:
        home = self.family.environment()["SPARK_HOME"]
        command = [f"{home}/bin/spark-class", kind, "--host", _LOOPBACK, "--port", "0", "--webui-port", "0", *more]
        environment = self.family.environment(SPARK_DAEMON_MEMORY="256m")
        process = self.family.start(command, f"{name}.log", stdout=subprocess.DEVNULL, env=environment)
        self._processes.append(process)
        return process

    def _logged(self, name: str, pattern: str) -> str | None:
        match = re.search(pattern, (self.family.place / f"{name}.log").read_text(errors="replace"))
        return match[1] if match else None

    def __enter__(self) -> Standalone:
        return self

    def __exit__(self, *_: object) -> None:
        self.family.kill_all()
        for process in self._processes:
            process.wait()


def kill(pid: int) -> None:
    """Kill a process with -9 if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
