"""The broker against its own document: whatever is sent, it answers, and with nothing above 499."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from tamis.web.openapi import document
from tests.server.processes import BrokerProcess, ask

OPERATIONS = {one.ok().label: one.ok() for one in schemathesis.openapi.from_dict(document()).get_all_operations()}


@pytest.mark.parametrize("count", [8, pytest.param(2_000, marks=pytest.mark.soak, id="soak-server")])
@pytest.mark.parametrize("label", OPERATIONS)
def test_whatever_is_sent_is_answered(broker: BrokerProcess, label: str, count: int) -> None:
    @given(case=OPERATIONS[label].as_strategy())
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def send(case: Any) -> None:
        answer = case.call(base_url=broker.url, timeout=20)
        assert answer.status_code < 500, answer.text

    send()


def test_it_is_alive_after_all_that(broker: BrokerProcess) -> None:
    assert ask(f"{broker.url}/healthz").status == 200
    assert "Traceback" not in broker.log()
