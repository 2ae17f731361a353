"""A whole network of peers in one process: real cores, encoded messages, simulated wires.

It has the calls of `tamis.runtime.simulation.network.Network`. Without brokers, every client is a peer of a distributed
R-tree; with brokers, each broker is a peer, whose box is the MBR of its clients' subscriptions.

Rounds repair the tree (`tamis.overlay.protocol.repair`). They are run only while a peer waits for a join or an
event that was lost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tamis.errors import InvariantError, ModelError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, NamespacedId, SubscriptionId
from tamis.node.content import Content
from tamis.node.datagrams import DatagramNode
from tamis.node.node import Codec
from tamis.overlay import messages as m
from tamis.overlay.peer import USER, PeerCore
from tamis.overlay.seat import Seat, Shape
from tamis.overlay.space import Space
from tamis.overlay.state import PATIENCE
from tamis.runtime.simulation.datagrams import DatagramSimulator
from tamis.runtime.simulation.naive_network import NaiveNetwork, NetworkDelivery
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.statistics import LinkStatistics, NetworkStatistics

__all__ = ["PeerNetwork"]

#: Rounds of one `run` after which the network is called stuck.
MAX_ROUNDS = 500
#: Messages that are events; all others build the tree.
_EVENTS = ("Forward", "Receipt")

_Key = tuple[str, str, SubscriptionId]


class PeerNetwork:
    """Simulated peers in a distributed R-tree.

    Parameters
    ----------
    schema
        The attributes and their types; peers must agree on it.
    shape
        How many children a node has, and how it is split.
    brokers
        Names of brokers; clients are attached to them, and the brokers are the peers. Otherwise each client is a peer.
    seed, faults
        The seed that decides which peer a new peer contacts, and which faults happen.

    Examples
    --------
    >>> from tamis import Number, Schema
    >>> network = PeerNetwork(Schema({"mag": Number(0, 10)}))
    >>> network.attach("alice"), network.attach("bob")
    ('alice', 'bob')
    >>> network.subscribe("alice", "mag >= 5", id="strong")
    'strong'
    >>> network.run()
    >>> network.publish("bob", {"mag": 6.1})
    >>> network.run()
    >>> network.deliveries("alice")
    [NetworkDelivery(publisher='bob', event={'mag': 6.1}, subscriptions=('strong',))]
    """

    def __init__(
        self,
        schema: Schema,
        shape: Shape | None = None,
        *,
        brokers: Sequence[str] = (),
        seed: int = 0,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.shape = Shape() if shape is None else shape
        self._content = Content(schema)
        self._space = Space(schema)
        self._simulator = DatagramSimulator(Codec(m.encode, m.decode), seed=seed, faults=faults)
        self._rng = random.Random(seed)
        self._naive = NaiveNetwork()
        #: What each peer has delivered to its clients.
        self._peers: dict[str, list[m.PeerDelivery]] = {}
        self._publisher: dict[m.EventId, str] = {}
        self._published: Counter[str] = Counter()
        self._brokers = tuple(brokers)
        self.rounds = 0
        for broker in self._brokers:
            self._add_peer(broker, one_seat=True)

    def attach(self, client: str, broker: str | None = None) -> str:
        """Add a client: a peer, or a client of ``broker`` (by default the next broker in turn)."""
        if not client or client in self._naive.clients or client in self._peers or "/" in client:
            raise ModelError(f"the name {client!r} is in use, empty or has a slash")
        if self._brokers:
            peer = self._brokers[len(self._naive.clients) % len(self._brokers)] if broker is None else broker
            if peer not in self._brokers:
                raise ModelError(f"there is no broker {peer!r}; there are {', '.join(self._brokers[:8])} ...")
        else:
            peer = client
            self._add_peer(client, one_seat=False)
        self._naive.attach(client, peer)
        return client

    def subscribe(
        self,
        client: str,
        source: str | Mapping[str, Any],
        *,
        id: SubscriptionId | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> SubscriptionId:
        """Make a subscription of a client; it is active when the network is at rest (`run`)."""
        peer, filters = self._naive.node_of(client), self._content.compile(source)
        chosen_id = self._naive.subscribe(client, filters, id, namespace)
        message = m.SubscribeRequest(_key(client, namespace, chosen_id), self._content.write_filter(filters), namespace)
        self._core(peer).contact = self._contact()
        self._submit(peer, message)
        return chosen_id

    def unsubscribe(self, client: str, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """End a subscription of a client."""
        self._naive.unsubscribe(client, id, namespace)
        self._submit(self._naive.node_of(client), m.UnsubscribeRequest(_key(client, namespace, id), namespace))

    def publish(
        self,
        client: str,
        events: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """Publish one or several events of a client."""
        peer = self._naive.node_of(client)
        for event in [events] if isinstance(events, Mapping) else events:
            payload = self._content.write_event(event)
            self._published[peer] += 1
            id = m.EventId(peer, 1, self._published[peer])
            self._publisher[id] = client
            self._naive.publish(id, namespace, self._content.read_event(payload), self._is_due)
            self._core(peer).contact = self._contact()
            self._submit(peer, m.PublishRequest(payload, namespace))

    def run(self) -> None:
        """Run until the network is at rest; after losses that takes rounds of checks.

        Without subscriptions there is no tree: events stay with their publishers.
        """
        self._simulator.run()
        steady = PATIENCE + 2 if self._simulator.faults is not NO_FAULTS else 0
        former, unchanged = None, 0
        for _ in range(MAX_ROUNDS):
            if unchanged >= steady and not (self.seats() and any(core.is_waiting for core in self._cores())):
                return
            self.round()
            shape = [(seat.name, seat.parent, [tuple(level.names) for level in seat.levels]) for seat in self.seats()]
            former, unchanged = shape, unchanged + 1 if shape == former else 0
        raise InvariantError(f"stuck: {MAX_ROUNDS} rounds without rest")

    def round(self, number: int = 1) -> None:
        """Run a number of rounds, in each of which every peer checks its own state."""
        for _ in range(number):
            self.rounds += 1
            contact = self._contact()
            for name in self._peers:
                if self._simulator.hosts[name].node is not None:
                    self._submit(name, m.Check(contact))
            self._simulator.run()

    def crash(self, peer: str) -> None:
        """Stop a peer at once; its clients and subscriptions are removed, too."""
        if peer not in self._peers:
            raise ModelError(f"there is no peer {peer!r}")
        self._simulator.crash(self._simulator.hosts[peer], lose_disk=True)
        self._naive.detach_all(peer)

    def is_active(self, client: str, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        """Whether every event published from now on reaches a subscription."""
        return self._core(self._naive.node_of(client)).is_active(namespace, _key(client, namespace, id))

    def deliveries(self, client: str) -> list[NetworkDelivery]:
        """Return the deliveries of a client, in order."""
        deliveries = []
        for delivery in self._delivered(client):
            ids = tuple(key[2] for key in map(_read_key, delivery.subscriptions) if key[0] == client)
            event = self._content.read_event(delivery.event.payload)
            deliveries.append(NetworkDelivery(self._publisher[delivery.event.id], event, ids))
        return deliveries

    def seats(self) -> list[Seat]:
        """Return all seats, for statistics and pictures; no peer has this list."""
        return [seat for core in self._cores() for seat in core.seats.values() if not seat.left]

    def distances(self) -> list[int]:
        """Return the hops of each event that was delivered."""
        return [hops for core in self._cores() for hops in core.distances.elements()]

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the tables of every peer are consistent."""
        for core in self._cores():
            core.check_invariants()

    def digest(self) -> str:
        """Return a fingerprint of everything that was sent so far; the same seed gives the same fingerprint."""
        return self._simulator.digest()

    def statistics(self) -> NetworkStatistics:
        """Return the deliveries, losses and costs so far, in the form of a network of brokers."""
        nodes = [self._simulator.hosts[name].node for name in self._peers]
        sent: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for node in nodes:
            if isinstance(node, DatagramNode):
                sent += Counter(node.sent)
                sizes += Counter(node.bytes)
        received = {
            client: [delivery.event.id for delivery in self._delivered(client)] for client in self._naive.clients
        }
        return NetworkStatistics(
            policy="drtree-brokers" if self._brokers else "drtree",
            delivered=sum(map(len, received.values())),
            lost=sum(self._naive.count_lost(client, set(ids)) for client, ids in received.items()),
            duplicates=sum(len(ids) - len(set(ids)) for ids in received.values()),
            refused=0,
            subscription_messages=sum(count for kind, count in sent.items() if kind not in _EVENTS),
            subscription_bytes=sum(size for kind, size in sizes.items() if kind not in _EVENTS),
            event_messages=sent["Forward"],
            false_positives=sum(core.false_positives for core in self._cores()),
            table_entries=sum(len(level) - 1 for seat in self.seats() for level in seat.levels),
        )

    def link_statistics(self) -> list[LinkStatistics]:
        """Return an empty list: peers have no permanent links; `statistics` counts their messages."""
        return []

    def _add_peer(self, name: str, *, one_seat: bool) -> None:
        contact = self._contact()

        def make() -> PeerCore:
            return PeerCore(name, self._content, self._space, self.shape, contact, one_seat=one_seat)

        self._peers[name] = []
        self._simulator.add(name, make)

    def _contact(self) -> str | None:
        """Return a seat of some peer in the tree, as a directory of peers would."""
        for name in self._rng.sample(list(self._peers), min(8, len(self._peers))):
            seat = self._core(name).contact_seat if self._simulator.hosts[name].node is not None else None
            if seat is not None and self._core(name).seats[seat].placed:
                return seat
        seats = [seat for core in self._cores() if (seat := core.contact_seat) is not None]
        placed = (seat for seat in seats if self._core(m.peer_of(seat)).seats[seat].placed)
        return next(placed, seats[0] if seats else None)

    def _submit(self, peer: str, message: Any) -> None:
        self._simulator.submit(peer, message, sender=USER)

    def _is_due(self, client: str, place: NamespacedId) -> bool:
        return self.is_active(client, place[1], namespace=place[0])

    def _delivered(self, client: str) -> list[m.PeerDelivery]:
        peer = self._naive.node_of(client)
        node = self._simulator.hosts[peer].node
        assert isinstance(node, DatagramNode)
        self._peers[peer] += node.take_deliveries()
        return [
            delivery
            for delivery in self._peers[peer]
            if any(_read_key(key)[0] == client for key in delivery.subscriptions)
        ]

    def _cores(self) -> list[PeerCore]:
        return [self._core(name) for name in self._peers if self._simulator.hosts[name].node is not None]

    def _core(self, name: str) -> PeerCore:
        node = self._simulator.hosts[name].node
        if node is None:
            raise ModelError(f"{name!r} is down")
        core = node.core
        assert isinstance(core, PeerCore)
        return core


def _key(client: str, namespace: str, id: SubscriptionId) -> str:
    """Return the unique id of a client's subscription at its peer."""
    return msgspec.json.encode((client, namespace, id)).decode()


def _read_key(key: SubscriptionId) -> _Key:
    parts: _Key = msgspec.json.decode(str(key), type=_Key)
    return parts
