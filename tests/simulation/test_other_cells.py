"""Brokers that come back with other cells, one after the other: links of two versions lose nothing (promise R10)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tamis.errors import InvariantError
from tamis.index.mics.link import version_of
from tamis.node.stream import StreamEnd
from tamis.routing.edge.core import EdgeCore
from tamis.routing.policies import Policy, find_policy
from tests.simulation.world import WEATHERS, World

#: The cells of a broker's first life and of its later ones: other axes, and cells of another size.
FIRST, LATER = find_policy("mics:bits=5").cells, find_policy("mics:bits=4,axes=2,false_positives=0.05").cells


@dataclass
class Repartitioned(World):
    """Every broker that restarts has the new cells from then on."""

    policy: str | None = "mics:bits=5"
    #: ``{broker: how often it started}``.
    lives: dict[str, int] = field(default_factory=dict)

    def _edge(self, broker: str, neighbours: dict[str, Policy], ends: dict[str, StreamEnd], audited: int) -> EdgeCore:
        self.lives[broker] = self.lives.get(broker, 0) + 1
        mine = FIRST if self.lives[broker] == 1 else LATER
        assert mine is not None
        policies = {link: replace(policy, cells=mine if policy.cells else None) for link, policy in neighbours.items()}
        before, self.cells = self.cells, mine
        edge = super()._edge(broker, policies, ends, audited)
        self.cells = before
        return edge

    def _check_link(self, broker: str, neighbour: str, live: dict[str, int]) -> None:
        """Two versions cannot be compared: a receiver of other cells must ask for everything, in its own cells."""
        ours, theirs = self.core(broker).table.cells, self.core(neighbour).table.cells
        if version_of(ours.spaces) == version_of(theirs.spaces):
            super()._check_link(broker, neighbour, live)
            return
        everything = [space.everything.tolist() for space in theirs.spaces]
        sent = {namespace for namespace, ranges in ours.sent_ranges(neighbour) if any(map(len, ranges))}
        held = {
            namespace: [ranges_of_space.tolist() for ranges_of_space in ranges]
            for namespace, ranges in theirs.ranges(broker)
        }
        if any(held.get(namespace) != everything for namespace in sent):
            raise InvariantError(f"{neighbour} does not ask {broker} for everything: their cells differ")

    def check_empty(self) -> None:
        """Ranges of other cells end with a table in one's own, so they are left where two versions are left."""
        if len({version_of(self.core(broker).table.cells.spaces) for broker in self.topology.brokers}) == 1:
            super().check_empty()


def run_seeds(seeds: range) -> tuple[int, int]:
    """Run seeds; return how many brokers changed their cells, and in how many worlds two versions were left."""
    changed = mixed = 0
    for seed in seeds:
        world = Repartitioned(seed, weather=WEATHERS[1 + seed % (len(WEATHERS) - 1)])
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        again = sum(lives > 1 for lives in world.lives.values())
        changed += again
        mixed += 0 < again < len(world.lives)
    return changed, mixed


def test_a_network_with_two_versions_of_cells_loses_nothing() -> None:
    changed, mixed = run_seeds(range(70_000, 70_006))
    assert changed >= 4
    assert mixed >= 2


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_soak_routing_a_network_with_two_versions_of_cells_loses_nothing(part: int) -> None:
    changed, _ = run_seeds(range(71_000 + 200 * part, 71_200 + 200 * part))
    assert changed > 100
