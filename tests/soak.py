"""A plugin of pytest for `make soak`: hours of tests in parts that go on where the last part ended.

What passed is noted in ``build/soak``, for this state of the code, and not run again; a change of any file under
``src`` or ``tests`` begins again. After SOAK_MINUTES (40) no further test is begun, and pytest says that it was
interrupted. Tests of which `make test` runs a share (``tests/sampling.py``) are all run here.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.sampling import mark_all

_SUFFIXES = {".py", ".json", ".lark", ".parquet"}


class Parts:
    """What has passed so far, and how long this part may take."""

    def __init__(self, root: Path, minutes: float) -> None:
        self._log = root / "build" / "soak" / state_of_the_tree(root)
        self._passed = set(self._log.read_text(encoding="utf-8").splitlines()) if self._log.exists() else set()
        self._end = time.monotonic() + 60 * minutes
        self._left = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if item.nodeid in self._passed]
        items[:] = [item for item in items if item.nodeid not in self._passed]
        self._left = len(items)
        if done:
            config.hook.pytest_deselected(items=done)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.monotonic() > self._end:
            raise pytest.exit.Exception(f"the time of this part is over: {self._left} tests are left, run it again")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self._left -= 1
        if report.passed:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._passed:
            session.exitstatus = pytest.ExitCode.OK  # all of them have passed before


def state_of_the_tree(root: Path) -> str:
    """Return a name for the content of ``src`` and ``tests``: what passed before a change proves nothing after it."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for part in ("src", "tests") for path in (root / part).rglob("*")):
        if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode())
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


@pytest.hookimpl(tryfirst=True)  # before the option -m is obeyed
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run here what `make test` runs a share of."""
    mark_all(items)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Parts(config.rootpath, float(os.environ.get("SOAK_MINUTES", "40"))))
