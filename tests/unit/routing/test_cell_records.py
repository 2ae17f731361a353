"""Ranges of neighbours on disk: a change writes what it changes, and a restart has the same ranges."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tamis import Number, Schema
from tamis.index.mics.plan import RangePlan
from tamis.model.language.compiler import compile_text
from tamis.model.subscription import Subscription
from tamis.node.content import Content
from tamis.node.core import LinkUp
from tamis.node.effects import Effect, Key, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.policies import CellOptions, find_policy
from tamis.routing.policies.cell_records import BLOCKS
from tests.effort import effort
from tests.link_sender import LinkSender

SCHEMA = Schema({"x": Number(0, 1_000), "y": Number(0, 1_000), "z": Number(0, 1_000)})
OTHER = Schema({"x": Number(0, 500), "y": Number(0, 1_000), "z": Number(0, 1_000)})
CELLS = CellOptions(bits=6)

Disk = dict[Key, bytes]


def broker(schema: Schema = SCHEMA) -> BrokerCore:
    return BrokerCore(
        "center", {"west": find_policy("mics:bits=6"), "east": find_policy("mics:bits=6")}, Content(schema)
    )


def update(number: int, plan: RangePlan, *, replace: bool = False) -> m.Update:
    return m.Update(number, (), (), replace, (m.Ranges("default", plan.to_bytes()),))


def write(disk: Disk, effects: Iterable[Effect]) -> list[Persist]:
    """Put on a disk what is persisted; return it."""
    changes = [effect for effect in effects if isinstance(effect, Persist)]
    for change in changes:
        if change.value is None:
            disk.pop(change.key, None)
        else:
            disk[change.key] = change.value
    return changes


def box(rng: random.Random, id: int, width: float = 30) -> Subscription:
    sides = (f"{name} BETWEEN {(low := rng.uniform(0, 1_000))} AND {low + width}" for name in "xyz")
    return compile_text(" AND ".join(sides), SCHEMA, id=id)


def ranges_asked(core: BrokerCore) -> list[list[list[int]]]:
    return [runs.tolist() for _, ranges in core.table.cells.ranges("west") for runs in ranges]


def passed_on(core: BrokerCore) -> list[list[list[int]]]:
    return [runs.tolist() for _, ranges in core.table.cells.sent_ranges("east") for runs in ranges]


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_has_the_ranges_that_were_asked_for(seed: int) -> None:
    rng = random.Random(seed)
    core, disk, table, living = broker(), Disk(), LinkSender(CELLS.spaces_of(SCHEMA)), list[int]()
    write(disk, core.handle(LinkUp(), sender="west", now=0))
    write(disk, core.handle(update(1, table.snapshot(), replace=True), sender="west", now=0))
    for number in range(2, 60):
        if living and rng.random() < 0.4:
            plan = table.remove(living.pop(rng.randrange(len(living))))
        elif rng.random() < 0.1:
            plan = table.snapshot()
        else:
            living.append(number)
            plan = table.add(box(rng, number, rng.choice([3, 30, 2_000])))
        write(disk, core.handle(update(number, plan, replace=plan.is_full), sender="west", now=0))
        expected = [runs.tolist() for runs in table.summary.ranges()] if any(map(len, table.summary.ranges())) else []
        assert ranges_asked(core) == expected
        again = broker()
        assert not [
            record for record in write(dict(disk), again.restore(disk, now=0)) if record.key[0] in ("ranges", "block")
        ]
        assert ranges_asked(again) == expected
        assert passed_on(again) == passed_on(core) or not living
        again.check_invariants()
    core.check_invariants()
    for id in living:
        number += 1
        write(disk, core.handle(update(number, table.remove(id)), sender="west", now=0))
    assert not [key for key in disk if key[0] in ("ranges", "block")]


def test_ranges_of_other_cells_are_everything_also_after_a_restart_until_a_snapshot_comes() -> None:
    core, disk = broker(), Disk()
    ours, others = LinkSender(CELLS.spaces_of(SCHEMA)), LinkSender(CELLS.spaces_of(OTHER))
    ours.add(box(random.Random(1), 1))
    others.add(compile_text("x < 10", OTHER, id=1))
    everything = [space.everything.tolist() for space in CELLS.spaces_of(SCHEMA)]
    write(disk, core.handle(LinkUp(), sender="west", now=0))
    write(disk, core.handle(update(1, ours.snapshot(), replace=True), sender="west", now=0))
    write(disk, core.handle(update(2, others.snapshot()), sender="west", now=0))
    assert ranges_asked(core) == passed_on(core) == everything
    again = broker()
    write(disk, again.restore(disk, now=0))
    assert ranges_asked(again) == passed_on(again) == everything
    for each in (core, again):
        each.handle(update(3, ours.snapshot(), replace=True), sender="west", now=0)
        assert ranges_asked(each) == passed_on(each) == [runs.tolist() for runs in ours.summary.ranges()]
        each.check_invariants()


def test_another_schema_at_a_restart_means_everything_and_the_old_blocks_go() -> None:
    core, disk = broker(), Disk()
    table = LinkSender(CELLS.spaces_of(SCHEMA))
    table.add(box(random.Random(1), 1))
    write(disk, core.handle(LinkUp(), sender="west", now=0))
    write(disk, core.handle(update(1, table.snapshot(), replace=True), sender="west", now=0))
    assert [key for key in disk if key[0] == "block"]
    again = broker(OTHER)
    write(disk, again.restore(disk, now=0))
    assert ranges_asked(again) == [space.everything.tolist() for space in CELLS.spaces_of(OTHER)]
    assert not [key for key in disk if key[0] == "block"]


def test_the_whole_table_of_an_earlier_format_becomes_blocks() -> None:
    disk, table, rng = Disk(), LinkSender(CELLS.spaces_of(SCHEMA)), random.Random(3)
    for id in range(20):
        table.add(box(rng, id))
    disk["ranges", "west", "default"] = table.snapshot().to_bytes()
    disk["spoken", "west"] = b"1"
    core = broker()
    write(disk, core.restore(disk, now=0))
    expected = [runs.tolist() for runs in table.summary.ranges()]
    assert ranges_asked(core) == expected
    write(disk, core.handle(update(2, table.remove(0)), sender="west", now=0))
    again = broker()
    write(disk, again.restore(disk, now=0))
    assert ranges_asked(again) == ranges_asked(core) == [runs.tolist() for runs in table.summary.ranges()] != expected


def test_a_subscription_without_bounds_writes_no_more_than_all_blocks() -> None:
    core, table = broker(), LinkSender(CELLS.spaces_of(SCHEMA))
    core.handle(LinkUp(), sender="west", now=0)
    core.handle(update(1, table.snapshot(), replace=True), sender="west", now=0)
    plan = table.add(compile_text("x >= 0 OR x IS NULL", SCHEMA, id=1))
    changes = write({}, core.handle(update(2, plan), sender="west", now=0))
    assert BLOCKS // 2 < len(changes) <= BLOCKS + 5


def test_a_change_costs_the_same_among_few_and_among_many() -> None:
    """Sixteen times as many ranges, and a change takes at most three times as long."""

    def cost(n: int) -> float:
        rng = random.Random(9)
        core, table = broker(), LinkSender(CELLS.spaces_of(SCHEMA))
        core.handle(LinkUp(), sender="west", now=0)
        for id in range(n):
            table.add(box(rng, id, 20))
        core.handle(update(1, table.snapshot(), replace=True), sender="west", now=0)
        plans = [table.add(box(rng, n + id, 20)) for id in range(200)]
        messages = [update(2 + i, plan) for i, plan in enumerate(plans)]

        def work() -> None:
            for message in messages:
                core.handle(message, sender="west", now=0)

        return effort(work, rounds=1)

    few, many = cost(250), cost(4_000)
    assert many <= 3 * few, (few, many)


def test_what_a_neighbour_passes_on_reaches_the_next_as_a_change() -> None:
    core, table, rng = broker(), LinkSender(CELLS.spaces_of(SCHEMA)), random.Random(4)
    for link in ("west", "east"):
        core.handle(LinkUp(), sender=link, now=0)
        core.handle(update(1, table.snapshot(), replace=True), sender=link, now=0)
    plan = table.add(box(rng, 1))
    sent = [effect for effect in core.handle(update(2, plan), sender="west", now=0) if isinstance(effect, Send)]
    [passed] = [effect.message for effect in sent if effect.link == "east" and isinstance(effect.message, m.Update)]
    [part] = passed.ranges
    assert RangePlan.from_bytes(part.plan).parts[0].added.tolist() == plan.parts[0].added.tolist()
