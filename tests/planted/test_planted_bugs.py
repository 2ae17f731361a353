"""Tests of the tests: every bug of the catalogue is found within 1,000 seeds of the simulator."""

from __future__ import annotations

import pytest

from tamis.errors import TamisError
from tamis.node.link_end import Quota
from tests.planted.catalogue import CATALOGUE, Plant
from tests.simulation.world import WEATHERS, World

#: Seeds within which a bug must show; most show within ten.
WITHIN = 1_000
#: Bugs that take dozens of seeds: looked for in `make soak`.
SLOW = {
    "add_a_whole_table_to_the_old_one",
    "forget_in_a_crash_who_was_paused",
    "do_not_recheck_what_was_covered_together",
    "name_merges_without_their_namespace",
    "note_only_one_of_those_that_cover_together",
}


def seeds_until_found(plant: Plant, within: int = WITHIN) -> int:
    """Return how many seeds it takes until the oracle objects."""
    weather = None if plant.weather is None else WEATHERS[plant.weather]
    for seed in range(within):
        with plant.planted():
            try:
                World(seed, policy=plant.policy, weather=weather, quota=plant.quota or Quota()).run()
            except (TamisError, KeyError):  # an oracle objects, or a table trips over what is not there
                return seed + 1
    raise AssertionError(f"{plant.name} was not found in {within} seeds")


def test_the_catalogue_is_large() -> None:
    assert len({plant.name for plant in CATALOGUE}) == len(CATALOGUE) >= 40


@pytest.mark.parametrize("plant", [one for one in CATALOGUE if one.name not in SLOW], ids=lambda one: one.name)
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert seeds_until_found(plant) <= WITHIN


@pytest.mark.soak
@pytest.mark.parametrize("plant", CATALOGUE, ids=lambda one: one.name)
def test_every_planted_broker_bug_is_found(plant: Plant) -> None:
    assert seeds_until_found(plant) <= WITHIN
