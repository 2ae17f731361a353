"""Brokers whose steps take one or two events and make one copy: what one step leaves is on disk, and goes on.

The worlds are those of `test_seeds`, with crashes and lost disks. Every batch and every event with several readers is
cut into steps, so a broker dies between two of them in most of the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest import mock

import pytest

from tamis.routing.core import publications
from tamis.routing.core.ahead import Ahead, Job
from tamis.routing.core.publications import Publications, StepLimits
from tests.simulation.world import RESTORED, World

SMALL = partial(StepLimits, events=2, copies=1, readers=1)


@pytest.fixture
def n_steps() -> Iterator[list[int]]:
    """Make all steps small, and count those that went on with something."""
    counts: list[int] = []
    advance = Publications.advance

    def counted(self: Publications, now: float) -> object:
        counts.append(int(self.has_waiting))
        return advance(self, now)

    with mock.patch.object(publications, "StepLimits", SMALL), mock.patch.object(Publications, "advance", counted):
        yield counts


@pytest.mark.parametrize("start", [0, 100])
def test_nothing_is_lost_or_comes_twice(n_steps: list[int], start: int) -> None:
    for seed in range(start, start + 9):
        World(seed).run()
    assert sum(n_steps) > 100


def test_restored_disks(n_steps: list[int]) -> None:
    for seed in range(6):
        World(seed, weather=RESTORED).run()
    assert sum(n_steps) > 25


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1_000, 5_000, 500))
def test_soak_simulator_small_steps(n_steps: list[int], start: int) -> None:
    for seed in range(start, start + 500):
        World(seed).run()
    assert sum(n_steps) > 1_000


@pytest.fixture
def jobs() -> Iterator[list[int]]:
    """Have every event matched beside the loop, and count the jobs."""
    counts: list[int] = []
    finish = Ahead.finish

    def counted(self: Ahead, job: Job, seconds: float, error: Exception | None = None) -> bool:
        counts.append(len(job.events))
        return finish(self, job, seconds, error)

    with mock.patch.object(Ahead, "is_costly", return_value=True), mock.patch.object(Ahead, "finish", counted):
        yield counts


def test_nothing_is_lost_when_events_are_matched_beside_the_loop(jobs: list[int]) -> None:
    """The table changes between the search for readers and the step that routes the event; brokers die in between."""
    for seed in range(300, 309):
        World(seed).run()
    assert sum(jobs) > 100


@pytest.mark.soak
@pytest.mark.parametrize("start", range(5_000, 7_000, 500))
def test_soak_simulator_beside_the_loop(jobs: list[int], start: int) -> None:
    for seed in range(start, start + 500):
        World(seed).run()
    assert sum(jobs) > 1_000
