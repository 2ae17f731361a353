"""Brokers to whom two interests are many already: what comes together crosses links as columns and in one question.

The worlds are those of `test_seeds`; without this their batches would be too small to be taken as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pytest

from tamis.model.language.templates import documents
from tamis.routing.core import interest
from tamis.routing.core.summary import Summary
from tests.simulation.world import RESTORED, World


@pytest.fixture
def n_arrivals() -> Iterator[list[int]]:
    """Make every batch a large one, and count what summaries take in batches."""
    counts: list[int] = []
    add_many = Summary.add_many

    def counted(self: Summary, arrivals: Sequence[Any], questions: Any) -> None:
        counts.append(len(arrivals))
        add_many(self, arrivals, questions)

    with (
        mock.patch.object(interest, "MANY", 1),
        mock.patch.object(documents, "_COLUMN", 1),
        mock.patch.object(Summary, "add_many", counted),
    ):
        yield counts


@pytest.mark.parametrize("policy", [None, "covering", "two-stage"])
def test_nothing_is_lost_or_comes_twice(n_arrivals: list[int], policy: str | None) -> None:
    for seed in range(200, 206):
        World(seed, policy=policy).run()
    assert sum(n_arrivals) > 100


def test_restored_disks(n_arrivals: list[int]) -> None:
    for seed in range(4):
        World(seed, policy="covering", weather=RESTORED).run()
    assert sum(count > 1 for count in n_arrivals) > 5


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1_000, 5_000, 500))
def test_soak_simulator_batches(n_arrivals: list[int], start: int) -> None:
    for seed in range(start, start + 500):
        World(seed).run()
    assert sum(n_arrivals) > 1_000
