"""Brokers and clients in the simulator: production classes on simulated disks and wires.

A broker is what `tamis serve` runs without sockets and threads: `BrokerMachine` around `EdgeCore`. A client is what
`tamis.connect` runs without a socket: `ClientSession`. Simulated are the clock, the disk (`SimulatedDisk`), the
commits, which take time and gather, and the wires.

A *wire* delivers packets in order until it breaks. It breaks when a packet is lost (`Faults.drop`), when the link is
cut and when an end crashes; whatever is under way is lost, and each end notices in its own time. The end that dialled
dials again, and may do so while the old wire still stands (`Faults.duplicate`), as a program does that believes its
connection dead. A dial waits for what it needs, so that a quiet network has nothing in its queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from tamis.errors import LocalProtocolError, RemoteProtocolError
from tamis.node.effects import Link, Persist
from tamis.node.node import Codec, Node
from tamis.node.stream import Ends, Quota, Window
from tamis.routing import messages as m
from tamis.routing.core.ahead import Job
from tamis.routing.edge.link_names import client_link
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.machine import BrokerMachine, Connection
from tamis.runtime.client.session import ClientSession
from tamis.runtime.links.receiving import early_steps
from tamis.runtime.packets import join_frames, split_frames
from tamis.runtime.simulation.disk import SimulatedDisk
from tamis.runtime.simulation.hosts import BrokerHost, ClientHost, MakeEdge, WireLimits
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults, Simulator

__all__ = ["BrokerSimulator"]

#: Seconds that a commit takes at most, and within which an end dials again or notices that its wire broke.
COMMIT_SECONDS, NOTICE_SECONDS = 0.004, 0.2

#: The share of commits after which a backup is taken, where disks are restored.
BACKUPS = 0.05

_CODEC = Codec(m.encode, m.decode)


class _Port(Protocol):
    """One end of a wire."""

    def take_packet(self) -> bytes | None:
        """Return what is to be sent now."""

    def receive(self, packet: bytes) -> None:
        """Take a packet."""

    def lost(self) -> None:
        """Take note that the wire is gone."""


@dataclass(eq=False)
class _Wire:
    """A connection between two ends, as long as it lasts; ``ports`` are the end that dialled and the other one."""

    pair: tuple[str, str]
    ports: tuple[Any, Any] = (None, None)
    is_broken: bool = False
    #: Whether a packet of an end is under way, and when the last packet of an end arrives.
    is_busy: list[bool] = field(default_factory=lambda: [False, False])
    last_arrival: list[float] = field(default_factory=lambda: [0.0, 0.0])


@dataclass(eq=False)
class _BrokerPort:
    """A broker's end of a wire."""

    host: BrokerHost
    machine: BrokerMachine
    connection: Connection

    def take_packet(self) -> bytes | None:
        return self.machine.take_packet(self.connection)

    def receive(self, packet: bytes) -> None:
        if self.connection.closed:  # as `tamis.web.endpoints.websocket` does: nothing is taken from a closed one
            return
        if self.connection.rights is None:
            for frame in split_frames(packet, self.connection.link):
                for step in early_steps(self.machine, self.connection, frame):
                    step()
                self.machine.receive(self.connection, join_frames([frame]))
        else:
            self.machine.receive(self.connection, packet)

    def lost(self) -> None:
        self.connection.close("the other end is gone")
        self.machine.disconnect(self.connection)


@dataclass(eq=False)
class _ClientPort:
    """A client's end of a wire; it greets first."""

    host: ClientHost
    session: ClientSession
    has_greeted: bool = False

    def take_packet(self) -> bytes | None:
        if not self.has_greeted:
            self.has_greeted = True
            return self.session.link.greeting()
        return self.session.next_packet()

    def receive(self, packet: bytes) -> None:
        self.session.take(packet)
        self.host.on_news(self.host)

    def lost(self) -> None:
        self.session.link.lost()


#: Seconds of simulated time after which a job that matches events is done.
HOP_OF_JOB = 0.001


