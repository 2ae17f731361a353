"""The whole network, thousands of times: churn, noise, crashes, lost disks; the oracle of `world` judges each seed."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tamis.routing.policies import POLICIES
from tamis.runtime.simulator import NO_FAULTS
from tests.simulation.world import WEATHERS, Plan, World

#: Seeds of `make test`: the first ones in every run, and a window that moves whenever the code under test changes.
FIXED_SEEDS, MOVING_SEEDS, CHUNK = 100, 500, 25
SOAK_SEEDS, SOAK_CHUNK = 100_000, 100
ROOT = Path(__file__).parents[2]
FILE = "tests/simulation/test_seeds.py"
#: What the seeds exercise.
PARTS = ("algebra", "curves", "index", "kernels", "model", "node", "reduction", "routing", "runtime")


def run_seeds(seeds: range) -> int:
    """Run some seeds; an error names its seed, which replays it."""
    for seed in seeds:
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}; `FIRST_SEED={seed} pytest {FILE}` runs it again") from error
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
    if given := os.environ.get("FIRST_SEED"):
        return int(given)
    windows = (SOAK_SEEDS - FIXED_SEEDS) // MOVING_SEEDS
    return FIXED_SEEDS + int(state_of_the_code(), 16) % windows * MOVING_SEEDS


MOVING = first_moving_seed()


@pytest.mark.parametrize("start", [*range(0, FIXED_SEEDS, CHUNK), *range(MOVING, MOVING + MOVING_SEEDS, CHUNK)])
def test_seeds(start: int) -> None:
    assert run_seeds(range(start, start + CHUNK)) == CHUNK


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("weather", range(len(WEATHERS)))
def test_every_policy_in_every_weather(policy: str, weather: int) -> None:
    world = World(10_000 + weather, policy=policy, weather=WEATHERS[weather])
    world.run()
    assert sum(map(len, world.got.values())) > 0
    assert bool(world.sim.counts.get("dropped")) == (WEATHERS[weather] is not NO_FAULTS)


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
    for seed in range(60):
        world = World(seed)
        world.run()
        for what, number in world.sim.counts.items():
            counts[what] = counts.get(what, 0) + number
        required += sum(
            asked.active_since is not None and asked.active_since <= sent.time and world._matches(asked, sent)
            for asked in world.asked.values()
            for sent in world.sent.values()
        )
    assert required > 500
    assert min(counts[what] for what in ("dropped", "doubled", "late", "crashes", "disks lost")) > 10


def test_a_larger_world() -> None:
    plan = Plan(brokers=31, clients=20, subscriptions=60, unsubscriptions=30, events=60, cuts=6)
    World(3, plan=plan, policy="covering", weather=WEATHERS[2]).run()


@pytest.mark.soak
def test_broker_seeds_by_the_hundred_thousand() -> None:
    """In slices: what was done is noted beside pytest's cache, for this state of the code, and the next run goes on.

    SOAK_SECONDS=600 stops after ten minutes. Each chunk is told as it is done: ``make soak AREA=broker_seeds``.
    """
    done = Path(".pytest_cache") / f"broker-seeds-{state_of_the_code()}"
    done.parent.mkdir(exist_ok=True)
    known = set(done.read_text().split()) if done.exists() else set()
    starts = [start for start in range(0, SOAK_SEEDS, SOAK_CHUNK) if str(start) not in known]
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "inf"))
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        while starts and time.monotonic() < end:
            now, starts = starts[:workers], starts[workers:]
            assert set(pool.map(run_seeds, [range(start, start + SOAK_CHUNK) for start in now])) == {SOAK_CHUNK}
            known.update(map(str, now))
            with done.open("a") as file:
                file.writelines(f"{start}\n" for start in now)
            print(
                f"{len(known) * SOAK_CHUNK:,} of {SOAK_SEEDS:,} seeds, none lost, doubled, stale or stuck", flush=True
            )
    if len(known) * SOAK_CHUNK < SOAK_SEEDS:
        pytest.skip(f"{len(known) * SOAK_CHUNK:,} of {SOAK_SEEDS:,} seeds are done; run it again to go on")
