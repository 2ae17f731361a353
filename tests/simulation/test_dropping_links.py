"""Links that drop events while they are full: no publisher is refused, and what is lost was told as a gap (G23)."""

from __future__ import annotations

import pytest

from tamis.node.stream import Quota
from tamis.runtime.simulation.simulator import Faults
from tests.simulation.world import World

#: No disk is lost: it would take what it counted with it.
STORMS = (Faults(drop=0.1, duplicate=0.1, late=0.2), Faults(drop=0.1, late=0.2, crash=0.05, skew=5.0))

#: Seeds of `make test`: two that find gaps which are not passed on, and two others; and those of a soak.
SEEDS, SOAK_SEEDS = (0, 1, 32, 38), range(400)


def run(seed: int) -> tuple[int, int]:
    """Run a world whose outboxes hold three messages; return the events that were dropped, and those told as missed."""
    weather = STORMS[seed % len(STORMS)]
    world = World(seed, weather=weather, quota=Quota(3), backlog=100_000, drops=True)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    refused = [id for id, sent in world.sent.items() if sent.refused]
    assert not [id for id in refused if world.publishers[id.publisher] not in world.muted]
    dropped = sum(counts.dropped for broker in world.topology.brokers for counts in world.core(broker).counters.values())
    return dropped, sum(count for gaps in world.gaps.values() for count in gaps.values())


def test_what_full_links_drop_is_told_as_a_gap() -> None:
    outcomes = [run(seed) for seed in SEEDS]
    assert sum(dropped for dropped, _ in outcomes) > 10, "the outboxes were never full"
    assert sum(missed for _, missed in outcomes) > 10


@pytest.mark.soak
@pytest.mark.parametrize("start", range(SOAK_SEEDS.start, SOAK_SEEDS.stop, 36))
def test_what_full_links_drop_is_told_as_a_gap_in_many_worlds(start: int) -> None:
    assert sum(run(seed)[0] for seed in range(start, min(start + 36, SOAK_SEEDS.stop))) > 10
