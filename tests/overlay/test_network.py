"""Peers behind simulated wires: the same deliveries as brokers, also in bad weather, and the same bytes for a seed."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tamis import DuplicateSubscriptionError, ModelError, Number, PeerNetwork, Schema, UnknownSubscriptionError
from tamis.demo.comparison import OVERLAYS, quake_trial
from tamis.errors import LocalProtocolError, RemoteProtocolError
from tamis.node.content import Content
from tamis.overlay import messages as m
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.topology import Topology
from tamis_lab.peers.express import Express
from tests.overlay.legal import illegal
from tests.overlay.world import CONTENT, SCHEMA, SPACE, random_text

STORM = Faults(drop=0.1, duplicate=0.1, late=0.2)


def grown(seed: int, faults: Faults = NO_FAULTS, peers: int = 25) -> PeerNetwork:
    rng = random.Random(seed)
    network = PeerNetwork(SCHEMA, Shape(2, 4), seed=seed, faults=faults)
    for number in range(peers):
        network.subscribe(network.attach(f"p{number}"), random_text(rng))
        if number % 3 == 0:
            network.run()
    network.run()
    return network


@pytest.mark.parametrize("faults", [NO_FAULTS, STORM], ids=["calm", "storm"])
def test_peers_lose_nothing(faults: Faults) -> None:
    network = grown(3, faults)
    assert illegal(network.seats()) == []
    rng = random.Random(5)
    for _ in range(15):
        network.publish(f"p{rng.randrange(25)}", {"a": rng.randint(0, 10), "b": rng.randint(0, 10)})
    network.unsubscribe("p4", 0)
    network.run()
    statistics = network.statistics()
    assert statistics.delivered > 20
    assert (statistics.lost, statistics.duplicates) == (0, 0)
    network.check_invariants()
    assert max(network.distances()) <= 2 * max(seat.top for seat in network.seats()) + 4


def test_a_crash_is_healed() -> None:
    network = grown(8)
    root = next(seat.name for seat in network.seats() if seat.parent is None)
    network.crash(m.peer_of(root))
    survivor = next(f"p{number}" for number in range(25) if f"p{number}" != m.peer_of(root))
    network.publish(survivor, {"a": 5, "b": 5})
    network.run()
    network.round(8)
    assert illegal(network.seats()) == []
    assert network.statistics().lost == 0


def test_a_seed_replays_byte_for_byte() -> None:
    first, again, other = (grown(seed, STORM, 12).digest() for seed in (1, 1, 2))
    assert first == again != other


def test_the_bulk_path_grows_the_same_tree() -> None:
    """`Express` and the simulator, message by message, with the same contacts."""
    texts = [random_text(random.Random(number)) for number in range(40)]
    express, network = Express(), PeerNetwork(SCHEMA, Shape(2, 4))
    network._contact = lambda: None if not network.seats() else "p0/0"  # type: ignore[method-assign]
    for number, text in enumerate(texts):
        express.add(PeerCore(f"p{number}", CONTENT, SPACE, Shape(2, 4), "p0/0" if number else None))
        express.submit(f"p{number}", m.SubscribeRequest(0, CONTENT.write_filter(CONTENT.compile(text))))
        express.run()
        network.subscribe(network.attach(f"p{number}"), text)
        network.run()
    trees = [
        {seat.name: (seat.parent, [sorted(level.names) for level in seat.levels]) for seat in seats}
        for seats in (express.seats(), network.seats())
    ]
    assert trees[0] == trees[1]
    assert illegal(list(express.seats())) == []


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_same_deliveries_as_a_network_of_brokers(name: str) -> None:
    trial = replace(quake_trial(Topology.of("balanced", 5), clients=10), seed=3)
    trial = replace(trial, events=trial.events[:40])
    brokers, peers = trial.network("covering"), trial.network(name)
    assert peers.statistics().lost == 0
    for client in (f"client-{number}" for number in range(1, 11)):
        by_brokers, by_peers = (
            sorted(
                (delivery.publisher, sorted(map(str, delivery.subscriptions)), str(delivery.event))
                for delivery in deliveries
            )
            for deliveries in (brokers.deliveries(client), peers.deliveries(client))
        )
        assert by_brokers == by_peers
    assert peers.statistics().policy == name


def test_brokers_as_peers_grow_and_shrink_with_their_clients() -> None:
    network = PeerNetwork(SCHEMA, Shape(2, 4), brokers=["b1", "b2", "b3"])
    for client in ("alice", "bob", "carol", "dave"):
        network.attach(client)
    network.subscribe("alice", "a < 2", id="low")
    network.subscribe("dave", "a > 8", id="high")  # dave is b1's client, too
    network.subscribe("bob", "b = 3", id="three")
    network.run()
    assert len(network.seats()) == 2
    assert all(network.is_active(client, id) for client, id in (("alice", "low"), ("dave", "high"), ("bob", "three")))
    network.publish("carol", [{"a": 1, "b": 3}, {"a": 9}, {"a": 5}])
    network.run()
    assert [delivery.subscriptions for delivery in network.deliveries("alice")] == [("low",)]
    assert [delivery.subscriptions for delivery in network.deliveries("dave")] == [("high",)]
    assert [delivery.subscriptions for delivery in network.deliveries("bob")] == [("three",)]
    box = next(seat.box for seat in network.seats() if seat.name.startswith("b1"))
    network.unsubscribe("dave", "high")
    network.run()
    smaller = next(seat.box for seat in network.seats() if seat.name.startswith("b1"))
    assert smaller[1, 0] < box[1, 0]
    assert illegal(network.seats()) == []
    assert network.statistics().lost == 0


def test_brokers_as_peers_lose_nothing_in_a_storm() -> None:
    """Their boxes grow by reports alone, and reports and answers are lost, doubled and late."""
    rng = random.Random(4)
    network = PeerNetwork(SCHEMA, Shape(2, 4), brokers=[f"b{number}" for number in range(7)], seed=4, faults=STORM)
    clients = [network.attach(f"c{number}") for number in range(20)]
    for _ in range(3):
        for client in clients:
            network.subscribe(client, random_text(rng))
        network.run()
        assert all(network.is_active(client, 0) for client in clients)
        for _ in range(10):
            network.publish(rng.choice(clients), {"a": rng.randint(0, 10), "b": rng.randint(0, 10)})
        network.run()
    statistics = network.statistics()
    assert statistics.delivered > 100
    assert (statistics.lost, statistics.duplicates) == (0, 0)


@pytest.mark.parametrize("faults", [NO_FAULTS, STORM], ids=["calm", "storm"])
def test_a_network_without_subscriptions_is_at_rest(faults: Faults) -> None:
    network = PeerNetwork(SCHEMA, seed=1, faults=faults)
    publisher, reader = network.attach("publisher"), network.attach("reader")
    network.publish(publisher, {"a": 1, "b": 1})
    network.run()
    assert network.statistics().delivered == 0
    network.subscribe(reader, "a = 2")
    network.publish(publisher, {"a": 2, "b": 1})
    network.run()
    statistics = network.statistics()
    assert (statistics.delivered, statistics.lost, statistics.duplicates) == (1, 0, 0)


def test_wrong_calls_name_the_culprit() -> None:
    network = PeerNetwork(SCHEMA)
    network.attach("alice")
    network.subscribe("alice", "a < 2", id="low")
    with pytest.raises(DuplicateSubscriptionError):
        network.subscribe("alice", "a < 2", id="low")
    with pytest.raises(UnknownSubscriptionError):
        network.unsubscribe("alice", "high")
    for call in (lambda: network.attach("alice"), lambda: network.attach("a/b"), lambda: network.publish("bob", {})):
        with pytest.raises(ModelError):
            call()
    with pytest.raises(ModelError):
        network.crash("bob")
    with pytest.raises(ModelError):
        PeerNetwork(Schema())
    with pytest.raises(ModelError):
        PeerNetwork(SCHEMA, brokers=["b1"]).attach("alice", "b9")


def test_a_peer_refuses_what_is_not_for_it() -> None:
    content = Content(Schema({"a": Number(0, 1)}))
    core = PeerCore("alice", content, Space(content.schema))
    with pytest.raises(RemoteProtocolError):
        core.handle(m.Grown("bob/0", "carol/0", 0, 1), sender="carol", now=0.0)
    with pytest.raises(LocalProtocolError):
        core.handle("hello", sender="", now=0.0)
    core.handle(m.SubscribeRequest(0, content.write_filter(content.compile("a < 1"))), sender="", now=0.0)
    with pytest.raises(RemoteProtocolError):
        core.handle(m.Insert("alice/0", "bob/0", 0, "bob/0", 0, b"rubbish"), sender="bob", now=0.0)
    event = m.PeerEvent(m.EventId("bob", 1, 1), "default", b"rubbish", 1)
    with pytest.raises(RemoteProtocolError):
        core.handle(m.Forward("alice/0", "bob/0", 0, event, 1, 0, True, "", "1 alice/0"), sender="bob", now=0.0)
    node = m.NodeState(("bob/0", "bob/0"), b"", (0,), (0,), ())
    with pytest.raises(RemoteProtocolError):
        core.handle(
            m.TakeOver("alice/0", "bob/0", 0, "alice/0", 1, (node,), None, False, b"", 0, 0), sender="bob", now=0.0
        )
    assert core.handle(m.Check(), sender="", now=1.0) == []
    negative = m.encode(m.Insert("alice/0", "bob/0", 0, "bob/0", -1, b""))
    for rubbish in (b"", b"\x07", m.encode(m.Invite("a/0", "b/0", 0))[:-3], negative):
        with pytest.raises(RemoteProtocolError):
            m.decode(rubbish, "bob")


def test_a_peer_that_starts_again_asks_and_publishes_again() -> None:
    express = Express()
    express.add(PeerCore("p0", CONTENT, SPACE))
    disk: dict[tuple[str, ...], bytes] = {}
    core = PeerCore("p1", CONTENT, SPACE)
    effects = core.restore({}, now=0.0)
    effects += core.handle(m.SubscribeRequest(7, CONTENT.write_filter(CONTENT.compile("a < 5"))), sender="", now=0.0)
    lonely = PeerCore("p2", CONTENT, SPACE, None, "absent/0")
    held = lonely.handle(m.PublishRequest(CONTENT.write_event({"a": 1})), sender="", now=0.0)
    for effect in [*effects, *held]:
        if hasattr(effect, "key") and effect.value is not None:
            disk[effect.key] = effect.value
    again = PeerCore("p1", CONTENT, SPACE)
    again.restore(disk, now=1.0)
    assert again.is_active("default", 7)
    assert again._epoch == 2
    assert np.array_equal(next(iter(again.seats.values())).box, next(iter(core.seats.values())).box)
