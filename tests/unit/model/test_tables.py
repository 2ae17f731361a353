"""Bulk tables: what is refused and where, what is missing, and what an engine may learn from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tamis
from tamis.errors import SchemaError, TableError
from tamis.model.schema import MAX_ATTRIBUTES, MAX_DECLARED, learn_from_event, presence_of
from tamis.model.tables import EventTable, SubscriptionTable, learn_from_table, table_columns

NUMBER = tamis.Schema({"x": tamis.Number()})
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])


def not_utf8(*values: bytes | None) -> pa.Array:
    """Return a string array whose bytes were never checked."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


class TestBoxes:
    @pytest.mark.parametrize(
        ("lo", "row"),
        [
            (np.array([[1], [2**53 + 1]]), 1),
            (np.array([[2**64 - 1]], np.uint64), 0),
            (np.array([[-(2**53) - 1]]), 0),
            ([[0.5], [2**53 + 1]], 1),
            (pd.DataFrame({"x": [1, 2**53 + 1]}), 1),
        ],
    )
    def test_integers_that_float64_cannot_hold_are_refused(self, lo: Any, row: int) -> None:
        high = np.full((len(lo), 1), np.inf)
        with pytest.raises(TableError, match=f"row {row}: 'x': .* is not exact as float64"):
            SubscriptionTable.from_boxes(["x"], lo, high)
        with pytest.raises(TableError, match="is not exact as float64"):
            SubscriptionTable.from_boxes(["x"], -high, lo)

    def test_a_frame_that_mixes_integers_and_floats_is_not_rounded(self) -> None:
        frame = pd.DataFrame({"x": [2**53 + 1], "y": [0.5]})
        with pytest.raises(TableError, match="row 0: 'x'"):
            SubscriptionTable.from_boxes(["x", "y"], frame, np.full((1, 2), np.inf))

    def test_integers_that_are_float64_are_taken(self) -> None:
        low = np.array([[2**53], [2**62], [-(2**63)]])
        table = SubscriptionTable.from_boxes(["x"], low, low)
        assert table.corners()[0].tolist() == [[2.0**53], [2.0**62], [-(2.0**63)]]

    @pytest.mark.parametrize(
        "lo",
        [[["a"]], np.array([["1"]]), np.array([[1.0]], object), [[None]], [[2**70]], [[1], [2, 3]], [[True]], None],
    )
    def test_what_is_not_an_array_of_numbers_is_refused(self, lo: Any) -> None:
        with pytest.raises(TableError, match="bounds of boxes are numbers"):
            SubscriptionTable.from_boxes(["x"], lo, [[5.0]])

    def test_a_nan_in_a_list_is_named(self) -> None:
        with pytest.raises(TableError, match="row 1: 'x': bounds nan and 5.0 are not a range"):
            SubscriptionTable.from_boxes(["x"], [[0], [float("nan")]], [[5], [5]])

    def test_a_masked_bound_is_refused(self) -> None:
        with pytest.raises(TableError, match="masked"):
            SubscriptionTable.from_boxes(["x"], np.ma.array([[1.0]], mask=[[True]]), [[5.0]])


class TestTexts:
    def test_only_arrow_is_taken(self) -> None:
        for other in (pd.DataFrame({"filter": ["x > 1"]}), {"filter": ["x > 1"]}):
            with pytest.raises(TableError, match="expected a pyarrow table or record batch, not"):
                SubscriptionTable.from_arrow(other)

    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            ({"filter": ["a", None]}, "row 1: the filter is None, not text"),
            ({"filter": [1]}, "row 0: the filter is 1, not text"),
            ({"filter": not_utf8(b"a = 1", b"\xff")}, r"row 1: the filter is b'\\xff', not text"),
            ({"filter": ["a", "b"], "namespace": [None, 7]}, "row 1: the namespace is 7, not text"),
            ({"filter": ["a"], "id": not_utf8(b"\xff")}, "row 0: a subscription id is a string or an int64"),
            ({"filter": ["a"], "expires": pa.array([2**62], pa.timestamp("s", "UTC"))}, "row 0: a timestamp outside"),
        ],
    )
    def test_bad_rows(self, columns: dict[str, Any], problem: str) -> None:
        with pytest.raises(TableError, match=problem):
            SubscriptionTable.from_arrow(pa.table(columns))

    def test_good_rows(self) -> None:
        table = SubscriptionTable.from_arrow(pa.table({"filter": ["a", "b"], "namespace": ["n", None]}))
        assert (table.texts, table.namespaces) == (["a", "b"], ["n", None])

    def test_ids_are_text(self) -> None:
        with pytest.raises(TableError, match="row 0: a subscription id"):
            SubscriptionTable.from_boxes(["x"], [[0.0]], [[1.0]], ids=["\ud800"])


