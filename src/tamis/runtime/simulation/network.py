"""A whole network of brokers in one process: real cores, simulated wires.

It is for trying things out: which policy costs what on your subscriptions, what a crash does. Everything is
deterministic in its seed. Beside it runs the naive network, in which every event meets every subscription; what it
delivers and the brokers do not is counted as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tamis.errors import ModelError, UnknownSubscriptionError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, NamespacedId, SubscriptionId
from tamis.node.content import Content
from tamis.node.stream import Ends, Quota
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.counters import Counters
from tamis.routing.core.routing_table import ALL_NAMESPACES, n_entries
from tamis.routing.edge.core import EdgeCore
from tamis.routing.policies import Policy, find_policy
from tamis.routing.policies.cell_tables import common_cells
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.hosts import BrokerHost
from tamis.runtime.simulation.inbox import ClientInbox
from tamis.runtime.simulation.naive_network import NaiveNetwork, NetworkDelivery
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.statistics import LinkStatistics, NetworkStatistics
from tamis.runtime.simulation.topology import Topology

__all__ = ["Network", "NetworkDelivery"]


class Network:
    """Simulated brokers in a tree, and the clients attached to them.

    Parameters
    ----------
    topology
        A `Topology`, a list of edges, or a number of brokers (a balanced tree of b1, b2, ...).
    policy
        What the links announce: a name of `tamis.routing.policies.POLICIES`, with options as "zcurve:epsilon=0.1"
        (`tamis.routing.policies.OPTIONS`), or such names by directed link as ``{("b1", "b2"): "flood"}``, where all
        others are "covering".
    schema
        The attributes and their types; learned from subscriptions and events when there is none.
    seed, faults
        What goes wrong, and when; nothing by default.
    quota
        How much may wait for one link; events that would go there are refused beyond that (`refused`).

    Examples
    --------
    >>> network = Network([("north", "middle"), ("middle", "south")], policy="covering")
    >>> network.attach("alice", "north"), network.attach("bob", "south")
    ('alice', 'bob')
    >>> network.subscribe("alice", "mag >= 5", id="strong")
    'strong'
    >>> network.run()
    >>> network.publish("bob", {"mag": 6.1})
    >>> network.run()
    >>> network.deliveries("alice")
    [NetworkDelivery(publisher='bob', event={'mag': 6.1}, subscriptions=('strong',))]
    >>> network.statistics().lost
    0
    """

    def __init__(
        self,
        topology: Topology | int | Iterable[tuple[str, str]],
        policy: str | Policy | Mapping[tuple[str, str], str | Policy] = "covering",
        *,
        schema: Schema | None = None,
        seed: int = 0,
        faults: Faults = NO_FAULTS,
        quota: Quota | None = None,
    ) -> None:
        self.topology = _tree(topology)
        self._quota = quota or Quota()
        self._policies = self._by_link(policy)
        self._cells = common_cells(policy.cells for policy in self._policies.values())
        self._content = Content(schema)
        self._simulator = BrokerSimulator(seed=seed, faults=faults)
        self._naive = NaiveNetwork()
        self._inboxes: dict[str, ClientInbox] = {}
        self._counters: dict[str, dict[str, Counters]] = {}
        for broker in self.topology.brokers:
            self._add_broker(broker)

    def attach(self, client: str, broker: str | None = None) -> str:
        """Add a client, at a broker or at the next one in turn."""
        turn = len(self._naive.clients) % len(self.topology.brokers)
        name = self.topology.brokers[turn] if broker is None else broker
        if name not in self._counters:
            raise ModelError(f"there is no broker {name!r}; there are {', '.join(self.topology.brokers[:8])} ...")
        if not client or client in self._inboxes or client in self._counters:
            raise ModelError(f"the name {client!r} is in use" if client else "a client needs a name")
        self._naive.attach(client, name)
        self._inboxes[client] = ClientInbox(self._simulator, client, name)
        return client

    def subscribe(
        self,
        client: str,
        source: str | Mapping[str, Any],
        *,
        id: SubscriptionId | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        lasts: float | None = None,
    ) -> SubscriptionId:
        """Let a client ask for events; the subscription is ACTIVE when the network has come to rest (`run`).

        With ``lasts`` it ends by itself after this many seconds of the network's time.
        """
        self._naive.node_of(client)
        if namespace == ALL_NAMESPACES:
            raise ModelError(f"namespace {namespace!r} is not for clients")
        content = self._content.of(namespace)
        filters = content.compile(source)
        data = content.write_filter(filters)
        subscription_id = self._naive.subscribe(client, filters, id, namespace)
        expires = None if lasts is None else round((self._simulator.now + lasts) * 1e6)
        self._inboxes[client].subscribe(m.Subscribe(subscription_id, data, namespace, expires))
        return subscription_id

    def unsubscribe(self, client: str, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """End a subscription of a client."""
        self._naive.unsubscribe(client, id, namespace)
        self._inboxes[client].unsubscribe(m.Unsubscribe(id, namespace))

    def publish(
        self,
        client: str,
        events: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """Publish an event of a client, or several in one batch."""
        self._naive.node_of(client)
        raws = [events] if isinstance(events, Mapping) else list(events)
        content = self._content.of(namespace)
        values = [content.read_event(content.write_event(raw)) for raw in raws]
        ids = self._inboxes[client].publish(namespace, [encode_event(raw) for raw in raws])
        for id, event in zip(ids, values, strict=True):
            self._naive.publish(id, namespace, event, self._is_active)

    def run(self, seconds: float | None = None) -> None:
        """Run until the network is at rest, or for a number of simulated seconds."""
        self._simulator.run(None if seconds is None else self._simulator.now + seconds)

    def state(self, client: str, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> m.State:
        """Return the last state of a subscription that its client has received."""
        self._naive.node_of(client)
        states = self._inboxes[client].states
        if (namespace, id) not in states:
            raise UnknownSubscriptionError(id)
        return states[namespace, id]

    def deliveries(self, client: str) -> list[NetworkDelivery]:
        """Return what a client got, in order."""
        self._naive.node_of(client)
        return [
            NetworkDelivery(
                _publisher(delivery),
                self._content.of(delivery.event.namespace).read_event(delivery.event.payload),
                delivery.subscriptions,
            )
            for delivery in self._inboxes[client].deliveries
        ]

    def refusals(self, client: str) -> list[str]:
        """Return what brokers refused a client, and why, in order."""
        self._naive.node_of(client)
        return [f"{refusal.subject}: {refusal.reason}" for refusal in self._inboxes[client].refusals]

    def crash(self, broker: str, *, lose_disk: bool = False) -> None:
        """Stop a broker at once; its clients and neighbours wait for it."""
        self._simulator.crash(self._host(broker), lose_disk=lose_disk)

    def restart(self, broker: str) -> None:
        """Start a broker again."""
        self._simulator.start(self._host(broker))

    def cut(self, a: str, b: str) -> None:
        """Cut the link between two neighbours: nothing passes over it."""
        self._simulator.cut(a, b)

    def mend(self, a: str, b: str) -> None:
        """Restore a link that was cut."""
        self._simulator.mend(a, b)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every broker that is up announces to its neighbours all that they need."""
        for host in self._simulator.brokers.values():
            if host.machine is not None:
                host.edge.check_invariants()

    def digest(self) -> str:
        """Return a fingerprint of everything that was sent so far; the same seed gives the same."""
        return self._simulator.digest()

    def statistics(self) -> NetworkStatistics:
        """Return what the network did so far, and what it cost; every broker must be up."""
        counts = [counters for by_link in self._counters.values() for counters in by_link.values()]
        received = {name: [delivery.event.id for delivery in inbox.deliveries] for name, inbox in self._inboxes.items()}
        names = {policy.name for policy in self._policies.values()}
        links = self.link_statistics()
        return NetworkStatistics(
            policy=names.pop() if len(names) == 1 else "mixed",
            delivered=sum(map(len, received.values())),
            lost=sum(self._naive.count_lost(client, {*ids, *self._refused()}) for client, ids in received.items()),
            duplicates=sum(len(ids) - len(set(ids)) for ids in received.values()),
            refused=len(self._refused()),
            subscription_messages=sum(counters.updates for counters in counts),
            subscription_bytes=sum(counters.bytes for counters in counts),
            event_messages=sum(counters.events for counters in counts),
            false_positives=sum(counters.false_positives for counters in counts),
            table_entries=sum(link.table_entries for link in links),
            suppressed=sum(len(link.suppressed) for link in links),
            screened=sum(counters.screened for counters in counts),
            rejected=sum(counters.rejected for counters in counts),
            filters_asked=sum(counters.filters_asked for counters in counts),
            filters_spared=sum(counters.filters_spared for counters in counts),
        )

    def link_statistics(self) -> list[LinkStatistics]:
        """Return what each direction of each link carried."""
        links = []
        for (source, target), policy in self._policies.items():
            sender, receiver = self._host(source).edge.broker, self._host(target).edge.broker
            sent, returned = self._counters[source][target], self._counters[target][source]
            summaries = sender.table.summaries[target].values()
            hidden = {origin.key: homes for summary in summaries for origin, homes in summary.suppressed()}
            entries = n_entries(receiver.table, source)
            links.append(
                LinkStatistics(
                    source,
                    target,
                    policy.name,
                    sent.announced,
                    sent.retracted,
                    hidden,
                    entries,
                    sent.events,
                    sent.refused,
                    returned.false_positives,
                    sent.updates,
                    sent.bytes,
                    sent.screened,
                    sent.rejected,
                    sent.filters_asked,
                    sent.filters_spared,
                )
            )
        return links

    def _by_link(self, policy: str | Policy | Mapping[tuple[str, str], str | Policy]) -> dict[tuple[str, str], Policy]:
        links = [link for a, b in self.topology.edges for link in ((a, b), (b, a))]
        if not isinstance(policy, Mapping):
            return dict.fromkeys(links, find_policy(policy))
        if unknown := policy.keys() - set(links):
            raise ModelError(f"there is no link from {' to '.join(map(repr, min(unknown)))}")
        return {link: find_policy(policy.get(link, "covering")) for link in links}

    def _add_broker(self, broker: str) -> None:
        around = self.topology.neighbours(broker)
        policies = {other: self._policies[broker, other] for other in around}
        counters = self._counters[broker] = {other: Counters() for other in around}

        def make_edge(ends: Ends, audited: int) -> EdgeCore:
            core = BrokerCore(broker, policies, self._content, counters, self._cells)
            return EdgeCore(core, self._content, ends, audited=audited)

        self._simulator.add_broker(broker, make_edge, tuple(around), quota=self._quota)

    def _is_active(self, client: str, place: NamespacedId) -> bool:
        return self._inboxes[client].states[place] is m.State.ACTIVE

    def _refused(self) -> set[m.EventId]:
        """Return the events that were refused, as their publishers were notified."""
        return {id for inbox in self._inboxes.values() for id in inbox.refused}

    def _host(self, broker: str) -> BrokerHost:
        if broker not in self._counters:
            raise ModelError(f"there is no broker {broker!r}")
        return self._simulator.brokers[broker]


def _publisher(delivery: m.Delivery) -> str:
    """Return the client that published an event; its broker follows in the id."""
    return delivery.event.id.publisher.rpartition("@")[0]


def _tree(topology: Topology | int | Iterable[tuple[str, str]]) -> Topology:
    if isinstance(topology, Topology):
        return topology
    if isinstance(topology, int):
        return Topology.of("balanced", topology)
    return Topology.of_edges(topology)
