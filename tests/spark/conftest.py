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
#: It registers a function when it is imported; the search for doctests would import it in every process.
collect_ignore = ["own_functions.py", "own_types.py"]
#: Settings for hundreds of queries about a few rows each: to plan them again while they run, and to compile Java for
#: each of them, costs more than to run them. The drivers of the cluster tests keep Spark's own choices in both.
SMALL_QUERIES = {
    "spark_sql_shuffle_partitions": 2,
    "spark_sql_adaptive_enabled": "false",
    "spark_sql_codegen_wholeStage": "false",
    "spark_sql_codegen_factoryMode": "NO_CODEGEN",
}


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
    from tests.spark.processes import SHORT_LIVED

    running = session("local[2]", name="tests", spark_driver_extraJavaOptions=SHORT_LIVED, **SMALL_QUERIES)
    yield running
    running.stop()


@pytest.fixture
def generated_code(spark: Any) -> Iterator[None]:
    """Spark compiles expressions during a test: its reader of shredded VARIANT columns has no interpreted form."""
    name = "spark.sql.codegen.factoryMode"
    spark.conf.set(name, "FALLBACK")
    yield
    spark.conf.set(name, SMALL_QUERIES[name.replace(".", "_")])


@pytest.fixture
def tables(tmp_path: Path) -> object:
    """The tables that the cluster tests index and match."""
    from tests.spark.trades import Tables

    return Tables(tmp_path)
