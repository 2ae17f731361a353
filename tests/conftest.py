"""One seed, and how hard Hypothesis tries: quick in `make test`, long in `make soak`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

SEED = 20260101

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", parent=settings.get_profile("default"), max_examples=20_000, derandomize=False)
# Whether a planted bug is found is all that counts there, not the smallest example of it.
settings.register_profile("planted", parent=settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Send tests that share a Spark session to one process, and all others to whoever is idle.

    xdist's own ``loadgroup`` writes the group into the ids of tests, which pytest 9.2 no longer lets it do: it
    then groups nothing, and does not say so.
    """
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            if not file.startswith("tests/spark/"):
                return nodeid
            return file if file.startswith("tests/spark/test_cluster") else "tests/spark"

    return BySession(config, log)
