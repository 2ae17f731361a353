"""One Spark session for all tests of a process, and all of them in one process (see the Makefile)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if "cluster" not in item.path.name:
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from tamis.spark import session

    found = session("local[2]", name="tests")
    yield found
    found.stop()
