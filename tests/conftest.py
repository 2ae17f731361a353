"""One seed, how hard Hypothesis tries (little in `make check`, long in `make soak`), and which process runs a test."""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

SEED = 20260101
#: Where tests share no fixture and may take seconds each.
_LONG = tuple(f"tests/{name}/" for name in ("contract", "lab", "overlay", "planted", "property", "simulation"))
#: Where tests start processes or run whole commands.
_PROCESSES = ("tests/server/", "tests/browser/", "tests/e2e/", "tests/test_packaging.py")

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", parent=settings.get_profile("default"), max_examples=15)
settings.register_profile("soak", parent=settings.get_profile("default"), max_examples=20_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session", autouse=True)
def command_line() -> Iterator[None]:
    """Build the command line once in a process, as the program does: typer's runner builds it anew for each call."""
    from typer import testing

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(testing, "_get_command", functools.cache(testing._get_command))
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Share tests out by `scope_of`, in the order of `turn_of`.

    xdist's own ``loadgroup`` writes the group into the ids of tests, which pytest 9.2 no longer lets it do: it
    then groups nothing, and does not say so. A scope for each test would cost the square of their number: xdist counts
    the tests of all scopes of a process whenever one of them ends.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if not self.is_sorted:
                self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda one: turn_of(one[0])))
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
