"""One broker process for all attacks of a module; an attack that stopped it does not hide what the next one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.processes import BrokerProcess, ask, running


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(BrokerProcess(tmp_path_factory.mktemp("broker"))) as (broker,):
        yield broker


@pytest.fixture
def broker(target: BrokerProcess) -> BrokerProcess:
    """A broker that runs, whatever the attack before did to it."""
    (target.directory / "log").write_bytes(b"")
    try:
        ask(f"{target.url}/healthz")
    except OSError:  # it stopped, or is about to
        target.stop()
        target.start().wait_until_ready()
    return target
