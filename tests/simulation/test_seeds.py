"""The whole network, thousands of times: churn, noise, crashes, lost disks; the oracle of `world` judges each seed."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tamis.routing.policies import POLICIES
from tamis.runtime.simulation.simulator import NO_FAULTS
from tests.simulation.world import RESTORED, WEATHERS, Plan, World

#: Seeds of `make test`: the first ones in every run, and a window that moves whenever the code under test changes.
FIXED_SEEDS, MOVING_SEEDS, CHUNK = 100, 200, 25
#: The first of the fixed seeds are run by the test that counts what they do.
COUNTED_SEEDS = 50
SOAK_SEEDS, SOAK_CHUNK = 100_000, 10_000
ROOT = Path(__file__).parents[2]
FILE = "tests/simulation/test_seeds.py"
#: What the seeds exercise.
PARTS = ("algebra", "curves", "index", "kernels", "model", "node", "reduction", "routing", "runtime")


def run_seed(seed: int) -> World:
    """Run a seed and return its world; an error names the seed, which replays it."""
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}; `FIRST_SEED={seed} pytest {FILE}` runs it again") from error
    return world


def run_seeds(seeds: range) -> int:
    """Run some seeds and return how many."""
    for seed in seeds:
        run_seed(seed)
    return len(seeds)


def state_of_the_code() -> str:
    """Return a name for what the seeds exercise: seeds that passed before a change prove nothing after it."""
    digest = hashlib.blake2b(digest_size=6)
    for part in PARTS:
        for path in sorted((ROOT / "src" / "tamis" / part).rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update((ROOT / "tests" / "simulation" / "world.py").read_bytes())
    return digest.hexdigest()


def first_moving_seed() -> int:
    """Return where the moving window begins: chosen by the code under test, or by FIRST_SEED.

    The same code runs the same seeds, so a change elsewhere fails nothing here; every change of the code under test is
    tried on seeds that no version before it was written against.
    """
    if first_seed := os.environ.get("FIRST_SEED"):
        return int(first_seed)
    windows = (SOAK_SEEDS - FIXED_SEEDS) // MOVING_SEEDS
    return FIXED_SEEDS + int(state_of_the_code(), 16) % windows * MOVING_SEEDS


MOVING = first_moving_seed()


@pytest.mark.parametrize(
    "start", [*range(COUNTED_SEEDS, FIXED_SEEDS, CHUNK), *range(MOVING, MOVING + MOVING_SEEDS, CHUNK)]
)
def test_seeds(start: int) -> None:
    assert run_seeds(range(start, start + CHUNK)) == CHUNK


def test_a_seed_whose_broker_loses_its_disk_behind_a_refusal() -> None:
    """It lost an event once; `test_lost_disk` has the reason as a story of its own."""
    World(51_739).run()


def test_a_seed_whose_client_leaves_a_subscription_while_deliveries_for_it_are_under_way() -> None:
    """The next delivery is for two subscriptions and still names the former one, whose reader gets nothing more."""
    run_seed(32_344)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("weather", range(len(WEATHERS)))
def test_every_policy_in_every_weather(policy: str, weather: int) -> None:
    world = World(10_000 + weather, policy=policy, weather=WEATHERS[weather])
    world.run()
    assert sum(map(len, world.got.values())) > 0
    assert bool(world.sim.counts.get("dropped")) == (WEATHERS[weather] is not NO_FAULTS)


#: Chains of a simplifier, a finder of covers and what follows, and cells whose gaps follow the table.
VARIANTS = (
    "covering:finder=cells,axes=2",
    "subsumption:finder=zcurve,epsilon=0.3,near=20",
    "gap:finder=cells,false_positives=0.1",
    "two-stage:finder=projection,k=2,axes=1,groups=2",
    "mics:bits=5,false_positives=0.05",
    "mics:bits=4,axes=2,ranges=5",
)


@pytest.mark.parametrize("policy", VARIANTS)
@pytest.mark.parametrize("weather", [1, 3])
def test_policies_with_options_lose_nothing(policy: str, weather: int) -> None:
    world = World(20_000 + weather, policy=policy, weather=WEATHERS[weather % len(WEATHERS)])
    world.run()
    assert sum(map(len, world.got.values())) > 0


@pytest.mark.soak
@pytest.mark.parametrize("policy", VARIANTS)
def test_soak_policies_with_options_lose_nothing(policy: str) -> None:
    for seed in range(30_000, 30_200):
        World(seed, policy=policy).run()


def run_restored_seeds(seeds: range) -> int:
    """Run seeds in which disks are restored from backups; returns how many disks were."""
    restored = 0
    for seed in seeds:
        world = World(seed, weather=RESTORED)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed} with restored disks: {error}") from error
        restored += world.sim.counts.get("disks restored", 0)
    return restored


@pytest.mark.parametrize("start", [0, MOVING])
def test_disks_that_are_restored_from_backups(start: int) -> None:
    assert run_restored_seeds(range(start, start + 20)) > 20


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 10_000, 1_000))
def test_soak_simulator_restored_disks(start: int) -> None:
    assert run_restored_seeds(range(start, start + 1_000)) > 1_000


def test_a_seed_replays_byte_for_byte() -> None:
    worlds = [World(seed) for seed in (11, 11, 15)]
    for world in worlds:
        world.run()
    first, again, other = (world.sim.digest() for world in worlds)
    assert first == again != other


def test_the_oracle_sees_deliveries_and_faults() -> None:
    """A judge that never sees anything would find everything in order."""
    counts: dict[str, int] = {}
    required = 0
    for seed in range(COUNTED_SEEDS):
        world = run_seed(seed)
        for what, number in world.sim.counts.items():
            counts[what] = counts.get(what, 0) + number
        required += sum(
            subscription.active_since is not None
            and subscription.active_since <= sent.time
            and world._matches(subscription, sent)
            for subscription in world.subscribed.values()
            for sent in world.sent.values()
        )
    assert required > 500
    assert min(counts[what] for what in ("dropped", "doubled", "late", "crashes", "disks lost")) > 10


def test_a_larger_world() -> None:
    plan = Plan(brokers=31, clients=20, subscriptions=60, unsubscriptions=30, events=60, cuts=6)
    World(3, plan=plan, policy="covering", weather=WEATHERS[2]).run()


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, SOAK_SEEDS, SOAK_CHUNK))
def test_broker_seeds_by_the_hundred_thousand(start: int) -> None:
    """In slices, each a test that `make soak` runs once for a state of the code: ``make soak AREA=broker_seeds``."""
    workers = os.cpu_count() or 1
    chunks = [range(first, first + CHUNK) for first in range(start, start + SOAK_CHUNK, CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        assert sum(pool.map(run_seeds, chunks)) == SOAK_CHUNK
