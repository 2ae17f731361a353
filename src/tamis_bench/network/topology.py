"""The shapes of networks that are measured: the links, where events enter and where the subscriptions are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["ONE_BROKER", "TOPOLOGIES", "BrokerTree"]


@dataclass(frozen=True)
class BrokerTree:
    """A tree of brokers 0, 1, 2 and so on. The broker of ``parents[i - 1]`` is the one that broker ``i`` dials."""

    name: str
    parents: Sequence[int]
    #: The broker at which events are published, and those at which readers subscribe.
    entry: int
    homes: Sequence[int]

    @property
    def n_brokers(self) -> int:
        """The number of brokers."""
        return len(self.parents) + 1

    @property
    def links(self) -> list[tuple[int, int]]:
        """(broker that dials, broker that is dialled) of each link."""
        return list(enumerate(self.parents, 1))

    def hops(self, broker: int) -> int:
        """Return the number of links between the entry and a broker.

        >>> [TOPOLOGIES["tree"].hops(broker) for broker in range(7)]
        [1, 0, 2, 1, 1, 3, 3]
        """
        return len(set(self._to_root(broker)) ^ set(self._to_root(self.entry)))

    def role(self, broker: int) -> str:
        """Return "entry", "home" or, for a broker that only forwards, "inner"."""
        return "entry" if broker == self.entry else "home" if broker in self.homes else "inner"

    def _to_root(self, broker: int) -> list[int]:
        """Return the brokers from this one up to the root, the root left out: one per link."""
        return [broker, *self._to_root(self.parents[broker - 1])] if broker else []


ONE_BROKER: Final = BrokerTree("one broker", (), 0, (0,))

#: By name. In the tree events enter at an inner broker, so that two homes are one link away and two are three.
TOPOLOGIES: Final = {
    topology.name: topology
    for topology in (
        BrokerTree("pair", (0,), 1, (0,)),
        BrokerTree("line", (0, 1), 2, (0,)),
        BrokerTree("tree", (0, 0, 1, 1, 2, 2), 1, (3, 4, 5, 6)),
    )
}
