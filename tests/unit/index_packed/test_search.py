"""A writer adds an axis in the middle of a search: the search answers from the snapshots it began with."""

from __future__ import annotations

import numpy as np
import pytest

from tamis import Number, Schema
from tamis.index.packed import search
from tamis.index.packed.core import PackedCore
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable
from tamis.node.content import Content

SCHEMA = Schema({"a": Number(), "b": Number(), "c": Number()})
#: One exact box, one with two boxes, one without any box.
TEXTS = ["a > 1", "a > 2 OR b < 5", "a IS NULL"]
#: What the writer adds: plain and special boxes that need axis ``c``.
LATE = ["c > 0", "c > 0 OR a > 0"]


def subscription(id: int, text: str) -> Subscription:
    return Subscription(id, Content(SCHEMA).compile(text))


@pytest.fixture
def core() -> PackedCore:
    subscriptions = {row: subscription(row, text) for row, text in enumerate([*TEXTS, *LATE])}
    core = PackedCore(subscriptions.get)
    for row in range(len(TEXTS)):
        core.add(row, subscriptions[row])
    return core


def add_late(core: PackedCore) -> None:
    for row, text in enumerate(LATE, len(TEXTS)):
        core.add(row, subscription(row, text))


def test_an_axis_that_comes_during_a_match(core: PackedCore, monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"a": 3.0, "c": 1.0}
    axes = core._store.axes
    place = type(axes).place

    def slow(event, n_axes):
        point = place(axes, event, n_axes)
        monkeypatch.undo()
        add_late(core)
        return point

    monkeypatch.setattr(axes, "place", slow)
    assert core.match(event).tolist() == [0, 1]
    assert core.match(event).tolist() == [0, 1, 3, 4]


def test_an_axis_that_comes_while_a_table_is_matched(core: PackedCore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = EventTable.of({"a": np.full(600, 3.0), "c": np.ones(600)}, SCHEMA)
    points_of = search.points_of

    def slow(events, axes, n_axes):
        points = points_of(events, axes, n_axes)
        monkeypatch.undo()
        add_late(core)
        return points

    monkeypatch.setattr(search, "points_of", slow)
    assert np.unique(core.match_table(table).rows).tolist() == [0, 1]
    assert np.unique(core.match_table(table).rows).tolist() == [0, 1, 3, 4]


def test_an_event_is_never_narrower_than_a_snapshot(core: PackedCore) -> None:
    """A kernel would read past the end of the event."""
    index = core._store.plain
    early = index.snapshot
    index.grow(5)
    assert index.match_point(np.full(5, 3.0), snapshot=early).tolist() == [0]
    assert index.match_points(np.full((2, 5), 3.0), snapshot=early)[1].tolist() == [0, 0]
    for width in (early.n_axes - 1, early.n_axes, 4):
        with pytest.raises(ValueError, match="expected 5"):
            index.match_point(np.full(width, 3.0), snapshot=index.snapshot)
        with pytest.raises(ValueError, match="array of 5 columns"):
            index.match_points(np.full((2, width), 3.0), snapshot=index.snapshot)
    with pytest.raises(ValueError, match="expected 5"):
        index.match_point(np.full(6, 3.0))
