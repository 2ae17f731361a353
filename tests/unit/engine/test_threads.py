"""Several threads share a table: the same answer, and they do run at the same time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tamis import Engine, Number, Schema
from tamis.engine.threads import match_parts
from tamis.errors import EventError, ModelError
from tamis.index.protocols import MatchRows
from tamis.model.tables import EventTable
from tamis_bench.workloads.boxes import make_boxes, make_texts


@pytest.mark.parametrize("name", ["dense20", "sparse20", "uniform4", "ads122"])
def test_boxes_give_the_same_rows_in_the_same_order(name: str) -> None:
    work = make_boxes(name, 5_000, 1_500)
    engine = Engine(Schema({name: Number() for name in work.names}))
    engine.subscribe_boxes(work.names, work.lo, work.hi)
    alone = engine.match_table(work.events)
    for threads in (2, 3, 16):
        shared = engine.match_table(work.events, threads=threads)
        assert np.array_equal(shared.offsets, alone.offsets)
        assert np.array_equal(shared.rows, alone.rows)
        assert shared.offsets.dtype == alone.offsets.dtype
        assert shared.rows.dtype == alone.rows.dtype


def test_texts_regions_and_gaps_give_the_same_answers() -> None:
    work, engine = make_texts(400, 1_100), Engine()
    for text in work.texts:
        engine.subscribe(text)
    engine.subscribe("S_INTERSECTS(area, POLYGON((0 0, 9 0, 0 9, 0 0)))")
    engine.subscribe("venue IS NULL AND price > 100")
    areas = [None if i % 5 == 0 else f"POINT ({i % 20} 1)" for i in range(1_100)]
    events = {name: work.events[name] for name in work.events.column_names} | {"area": areas}
    alone, shared = engine.match_table(events), engine.match_table(events, threads=2)
    assert shared.to_arrow().equals(alone.to_arrow())
    assert len(alone) > 100


def test_a_bad_row_is_named_by_its_place_in_the_table_and_skipped_there() -> None:
    engine = Engine(Schema({"x": Number()}))
    engine.subscribe("x >= 0")
    values = [1.0] * 700 + ["no number"] + [1.0] * 300
    with pytest.raises(EventError) as refused:
        engine.match_table({"x": values}, threads=2)
    assert refused.value.row == 700
    matches = engine.match_table({"x": values}, threads=2, on_bad="skip")
    assert np.flatnonzero(np.diff(matches.offsets) == 0).tolist() == [700]


def test_the_parts_are_matched_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)

    def match(events: EventTable) -> MatchRows:
        both.wait()  # breaks unless two threads come here
        return MatchRows(np.arange(len(events) + 1), np.arange(len(events), dtype=np.int32))

    events = EventTable.of({"x": np.arange(600.0)}, Schema({"x": Number()}))
    offsets, rows = match_parts(match, events, 2)
    assert offsets.tolist() == list(range(601))
    assert rows.tolist() == [*range(300), *range(300)]


@pytest.mark.parametrize("n", [769, 770, 1_023])
def test_a_table_that_cannot_be_divided_evenly_is_matched_whole(n: int) -> None:
    engine = Engine(Schema({"x": Number()}))
    engine.subscribe_boxes(["x"], np.arange(float(n))[:, None], np.arange(float(n))[:, None])
    matches = engine.match_table({"x": np.arange(float(n))}, threads=3)
    assert matches.offsets.tolist() == list(range(n + 1))
    assert matches.rows.tolist() == list(range(n))


def test_a_small_table_needs_no_second_thread() -> None:
    caller = threading.current_thread()

    def match(events: EventTable) -> MatchRows:
        assert threading.current_thread() is caller
        return MatchRows(np.zeros(len(events) + 1, np.int64), np.zeros(0, np.int32))

    for n in (0, 1, 511):
        events = EventTable.of({"x": np.zeros(n)}, Schema({"x": Number()}))
        assert match_parts(match, events, 4).offsets.tolist() == [0] * (n + 1)


def test_no_thread_at_all_is_refused() -> None:
    with pytest.raises(ModelError, match="threads must be at least 1, not 0"):
        Engine().match_table({"x": [1.0]}, threads=0)
