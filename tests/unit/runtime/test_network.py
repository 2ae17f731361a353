"""`tamis.Network`: the whole thing as a user sees it."""

from __future__ import annotations

import random

import pytest

import tamis
from tamis.errors import LocalProtocolError, ModelError
from tamis.routing.messages import State
from tamis.routing.policies import POLICIES
from tamis.runtime.simulation.simulator import Faults
from tamis.runtime.simulation.topology import Topology


def line(policy: str = "covering", **named: object) -> tamis.Network:
    network = tamis.Network([("a", "b"), ("b", "c")], policy, **named)  # type: ignore[arg-type]
    for client, broker in (("alice", "a"), ("bob", "b"), ("carol", "c")):
        network.attach(client, broker)
    network.run()
    return network


@pytest.mark.parametrize("policy", POLICIES)
def test_all_policies_deliver_the_same(policy: str) -> None:
    network = line(policy)
    network.subscribe("alice", "x < 10", id="wide")
    network.subscribe("bob", "x < 5", id="narrow")
    network.run()
    assert network.state("alice", "wide") is State.ACTIVE
    network.publish("carol", [{"x": x} for x in (1, 7, 20)])
    network.run()
    assert [delivery.event["x"] for delivery in network.deliveries("alice")] == [1, 7]
    assert [delivery.subscriptions for delivery in network.deliveries("bob")] == [("narrow",)]
    assert network.deliveries("carol") == []
    network.check_invariants()
    row = network.statistics().as_row()
    assert (row["policy"], row["delivered"], row["lost"], row["duplicates"]) == (policy, 3, 0, 0)


def test_statistics_tell_which_subscription_suppressed_which() -> None:
    network = line()
    network.subscribe("alice", "x < 10", id="wide")
    network.subscribe("alice", "x < 5", id="narrow")
    network.run()
    links = {(link.source, link.target): link for link in network.link_statistics()}
    wide, narrow = '["alice","default","wide"]', '["alice","default","narrow"]'
    assert links["a", "b"].suppressed == {narrow: (wide,)}
    assert (links["a", "b"].announced, links["a", "b"].table_entries, links["b", "a"].announced) == (1, 1, 0)
    statistics = network.statistics()
    assert (statistics.subscription_messages, statistics.table_entries) == (2, 2)
    assert statistics.subscription_bytes > 100


def test_needless_events_are_counted() -> None:
    network = line("flood")
    network.publish("alice", {"x": 1})
    network.run()
    statistics = network.statistics()
    assert (statistics.event_messages, statistics.false_positives) == (2, 1)


def test_lost_is_what_the_naive_network_delivers_and_this_one_does_not() -> None:
    network = line()
    network.subscribe("alice", "x < 10")
    network.run()
    network.publish("carol", {"x": 1})
    assert network.statistics().lost == 1  # it is still under way
    network.run()
    assert network.statistics().lost == 0


def test_policies_can_differ_by_link() -> None:
    network = line({("a", "b"): "flood"})  # type: ignore[arg-type]
    network.subscribe("alice", "x < 10")
    network.run()
    network.publish("carol", [{"x": 1}, {"x": 50}])
    network.run()
    assert len(network.deliveries("alice")) == 1
    assert network.statistics().policy == "mixed"
    assert network.statistics().lost == 0


def test_a_crash_with_the_disk_and_a_cut_lose_nothing() -> None:
    network = line()
    network.subscribe("alice", "x < 10")
    network.run()
    network.crash("b")
    network.cut("a", "b")
    network.publish("carol", [{"x": x} for x in range(5)])
    network.run(seconds=10)
    assert network.deliveries("alice") == []
    with pytest.raises(LocalProtocolError, match="'b' is down"):
        network.statistics()
    network.restart("b")
    network.run(seconds=10)
    network.mend("a", "b")
    network.run()
    assert [delivery.event["x"] for delivery in network.deliveries("alice")] == [0, 1, 2, 3, 4]
    assert network.statistics().lost == 0


def test_a_broker_without_its_disk_is_told_everything_again() -> None:
    network = line()
    network.subscribe("alice", "x < 10", id=1)
    network.subscribe("bob", "x < 10", id=1)
    network.run()
    network.crash("b", lose_disk=True)
    network.publish("carol", {"x": 1})
    network.run(seconds=3)
    network.restart("b")
    network.run()
    assert network.state("bob", 1) is State.ACTIVE
    network.publish("carol", {"x": 2})
    network.run()
    assert [delivery.event["x"] for delivery in network.deliveries("alice")] == [1, 2]
    assert 2 in [delivery.event["x"] for delivery in network.deliveries("bob")]


