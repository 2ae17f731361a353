"""A network that is cut in two: both sides accept up to their quota, then refuse, then resume (promise G16)."""

from __future__ import annotations

import pytest

import tamis
from tamis.node.stream import Quota
from tamis.routing.policies import POLICIES

#: Events that may be under way, from the publishers of other brokers, when they are asked to pause.
UNDER_WAY = 3
MESSAGES = 10


def cut_line(policy: str, quota: Quota) -> tamis.Network:
    """Return brokers a, b, c, d with a client each that asks for everything; b and c are cut off."""
    schema = tamis.Schema({"n": tamis.Number(0, 1000)})
    network = tamis.Network([("a", "b"), ("b", "c"), ("c", "d")], policy, schema=schema, quota=quota)
    for broker in "abcd":
        network.attach(broker.upper(), broker)
    network.run()
    for client in "ABCD":
        network.subscribe(client, "n >= 0", id="all")
    network.run()
    network.cut("b", "c")
    return network


def publish_for(network: tamis.Network, seconds: int, start: int) -> dict[str, int]:
    """Let every client publish ten times a second; return how many events each of them published."""
    for tick in range(10 * seconds):
        for client in "ABCD":
            network.publish(client, {"n": start + tick})
        network.run(0.1)
    return dict.fromkeys("ABCD", 10 * seconds)


def backlog(network: tamis.Network, broker: str, neighbour: str) -> int:
    return len(network._simulator.brokers[broker].ends[neighbour].outbox)


@pytest.mark.parametrize("policy", POLICIES)
def test_both_sides_accept_up_to_the_quota_then_refuse_then_resume(policy: str) -> None:
    network = cut_line(policy, Quota(MESSAGES))
    publish_for(network, 5, 0)
    for here, far in (("b", "c"), ("c", "b")):
        assert MESSAGES <= backlog(network, here, far) <= MESSAGES + UNDER_WAY
    refused = {client: len(network.refusals(client)) for client in "ABCD"}
    assert min(refused.values()) > 30
    assert "messages" in network.refusals("B")[0]
    assert "behind 'b' is full; publish it again later" in network.refusals("A")[0]
    network.mend("b", "c")
    network.run()
    publish_for(network, 2, 500)
    network.run()
    assert {client: len(network.refusals(client)) for client in "ABCD"} == refused
    statistics = network.statistics()
    assert (statistics.lost, statistics.duplicates, statistics.refused) == (0, 0, sum(refused.values()))
    accepted = 4 * 70 - statistics.refused
    assert [len(network.deliveries(client)) for client in "ABCD"] == [accepted] * 4
    network.check_invariants()


def test_a_quota_in_bytes_holds_as_well() -> None:
    network = cut_line("covering", Quota(bytes=500))
    publish_for(network, 5, 0)
    held = network._simulator.brokers["b"].ends["c"].outbox.bytes
    assert 500 <= held <= 500 + UNDER_WAY * 100
    network.mend("b", "c")
    network.run()
    statistics = network.statistics()
    assert statistics.refused > 30
    assert statistics.lost == 0


def test_a_broker_that_restarts_in_the_middle_still_refuses() -> None:
    network = cut_line("covering", Quota(MESSAGES))
    publish_for(network, 3, 0)
    network.crash("b")
    network.run(2)
    network.restart("b")
    network.run(2)
    before = len(network.refusals("A")), len(network.refusals("B"))
    publish_for(network, 1, 100)
    assert (len(network.refusals("A")), len(network.refusals("B"))) == (before[0] + 10, before[1] + 10)
    assert backlog(network, "b", "c") <= MESSAGES + UNDER_WAY
    network.mend("b", "c")
    network.run()
    assert network.statistics().lost == 0


def test_subscriptions_that_come_and_go_do_not_fill_an_outbox() -> None:
    network = cut_line("identity", Quota(MESSAGES))
    for round_number in range(100):
        network.subscribe("B", f"n = {round_number}", id=round_number)
        network.run(0.05)
        if round_number % 3:
            network.unsubscribe("B", round_number)
            network.run(0.05)
    assert backlog(network, "b", "c") <= MESSAGES + UNDER_WAY
    network.mend("b", "c")
    network.run()
    network.check_invariants()
    network.publish("D", {"n": 33})
    network.run()
    assert network.deliveries("B")[-1].subscriptions == ("all", 33)
    assert network.statistics().lost == 0
