"""One seed, and how hard Hypothesis tries: little in `make check`, long in `make soak`."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

SEED = 20260101

# What is made until all tests are collected lives as long as the process: to look for garbage among it, dozens of times
# while it grows and again and again during the tests, takes six seconds of a process's collection alone.
gc.disable()

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", parent=settings.get_profile("default"), max_examples=15)
settings.register_profile(
    "soak", parent=settings.get_profile("default"), max_examples=20_000, derandomize=False, print_blob=True
)
# Whether a planted bug is found is all that counts there, not the smallest example of it.
settings.register_profile("planted", parent=settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

#: Seconds for a test that is marked so; pyproject.toml has the limit of all others. The longest one counts.
TIME_LIMITS = {"slow": 1_200, "spark": 1_200, "browser": 1_200, "soak": 8 * 3600, "hypothesis": 8 * 3600}


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give marked tests more time; that of Hypothesis only where it tries long."""
    is_soak = settings.get_current_profile_name() == "soak"
    for item in items:
        limits = [TIME_LIMITS[mark.name] for mark in item.iter_markers() if mark.name in TIME_LIMITS]
        if item.get_closest_marker("hypothesis") and not is_soak:
            limits.remove(TIME_LIMITS["hypothesis"])
        if limits and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(limits)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def watch() -> Iterator[None]:
    """Fail when what tests share is not as it was before."""
    from tests.global_state import changes, global_state

    before = global_state()
    yield
    left = changes(before, global_state())
    if left:
        pytest.fail("left behind by this test: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def unchanged_global_state() -> Iterator[None]:
    """Every test leaves the process as it was; what fixtures of a module or of the session change is theirs."""
    yield from watch()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session", autouse=True)
def command_line() -> Iterator[None]:
    """Build the command line once in a process, as the program does: typer's runner builds it again for each call."""
    from typer import testing

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(testing, "_get_command", functools.cache(testing._get_command))
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    from tests.scheduling import make_scheduler

    return make_scheduler(config, log)
