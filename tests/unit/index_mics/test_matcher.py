"""The MICS matcher as users meet it: through the engine, with readers beside a writer, and what it says of itself."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tamis
from tamis.index.mics.matcher import MicsMatcher
from tamis.index.mics.space import ContentSpace
from tamis.index.mics.subscription_index import SubscriptionIndex
from tamis.index.protocols import Guarantee
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis_bench.workloads.boxes import make_boxes, make_texts

PLANE = Schema({"x": Number(0, 100), "y": Number(0, 100)})


@pytest.mark.parametrize("work", ["uniform4", "sparse20", "stock"])
def test_an_engine_gives_the_answers_of_the_packed_one(work: str) -> None:
    made = make_boxes(work, 400, 3_000)
    schema = tamis.Schema({name: tamis.Number() for name in made.names})
    batches = []
    for matcher in ("mics", "packed"):
        engine = tamis.Engine(schema, matcher=matcher)
        engine.subscribe_boxes(made.names, made.lo, made.hi)
        for id in range(0, 400, 7):
            engine.unsubscribe(id)
        batches.append(engine.match_table(made.events).to_arrow().to_pylist())
    assert batches[0] == batches[1]
    assert len(batches[0]) > 0


def test_texts_through_the_engine() -> None:
    made = make_texts(300, 100)
    engine, oracle = tamis.Engine(matcher="mics"), tamis.Engine(matcher="linear")
    for target in (engine, oracle):
        for id, text in enumerate(made.texts):
            target.subscribe(text, id=id)
    for event in made.events.to_pylist():
        assert engine.match(event) == oracle.match(event)


def test_an_engine_is_saved_and_loaded(tmp_path) -> None:
    engine = tamis.Engine(matcher="mics")
    engine.subscribe("price < 10", id="a")
    engine.save(tmp_path / "saved")
    assert tamis.Engine.load(tmp_path / "saved").match({"price": 5}) == ["a"]


def test_spaces_are_learned_again_as_subscriptions_come() -> None:
    matcher = MicsMatcher()
    assert matcher.spaces[0].axes == ()
    matcher.add(0, compile_text("x < 50", PLANE))
    assert [axis.attribute for axis, _ in matcher.spaces[0].axes] == ["x"]
    for row in range(1, 40):
        matcher.add(row, compile_text(f"x < 50 AND y BETWEEN {row} AND {row + 1}", PLANE))
    assert [axis.attribute for axis, _ in matcher.spaces[0].axes] == ["y", "x"]
    assert matcher.match({"x": 1, "y": 7.5}).tolist() == [0, 7]
    assert matcher.statistics().details["axes"] == "y (number), x (number)"
    assert matcher.statistics().details["candidates_per_event"] < 10
    stated = MicsMatcher([ContentSpace.from_schema(PLANE, ["x"])])
    stated.add(0, compile_text("y < 50", PLANE))
    assert [axis.attribute for axis, _ in stated.spaces[0].axes] == ["x"]


def test_guarantees_are_stated_apart() -> None:
    assert MicsMatcher.guarantee is Guarantee.EXACT
    assert SubscriptionIndex.guarantee is Guarantee.COMPLETE


def test_a_row_that_is_taken_and_one_that_is_not_there() -> None:
    matcher = MicsMatcher()
    matcher.add(0, compile_text("x < 50", PLANE))
    with pytest.raises(KeyError):
        matcher.add(0, compile_text("x < 50", PLANE))
    with pytest.raises(KeyError):
        matcher.remove(1)
    index = SubscriptionIndex()
    with pytest.raises(KeyError):
        index.remove(1, np.array([[0, 5]]))


def test_readers_beside_a_writer_see_whole_states() -> None:
    """A row that stays is always found; one that is gone for good is not."""
    matcher = MicsMatcher()
    for row in range(50):
        matcher.add(row, compile_text(f"x BETWEEN {row} AND {row + 1} AND y < 50", PLANE))
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            rows = matcher.match({"x": 20.5, "y": 1.0}).tolist()
            if rows[:1] != [20]:
                wrong.append(rows)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for row in range(50, 1_100):
        matcher.add(row, compile_text(f"x BETWEEN {row % 97} AND {row % 97 + 1} AND y < {row % 50 + 1}", PLANE))
        if row % 3:
            matcher.remove(row)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong


def test_the_index_alone() -> None:
    index = SubscriptionIndex()
    for owner in range(3_000):
        index.add(owner, np.array([[owner, owner + 99]]))
    offsets, owners = index.owners(np.arange(3_000))
    assert len(index) == 3_000
    assert sorted(owners[offsets[500] : offsets[501]].tolist()) == list(range(401, 501))
    assert index.owners_meeting(np.array([[10, 12], [11, 13]])).tolist() == list(range(14))
    assert index.possible_covers(np.array([[50, 60], [70, 70]])).tolist() == list(range(51))
    assert index.possible_covers(np.empty((0, 2), np.int64)).tolist() == []
    assert index.owners([])[0].tolist() == [0]
