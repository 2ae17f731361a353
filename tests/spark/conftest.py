"""One Spark session for all tests of a process, and all of them in one process (see ``tests/conftest.py``)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if "cluster" in item.path.name and not sys.platform.startswith("linux"):
                item.add_marker(pytest.mark.skip(reason="finds the processes of a cluster in /proc"))


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The kernels of Spark's workers are in the cache: in a fresh clone each worker would compile them for itself.

    Two processes of pytest do half of it each: every one begins with another half, and finds the other one done.
    """
    from tests.spark.worlds import HALVES, compile_kernels

    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(HALVES)
    for half in (*HALVES[number:], *HALVES[:number]):
        place = tmp_path_factory.mktemp("kernels")
        with alone(tmp_path_factory.getbasetemp().parent / f"kernels-{half}.lock"):
            compile_kernels(half, place)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is where this one is."""
    with path.open("w") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from tamis.spark import session
    from tests.spark.processes import SHORT_LIVED, SMALL_QUERIES

    found = session("local[2]", name="tests", spark_driver_extraJavaOptions=SHORT_LIVED, **SMALL_QUERIES)
    yield found
    found.stop()


@pytest.fixture
def generated_code(spark: Any) -> Iterator[None]:
    """Spark compiles expressions during a test: its reader of shredded VARIANT columns has no interpreted form."""
    from tests.spark.processes import SMALL_QUERIES

    name = "spark.sql.codegen.factoryMode"
    spark.conf.set(name, "FALLBACK")
    yield
    spark.conf.set(name, SMALL_QUERIES[name.replace(".", "_")])


@pytest.fixture
def tables(tmp_path: Path) -> object:
    """The tables that the cluster tests index and match."""
    from tests.spark.trades import Tables

    return Tables(tmp_path)
