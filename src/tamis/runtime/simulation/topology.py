"""Trees of brokers: line, star, balanced, random, or given edge by edge.

The network is acyclic ([mics] section 2): between two brokers there is exactly one path.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tamis.errors import ModelError

__all__ = ["MAX_BROKERS", "SHAPES", "Topology"]

#: Brokers of one simulated network.
MAX_BROKERS = 10_000

SHAPES = ("balanced", "line", "star", "random")


@dataclass(frozen=True)
class Topology:
    """A tree: the names of the brokers, and who is whose neighbour.

    >>> Topology.of("line", 3).edges
    (('b1', 'b2'), ('b2', 'b3'))
    """

    brokers: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.brokers) <= MAX_BROKERS:
            raise ModelError(f"a network has 1 to {MAX_BROKERS:,} brokers, not {len(self.brokers):,}")
        if len(set(self.brokers)) < len(self.brokers):
            raise ModelError("two brokers have the same name")
        if unknown := {name for edge in self.edges for name in edge} - set(self.brokers):
            raise ModelError(f"an edge names {min(unknown)!r}, which is not a broker")
        if len(self.edges) != len(self.brokers) - 1 or len(self._reached()) != len(self.brokers):
            raise ModelError("the brokers do not form a tree: they must all be connected, and without a circle")

    @classmethod
    def of(cls, shape: str, n: int, *, seed: int = 0, fan_out: int = 2) -> Topology:
        """Return a tree of ``n`` brokers called b1, b2, ...: one of `SHAPES`."""
        if not 1 <= n <= MAX_BROKERS:
            raise ModelError(f"a network has 1 to {MAX_BROKERS:,} brokers, not {n:,}")
        rng = random.Random(seed)
        parents: dict[str, Callable[[int], int]] = {
            "line": lambda i: i - 1,
            "star": lambda i: 1,
            "balanced": lambda i: (i - 2) // fan_out + 1,
            "random": lambda i: rng.randrange(1, i),
        }
        if shape not in parents:
            raise ModelError(f"unknown topology {shape!r}; choose from {', '.join(SHAPES)}")
        edges = tuple((f"b{parents[shape](i)}", f"b{i}") for i in range(2, n + 1))
        return cls(tuple(f"b{i}" for i in range(1, n + 1)), edges)

    @classmethod
    def of_edges(cls, edges: Iterable[tuple[str, str]]) -> Topology:
        """Return the tree with these edges."""
        pairs = tuple((str(a), str(b)) for a, b in edges)
        return cls(tuple(dict.fromkeys(name for pair in pairs for name in pair)), pairs)

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """Return the neighbours of a broker, sorted."""
        return tuple(sorted({b if a == broker else a for a, b in self.edges if broker in (a, b)}))

    def side(self, broker: str, neighbour: str) -> set[str]:
        """Return the brokers on ``broker``'s side of the edge to a neighbour."""
        return self._reached(broker, without=neighbour)

    def draw(self) -> str:
        """Return a picture of the tree in text.

        >>> print(Topology.of("star", 3).draw())
        b1
        ├── b2
        └── b3
        """
        lines = [self.brokers[0]]
        around = self._around()
        waiting = [(child, "", i == 0) for i, child in enumerate(reversed(around[self.brokers[0]]))]
        parents = {child: self.brokers[0] for child, _, _ in waiting}
        while waiting:
            broker, indent, last = waiting.pop()
            lines.append(f"{indent}{'└── ' if last else '├── '}{broker}")
            below = [neighbour for neighbour in around[broker] if neighbour != parents[broker]]
            parents |= dict.fromkeys(below, broker)
            deeper = indent + ("    " if last else "│   ")
            waiting += [(child, deeper, i == 0) for i, child in enumerate(reversed(below))]
        return "\n".join(lines)

    def _around(self) -> dict[str, list[str]]:
        around: dict[str, list[str]] = {name: [] for name in self.brokers}
        for a, b in self.edges:
            around[a].append(b)
            around[b].append(a)
        return around

    def _reached(self, start: str | None = None, without: str | None = None) -> set[str]:
        around = self._around()
        reached, waiting = {without} if without else set(), [start or self.brokers[0]]
        while waiting:
            broker = waiting.pop()
            if broker not in reached:
                reached.add(broker)
                waiting += around[broker]
        return {name for name in reached if name is not None and name != without}
