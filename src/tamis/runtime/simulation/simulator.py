"""A deterministic simulator: one clock, one queue of actions, one seed.

Everything that happens is an action at a moment in one queue, and everything that is left to chance comes from one
generator, so a seed replays a run byte for byte (`digest`). The queue runs dry when nothing is under way: nothing ticks
for its own sake, so "the network is quiet" is a fact, not a guess.

What can go wrong is `Faults`. `tamis.runtime.simulation.brokers` says what they mean for brokers and clients, whose
wires break, `tamis.runtime.simulation.datagrams` for peers, whose messages are lost one by one.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tamis.errors import InvariantError

__all__ = ["NO_FAULTS", "Faults", "Simulator"]


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong; shares of 1, times in seconds."""

    #: The share of packets that are lost; a wire of brokers and clients breaks there.
    drop: float = 0.0
    #: The share of packets that come twice; brokers and clients dial again instead, while the old wire still stands.
    duplicate: float = 0.0
    #: The share of packets that take up to ``lateness`` longer.
    late: float = 0.0
    lateness: float = 2.0
    #: The chance that a node crashes at a commit, and of those the share that lose their disk.
    crash: float = 0.0
    lose_disk: float = 0.0
    #: The share of lost disks in whose place an older one comes, restored from a backup; brokers only.
    restore: float = 0.0
    #: How long a crashed node stays down.
    downtime: float = 3.0
    #: How far a node's clock may be off.
    skew: float = 0.0


NO_FAULTS = Faults()


class Simulator:
    """A clock, a queue of actions, chance, and what was counted."""

    #: Steps of one `run` after which the network is called stuck.
    max_steps = 5_000_000

    def __init__(self, *, seed: int = 0, faults: Faults = NO_FAULTS, hop_seconds: float = 0.01) -> None:
        self.now = 0.0
        self.faults = faults
        self.steps = 0
        #: What happened, by kind: packets, wires broken and dialled again; crashes, starts, disks lost.
        self.counts: dict[str, int] = {}
        self.rng = random.Random(seed)
        self._hop_seconds = hop_seconds
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def call_later(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        """Call a function after this many seconds of simulated time."""
        self._order += 1
        heapq.heappush(self._queue, (self.now + seconds, self._order, action, arguments))

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
        """Return a fingerprint of everything that was ever sent, with its time."""
        return self._digest.hexdigest()

    def count(self, kind: str) -> None:
        """Count one occurrence of a kind of event, such as a late packet."""
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def happens(self, share: float) -> bool:
        """Return True in a random ``share`` of all calls."""
        return bool(share) and self.rng.random() < share

    def delay(self) -> float:
        """Return how long a packet takes this time."""
        if self.happens(self.faults.late):
            self.count("late")
            return self._hop_seconds + self.rng.uniform(0, self.faults.lateness)
        return self._hop_seconds

    def note_sent(self, source: str, target: str, data: bytes) -> None:
        """Take note of something that is put on a wire."""
        self.count("frames")
        self._digest.update(f"{self.now!r} {source} {target} ".encode())
        self._digest.update(data)
