"""The engine's surface: ids, namespaces, expiry, learning, tables, explanations."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

import tamis
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse

SCHEMA = tamis.Schema({"symbol": tamis.String(), "price": tamis.Number(0, 10_000), "halted": tamis.Boolean()})


class Clock:
    """A clock that stands still until told."""

    now = 0

    def __call__(self) -> int:
        return self.now


class TestSubscribe:
    def test_the_first_example(self) -> None:
        engine = tamis.Engine(SCHEMA)
        assert engine.subscribe("symbol = 'IBM' AND price < 100", id="alice") == "alice"
        assert engine.match({"symbol": "IBM", "price": 99.5}) == ["alice"]
        assert engine.match({"symbol": "IBM", "price": 100}) == []
        assert engine.match({"price": 1}) == []

    def test_ids_sort_numbers_first_then_strings_by_code_point(self) -> None:
        engine = tamis.Engine(SCHEMA)
        for id in ("b", 10, "Z", 9, "a", "\U0001f600", "\uffff"):
            engine.subscribe("price > 0", id=id)
        assert engine.match({"price": 1}) == [9, 10, "Z", "a", "b", "\uffff", "\U0001f600"]

    def test_missing_ids_are_numbers_from_one_counter_that_steps_over_taken_ones(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("price > 0", id=1)
        assert [engine.subscribe("price > 0") for _ in range(3)] == [0, 2, 3]
        engine.unsubscribe(3)
        assert engine.subscribe("price > 0") == 4

    @pytest.mark.parametrize("id", [True, 1.5, b"x", (1,), 2**63, "\ud800"])
    def test_other_ids_are_refused(self, id: object) -> None:
        with pytest.raises(tamis.TableError, match="a subscription id is a string or an int64"):
            tamis.Engine(SCHEMA).subscribe("price > 0", id=id)  # type: ignore[arg-type]

    def test_numpy_ids_become_numbers(self) -> None:
        assert tamis.Engine(SCHEMA).subscribe("price > 0", id=np.int64(7)) == 7  # type: ignore[arg-type]

    def test_a_taken_id_changes_nothing(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("price > 5", id="a")
        with pytest.raises(tamis.DuplicateSubscriptionError, match="'a' exists already"):
            engine.subscribe("price > 0", id="a")
        assert engine.match({"price": 1}) == []

    def test_an_id_can_return(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("price > 5", id="a")
        engine.unsubscribe("a")
        engine.subscribe("price < 5", id="a")
        assert engine.match({"price": 1}) == ["a"]
        assert engine.match({"price": 9}) == []

    def test_unsubscribing_an_unknown_id(self) -> None:
        with pytest.raises(tamis.UnknownSubscriptionError, match="there is no subscription 'ghost'"):
            tamis.Engine(SCHEMA).unsubscribe("ghost")

    def test_a_subscription_as_json(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe({"op": "<", "args": [{"property": "price"}, 5]}, id="json")
        assert engine.match({"price": 1}) == ["json"]
        assert str(engine.explain({"price": 1}, "json")).startswith("match: subscription 'json'\n  price < 5")

    def test_an_unknown_matcher(self) -> None:
        with pytest.raises(tamis.ModelError, match="unknown matcher 'magic'; choose one of"):
            tamis.Engine(SCHEMA, matcher="magic")

    def test_a_matcher_that_fails_leaves_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = tamis.Engine(SCHEMA, matcher="linear")

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr("tamis.index.linear_scan.LinearMatcher.add", fail)
            with pytest.raises(MemoryError):
                engine.subscribe("price > 0", id="a")
        assert len(engine) == 0
        assert engine.subscribe("price > 0", id="a") == "a"
        assert engine.match({"price": 1}) == ["a"]

    @pytest.mark.parametrize("matcher", ["packed", "linear", "counting"])
    def test_boxes_with_a_taken_id_are_all_refused(self, matcher: str) -> None:
        engine = tamis.Engine(matcher=matcher)
        with pytest.raises(tamis.DuplicateSubscriptionError, match="'a' exists"):
            engine.subscribe_boxes(["x"], [[0], [1], [2]], [[1], [2], [3]], ids=["a", "b", "a"])
        assert (len(engine), len(engine.schema), engine.match({"x": 1})) == (0, 0, [])

    def test_ids_are_the_same_however_they_are_named(self) -> None:
        engine = tamis.Engine()
        engine.subscribe_boxes(["x"], [[0]] * 3, [[1]] * 3)
        engine.subscribe("x > 0", id=7)
        for id in (np.int64(1), np.int64(7)):
            assert id in engine
            engine.unsubscribe(id)  # type: ignore[arg-type]
            assert id not in engine
        assert True not in engine
        assert [0] not in engine
        for wrong in (True, [0], 0.0):
            with pytest.raises(tamis.TableError, match="a subscription id is a string or an int64"):
                engine.unsubscribe(wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"namespace": 5}, "a namespace must be a string, not 5"),
            ({"metadata": {"a": 1}}, "metadata must be a mapping from strings to strings"),
            ({"metadata": [1]}, "metadata must be a mapping"),
        ],
    )
    def test_what_could_not_be_saved_is_refused(self, arguments: dict[str, Any], problem: str) -> None:
        with pytest.raises(tamis.ModelError, match=problem):
            tamis.Engine().subscribe("x > 0", **arguments)

    def test_wrong_things_where_a_schema_or_a_table_belongs(self) -> None:
        with pytest.raises(tamis.ModelError, match="expected a tamis.Schema, not dict"):
            tamis.Engine({"x": tamis.Number()})  # type: ignore[arg-type]
        with pytest.raises(tamis.TableError, match="expected a tamis.SubscriptionTable, not Table"):
            tamis.Engine().subscribe_table(pa.table({"id": [1]}))  # type: ignore[arg-type]


class TestNamespaces:
    def test_they_never_cross(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("price > 0", id="a", namespace="red")
        engine.subscribe("price > 0", id="a", namespace="blue")
        assert engine.match({"price": 1}) == []
        assert engine.match({"price": 1}, namespace="red") == ["a"]
        engine.unsubscribe("a", namespace="red")
        assert engine.match({"price": 1}, namespace="red") == []
        assert engine.match({"price": 1}, namespace="blue") == ["a"]
        assert len(engine) == 1


class TestExpiry:
    def test_an_expired_subscription_is_gone(self) -> None:
        clock = Clock()
        engine = tamis.Engine(SCHEMA, clock=clock)
        engine.subscribe("price > 0", id="short", expires="1970-01-01T00:00:10Z")
        engine.subscribe("price > 0", id="long")
        assert engine.match({"price": 1}) == ["long", "short"]
        clock.now = 10_000_000
        assert engine.match({"price": 1}) == ["long"]
        assert engine.match_table({"price": [1]}).of(0) == ["long"]
        assert "short" not in engine
        assert len(engine) == 1

    def test_an_id_that_returned_does_not_inherit_the_old_end(self) -> None:
        clock = Clock()
        engine = tamis.Engine(SCHEMA, clock=clock)
        engine.subscribe("price > 0", id="a", expires=10)
        engine.unsubscribe("a")
        engine.subscribe("price > 0", id="a", expires=100)
        clock.now = 50
        assert engine.match({"price": 1}) == ["a"]

    def test_an_expired_id_is_free(self) -> None:
        clock = Clock()
        engine = tamis.Engine(SCHEMA, clock=clock)
        engine.subscribe("price > 0", id="a", expires=10)
        clock.now = 10
        engine.subscribe("price < 0", id="a")
        assert engine.match({"price": 1}) == []
        assert engine.match({"price": -1}) == ["a"]

    def test_a_time_without_a_zone_is_refused(self) -> None:
        with pytest.raises(tamis.ModelError, match="expires: a time without a zone"):
            tamis.Engine(SCHEMA).subscribe("price > 0", expires=dt.datetime(2026, 1, 1))


class TestLearning:
    def test_types_come_from_literals_and_first_values(self) -> None:
        engine = tamis.Engine()
        engine.subscribe("price < 100", id="a")
        engine.match({"volume": 5, "nested": {"inside": 1}})
        assert dict(engine.schema) == dict.fromkeys(["price", "volume", "nested.inside"], tamis.Number())

    def test_a_conflict_names_both(self) -> None:
        engine = tamis.Engine()
        engine.subscribe("price < 100")
        with pytest.raises(tamis.SubscriptionError, match="'price': it is a number, and 'cheap' does not fit"):
            engine.subscribe("price = 'cheap'")
        with pytest.raises(tamis.EventError, match="'price': expected a number, not a string"):
            engine.match({"price": "cheap"})

    def test_is_null_needs_no_type(self) -> None:
        engine = tamis.Engine()
        engine.subscribe("price IS NULL", id="none")
        assert engine.match({}) == ["none"]
        assert engine.match({"price": 3}) == []

    @pytest.mark.parametrize("value", [dt.date(2020, 1, 1), {"nested": 1}, [], ["a"]])
    def test_a_value_of_no_type_is_not_missing(self, value: object) -> None:
        engine = tamis.Engine()
        engine.subscribe("d IS NULL", id="none")
        engine.subscribe("d IS NOT NULL", id="some")
        assert engine.match({"d": value}) == ["some"]
        matches = engine.match_table({"d": [value, None]})
        assert [matches.of(0), matches.of(1)] == [["some"], ["none"]]
        assert engine.explain({"d": value}, "some").matched

    def test_a_failed_subscription_teaches_nothing(self) -> None:
        engine = tamis.Engine()
        engine.subscribe("a = 1", id="x")
        with pytest.raises(tamis.DuplicateSubscriptionError, match="'x' exists"):
            engine.subscribe("b = 1", id="x")
        assert "b" not in engine.schema

    def test_a_closed_schema_names_the_nearest_attribute(self) -> None:
        with pytest.raises(tamis.SubscriptionError, match="'prise': unknown .did you mean 'price'"):
            tamis.Engine(SCHEMA).subscribe("prise < 5")

    def test_tables_teach_too(self) -> None:
        engine = tamis.Engine()
        engine.subscribe("x > 0 AND flag = TRUE", id="a")
        engine.match_table(pa.table({"x": [1], "flag": [True], "when": pa.array([0], pa.timestamp("s", "UTC"))}))
        assert engine.schema["when"] == tamis.Timestamp()


class TestMatchTable:
    def engine(self) -> tamis.Engine:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("price < 5", id="low")
        engine.subscribe("symbol LIKE 'I%'", id="i")
        return engine

    def test_all_layouts_give_the_same_rows(self) -> None:
        names = ["IBM", None, "AAPL", "ICE"]
        plain = pa.table({"price": pa.array([1.0, 2.0, None, 9.0]), "symbol": pa.array(names)})
        layouts = [
            plain,
            pa.concat_tables([plain.slice(0, 1), plain.slice(1)]),
            pa.concat_tables([plain.slice(2), plain]).slice(2),
            plain.set_column(1, "symbol", pa.array(names).dictionary_encode()),
            plain.set_column(1, "symbol", pa.array(names, pa.large_string())),
            plain.set_column(1, "symbol", pa.array(names, pa.string_view())),
            plain.set_column(0, "price", pa.array([Decimal(1), Decimal("2.0"), None, Decimal(9)])),
            plain.set_column(0, "price", pa.array([1, 2, None, 9], pa.int8())),
            plain.to_batches()[0],
            pd.DataFrame({"price": [1.0, 2.0, np.nan, 9.0], "symbol": names}),
            {"price": np.array([1.0, 2.0, np.nan, 9.0]), "symbol": names},
        ]
        for events in layouts:
            matches = self.engine().match_table(events)
            assert [matches.of(i) for i in range(4)] == [["i", "low"], ["low"], [], ["i"]]

    def test_bad_values_raise_with_their_row_or_are_skipped(self) -> None:
        events = {"price": [1, float("nan"), "x", 2]}
        with pytest.raises(tamis.EventError, match="row 1, attribute 'price': NaN and infinity") as caught:
            self.engine().match_table(events)
        assert (caught.value.attribute, caught.value.row) == ("price", 1)
        assert self.engine().match_table(events, on_bad="skip").to_arrow()["event"].to_pylist() == [0, 3]

    def test_nan_is_missing_in_numpy_and_wrong_in_arrow(self) -> None:
        engine = self.engine()
        assert len(engine.match_table({"price": np.array([np.nan])})) == 0
        with pytest.raises(tamis.EventError, match="row 0"):
            engine.match_table(pa.table({"price": [float("nan")]}))
        with pytest.raises(tamis.EventError, match="row 0, attribute 'price': NaN and infinity"):
            engine.match_table({"price": np.array([np.inf])})

    def test_to_arrow_is_sorted_by_event_and_id(self) -> None:
        engine = tamis.Engine(SCHEMA)
        for id in (10, 9, 2):
            engine.subscribe("price > 0", id=id)
        table = engine.match_table({"price": [1, 1]}).to_arrow()
        assert table["event"].to_pylist() == [0, 0, 0, 1, 1, 1]
        assert table["subscription"].to_pylist() == [2, 9, 10] * 2

    def test_an_answer_does_not_change_later(self) -> None:
        engine = self.engine()
        matches = engine.match_table({"price": [1]})
        engine.unsubscribe("low")
        engine.subscribe("price < 5", id="other")
        assert matches.subscription == ["low"]

    def test_what_is_not_a_table_is_refused(self) -> None:
        with pytest.raises(tamis.TableError, match="expected a pyarrow table"):
            self.engine().match_table([{"price": 1}])
        with pytest.raises(tamis.TableError, match="column 'price' has 2 rows, the first column has 1"):
            self.engine().match_table({"symbol": ["a"], "price": [1, 2]})

    def test_regions_and_vectors_in_tables(self) -> None:
        engine = tamis.Engine(tamis.Schema({"area": tamis.Region(), "look": tamis.Vector(2)}))
        engine.subscribe("S_INTERSECTS(area, BBOX(0, 0, 2, 2))", id="in")
        engine.subscribe("V_WITHIN(look, (0, 0), 5)", id="near")
        shapes = [shapely.Point(1, 1), shapely.Point(5, 5), shapely.box(1, 1, 9, 9)]
        wkb = pa.array([shapely.to_wkb(shape) for shape in shapes])
        look = pa.array([[3.0, 4.0], [3.0, 4.1], None], pa.list_(pa.float32(), 2))
        matches = engine.match_table(pa.table({"area": wkb, "look": look}))
        assert [matches.of(i) for i in range(3)] == [["in", "near"], [], ["in"]]
        wkt = engine.match_table({"area": [shape.wkt for shape in shapes]})
        assert [wkt.of(i) for i in range(3)] == [["in"], [], ["in"]]


class TestBulk:
    def test_boxes(self) -> None:
        engine = tamis.Engine()
        inf = np.inf
        lo, hi = [[0, -inf], [5, 1], [-inf, -inf]], [[10, inf], [5, 2], [inf, inf]]
        assert list(engine.subscribe_boxes(["price", "volume"], lo, hi)) == [0, 1, 2]
        assert engine.match({"price": 5, "volume": 1}) == [0, 1, 2]
        assert engine.match({"price": 5}) == [0, 2]
        assert engine.match({}) == [2]
        assert str(engine.explain({"price": 5}, 1)).splitlines()[1] == "  price = 5.0 AND volume BETWEEN 1.0 AND 2.0"

    @pytest.mark.parametrize(
        ("lo", "hi", "message"),
        [
            ([[0], [2]], [[1], [1]], "row 1: 'price': lower bound 2.0 is above upper bound 1.0"),
            ([[np.nan]], [[1]], "row 0: 'price': bounds nan and 1.0 are not a range"),
            ([[np.inf]], [[np.inf]], "row 0: 'price': bounds inf and inf are not a range"),
            ([[0, 1]], [[1, 1]], r"expected two arrays \[n, 1\]"),
        ],
    )
    def test_bad_boxes_name_the_row(self, lo: object, hi: object, message: str) -> None:
        with pytest.raises(tamis.TableError, match=message):
            tamis.Engine().subscribe_boxes(["price"], lo, hi)

    def test_a_table_of_texts_is_all_or_nothing(self) -> None:
        engine = tamis.Engine(SCHEMA)
        table = pa.table({"id": ["a", "b"], "filter": ["price < 1", "price <"]})
        with pytest.raises(tamis.TableError, match="row 1: subscription 'b': expected"):
            engine.subscribe_table(tamis.SubscriptionTable.from_arrow(table))
        assert len(engine) == 0
        twice = pa.table({"id": ["a", "a"], "filter": ["price < 1", "price < 2"]})
        with pytest.raises(tamis.DuplicateSubscriptionError, match="'a' exists"):
            engine.subscribe_table(tamis.SubscriptionTable.from_arrow(twice))
        assert len(engine) == 0

    def test_a_table_with_namespaces_and_expiry(self) -> None:
        clock = Clock()
        engine = tamis.Engine(SCHEMA, clock=clock)
        table = pa.table(
            {
                "id": pa.array([None, 0, 7]),
                "filter": ["price > 0"] * 3,
                "namespace": ["red", None, None],
                "expires": pa.array([None, 5, None], pa.timestamp("us", "UTC")),
            }
        )
        assert engine.subscribe_table(tamis.SubscriptionTable.from_arrow(table)) == [1, 0, 7]
        assert engine.match({"price": 1}) == [0, 7]
        clock.now = 5
        assert engine.match({"price": 1}) == [7]
        assert engine.match({"price": 1}, namespace="red") == [1]

    def test_boxes_are_numbers(self) -> None:
        with pytest.raises(tamis.SchemaError, match="'symbol': known as a string, but a box uses it as a number"):
            tamis.Engine(SCHEMA).subscribe_boxes(["symbol"], [[0]], [[1]])


class TestExplain:
    def test_each_condition_stands_under_its_text(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("symbol = 'IBM' AND (price < 100 OR NOT halted = TRUE)", id="alice")
        explanation = engine.explain({"symbol": "IBM", "price": 120}, "alice")
        assert not explanation.matched
        assert str(explanation).splitlines() == [
            "no match: subscription 'alice'",
            "  symbol = 'IBM' AND (price < 100 OR NOT halted = TRUE)",
            "  ^^^^^^^^^^^^^^ yes: symbol is 'IBM'",
            "                      ^^^^^^^^^^^ no: price is 120",
            "                                     ^^^^^^^^^^^^^^^^^ unknown: NOT of what is unknown",
            "                                         ^^^^^^^^^^^^^ unknown: halted is missing",
        ]

    def test_not_is_a_step_of_its_own(self) -> None:
        engine = tamis.Engine(SCHEMA)
        engine.subscribe("NOT (symbol = 'IBM')", id="others")
        assert str(engine.explain({"symbol": "SAP"}, "others")).splitlines() == [
            "match: subscription 'others'",
            "  NOT (symbol = 'IBM')",
            "  ^^^^^^^^^^^^^^^^^^^^ yes: NOT of what does not hold",
            "       ^^^^^^^^^^^^^^ no: symbol is 'SAP'",
        ]
        explanation = engine.explain({"symbol": "IBM"}, "others").as_json()
        inner = {"condition": "symbol = 'IBM'", "attribute": "symbol", "value": "'IBM'", "outcome": True}
        assert explanation["conditions"] == [inner]
        assert explanation["tree"] == {
            "operator": "NOT",
            "condition": "NOT (symbol = 'IBM')",
            "outcome": False,
            "parts": [inner],
        }

    def test_a_filter_of_json_is_explained_like_its_text(self) -> None:
        engine = tamis.Engine(SCHEMA)
        long = " OR ".join(f"(price > {n} AND NOT halted = TRUE)" for n in range(9))
        engine.subscribe(to_json(parse(long)), id="json")
        engine.subscribe(long, id="text")
        ours, theirs = (engine.explain({"price": 3, "halted": False}, id).tree for id in ("json", "text"))
        assert ours.outcome is theirs.outcome is True
        assert [part.outcome for part in ours.parts] == [part.outcome for part in theirs.parts]

    def test_an_unknown_id(self) -> None:
        with pytest.raises(tamis.UnknownSubscriptionError, match="'ghost'"):
            tamis.Engine(SCHEMA).explain({}, "ghost")

    def test_values_are_shown_as_the_user_knows_them(self) -> None:
        engine = tamis.Engine(tamis.Schema({"at": tamis.Timestamp(), "price": tamis.Number()}))
        engine.subscribe("at > TIMESTAMP('2026-01-01T00:00:00Z') AND price > 0.1", id="a")
        event = {"at": 2**62, "price": Decimal("0.10000000000000000001")}
        conditions = [str(condition) for condition in engine.explain(event, "a").conditions]
        assert conditions == [f"yes: at is {2**62} microseconds", "yes: price is 0.10000000000000000001"]
        assert engine.explain(event, "a").as_json()["conditions"][1]["value"] == "0.10000000000000000001"


@pytest.mark.parametrize("n_boxes", [0, 3000])
def test_one_writer_and_many_readers(n_boxes: int) -> None:
    engine = tamis.Engine()
    if n_boxes:  # so that the packed core is in use
        engine.subscribe_boxes(["price"], np.full((n_boxes, 1), -2.0), np.full((n_boxes, 1), -1.0))
    engine.subscribe("price >= 0", id="always")
    failures: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            matches = engine.match({"price": 1})
            if "always" not in matches or not set(matches) <= {"always", "coming and going"}:
                failures.append(matches)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(500):
        engine.subscribe(
            f"price < 5 AND new_attribute_{i % 50} IS NULL OR price = {i} AND other_{i % 50} > 3", id="coming and going"
        )
        engine.unsubscribe("coming and going")
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_statistics_count() -> None:
    engine = tamis.Engine(SCHEMA)
    engine.subscribe("price > 0", id="a")
    engine.subscribe("price > 0", id="a", namespace="red")
    statistics = engine.statistics()
    assert (statistics["subscriptions"], statistics["attributes"]) == (2, 3)
    assert sorted(statistics["namespaces"]) == ["default", "red"]


def test_a_table_of_another_schema_is_refused_by_name() -> None:
    engine = tamis.Engine()
    engine.subscribe("S_WITHIN(area, POLYGON((0 0, 1 0, 1 1, 0 0)))", id="inside")
    source = pa.table({"area": ["POINT(0.5 0.2)"], "price": [5]})
    with pytest.raises(tamis.ModelError, match=r"'area'.*String.*Region.*engine\.schema"):
        engine.match_table(tamis.EventTable.of(source, tamis.Schema.from_arrow(source)))
    matches = engine.match_table(tamis.EventTable.of(source, engine.schema))
    assert matches.of(0) == ["inside"]


def test_a_table_with_numbers_for_booleans_or_times_is_refused() -> None:
    types: dict[str, tamis.AttributeType] = {
        "flag": tamis.Boolean(),
        "time": tamis.Timestamp(),
        "tags": tamis.Many(tamis.String()),
    }
    engine = tamis.Engine(tamis.Schema(types))
    for name, other in {"flag": tamis.Number(), "time": tamis.Number(), "tags": tamis.Many(tamis.Number())}.items():
        table = tamis.EventTable.of({name: [[1.0]] if name == "tags" else [1.0]}, tamis.Schema({name: other}))
        with pytest.raises(tamis.ModelError, match=name):
            engine.match_table(table)
