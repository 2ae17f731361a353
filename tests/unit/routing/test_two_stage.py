"""Cells before exact filters: what they reject, what they propose, and which cells they are."""

from __future__ import annotations

import random

import pytest

import tamis
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import InvariantError, ModelError
from tamis.model.language.compiler import compile_text
from tamis.model.subscription import Subscription
from tamis.routing.core.counters import Counters
from tamis.routing.core.summary import Origin
from tamis.routing.policies import POLICIES, CellOptions, find_policy
from tamis.routing.policies.cell_tables import CellTables, common_cells
from tamis.routing.policies.two_stage import TwoStageTable

SCHEMA = tamis.Schema({name: tamis.Number(0, 100) for name in "abcd"})


def ask(text: str, id: int = 0) -> Subscription:
    return compile_text(text, SCHEMA, id=id)


def some(n: int, seed: int = 5) -> list[Subscription]:
    """Return boxes that are narrow on d, wide on a, and leave b and c open."""
    rng, drawn = random.Random(seed), []
    for id in range(n):
        d, a = rng.randrange(95), rng.randrange(40)
        drawn.append(ask(f"d BETWEEN {d} AND {d + 3} AND a >= {a}", id))
    return drawn


@pytest.mark.parametrize("options", [CellOptions(), CellOptions(n_axes=1, n_groups=2)])
def test_two_stages_say_what_the_filters_say(options: CellOptions) -> None:
    rng, counters, subscriptions = random.Random(3), Counters(), some(60)
    table = TwoStageTable(options, counters)
    for row, subscription in enumerate(subscriptions):
        table.add(row, subscription)
    for row in range(0, 60, 3):
        table.remove(row)
    left = [subscription for row, subscription in enumerate(subscriptions) if row % 3]
    table.check_invariants()
    for _ in range(200):
        event = {name: rng.randrange(101) for name in "abd"}
        assert table.matches_any(event) == any(matches_subscription(event, subscription) for subscription in left)
    assert counters.screened == 200
    assert 0 < counters.rejected < 200
    assert counters.filters_spared > 5 * counters.filters_asked > 0


def test_filters_that_are_not_in_the_cells_are_noticed() -> None:
    table = TwoStageTable(CellOptions(), Counters())
    table.add(1, ask("a < 5"))
    table._subscriptions.clear()
    with pytest.raises(InvariantError, match="1 filters lie in cells, 0 are held"):
        table.check_invariants()


def axes(options: CellOptions) -> list[list[str]]:
    return [[axis.attribute for axis, _ in space.axes] for space in options.spaces_of(SCHEMA)]


def test_cells_take_the_first_attributes_or_those_that_tell_subscriptions_apart() -> None:
    assert axes(CellOptions(n_axes=2)) == [["a", "b"]]
    assert axes(CellOptions(n_axes=2, n_groups=2)) == [["a", "c"], ["b", "d"]]
    assert axes(CellOptions(n_axes=1).fitted_to(some(30))) == [["d"]]
    assert axes(CellOptions(n_axes=1, n_groups=2).fitted_to(some(30))) == [["d"], ["a"]]
    assert CellOptions().fitted_to([]) == CellOptions()
    assert axes(CellOptions(n_axes=9, n_groups=1).fitted_to([ask("a = 1")])) == [["a"]]
    assert CellOptions().spaces_of(tamis.Schema({"s": tamis.String()}))[0].n_keys == 1


def test_a_policy_fits_its_cells_and_nothing_else() -> None:
    fitted = find_policy("mics-gap").fitted_to(some(30))
    assert fitted.cells is not None
    assert (fitted.name, fitted.cells.gap, len(fitted.cells.spaces)) == ("mics-gap", 16, 1)
    assert find_policy("covering").fitted_to(some(30)) is POLICIES["covering"]


def test_links_agree_on_their_cells() -> None:
    gap = CellOptions(gap=4)
    assert common_cells([None, gap, CellOptions()]) == gap
    with pytest.raises(ModelError, match="links speak of different cells"):
        common_cells([CellOptions(), CellOptions(bits=6)])
    with pytest.raises(ModelError, match="different cells"):
        tamis.Network([("a", "b"), ("b", "c")], {("a", "b"): "mics", ("c", "b"): "mics-groups"}, schema=SCHEMA)


@pytest.mark.parametrize("wrong", [{"n_axes": 0}, {"n_groups": 0}, {"bits": 0}, {"gap": -1}])
def test_cells_without_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="cells need axes"):
        CellOptions(**wrong)


def test_fitted_cells_let_fewer_events_through() -> None:
    """The same subscriptions over one link: by the first attribute, which they hardly bound, or by the fitted one."""
    needless, subscriptions = [], some(10)
    events = [{"a": a, "d": d} for a in range(0, 101, 10) for d in range(101)]
    wanted = [
        event for event in events if any(matches_subscription(event, subscription) for subscription in subscriptions)
    ]
    for options in (CellOptions(n_axes=1), CellOptions(n_axes=1).fitted_to(subscriptions)):
        tables = CellTables(SCHEMA, {"east": options}, options)
        for subscription in subscriptions:
            tables.add("east", Origin("zoe", str(subscription.id)), subscription)
        receiver = CellTables(SCHEMA, {"west": options}, options)
        for namespace, plan in tables.take_plans("east"):
            receiver.apply("west", namespace, receiver.read(plan), [])
        passed = [event for event in events if list(receiver.wanting(event, "default", set()))]
        assert all(event in passed for event in wanted)
        needless.append(len(passed) - len(wanted))
    assert needless[1] < needless[0] / 2
