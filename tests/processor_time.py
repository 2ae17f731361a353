"""A plugin of pytest that counts processor time: what each folder and the most expensive tests cost.

``PYTEST_ADDOPTS="-p tests.processor_time" make test`` prints both at the end. Wall time says little about a test on a
machine that does other things. Counted are this process, the children it has waited for, and, on Linux, those that
live. A process that dies without its parent waiting for it is lost: Spark's Python workers are such.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["Costs", "seconds_so_far"]

#: How many tests are listed.
LISTED = 60
_NAME = "processor seconds"


def seconds_so_far() -> float:
    """Return the processor seconds of this process and of its descendants, living ones and those waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    if not sys.platform.startswith("linux"):
        return own
    ticks, parents = 0, [os.getpid()]
    while parents:
        for child in _children(parents.pop()):
            ticks += _ticks(child)
            parents.append(child)
    return own + ticks / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # gone meanwhile
        return []


def _ticks(pid: int) -> int:
    """Return the time of a process and of the children it has waited for: fields 14 to 17 of proc(5)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


class Costs:
    """Notes what each test costs, where it runs; adds it up, where reports arrive."""

    def __init__(self) -> None:
        self.by_test: Counter[str] = Counter()
        self._last = seconds_so_far()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Note the time since the end of the test before: its fixtures are counted, too."""
        try:
            return (yield)
        finally:
            now = seconds_so_far()
            item.user_properties.append((_NAME, max(now - self._last, 0.0)))
            self._last = now

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.by_test[report.nodeid] += float(str(dict(report.user_properties).get(_NAME, 0.0)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor seconds")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Return the sum, each folder's part, and the most expensive tests."""
        folders: Counter[str] = Counter()
        for test, seconds in self.by_test.items():
            folders["/".join(test.partition("::")[0].split("/")[:2])] += seconds  # type: ignore[assignment]
        rows = [*folders.most_common(), *self.by_test.most_common(LISTED)]
        return [f"{seconds:8.1f}  {name}" for name, seconds in [("in all", sum(folders.values())), *rows]]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())
