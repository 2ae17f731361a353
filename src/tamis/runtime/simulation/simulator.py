"""A deterministic simulator: many nodes, one clock, one seed.

Nodes are the real ones (`tamis.node.node.Node`); the clock, the wires and the disks are simulated. Everything that
happens is an action at a moment in one queue, and everything that is left to chance comes from one generator, so a
seed replays a run byte for byte (`digest`). The queue runs dry when every message has been acknowledged: nothing
ticks for its own sake, so "the network is quiet" is a fact, not a guess.

What can go wrong is `Faults`: frames are dropped, doubled, delayed and thereby reordered; links are cut for a while;
nodes crash before or after their transaction was committed, or half way through its frames, and come back with their
disk or without it; clocks are off.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import InvariantError, LocalProtocolError
from tamis.node.effects import Key, Link
from tamis.node.link_end import Quota
from tamis.node.node import RETRY_SECONDS, Codec, Node, Transaction
from tamis.routing.messages import Tick

__all__ = ["NO_FAULTS", "Faults", "Host", "Simulator"]


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong; shares of 1, times in seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    #: The share of frames that take up to ``lateness`` longer, so that others overtake them.
    late: float = 0.0
    lateness: float = 2.0
    #: The chance that a node crashes while it handles a message, and of those the share that lose their disk.
    crash: float = 0.0
    lose_disk: float = 0.0
    #: How long a crashed node stays down.
    downtime: float = 3.0
    #: How far a node's clock may be off.
    skew: float = 0.0


NO_FAULTS = Faults()


@dataclass
class Host:
    """A machine: what runs on it, what its disk holds, and which life this is."""

    name: str
    make_core: Callable[[], Any]
    links: list[Link]
    node: Node[Any] | None = None
    disk: dict[Key, bytes] = field(default_factory=dict)
    epoch: int = 0
    skew: float = 0.0
    has_tick: bool = False
    #: Whether it may crash by chance.
    mortal: bool = True
    #: How much may wait in each of its outboxes; None: any amount.
    quota: Quota | None = None


class Simulator:
    """Nodes, wires, disks and a clock, all driven by one seed."""

    #: Steps of one `run` after which the network is called stuck.
    max_steps = 5_000_000

    def __init__(self, codec: Codec, *, seed: int = 0, faults: Faults = NO_FAULTS, hop_seconds: float = 0.01) -> None:
        self.now = 0.0
        self.faults = faults
        self.hosts: dict[str, Host] = {}
        self.steps = 0
        #: What happened, by kind: frames sent, dropped, doubled; crashes, restarts, disks lost.
        self.counts: dict[str, int] = {}
        self._codec = codec
        self._rng = random.Random(seed)
        self._hop_seconds = hop_seconds
        self._slow: dict[frozenset[str], float] = {}
        self._cut: set[frozenset[str]] = set()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._digest = hashlib.blake2b(digest_size=16)
        #: Called after each transaction with the host: tests look at the state here.
        self.watch: Callable[[Host], None] | None = None
        #: Called with a host that crashes, and whether its disk is about to be lost.
        self.mourn: Callable[[Host, bool], None] | None = None

    # Hosts

    def add(
        self,
        name: str,
        make_core: Callable[[], Any],
        links: list[Link],
        *,
        mortal: bool = True,
        quota: Quota | None = None,
    ) -> Host:
        """Add a machine and start it."""
        if name in self.hosts:
            raise LocalProtocolError(f"there is a node {name!r} already")
        host = self.hosts[name] = Host(name, make_core, links, mortal=mortal, quota=quota)
        host.skew = self._rng.uniform(-self.faults.skew, self.faults.skew)
        self.start(host)
        return host

    def attach(self, name: str, link: Link) -> None:
        """Give a running node a link to somebody new."""
        host = self.hosts[name]
        host.links.append(link)
        if host.node is not None:
            self._transact(host, lambda node, now: node.attach(link, now))

    def start(self, host: Host) -> None:
        """Start a machine that is down, with what is on its disk."""
        if host.node is not None:
            return
        if not host.disk:
            host.epoch += 1
        host.node = self.make_node(host)
        host.has_tick = False
        self._count("starts")
        self._transact(host, lambda node, now: node.start(now))

    def make_node(self, host: Host) -> Any:
        """Return the node of a machine that starts: a core behind reliable links."""
        return Node(host.make_core(), host.links, self._codec, host.epoch, host.disk, host.quota)

    def crash(self, host: Host, *, lose_disk: bool = False, restart_after: float | None = None) -> None:
        """Stop a machine at once; what was not committed is gone."""
        self._count("crashes")
        if lose_disk:
            self._count("disks lost")
        if self.mourn is not None:
            self.mourn(host, lose_disk)
        if lose_disk:
            host.disk = {}
        host.node = None
        if restart_after is not None:
            self.call_later(restart_after, self.start, host)

    # Wires

    def cut(self, a: str, b: str) -> None:
        """Let nothing pass between two nodes until `mend`."""
        self._cut.add(frozenset((a, b)))

    def mend(self, a: str, b: str) -> None:
        """Let frames pass again."""
        self._cut.discard(frozenset((a, b)))

    def slow(self, a: str, b: str, factor: float) -> None:
        """Make a link slower by a factor."""
        self._slow[frozenset((a, b))] = factor

    # Time

    def call_later(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do something when so much time has passed."""
        self._order += 1
        heapq.heappush(self._queue, (self.now + seconds, self._order, action, arguments))

    def submit(self, name: str, message: Any, *, sender: Link = "") -> None:
        """Give a node a message of its own user now; a node that is down has no user."""
        host = self.hosts[name]
        if host.node is None:
            raise LocalProtocolError(f"node {name!r} is down")
        self._transact(host, lambda node, now: node.submit(message, sender=sender, now=now))

    def run(self, until: float | None = None) -> None:
        """Let things happen until the network is quiet, or until a moment."""
        start = self.steps
        while self._queue and (until is None or self._queue[0][0] <= until):
            self.now, _, action, arguments = heapq.heappop(self._queue)
            self.steps += 1
            if self.steps - start > self.max_steps:
                raise InvariantError(f"stuck: {self.max_steps:,} steps without rest")
            action(*arguments)
        if until is not None:
            self.now = max(self.now, until)

    def digest(self) -> str:
        """Return a fingerprint of every frame that was ever sent, with its time."""
        return self._digest.hexdigest()

    # What happens

    def _transact(self, host: Host, call: Callable[[Node[Any], float], Transaction]) -> None:
        """Let a node take one step, then carry it out: first the disk, then the wires; or crash on the way."""
        node = host.node
        if node is None:
            return
        transaction = call(node, self.now + host.skew)
        if self.faults.crash and host.mortal and self._rng.random() < self.faults.crash:
            self._crash_within(host, transaction)
            return
        self.commit(host, transaction)
        self.send(host, transaction.frames)
        if transaction.again:
            self.call_later(self._hop_seconds, _go_on, self, host, node)
        self._keep_ticking(host)
        if self.watch is not None:
            self.watch(host)

    def commit(self, host: Host, transaction: Transaction) -> None:
        """Write the changes of a transaction to the disk, all or none."""
        for change in transaction.changes:
            if change.value is None:
                host.disk.pop(change.key, None)
            else:
                host.disk[change.key] = change.value

    def send(self, host: Host, frames: list[tuple[Link, bytes]]) -> None:
        """Put frames on the wires."""
        for link, data in frames:
            self._carry(host.name, link, data)

    def _crash_within(self, host: Host, transaction: Transaction) -> None:
        stage = self._rng.randrange(3)
        if stage > 0:
            self.commit(host, transaction)
        if stage > 1:
            self.send(host, transaction.frames[: self._rng.randrange(len(transaction.frames) + 1)])
        lose_disk = self._rng.random() < self.faults.lose_disk
        self.crash(host, lose_disk=lose_disk, restart_after=self._rng.uniform(0.1, self.faults.downtime))

    def _carry(self, source: str, target: str, data: bytes) -> None:
        self._count("frames")
        self._digest.update(f"{self.now!r} {source} {target} ".encode())
        self._digest.update(data)
        faults, pair, rng = self.faults, frozenset((source, target)), self._rng
        if pair in self._cut or (faults.drop and rng.random() < faults.drop):
            self._count("dropped")
            return
        copies = 1
        if faults.duplicate and rng.random() < faults.duplicate:
            self._count("doubled")
            copies = 2
        for _ in range(copies):
            delay = self._hop_seconds * self._slow.get(pair, 1.0)
            if faults.late and rng.random() < faults.late:
                self._count("late")
                delay += rng.uniform(0, faults.lateness)
            self.call_later(delay, self._arrive, source, target, data)

    def _arrive(self, source: str, target: str, data: bytes) -> None:
        host = self.hosts.get(target)
        if host is not None:  # peers may write to somebody who never was
            self._transact(host, lambda node, now: node.receive(data, link=source, now=now))

    def _keep_ticking(self, host: Host) -> None:
        if host.node is not None and not host.has_tick and host.node.is_waiting:
            host.has_tick = True
            self.call_later(RETRY_SECONDS, self._tick, host, host.node)

    def _tick(self, host: Host, node: Node[Any]) -> None:
        if host.node is node:  # not the timer of a life before the crash
            host.has_tick = False
            self._transact(host, lambda node, now: node.tick(now))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def _go_on(simulator: Simulator, host: Host, node: Node[Any]) -> None:
    """Let a core go on with work that was too much for one step."""
    if host.node is node:  # not the work of a life before the crash
        simulator.submit(host.name, Tick())
