"""The machines of a simulated network: what runs on them, and what lasts when it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tamis.errors import LocalProtocolError
from tamis.node import records
from tamis.node.cursor import Cursor
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Outbox
from tamis.node.stream import Ends, Quota, Window
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.rights import Rights
from tamis.routing.former_neighbours import forget_neighbours
from tamis.routing.new_life import begin_new_life
from tamis.runtime.broker.config import LinkConfig
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.client.session import ClientSession
from tamis.runtime.links.overrides import settle_links
from tamis.runtime.simulation.disk import SimulatedDisk

__all__ = ["BrokerHost", "ClientHost", "MakeEdge", "WireLimits"]

#: By how much the number of a life is above that of the one before; links that are added again have lives in between.
LIVES = 1_000

#: Makes the core of a broker that starts, from the streams of its links and the number of its last audit record.
MakeEdge = Callable[[Ends, int], EdgeCore]


@dataclass(frozen=True)
class WireLimits:
    """How much may wait in the outbox of a link, and be under way on its wire; None: the usual.

    ``takes_parts`` is whether tables may cross its links in parts.
    """

    quota: Quota | None = None
    window: Window | None = None
    takes_parts: bool = True


@dataclass(eq=False)
class BrokerHost:
    """A machine with a broker: what runs, what its disk holds, and which life this is."""

    name: str
    make_edge: MakeEdge
    #: The links of its configuration file.
    configured: tuple[str, ...]
    limits: WireLimits
    machine: BrokerMachine | None = None
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    #: The last backup of the disk, if there is one.
    backup: SimulatedDisk | None = None
    epoch: int = 0
    skew: float = 0.0
    #: Commits that are under way, with what to call when they are durable.
    commits: list[tuple[list[Persist], Callable[[], None]]] = field(default_factory=list)
    has_tick: bool = False
    #: The links it has now.
    neighbours: tuple[str, ...] = ()

    def settle(self) -> dict[Key, bytes]:
        """Read the disk as `tamis.runtime.broker.open_broker` does: find the links, forget former neighbours."""
        if not self.disk.state:
            self.epoch += LIVES
        stored = self.disk.load()
        settled = settle_links(map(LinkConfig, self.configured), stored)
        self.neighbours = tuple(settled.links)
        epoch = records.EPOCH.find(stored) or self.epoch
        self.disk.commit([*settled.changes, *forget_neighbours(stored, self.neighbours, epoch)])
        return self.disk.load()

    def restore(self, backup: SimulatedDisk, now: float) -> None:
        """Put a copy of a backup in the place of the disk, as `tamis serve restore` does: a new life begins."""
        self.disk = backup.copy()
        self.settle()
        self.epoch += LIVES
        since = round(now * 1e6)
        self.disk.commit(begin_new_life(self.disk.load(), self.neighbours, epoch=self.epoch, since=since))

    @property
    def edge(self) -> EdgeCore:
        """The core; raises when the broker is down."""
        if self.machine is None:
            raise LocalProtocolError(f"{self.name!r} is down; restart it first")
        return self.machine.node.core

    @property
    def ends(self) -> Ends:
        """The streams of all links."""
        if self.machine is None:
            raise LocalProtocolError(f"{self.name!r} is down; restart it first")
        return self.machine.node.ends

    def overflow(self, link: Link) -> Outbox:
        """Return what waits behind the outbox of a link."""
        if self.machine is None:
            raise LocalProtocolError(f"{self.name!r} is down; restart it first")
        return self.machine.node.overflows.waiting(link)


@dataclass(eq=False)
class ClientHost:
    """A machine with a client; ``on_news`` is called when there may be something to read."""

    name: str
    broker: str
    rights: Rights
    #: The name of the link at the broker.
    link: Link
    session: ClientSession
    #: What a cursor file holds.
    kept: Cursor | None = None
    lives: int = 1
    on_news: Callable[[ClientHost], None] = lambda host: None
    #: Why the broker has ended this client; "" while it has not.
    refused: str = ""
    wake: Callable[[], None] = lambda: None

    @property
    def publisher(self) -> str:
        """The publisher in the ids of this client's events."""
        return f"{self.link}@{self.broker}"
