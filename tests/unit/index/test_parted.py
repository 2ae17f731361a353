"""Several matchers as one: the rows of every part, each in its own range."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.index.linear_scan import LinearMatcher
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.parted import PartedMatcher
from tamis.index.protocols import EventMatcher, Guarantee
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.tables import EventTable, SubscriptionTable
from tamis.model.types import Number

SCHEMA = Schema({"x": Number(), "y": Number()})


def parts(*sizes: int) -> tuple[PartedMatcher, LinearMatcher]:
    """Return a matcher of several parts, the second kind of matcher in turn, and the oracle with the same rows."""
    generator = np.random.default_rng(len(sizes))
    oracle = LinearMatcher()
    parted: PartedMatcher | None = None
    first = 0
    for number, size in enumerate(sizes):
        raw = {}
        matcher: EventMatcher = PackedMatcher(raw.get, few=5) if number % 2 else LinearMatcher()
        if parted is None:
            parted = PartedMatcher(matcher)
        else:
            parted.append(first, matcher)
        for row in range(size):
            low = round(float(generator.uniform(0, 90)), 1)
            raw[row] = compile_text(f"x BETWEEN {low} AND {low + 20} AND (y > {low} OR y IS NULL)", SCHEMA)
            parted.add(first + row, raw[row])
            oracle.add(first + row, raw[row])
        first += size
    assert parted is not None
    return parted, oracle


def test_it_answers_as_one_matcher_would() -> None:
    parted, oracle = parts(3, 40, 1, 25)
    generator = np.random.default_rng(9)
    events = [{"x": float(x), "y": float(y)} for x, y in generator.uniform(0, 110, (200, 2))]
    events += [{"x": 50.0}, {}]
    table = EventTable.of({name: [event.get(name) for event in events] for name in SCHEMA}, SCHEMA)
    removed = (0, 2, 3, 42, 43, 44, 68)
    for leaving in (removed, ()):
        matches, wanted = parted.match_table(table), oracle.match_table(table)
        assert matches.offsets.tolist() == wanted.offsets.tolist()
        for i, event in enumerate(events):
            own = slice(matches.offsets[i], matches.offsets[i + 1])
            assert sorted(matches.rows[own].tolist()) == wanted.rows[own].tolist() == parted.match(event).tolist()
        for row in leaving:
            parted.remove(row)
            oracle.remove(row)
        assert len(parted) == len(oracle)
    with pytest.raises(KeyError):
        parted.remove(3)


def test_boxes_go_to_the_last_part() -> None:
    parted, _ = parts(2, 3)
    table = SubscriptionTable.from_boxes(["x"], [[200.0]], [[300.0]])
    parted.add_boxes(np.array([5], np.int32), table)
    assert parted.match({"x": 250.0}).tolist() == [5]
    assert parted.find_sides(5) == {"x": (200.0, 300.0)}
    assert parted.parts(6)[-1][:2] == (2, 6)


def test_merges_belong_to_their_part() -> None:
    parted, oracle = parts(2, 600, 2, 700)
    while (plan := parted.plan_merge()) is not None:
        plan.run()
        parted.install(plan)
    assert not parted.wants_merge()
    assert parted.match({"x": 50.0}).tolist() == oracle.match({"x": 50.0}).tolist()


def test_the_weakest_part_decides_the_guarantee() -> None:
    class Complete(LinearMatcher):
        guarantee = Guarantee.COMPLETE

    parted = PartedMatcher(LinearMatcher())
    assert parted.guarantee == Guarantee.EXACT
    parted.append(0, Complete())
    assert parted.guarantee == Guarantee.COMPLETE
    assert parted.statistics().details["parts"] == 2