def test_namespaces_never_cross() -> None:
    network = line()
    network.subscribe("alice", "x < 10", id=1, namespace="red")
    network.subscribe("alice", "x < 10", id=1)
    network.run()
    network.publish("carol", {"x": 1}, namespace="red")
    network.run()
    assert len(network.deliveries("alice")) == 1
    network.unsubscribe("alice", 1, namespace="red")
    network.run()
    network.publish("carol", {"x": 1}, namespace="red")
    network.run()
    assert len(network.deliveries("alice")) == 1


def test_a_subscription_may_end_by_itself() -> None:
    network = line()
    network.subscribe("alice", "x < 10", id="short", lasts=5)
    network.subscribe("alice", "x < 10", id="long")
    network.run(seconds=1)
    network.publish("carol", {"x": 1})
    network.run(seconds=1)
    network.crash("a")
    network.run(seconds=10)
    network.restart("a")
    network.run()
    assert network.state("alice", "short") is State.CANCELLED
    network.publish("carol", {"x": 2})
    network.run()
    assert [delivery.subscriptions for delivery in network.deliveries("alice")] == [("short", "long"), ("long",)]
    assert network.statistics().lost == 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    digests = set()
    for seed in (1, 1, 2):
        network = line(seed=seed, faults=Faults(drop=0.1, duplicate=0.1, late=0.2, crash=0.02))
        network.subscribe("alice", "x < 10")
        network.run()
        network.publish("carol", {"x": 1})
        network.run()
        assert network.statistics().lost == 0
        digests.add(network.digest())
    assert len(digests) == 2


def test_wrong_use_is_refused() -> None:
    network = line()
    network.subscribe("alice", "x < 10", id="a")
    with pytest.raises(tamis.DuplicateSubscriptionError, match="'a' exists"):
        network.subscribe("alice", "x < 10", id="a")
    with pytest.raises(tamis.UnknownSubscriptionError, match="'b'"):
        network.unsubscribe("alice", "b")
    with pytest.raises(tamis.UnknownSubscriptionError, match="'b'"):
        network.state("alice", "b")
    with pytest.raises(tamis.EventError, match="attribute 'x': expected a number"):
        network.publish("alice", {"x": "many"})
    with pytest.raises(ModelError, match="no client 'zed'"):
        network.publish("zed", {"x": 1})
    with pytest.raises(ModelError, match="in use"):
        network.attach("alice", "a")
    with pytest.raises(ModelError, match="no broker 'z'"):
        network.attach("new", "z")
    with pytest.raises(ModelError, match="no broker 'z'"):
        network.crash("z")
    with pytest.raises(ModelError, match="not for clients"):
        network.subscribe("alice", "x < 1", namespace="*")
    with pytest.raises(ModelError, match="no link"):
        tamis.Network(3, {("b1", "b9"): "flood"})
    with pytest.raises(ModelError, match="unknown policy"):
        tamis.Network(3, "nothing")


def test_five_hundred_brokers_and_a_third_of_them_killed() -> None:
    """Promise G12 at scale: 30 % killed and restarted with their disks during traffic, and everything is delivered."""
    rng, network = random.Random(7), tamis.Network(Topology.of("random", 500, seed=7), "covering", seed=7)
    clients = [network.attach(f"c{i}", rng.choice(network.topology.brokers)) for i in range(20)]
    network.run()
    for client in clients:
        network.subscribe(client, f"x BETWEEN {rng.randrange(50)} AND {rng.randrange(50, 100)}")
    network.run()
    killed = rng.sample(network.topology.brokers, 150)
    for place, broker in enumerate(killed):
        network.publish(rng.choice(clients), {"x": rng.randrange(100)})
        network.crash(broker)
        network.run(seconds=0.02)
        if place >= 10:
            network.restart(killed[place - 10])
    for broker in killed[-10:]:
        network.restart(broker)
    network.run()
    statistics = network.statistics()
    assert statistics.delivered > 500
    assert (statistics.lost, statistics.duplicates) == (0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_keyword_outside_of_the_schema_reaches_rules_of_other_brokers(policy: str) -> None:
    """All strings of an event are looked at where it is published: attributes that the schema lacks do not travel."""
    schema = tamis.Schema({"s": tamis.String(), "*": tamis.String(coerce=True)})
    network = line(policy, schema=schema)
    network.subscribe("carol", "\"*\" ILIKE '%mimikatz%'", id="keyword")
    network.run()
    network.publish(
        "alice", [{"s": "a", "stranger": "C:\\Mimikatz.exe"}, {"s": "mimikatz"}, {"s": "b", "stranger": "c"}]
    )
    network.run()
    assert [delivery.event["s"] for delivery in network.deliveries("carol")] == ["a", "mimikatz"]