class TestEvents:
    @pytest.mark.parametrize(
        "source", [TWICE, pd.DataFrame([[1, 2]], columns=["a", "a"]), {"a": [1], 1: [1], "1": [2]}]
    )
    def test_a_column_named_twice_is_named(self, source: Any) -> None:
        with pytest.raises(TableError, match="duplicate column '[a1]'"):
            table_columns(source)
        with pytest.raises(TableError, match="duplicate column"):
            learn_from_table(tamis.Schema(), source)

    def test_a_column_named_twice_makes_no_schema(self) -> None:
        for source in (TWICE, TWICE.schema):
            with pytest.raises(SchemaError, match="'a': duplicate column"):
                tamis.Schema.from_arrow(source)

    @pytest.mark.parametrize(
        "values", [np.array(5), "abc", {0: 1.0}, {1.0}, 5, pd.DataFrame({"a": [1]}), np.float64(3), pa.scalar(5)]
    )
    def test_what_is_not_an_array_is_refused(self, values: Any) -> None:
        with pytest.raises(TableError, match="column 'x': expected an array of values"):
            EventTable.of({"x": values}, NUMBER)

    def test_only_columns_of_the_schema_count(self) -> None:
        table = pa.table({f"c{i}": [i] for i in range(300)} | {"x": [7]})
        assert EventTable.of(table, NUMBER).event(0) == {"x": 7}

    @pytest.mark.parametrize(
        "values",
        [
            pa.array([{"a": 1}, None]),
            pa.chunked_array([pa.array([{"a": 1}]), pa.array([None], pa.struct([("a", pa.int64())]))]),
            pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
            [object(), None],
            np.array([1.0, np.nan]),
            np.array([object(), None]),
            np.ma.array([1, 2], mask=[False, True]),
            np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [True, True]]),
            pd.Series([1.0, np.nan]),
            pd.Series([{"a": 1}, None]),
            pd.Series(pd.to_datetime(["2026-01-01", None])),
            np.array(["2026-01-01", "NaT"], "datetime64[D]"),
        ],
    )
    def test_presence_of_values_of_no_known_type(self, values: Any) -> None:
        source = {"x": [1, 2], "other": values}
        assert list(EventTable.of(source, NUMBER, presence=True)) == [{"x": 1, "other": True}, {"x": 2}]
        assert list(EventTable.of(source, NUMBER)) == [{"x": 1}, {"x": 2}]

    def test_presence_in_an_empty_table(self) -> None:
        assert EventTable.of({"x": [], "other": []}, NUMBER, presence=True).columns["other"].present.shape == (0,)


class TestLearning:
    def test_events_stop_teaching_names_at_the_limit(self) -> None:
        schema = learn_from_event(tamis.Schema(), {f"a{i}": i for i in range(MAX_ATTRIBUTES + 9)})
        assert len(schema) == MAX_ATTRIBUTES
        assert learn_from_event(schema, {"new": 1, "a0": 2}) is schema
        assert presence_of(schema, {"new": 1, "a0": 2, "gone": None}) == {"new": True}

    def test_tables_stop_teaching_names_at_the_limit(self) -> None:
        columns = {f"a{i}": [i] for i in range(MAX_ATTRIBUTES + 9)}
        for source in (columns, pa.table(columns)):
            assert len(learn_from_table(tamis.Schema(), source)) == MAX_ATTRIBUTES

    def test_subscriptions_do_not(self) -> None:
        full = tamis.Schema({f"a{i}": tamis.Number() for i in range(MAX_DECLARED)})
        with pytest.raises(tamis.LimitError, match="1,025 is more than the 1,024"):
            full.extended({"new": tamis.Number()}, "the subscription")

    def test_nothing_is_learnt_from_a_name_that_is_none(self) -> None:
        assert len(learn_from_event(tamis.Schema(), {"": 1})) == 0
        assert len(learn_from_table(tamis.Schema(), {"": [1]})) == 0

    def test_masked_values_show_no_type(self) -> None:
        values = np.ma.array(["a", "b"], mask=[True, False])
        assert dict(learn_from_table(tamis.Schema(), {"a": values})) == {"a": tamis.String()}
        assert not learn_from_table(tamis.Schema(), {"a": np.ma.array([1], mask=True)})

    def test_presence_asks_for_a_mapping(self) -> None:
        with pytest.raises(tamis.EventError, match="an event must be a mapping"):
            presence_of(NUMBER, [1])  # type: ignore[arg-type]
