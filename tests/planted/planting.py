"""Run ordinary tests against a copy of the tree, with a bug in it and without.

The copy consists of hard links (or copies, on another file system), so it costs little; a changed file replaces its
link and never reaches the original. Compiled kernels, worker processes and broker processes all see the bug, because
all of them import the copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.planted.bug import ROOT, Bug, planted_source

#: What tests read besides the sources: everything but what is built.
COPIED = ("src", "tests", "docs", "scripts")
FILES = ("pyproject.toml", "README.md", "Makefile", "CHANGELOG.md")
#: A plant with one of these has not changed a decision but broken the program.
NOT_A_DECISION = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError", "TypingError")
#: Seconds after which a run is ended: a hanging test has found nothing.
LIMIT = 400.0


@dataclass(frozen=True)
class Outcome:
    """How a run of pytest ended: its exit code, the tests that failed with their errors, and its last lines."""

    code: int
    failed: tuple[str, ...]
    errors: tuple[str, ...]
    seconds: float
    tail: str

    @property
    def is_silent(self) -> bool:
        """Whether everything passed."""
        return self.code == 0

    @property
    def is_found(self) -> bool:
        """Whether a test failed, and neither because nothing could be collected nor because the plant is broken."""
        broken = any(name in line for line in self.failed for name in NOT_A_DECISION)
        return self.code == 1 and bool(self.failed) and not self.errors and not broken


class Tree:
    """A copy of the tree in which bugs are planted, one after the other."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self.place.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.place / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"{self.place} is used by another run: wait for its end") from None
        self._copy()

    @contextlib.contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """Plant a bug, and take it out again."""
        path, text = planted_source(bug)
        target = self.place / path
        try:
            _forget(target)
            target.write_text(text, encoding="utf-8")
            yield
        finally:
            _forget(target)
            _link(ROOT / path, target)

    def run(self, tests: Sequence[str]) -> Outcome:
        """Run tests against the copy as it is."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-rfE", "-m", "soak or not soak"]
        command += [f"-p{plugin}" for plugin in ("no:cacheprovider", "pytest_timeout", "_hypothesis_pytestplugin")]
        command += [f"--rootdir={self.place}", *tests]
        code, output, seconds = _finished(command, self.place)
        failed, errors = (tuple(re.findall(rf"^{word} .*$", output, re.MULTILINE)) for word in ("FAILED", "ERROR"))
        return Outcome(code, failed, errors, seconds, "\n".join(output.splitlines()[-25:]))

    def _copy(self) -> None:
        """Link what has changed since the last copy; drop what is gone."""
        for name in COPIED:
            originals = {path.relative_to(ROOT) for path in _files(ROOT / name)}
            for path in sorted(originals):
                _link(ROOT / path, self.place / path)
            for path in list(_files(self.place / name)):
                if path.relative_to(self.place) not in originals:
                    path.unlink()
        for name in FILES:
            _link(ROOT / name, self.place / name)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without compiled ones: those are of the copy itself."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _link(source: Path, target: Path) -> None:
    """Let ``target`` be ``source``; a file that stands there already may be of another state."""
    if target.exists() and target.stat().st_ino == source.stat().st_ino:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _forget(source: Path) -> None:
    """Remove a source file and what was compiled of it: its time stamp may be the next one's."""
    source.unlink(missing_ok=True)
    for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
        compiled.unlink()


def _finished(command: list[str], place: Path) -> tuple[int, str, float]:
    """Run a command in a copy; return its exit code, what it printed, and the CPU seconds it and its children took.

    It prints into a file: a process that outlives it would keep a pipe open.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=_environment(place),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        end = threading.Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            end.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return process.returncode, text, usage.ru_utime + usage.ru_stime


def _environment(place: Path) -> dict[str, str]:
    """Return what the tests see: the copy before all else, only the plugins that are named, whole lines of errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NUMBA_"))}
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(place / "src"), str(place)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "HYPOTHESIS_PROFILE": "planted",
        "COLUMNS": "400",
    }
