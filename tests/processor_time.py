"""A plugin of pytest that counts processor time: what each folder and the most expensive files and tests cost.

``PYTEST_ADDOPTS="-p tests.processor_time" make test`` prints both at the end, and writes the seconds of each test to
``build/processor_time.json``: ``python -m tests.sampling`` reads them. Wall time says little about a test on a machine
that does other things. Counted are this process, the children it has waited for, and, on Linux, those that
live and those whose parent died before them: this process becomes their parent. Without this, the processes of a
cluster that is killed would be lost, and the tests after it would seem to cost nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core import event as numba_event

__all__ = ["FILE", "Costs", "seconds_so_far"]

#: Where the seconds of each test are kept.
FILE = Path("build/processor_time.json")
#: How many files and how many tests are listed.
LISTED = 60
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_NAME, _COMPILING = "processor seconds", "seconds of compiling kernels"


def seconds_so_far() -> float:
    """Return the processor seconds of this process and of its descendants, living ones and those waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    if not sys.platform.startswith("linux"):
        return own
    ticks, parents, children = 0, [os.getpid()], _children()
    while parents:
        for child, own_ticks in children.get(parents.pop(), ()):
            ticks += own_ticks
            parents.append(child)
    return own + ticks / os.sysconf("SC_CLK_TCK")


def _children() -> dict[int, list[tuple[int, int]]]:
    """Return for each process its children, with the time of each and of those it has waited for, from proc(5).

    The parents are asked of the children: the kernel's own lists of children may lack some while processes come and go.
    """
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # gone meanwhile
                continue
            children.setdefault(int(fields[1]), []).append((int(entry.name), sum(map(int, fields[11:15]))))
    return children


class _Compiling(numba_event.Listener):  # type: ignore[misc]
    """Counts the processor time in which this process compiles kernels; other processes are not seen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0
        numba_event.register("numba:compile", self)

    def on_start(self, event: object) -> None:
        if not self._depth:
            self._start = time.process_time()
        self._depth += 1

    def on_end(self, event: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.process_time() - self._start


class Costs:
    """Notes what each test costs, where it runs; adds it up, where reports arrive."""

    def __init__(self) -> None:
        self.by_test: Counter[str] = Counter()
        #: How much of that was compiling kernels, in the process of the test itself.
        self.compiling: Counter[str] = Counter()
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
        self._last = seconds_so_far()
        self._compiler = _Compiling()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Note the time since the end of the test before: its fixtures are counted, too."""
        try:
            return (yield)
        finally:
            now = seconds_so_far()
            item.user_properties.append((_NAME, max(now - self._last, 0.0)))
            item.user_properties.append((_COMPILING, self._compiler.seconds))
            self._compiler.seconds = 0.0
            self._last = now

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            noted = dict(report.user_properties)
            self.by_test[report.nodeid] += float(str(noted.get(_NAME, 0.0)))
            self.compiling[report.nodeid] += float(str(noted.get(_COMPILING, 0.0)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor seconds")
        self.write(terminalreporter.config.rootpath / FILE)
        for line in self.lines():
            terminalreporter.write_line(line)

    def write(self, path: Path) -> None:
        """Write the seconds of each test; what an earlier run found of other tests stays."""
        earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        seconds = {test: round(seconds, 3) for test, seconds in self.by_test.items()}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**earlier, **seconds}, indent=0, sort_keys=True), encoding="utf-8")

    def lines(self) -> list[str]:
        """Return the sum, each folder's part, and the most expensive files and tests."""
        folders: Counter[str] = Counter()
        files: Counter[str] = Counter()
        for test, seconds in self.by_test.items():
            file = test.partition("::")[0]
            files[file] += seconds  # type: ignore[assignment]
            folders["/".join(file.split("/")[:2])] += seconds  # type: ignore[assignment]
        sums = [("in all", sum(folders.values())), ("compiling kernels", sum(self.compiling.values()))]
        rows = [*sums, *folders.most_common(), *files.most_common(LISTED), *self.by_test.most_common(LISTED)]
        lines = [f"{seconds:8.1f}  {name}" for name, seconds in rows]
        compiling = [(name, seconds) for name, seconds in self.compiling.most_common(LISTED) if seconds >= 0.5]
        return [*lines, *(f"{seconds:8.1f}  {name}, compiling" for name, seconds in compiling)]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())
