"""Which files are searched for doctests: those that have one. To import and search the others takes five seconds."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Leave out the search for doctests in a file that has none."""
    collectors = yield
    return [
        collector
        for collector in collectors
        if not isinstance(collector, DoctestModule) or b">>>" in file_path.read_bytes()
    ]
