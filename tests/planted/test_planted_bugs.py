"""Tests of the tests: the simulator's judge objects to every broker bug of the catalogue, and only to the bug."""

from __future__ import annotations

import datetime as dt
import inspect
import random
from pathlib import Path
from typing import Any

import pytest

from tamis.errors import InvariantError, TamisError
from tamis.node.stream import Quota
from tests.planted.catalogue import CATALOGUE, Plant
from tests.simulation.world import WEATHERS, World

NAMES = Path(__file__).with_name("broker_bugs.txt")
#: Seeds within which a bug must show; most show within ten.
WITHIN = 1_000
#: Bugs that `make test` plants: others each day. `make planted` and `make soak` plant all.
SAMPLE = 30
#: Bugs that take dozens of seeds: never in the sample.
SLOW = {
    "a_gap_that_a_restart_forgets",
    "a_restart_forgets_which_batches_were_taken",
    "add_a_whole_table_to_the_old_one",
    "forget_in_a_crash_who_was_paused",
    "hand_out_what_came_before",
    "keep_what_was_retracted_in_the_matcher",
    "send_before_the_disk_has_it",
    "do_not_recheck_what_was_covered_together",
    "name_merges_without_their_namespace",
    "note_only_one_of_those_that_cover_together",
}


def world_of(plant: Plant, seed: int) -> World:
    weather = None if plant.weather is None else WEATHERS[plant.weather]
    return World(
        seed,
        policy=plant.policy,
        weather=weather,
        quota=plant.quota or Quota(),
        backlog=plant.backlog,
        window=plant.window,
    )


def find(plant: Plant, within: int = WITHIN) -> int:
    """Return the first seed at which the judge objects.

    Only ``InvariantError`` is a verdict: an event was lost, doubled or out of order, a table is stale, or a core found
    its own state inconsistent. Another error ends the seed without one: the plant may have provoked it itself.
    """
    for seed in range(within):
        with plant.planted():
            try:
                world_of(plant, seed).run()
            except InvariantError:
                return seed
            except (TamisError, KeyError):
                continue
    raise AssertionError(f"{plant.name} was not found in {within} seeds")


def assert_found_and_silent_otherwise(plant: Plant) -> None:
    """The seed that finds the bug finds nothing when the bug is not planted."""
    world_of(plant, find(plant)).run()


def test_no_bug_has_left_the_catalogue() -> None:
    names = [plant.name for plant in CATALOGUE]
    assert len(set(names)) == len(names)
    assert sorted(names) == NAMES.read_text(encoding="utf-8").split()


def test_every_bug_has_something_to_replace() -> None:
    missing = [plant.name for plant in CATALOGUE if not hasattr(plant.target, plant.attribute)]
    assert not missing


@pytest.mark.parametrize("plant", CATALOGUE, ids=lambda plant: plant.name)
def test_a_bug_takes_the_arguments_of_what_it_replaces(plant: Plant) -> None:
    """A replacement that raises TypeError proves nothing."""
    real = function_of(inspect.getattr_static(plant.target, plant.attribute))
    if not callable(real):
        return  # a field
    replacement = plant.make(getattr(plant.target, plant.attribute))
    parameters = inspect.signature(real).parameters.values()
    by_position = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if isinstance(replacement, staticmethod) and by_position[0].name == "cls":
        by_position.pop(0)
    by_name = {parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    inspect.signature(function_of(replacement)).bind(*by_position, **by_name)


def function_of(attribute: Any) -> Any:
    """Return the function behind a method of any kind, or behind a property."""
    if isinstance(attribute, property):
        return attribute.fget
    return attribute.__func__ if isinstance(attribute, staticmethod | classmethod) else attribute


def sample() -> list[Plant]:
    """Return some quick bugs; the same ones all day, in every process."""
    generator = random.Random(dt.datetime.now(dt.UTC).date().toordinal())
    return generator.sample([plant for plant in CATALOGUE if plant.name not in SLOW], SAMPLE)


@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_planted_bug_is_found(number: int) -> None:
    assert_found_and_silent_otherwise(sample()[number])


@pytest.mark.soak
@pytest.mark.parametrize("plant", CATALOGUE, ids=lambda bug: bug.name)
def test_every_planted_broker_bug_is_found(plant: Plant) -> None:
    assert_found_and_silent_otherwise(plant)


def test_an_error_of_the_plant_itself_is_not_a_verdict() -> None:
    def make(real: object) -> object:
        def provoke(*arguments: object, **named: object) -> None:
            raise KeyError("provoked")

        return provoke

    with pytest.raises(AssertionError, match="was not found in 3 seeds"):
        find(Plant("provoke", World, "_publish", make), within=3)
