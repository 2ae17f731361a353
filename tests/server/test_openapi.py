"""The broker against its own document: whatever is sent, it answers, and with nothing above 499."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.web.openapi import document
from tests.server.processes import HANGS, BrokerProcess, ask

OPERATIONS = {one.ok().label: one.ok() for one in schemathesis.openapi.from_dict(document()).get_all_operations()}

#: Chance writes no filter that means something, and all that is behind a good one would never be reached.
FILTERS = [None, "a = 1", "TRUE", "name LIKE 'x%' OR a IS NULL"]


@pytest.mark.parametrize("count", [8, pytest.param(2_000, marks=pytest.mark.soak, id="soak-server")])
@pytest.mark.parametrize("label", OPERATIONS)
def test_whatever_is_sent_is_answered(broker: BrokerProcess, label: str, count: int) -> None:
    @given(case=OPERATIONS[label].as_strategy(), filter=st.sampled_from(FILTERS))
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def send(case: Any, filter: str | None) -> None:
        for one in case.body if isinstance(case.body, list) else [case.body]:
            if isinstance(one, dict) and "filter" in one and filter is not None:
                one["filter"] = filter
        answer = case.call(base_url=broker.url, timeout=HANGS)
        assert answer.status_code < 500, answer.text

    send()


def test_it_is_alive_after_all_that(broker: BrokerProcess) -> None:
    assert ask(f"{broker.url}/healthz").status == 200
    assert "Traceback" not in broker.log()
