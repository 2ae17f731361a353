"""`tamis.covering_index`: ids, texts and tables in front of every covering index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.errors import DuplicateSubscriptionError, ModelError, SchemaError, UnknownSubscriptionError

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
    asked = tamis.SubscriptionTable.from_boxes(["x"], [[1.0], [15.0], [95.0]], [[2.0], [25.0], [99.0]])
    assert index.find_covers(asked) == ["low", None, 2]
    assert index.find_covers(["x BETWEEN 21 AND 22", "x < 3"]) == ["high", None]
    wide = tamis.SubscriptionTable.from_boxes(["x"], [[0.0], [91.0]], [[50.0], [np.inf]])
    assert index.find_covered_each(wide) == [[3, "high", "low"], []]
    assert index.find_covered_each(["x >= 0"]) == [[2, 3, "high", "low"]]


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
