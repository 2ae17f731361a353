"""`tamis.covering_index`: ids, texts and tables in front of every covering index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.errors import (
    DuplicateSubscriptionError,
    ModelError,
    SchemaError,
    SubscriptionSyntaxError,
    UnknownSubscriptionError,
)
from tamis.index.dominance.index import DominanceIndex

KINDS = ["exact", "linear", "zcurve"]
SCHEMA = tamis.Schema({"x": tamis.Number(0, 100), "symbol": tamis.String()})


def made(kind: str) -> tamis.CoverIndex:
    return tamis.covering_index(SCHEMA, kind, epsilon=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_come_and_go(kind: str) -> None:
    index = made(kind)
    assert index.add("x < 9", id="a") == "a"
    assert index.add("x < 5 AND symbol = 'IBM'") == 1
    assert index.find_cover("x < 5") == "a"
    assert index.find_covered("x < 9 OR x > 50") == [1, "a"]
    index.remove("a")
    assert index.find_cover("x < 5") is None
    assert len(index) == 1
    assert "a" not in index
    with pytest.raises(UnknownSubscriptionError, match="'a'"):
        index.remove("a")
    with pytest.raises(DuplicateSubscriptionError, match="subscription 1 exists"):
        index.add("x < 1", id=1)
    assert index.statistics()["kind"] == kind
    assert index.statistics()["size"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tables(kind: str) -> None:
    index = made(kind)
    boxes = tamis.SubscriptionTable.from_boxes(["x"], [[0.0], [20.0]], [[10.0], [30.0]], ids=["low", "high"])
    assert index.add_table(boxes) == ["low", "high"]
    assert index.add_table(tamis.SubscriptionTable.from_arrow(pa.table({"filter": ["x > 90"]}))) == [2]
    assert index.add_table(tamis.SubscriptionTable.from_boxes(["x"], [[5.0]], [[6.0]])) == [3]
    question = tamis.SubscriptionTable.from_boxes(["x"], [[1.0], [15.0], [95.0]], [[2.0], [25.0], [99.0]])
    assert index.find_covers(question) == ["low", None, 2]
    assert index.find_covers(["x BETWEEN 21 AND 22", "x < 3"]) == ["high", None]
    wide = tamis.SubscriptionTable.from_boxes(["x"], [[0.0], [91.0]], [[50.0], [np.inf]])
    assert index.find_covered_each(wide) == [[3, "high", "low"], []]
    assert index.find_covered_each(["x >= 0"]) == [[2, 3, "high", "low"]]
    texts = tamis.SubscriptionTable.from_arrow(pa.table({"filter": ["x BETWEEN 1 AND 2", "x >= 0"]}))
    assert index.find_covers(texts) == ["low", None]
    assert index.find_covered_each(texts) == [[], [2, 3, "high", "low"]]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_texts_are_answered_as_single_ones(kind: str) -> None:
    index = made(kind)
    texts = [f"x BETWEEN {i % 17} AND {40 + i % 23}" for i in range(60)]
    texts += [f"x < {20 + i} OR symbol IN ('A{i % 3}', 'B{i % 4}')" for i in range(30)]
    texts += [f"symbol LIKE 'A{i % 5}%' AND x > {i}" for i in range(20)]
    for id, text in enumerate(texts):
        index.add(text, id)
    questions = [*texts[::3], "x BETWEEN 18 AND 19", "symbol = 'A1'", "x = 999"]
    covers = index.find_covers(questions)
    assert covers == [index.find_cover(question) for question in questions]
    assert index.find_covered_each(iter(questions)) == [index.find_covered(question) for question in questions]
    assert covers.count(None) < len(questions) // 2
    assert index.find_covers([]) == []
    with pytest.raises(SubscriptionSyntaxError):
        index.find_covers(["x < 1", "x <<"])


def test_exact_batches_go_to_the_index_together(monkeypatch: pytest.MonkeyPatch) -> None:
    index, batches = made("exact"), []
    index.add("x < 9 OR symbol = 'IBM'", id="a")
    find_cover_many = DominanceIndex.find_cover_many

    def counted(self: DominanceIndex, subscriptions: Any) -> Any:
        batches.append(len(subscriptions))
        return find_cover_many(self, subscriptions)

    monkeypatch.setattr(DominanceIndex, "find_cover_many", counted)
    assert index.find_covers(["x < 5", "x < 10", "symbol = 'IBM'"]) == ["a", None, "a"]
    assert batches == [3]


def test_a_wrong_choice() -> None:
    with pytest.raises(ModelError, match="choose from cells, exact, linear, projection, zcurve"):
        tamis.covering_index(SCHEMA, "best")
    with pytest.raises(ModelError, match="epsilon is a share"):
        tamis.covering_index(SCHEMA, "zcurve", epsilon=1.5)
    with pytest.raises(ModelError, match="1 to 32 bits"):
        tamis.covering_index(SCHEMA, "zcurve", k=0)
    with pytest.raises(ModelError, match="Hilbert curve has 1 to 16 bits, not 20"):
        tamis.covering_index(SCHEMA, "zcurve", k=20, curve="hilbert")
    with pytest.raises(ModelError, match="unknown curve 'peano'; choose from gray, hilbert, z"):
        tamis.covering_index(SCHEMA, "zcurve", curve="peano")


def test_types_are_learned_and_kept() -> None:
    index = tamis.covering_index()
    index.add("x < 1", id="a")
    with pytest.raises(SchemaError, match="known as a number"):
        index.add("x = 'one'", id="b")
    assert len(index) == 1