class BrokerSimulator(Simulator):
    """Brokers, clients, wires, disks and a clock, all driven by one seed."""

    def __init__(self, *, seed: int = 0, faults: Faults = NO_FAULTS, hop_seconds: float = 0.01) -> None:
        super().__init__(seed=seed, faults=faults, hop_seconds=hop_seconds)
        self.brokers: dict[str, BrokerHost] = {}
        self.clients: dict[str, ClientHost] = {}
        self._wires: dict[tuple[str, str], _Wire] = {}
        self._dialling: set[tuple[str, str]] = set()
        self._cut: set[frozenset[str]] = set()
        #: Called after each step with the host: tests look at the state here.
        self.watch: Callable[[BrokerHost], None] = lambda host: None
        #: Called with a host that crashes, and whether its disk is about to be lost.
        self.mourn: Callable[[BrokerHost, bool], None] = lambda host, lose_disk: None

    # Hosts

    def add_broker(
        self,
        name: str,
        make_edge: MakeEdge,
        neighbours: tuple[str, ...],
        *,
        quota: Quota | None = None,
        window: Window | None = None,
        takes_parts: bool = True,
    ) -> BrokerHost:
        """Add a broker and start it; of two neighbours the one with the smaller name dials.

        Without ``takes_parts`` it is one of an earlier release: it is sent each table in one message, and sends it so.
        """
        self._demand_new(name)
        host = self.brokers[name] = BrokerHost(name, make_edge, neighbours, WireLimits(quota, window, takes_parts))
        host.skew = self.rng.uniform(-self.faults.skew, self.faults.skew)
        self.start(host)
        return host

    def add_client(self, name: str, broker: str, rights: Rights, link: Link | None = None) -> ClientHost:
        """Add a client and let it connect; ``link`` is what the broker calls it if not by its principal and name."""
        self._demand_new(name)
        link = client_link(rights.principal, name) if link is None else link
        host = self.clients[name] = ClientHost(name, broker, rights, link, ClientSession(name, None, 1))
        self.dial((name, broker))
        return host

    def start(self, host: BrokerHost) -> None:
        """Start a broker that is down, with what is on its disk."""
        if host.machine is not None:
            return
        stored = host.settle()
        ends = Ends()
        edge = host.make_edge(ends, len(host.disk.audit))
        node = Node(
            edge,
            host.neighbours,
            _CODEC,
            host.epoch,
            stored,
            host.limits.quota,
            ends,
            backlogs=host.disk.backlogs(),
            read=host.disk.read_outbox,
        )
        host.machine = BrokerMachine(
            node,
            clock=lambda: self.now + host.skew,
            commit=partial(self._commit, host),
            read=host.disk.read_outbox,
            window=host.limits.window,
        )
        host.machine.on_work = partial(self._go_on, host, host.machine)
        edge.publications.ahead.on_job = partial(_match_beside, self, host, host.machine)
        self.count("starts")
        host.machine.step(lambda node, now: node.start(now))
        for pair in self._pairs(host.name):
            self.dial(pair)

    def crash(self, host: BrokerHost, *, lose_disk: bool = False, restart_after: float | None = None) -> None:
        """Stop a broker at once; what was not committed is gone, and its wires break."""
        self.count("crashes")
        self.mourn(host, lose_disk)
        if lose_disk:
            self.count("disks lost")
            host.disk = SimulatedDisk()
            if host.backup is not None and self.happens(self.faults.restore):
                self.count("disks restored")
                host.restore(host.backup, self.now)
        host.machine, host.commits, host.has_tick = None, [], False
        for pair in self._pairs(host.name):
            self._break(self._wires.get(pair))
        if restart_after is not None:
            self.call_later(restart_after, self.start, host)

    def restart_client(self, host: ClientHost) -> ClientSession:
        """Let a client crash and come back under its name, with what its cursor file holds."""
        self.count("clients restarted")
        self._break(self._wires.get((host.name, host.broker)))
        host.lives += 1
        host.session, host.refused = ClientSession(host.name, host.kept, host.lives), ""
        self.dial((host.name, host.broker))
        return host.session

    # Wires

    def cut(self, a: str, b: str) -> None:
        """Block all traffic between two hosts until `mend`."""
        self._cut.add(frozenset((a, b)))
        self._break(self._wires.get(_pair(a, b)))

    def mend(self, a: str, b: str) -> None:
        """Let the two dial again."""
        self._cut.discard(frozenset((a, b)))
        self.dial(_pair(a, b))

    def close(self, client: ClientHost, reason: str) -> None:
        """Let a broker end the connection of a client for good, as it does when a token is revoked."""
        wire, client.refused = self._wires.get((client.name, client.broker)), reason
        if wire is not None and not wire.is_broken:
            wire.ports[1].connection.end_here(reason)
            self._break(wire)

    def dial(self, pair: tuple[str, str]) -> None:
        """Connect two hosts soon, unless that is under way."""
        if pair not in self._dialling:
            self._dialling.add(pair)
            self.call_later(self.rng.uniform(0, NOTICE_SECONDS), self._connect, pair)

    def pump(self, client: ClientHost) -> None:
        """Let a client send what its user has said since."""
        client.wake()

    # Inside: hosts

    def _demand_new(self, name: str) -> None:
        if name in self.brokers or name in self.clients:
            raise LocalProtocolError(f"node {name!r} exists already")

    def _pairs(self, name: str) -> list[tuple[str, str]]:
        """Return the pairs, each with the end that dials first, that a broker is in."""
        around = [_pair(name, other) for other in self.brokers[name].neighbours]
        return around + [(client.name, name) for client in self.clients.values() if client.broker == name]

    def _commit(self, host: BrokerHost, changes: list[Persist], then: Callable[[], None]) -> None:
        if not host.commits:
            self.call_later(self.rng.uniform(0, COMMIT_SECONDS), self._flush, host, host.machine)
        host.commits.append((changes, then))
        self.watch(host)

    def _flush(self, host: BrokerHost, machine: BrokerMachine) -> None:
        """Commit what has gathered, then let it leave; or crash before, between or after."""
        if host.machine is not machine:  # that life has ended
            return
        commits, host.commits = host.commits, []
        is_last = self.happens(self.faults.crash)
        if (
            is_last and self.rng.random() < 0.6
        ):  # before anything leaves; of several transactions the first may be there
            done = self.rng.randrange(len(commits) + 1)
            host.disk.commit(change for changes, _ in commits[:done] for change in changes)
            self._crash(host, machine)
            return
        host.disk.commit(change for changes, _ in commits for change in changes)
        if self.faults.restore and self.happens(BACKUPS):
            host.backup = host.disk.copy()
        for _, then in commits:
            then()
        if is_last:  # some of what follows leaves
            self.call_later(self.rng.uniform(0, 2 * self._hop_seconds), self._crash, host, machine)
        for other in host.edge.broker.flow.rings.refused:  # the ring may be gone
            if self._is_possible(pair := _pair(host.name, other)):
                self.dial(pair)
        self._keep_ticking(host)

    def _crash(self, host: BrokerHost, machine: BrokerMachine) -> None:
        if host.machine is machine:
            lose_disk = self.happens(self.faults.lose_disk)
            self.crash(host, lose_disk=lose_disk, restart_after=self.rng.uniform(0.1, max(self.faults.downtime, 0.2)))

    def _keep_ticking(self, host: BrokerHost) -> None:
        """Tick, as the driver does every second, when that can change something."""
        expiry = host.edge.broker.expiry.first
        has_gaps = bool(host.edge.backlogs.gaps)
        if host.has_tick or not (has_gaps or expiry is not None):
            return
        seconds = 1.0 if expiry is None else max(1e-3, expiry / 1e6 - self.now - host.skew + 1e-3)
        host.has_tick = True
        self.call_later(seconds if not has_gaps else min(1.0, seconds), self._tick, host, host.machine)

    def _go_on(self, host: BrokerHost, machine: BrokerMachine) -> None:
        """Let a core soon go on with work that was too much for one step."""
        self.call_later(self._hop_seconds, self._work, host, machine)

    def _work(self, host: BrokerHost, machine: BrokerMachine) -> None:
        if host.machine is machine:  # not the work of a life before the crash
            machine.tick()

    def _tick(self, host: BrokerHost, machine: BrokerMachine) -> None:
        if host.machine is machine:
            host.has_tick = False
            machine.tick()

    # Inside: wires

    def _is_possible(self, pair: tuple[str, str]) -> bool:
        up = [self.brokers[name].machine is not None for name in pair if name in self.brokers]
        is_refused = pair[0] in self.clients and bool(self.clients[pair[0]].refused)
        a, b = map(self.brokers.get, pair)
        is_linked = a is None or b is None or (b.name in a.neighbours and a.name in b.neighbours)
        if all(up) and is_linked and a is not None and b is not None:
            is_linked = not (_why_not(a, b.name) or _why_not(b, a.name))
        return all(up) and is_linked and not is_refused and frozenset(pair) not in self._cut

    def _connect(self, pair: tuple[str, str]) -> None:
        self._dialling.discard(pair)
        if not self._is_possible(pair):  # whatever makes it possible dials again
            return
        earlier = self._wires.get(pair)
        wire = self._wires[pair] = _Wire(pair)
        wire.ports = (self._port(wire, 0), self._port(wire, 1))
        if earlier is not None:
            earlier.is_broken = True
        for side in (0, 1):
            self._wake(wire, side)

    def _port(self, wire: _Wire, side: int) -> _Port:
        name, other = wire.pair[side], wire.pair[1 - side]
        if name in self.clients:
            client = self.clients[name]
            client.wake = partial(self._wake, wire, side)
            client.session.link.lost()
            return _ClientPort(client, client.session)
        host, caller = self.brokers[name], self.clients.get(other)
        if caller is None:
            connection = Connection(other, takes_parts=all(self.brokers[end].limits.takes_parts for end in wire.pair))
        else:
            connection = Connection(caller.link, caller.rights)
        connection.wake = partial(self._wake, wire, side)
        assert host.machine is not None, "a dial waits until both ends are up"
        host.machine.connect(connection)
        return _BrokerPort(host, host.machine, connection)

    def _wake(self, wire: _Wire, side: int) -> None:
        if not wire.is_busy[side] and not wire.is_broken:
            wire.is_busy[side] = True
            self.call_later(0.0, self._send, wire, side)

    def _send(self, wire: _Wire, side: int) -> None:
        """Put the next packet on a wire that is free."""
        wire.is_busy[side] = False
        port = wire.ports[side]
        packet = None if wire.is_broken else port.take_packet()
        if packet is None:
            if isinstance(port, _BrokerPort) and port.connection.closed:
                self._break(wire)
            return
        self.note_sent(wire.pair[side], wire.pair[1 - side], packet)
        if self.happens(self.faults.drop):
            self.count("dropped")
            self._break(wire)
            return
        if self.happens(self.faults.duplicate):
            self.count("doubled")
            self.dial(wire.pair)
        wire.is_busy[side] = True
        self.call_later(self.delay(), self._arrive, wire, side, packet)

    def _arrive(self, wire: _Wire, side: int, packet: bytes) -> None:
        wire.is_busy[side] = False
        if wire.is_broken:
            return
        try:
            wire.ports[1 - side].receive(packet)
        except RemoteProtocolError:
            self.count("protocol errors")
            self._break(wire)
            return
        self._wake(wire, side)

    def _break(self, wire: _Wire | None) -> None:
        """Let a wire break; each end notices in its own time, and the end that dialled dials again."""
        if wire is None or wire.is_broken:
            return
        wire.is_broken = True
        for port in wire.ports:
            self.call_later(self.rng.uniform(0, NOTICE_SECONDS), self._notice, wire, port)

    def _notice(self, wire: _Wire, port: _Port) -> None:
        if isinstance(port, _BrokerPort) and port.host.machine is port.machine:
            port.lost()
        if self._wires.get(wire.pair) is wire and port is wire.ports[0]:
            if isinstance(port, _ClientPort) and port.host.session is port.session:
                port.lost()
            self.dial(wire.pair)


def _pair(a: str, b: str) -> tuple[str, str]:
    """Return two neighbours, the one that dials first."""
    return (a, b) if a < b else (b, a)


def _why_not(host: BrokerHost, other: str) -> str:
    """Return why a broker does not let another one connect."""
    return host.edge.broker.flow.rings.why_not(other)


def _match_beside(simulator: BrokerSimulator, host: BrokerHost, machine: BrokerMachine, job: Job) -> None:
    """Match costly events now, and have the core know later: its table changes meanwhile."""

    def conclude() -> None:
        if host.machine is machine:  # not the job of a life before the crash
            machine.node.core.publications.ahead.conclude(job)

    job.run()
    simulator.call_later(HOP_OF_JOB, conclude)
