"""Simulates nodes without reliable links, such as peers (`tamis.node.datagrams`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import LocalProtocolError
from tamis.node.datagrams import DatagramNode, Datagrams
from tamis.node.effects import Key, Link
from tamis.node.node import Codec
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults, Simulator

__all__ = ["DatagramHost", "DatagramSimulator"]


@dataclass
class DatagramHost:
    """A machine: what runs on it, and what its disk holds."""

    name: str
    make_core: Callable[[], Any]
    node: DatagramNode | None = None
    disk: dict[Key, bytes] = field(default_factory=dict)


class DatagramSimulator(Simulator):
    """A simulator whose wires carry single messages, each of which may be lost, doubled or late."""

    def __init__(self, codec: Codec, *, seed: int = 0, faults: Faults = NO_FAULTS, hop_seconds: float = 0.01) -> None:
        super().__init__(seed=seed, faults=faults, hop_seconds=hop_seconds)
        self.hosts: dict[str, DatagramHost] = {}
        self._codec = codec

    def add(self, name: str, make_core: Callable[[], Any]) -> DatagramHost:
        """Add a machine and start it."""
        if name in self.hosts:
            raise LocalProtocolError(f"node {name!r} exists already")
        host = self.hosts[name] = DatagramHost(name, make_core)
        self.start(host)
        return host

    def start(self, host: DatagramHost) -> None:
        """Start a machine that is down, with what is on its disk."""
        if host.node is None:
            host.node = DatagramNode(host.make_core(), self._codec, host.disk)
            self.count("starts")
            self._carry_out(host, host.node.start(self.now))

    def crash(self, host: DatagramHost, *, lose_disk: bool = False) -> None:
        """Stop a machine at once."""
        self.count("crashes")
        if lose_disk:
            self.count("disks lost")
            host.disk = {}
        host.node = None

    def submit(self, name: str, message: Any, *, sender: Link = "") -> None:
        """Give a node a message of its own user now; a node that is down has no user."""
        host = self.hosts[name]
        if host.node is None:
            raise LocalProtocolError(f"node {name!r} is down")
        self._carry_out(host, host.node.submit(message, sender=sender, now=self.now))

    def _carry_out(self, host: DatagramHost, transaction: Datagrams) -> None:
        """Write a transaction to the disk, then put its messages on the wires."""
        for change in transaction.changes:
            if change.value is None:
                host.disk.pop(change.key, None)
            else:
                host.disk[change.key] = change.value
        for link, data in transaction.frames:
            self._carry(host.name, link, data)

    def _carry(self, source: str, target: str, data: bytes) -> None:
        self.note_sent(source, target, data)
        if self.happens(self.faults.drop):
            self.count("dropped")
            return
        copies = 1
        if self.happens(self.faults.duplicate):
            self.count("doubled")
            copies = 2
        for _ in range(copies):
            self.call_later(self.delay(), self._arrive, source, target, data)

    def _arrive(self, source: str, target: str, data: bytes) -> None:
        host = self.hosts.get(target)
        if host is not None and host.node is not None:  # a peer may send to an address that no peer has
            self._carry_out(host, host.node.receive(data, link=source, now=self.now))
