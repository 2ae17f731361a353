"""One broker process for all tests of a module that only talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.processes import BrokerProcess, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(BrokerProcess(tmp_path_factory.mktemp("broker"))) as (process,):
        yield process
