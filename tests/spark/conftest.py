"""One Spark session for all tests of a process, and all of them in one process (see ``tests/conftest.py``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if "cluster" in item.path.name and not sys.platform.startswith("linux"):
                item.add_marker(pytest.mark.skip(reason="finds the processes of a cluster in /proc"))


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from tamis.spark import session

    found = session("local[2]", name="tests", spark_sql_shuffle_partitions=2)
    yield found
    found.stop()


@pytest.fixture
def tables(tmp_path: Path) -> object:
    """The tables that the cluster tests index and match."""
    from tests.spark.trades import Tables

    return Tables(tmp_path)
