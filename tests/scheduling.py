"""Which tests run in one process, and in which order: what xdist does in `make test`.

xdist's own ``loadgroup`` writes the group into the ids of tests, which pytest 9.2 no longer lets it do: it then groups
nothing, and does not say so. A scope for each test would cost the square of their number: xdist counts the tests of
all scopes of a process whenever one of them ends.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

__all__ = ["make_scheduler", "scope_of", "turn_of"]

#: Where tests share no fixture and may take seconds each.
_LONG = tuple(f"tests/{name}/" for name in ("contract", "lab", "overlay", "planted", "property", "simulation"))
#: Where tests start processes or run whole commands.
_PROCESSES = ("tests/server/", "tests/attacks/", "tests/browser/", "tests/e2e/", "tests/test_packaging.py")


def make_scheduler(config: pytest.Config, log: Any) -> object:
    """Return a scheduler of xdist that shares tests out by `scope_of`, in the order of `turn_of`."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if not self.is_sorted:
                self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda item: turn_of(item[0])))
                self.is_sorted = True
            super()._assign_work_unit(node)

        is_sorted = False

    return Scheduler(config, log)


def scope_of(nodeid: str) -> str:
    """Return what runs in one process, one after the other.

    That is a file, so that its fixtures are made once, but for tests that share a Spark session, which are one scope
    whatever their file, and those that are long and share nothing, which are scopes of their own.
    """
    file = nodeid.split("::")[0]
    if file.startswith("tests/spark/"):
        return file if file.startswith("tests/spark/test_cluster") else "tests/spark"
    return nodeid if file.startswith(_LONG) else file


def turn_of(scope: str) -> int:
    """Return the turn of a scope: the longest first, and last the short ones, which fill what is left evenly."""
    if scope.startswith("tests/spark"):
        return 0
    return 1 if scope.startswith(_PROCESSES) else 2 if scope.startswith(_LONG) else 3
