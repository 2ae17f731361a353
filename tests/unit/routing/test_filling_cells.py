"""A new link whose policy speaks ranges of cells is filled in slices, while subscriptions come, change and go."""

from __future__ import annotations

from unittest import mock

import pytest

from tamis import Number, Schema
from tamis.node.content import Content
from tamis.node.effects import Again, Persist
from tamis.routing import messages as m
from tamis.routing.core import broker
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.link_gaps import AddLink
from tamis.routing.policies import find_policy
from tamis.routing.policies.cell_tables import CellTables

CONTENT = Content(Schema({"a": Number(0, 999), "b": Number(0, 999)}))


def subscribe(core: BrokerCore, id: int, low: int) -> None:
    filter = CONTENT.write_filter(CONTENT.compile(f"a BETWEEN {low} AND {low + 3}"))
    core.handle(m.Subscribe(id, filter), sender="client", now=0.0)


@pytest.mark.parametrize("policy", ["mics", "two-stage", "covering"])
def test_no_step_fills_more_than_a_slice(policy: str) -> None:
    core = BrokerCore("here", {}, CONTENT)
    for id in range(200):
        subscribe(core, id, 4 * id)
    steps: list[int] = []
    counted = CellTables.add

    def add(self: CellTables, *arguments: object) -> None:
        steps[-1] += 1
        counted(self, *arguments)  # type: ignore[arg-type]

    with mock.patch.object(broker, "CHANGED_AT_ONCE", 16), mock.patch.object(CellTables, "add", add):
        steps.append(0)
        effects = core.handle(
            AddLink("there", find_policy(policy), Persist(("said", "there"), b"")), sender="", now=0.0
        )
        for turn in range(100):
            core.check_invariants()
            if not any(isinstance(effect, Again) for effect in effects):
                break
            if turn == 2:  # not told yet: one ends, one changes, and one comes
                core.handle(m.Unsubscribe(150), sender="client", now=0.0)
                steps.append(-16)
                subscribe(core, 151, 900)
                subscribe(core, 500, 950)
            steps.append(0)
            effects = core.handle(m.Tick(), sender="", now=0.0)
    assert not core.table.filling
    core.check_invariants()
    assert max(steps) <= 16, steps
    origins = core.table.cells.origins("there") | {
        origin for summary in core.table.summaries["there"].values() for origin in summary.members
    }
    assert len(origins) == 200
