"""The same subscriptions and events through a network, once per policy: what each policy costs.

Subscriptions and events are dealt to clients by one seed, the clients stand at the brokers in turn, so that all
policies see the same world.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.types import AttributeType, Number
from tamis.node.content import Content
from tamis.overlay.seat import Shape
from tamis.routing.policies import find_policy
from tamis.runtime.simulation.network import Network
from tamis.runtime.simulation.peer_network import PeerNetwork
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.statistics import NetworkStatistics
from tamis.runtime.simulation.topology import Topology

__all__ = ["OVERLAYS", "Trial", "quake_trial"]

#: Where the numbers of an earthquake lie; only policies that work with cells look at it.
QUAKE_DOMAINS: dict[str, AttributeType] = {
    "mag": Number(-2, 10),
    "depth": Number(-10, 750),
    "lon": Number(-180, 180),
    "lat": Number(-90, 90),
}
#: Networks without a fixed tree of brokers: every client a peer of a distributed R-tree, or every broker.
OVERLAYS = ("drtree", "drtree-brokers")
#: Events that a client publishes in one batch.
BATCH = 16


@dataclass(frozen=True)
class Trial:
    """What every policy is tried on: (id, filter, namespace) of the subscriptions, and the events by namespace."""

    topology: Topology
    schema: Schema
    subscriptions: Sequence[tuple[SubscriptionId, str | Mapping[str, Any], str]]
    events: Sequence[Mapping[str, Any]]
    clients: int
    seed: int = 0
    faults: Faults = NO_FAULTS
    #: The tree of peers that `OVERLAYS` build.
    shape: Shape = field(default_factory=Shape)

    def run(self, policy: str) -> NetworkStatistics:
        """Put everything through a network with one policy; return what it did and cost."""
        return self.network(policy).statistics()

    def network(self, policy: str) -> Network | PeerNetwork:
        """Return the network of one policy, or of one of `OVERLAYS`, after everything went through it."""
        if policy in OVERLAYS:
            return self.peers(policy)
        fitted = find_policy(policy).fitted_to(self._compiled(), self._canonical())
        network = Network(self.topology, fitted, schema=self.schema, seed=self.seed, faults=self.faults)
        self._fill(network)
        return network

    def peers(self, overlay: str) -> PeerNetwork:
        """Return the network of one of `OVERLAYS` after everything went through it; peers do not crash by chance."""
        brokers = self.topology.brokers if overlay == "drtree-brokers" else ()
        faults = replace(self.faults, crash=0.0) if self.faults is not NO_FAULTS else NO_FAULTS
        network = PeerNetwork(self.schema, self.shape, brokers=brokers, seed=self.seed, faults=faults)
        self._fill(network)
        return network

    def _fill(self, network: Network | PeerNetwork) -> None:
        rng = random.Random(self.seed)
        clients = [network.attach(f"client-{number}") for number in range(1, self.clients + 1)]
        network.run()
        for id, source, namespace in self.subscriptions:
            network.subscribe(rng.choice(clients), source, id=id, namespace=namespace)
        network.run()
        namespaces = list(dict.fromkeys(namespace for _, _, namespace in self.subscriptions)) or ["default"]
        for batch in _batches(self.events):
            client = rng.choice(clients)
            for namespace in namespaces:
                network.publish(client, batch, namespace=namespace)
        network.run()

    def _canonical(self) -> list[Event]:
        """Return a sample of the events that cells are fitted to: every second one, at most a thousand."""
        sample = self.events[:: max(2, len(self.events) // 1_000)]
        return [self.schema.event(event) for event in sample]

    def _compiled(self) -> list[Subscription]:
        content = Content(self.schema)
        return [Subscription(id, content.compile(source), None, name) for id, source, name in self.subscriptions]


def quake_trial(topology: Topology, *, clients: int, seed: int = 0, faults: Faults = NO_FAULTS) -> Trial:
    """Return the trial of the bundled data: a week of earthquakes and 67 questions about them.

    >>> trial = quake_trial(Topology.of("line", 3), clients=3)
    >>> len(trial.subscriptions), len(trial.events)
    (67, 1707)
    """
    from tamis.demo.datasets import earthquakes, quake_subscriptions
    from tamis.model.tables import EventTable

    table = earthquakes()
    schema = Schema(dict(Schema.from_arrow(table)) | QUAKE_DOMAINS)
    events = list(EventTable.of(table, schema))
    questions = [(id, text, "default") for id, text in quake_subscriptions()]
    return Trial(topology, schema, questions, events, clients, seed, faults)


def _batches(events: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    return (events[start : start + BATCH] for start in range(0, len(events), BATCH))
