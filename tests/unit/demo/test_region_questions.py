"""Drawn regions: every policy delivers the same of them, and some regions cover others."""

from __future__ import annotations

import pytest

from tamis.demo.region_questions import region_trial
from tamis.routing.policies import POLICIES
from tamis.runtime.simulation.topology import Topology


def test_policies_deliver_the_same() -> None:
    trial = region_trial(Topology.of("line", 3), subscriptions=30, events=20, clients=4)
    rows = {name: trial.run(name) for name in ("flood", "identity", "covering", "mics")}
    assert {(row.lost, row.duplicates) for row in rows.values()} == {(0, 0)}
    assert len({row.delivered for row in rows.values()}) == 1
    assert rows["flood"].delivered > 10
    assert rows["covering"].table_entries < rows["identity"].table_entries


@pytest.mark.soak
@pytest.mark.parametrize("policy", [*POLICIES, "covering:finder=zcurve", "covering:finder=cells", "zcurve:epsilon=0.3"])
def test_soak_thirty_one_brokers_lose_nothing(policy: str) -> None:
    trial = region_trial(Topology.of("balanced", 31), subscriptions=200, events=150, clients=62)
    row = trial.run(policy)
    assert (row.delivered, row.lost, row.duplicates) == (trial.run("flood").delivered, 0, 0)
