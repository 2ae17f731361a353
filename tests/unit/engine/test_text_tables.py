"""Tables of texts: what an engine with many of them says is what one says that was told of each alone."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tamis import Engine, Number, Region, Schema, SubscriptionTable
from tamis.engine import engine as engine_module
from tamis.engine import merging
from tamis.errors import DuplicateSubscriptionError, TableError

N = 3 * engine_module.FEW_TEXTS
SOON = 1_000_000


def texts(n: int = N) -> list[str]:
    return [f"price BETWEEN {i} AND {i + 20} AND symbol = 'S{i % 5}'" for i in range(n - 3)] + [
        "symbol LIKE 'S%1' AND price > 3",
        "price IS NULL",
        "price < 10 OR price > 350",
    ]


def table() -> pa.Table:
    rows, words = range(N), pa.map_(pa.string(), pa.string())
    return pa.table(
        {
            "id": [f"id {i}" for i in rows],
            "filter": texts(),
            "namespace": pa.array([None if i % 3 else "other" for i in rows], pa.string()),
            "expires": pa.array([SOON if i % 10 == 4 else None for i in rows], pa.int64()),
            "metadata": pa.array([[("row", str(i))] if i % 2 else None for i in rows], words),
        }
    )


def engines(clock: int = 0) -> tuple[Engine, Engine]:
    """Return an engine that got the table, and one that got its rows one by one."""
    at_once, one_by_one = Engine(clock=lambda: clock), Engine(clock=lambda: clock)
    at_once.subscribe_table(SubscriptionTable.from_arrow(table()))
    for row in table().to_pylist():
        named = {"namespace": row["namespace"]} if row["namespace"] else {}
        metadata = dict(row["metadata"] or ())
        one_by_one.subscribe(row["filter"], id=row["id"], expires=row["expires"], metadata=metadata, **named)
    return at_once, one_by_one


EVENTS = [{"price": p, "symbol": s} for p in (0, 5, 19.5, 20, 100, 379, 380, 400) for s in ("S1", "S4", "T")]
EVENTS += [{"symbol": "S1"}, {"price": 7}, {}]


@pytest.mark.parametrize("clock", [0, SOON])
def test_many_texts_match_like_each_alone(clock: int) -> None:
    at_once, one_by_one = engines(clock)
    assert len(at_once) == len(one_by_one)
    for namespace in ("default", "other"):
        for event in EVENTS:
            assert at_once.match(event, namespace=namespace) == one_by_one.match(event, namespace=namespace)
        frame = {name: [event.get(name) for event in EVENTS] for name in ("price", "symbol")}
        mine, theirs = (engine.match_table(frame, namespace=namespace) for engine in (at_once, one_by_one))
        assert [mine.of(i) for i in range(len(EVENTS))] == [theirs.of(i) for i in range(len(EVENTS))]


def test_a_subscription_is_made_when_asked_for() -> None:
    at_once, one_by_one = engines()
    assert list(at_once) == list(one_by_one)
    assert at_once.subscription("id 7") == one_by_one.subscription("id 7")
    assert at_once.schema == one_by_one.schema


def test_texts_are_saved_and_loaded(tmp_path: Path) -> None:
    at_once, one_by_one = engines()
    at_once.unsubscribe("id 7")
    one_by_one.unsubscribe("id 7")
    at_once.save(tmp_path)
    loaded = Engine.load(tmp_path, clock=lambda: 0)
    assert list(loaded) == list(one_by_one)
    assert [loaded.match(event) for event in EVENTS] == [one_by_one.match(event) for event in EVENTS]


def test_numbers_that_are_taken_are_passed_over() -> None:
    engine = Engine()
    engine.subscribe("price > 1", id=5)
    plain = SubscriptionTable.from_arrow(pa.table({"filter": texts()}))
    assert list(engine.subscribe_table(plain)) == [*range(5), *range(6, N + 1)]
    assert engine.subscribe_table(plain) == range(N + 1, 2 * N + 1)


def test_nothing_stays_of_a_table_with_a_bad_text() -> None:
    engine = Engine()
    wrong = texts()
    wrong[200] = "price BETWEEN 1 AND 2 AND symbol = 5"
    wrong[300] = "price >< 5"
    with pytest.raises(TableError, match=re.escape("row 200: subscription 200: attribute 'symbol'")):
        engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"filter": wrong})))
    assert len(engine) == 0
    assert not engine.schema
    assert engine.subscribe("price > 1") == 0


def test_nothing_stays_of_a_table_with_an_id_that_is_taken() -> None:
    engine = Engine()
    engine.subscribe("price > 1", id="id 6", namespace="other")
    with pytest.raises(DuplicateSubscriptionError, match="id 6"):
        engine.subscribe_table(SubscriptionTable.from_arrow(table()))
    assert len(engine) == 1
    assert engine.match({"price": 5, "symbol": "S1"}) == []
    twice = table().set_column(0, "id", pa.array(["same"] * N))
    with pytest.raises(DuplicateSubscriptionError, match="same"):
        engine.subscribe_table(SubscriptionTable.from_arrow(twice))
    assert len(engine) == 1


def test_an_id_that_left_is_free_again() -> None:
    engine, _ = engines()
    engine.unsubscribe("id 8")
    assert "id 8" not in engine
    engine.subscribe("price = -1", id="id 8")
    assert "id 8" in engine.match({"price": -1})
    assert "id 8" not in engine.match({"price": 8, "symbol": "S3"})


def _circle_engines(n: int = N) -> tuple[Engine, Engine]:
    """Return an engine that got circles, some over the antimeridian or a pole, at once, and one that got each alone."""
    random = Random(5)
    places = [(random.uniform(-180, 180), random.choice([random.uniform(-80, 80), 89.5, -90, 0])) for _ in range(n)]
    some = [
        f"S_DWITHIN(at, POINT({x:.3f} {y:.3f}), {random.choice([1, 250.5, 3000])}, 'km') AND price < {i % 9}"
        for i, (x, y) in enumerate(places)
    ]
    some[7] = "S_DWITHIN(at, POINT(1e1 5), 100, 'km') AND price < 5"  # an unusual literal among the others
    some[40] = "S_INTERSECTS(at, BBOX(0, 0, 90, 45))"
    schema = Schema({"at": Region(geodetic=True), "price": Number()})
    at_once, one_by_one = Engine(schema), Engine(schema)
    at_once.subscribe_table(SubscriptionTable.from_arrow(pa.table({"id": list(range(n)), "filter": some})))
    for i, text in enumerate(some):
        one_by_one.subscribe(text, id=i)
    return at_once, one_by_one


CIRCLE_EVENTS = [
    {"at": shape, "price": price}
    for shape in ((179.99, 0.1), (-179.99, -0.2), (0, 89.9), (10, 5), (13.4, 52.5), "LINESTRING(170 0, -170 5)")
    for price in (0, 4)
] + [{"price": 1}, {"at": (10, 5)}]


def test_circles_at_once_match_like_each_alone(tmp_path: Path) -> None:
    at_once, one_by_one = _circle_engines()
    for id in (3, 7, 40, 77):
        at_once.unsubscribe(id)
        one_by_one.unsubscribe(id)
    at_once.save(tmp_path)
    loaded = Engine.load(tmp_path)
    wanted = [one_by_one.match(event) for event in CIRCLE_EVENTS]
    assert sum(map(len, wanted)) > len(CIRCLE_EVENTS)
    frame = {name: [event.get(name) for event in CIRCLE_EVENTS] for name in ("at", "price")}
    for engine in (at_once, loaded):
        assert [engine.match(event) for event in CIRCLE_EVENTS] == wanted
        matches = engine.match_table(frame)
        assert [matches.of(i) for i in range(len(CIRCLE_EVENTS))] == wanted
    assert list(at_once) == list(one_by_one)
    assert at_once.subscription(50) == one_by_one.subscription(50)


def _of_any_shape(random: Random, row: int) -> str:
    """Return a text that few others are alike: ranges, strings, lists and alternatives on some of four attributes."""
    names = random.sample(["price", "volume", "change", "symbol"], random.randint(1, 4))
    number = random.randint(0, 90)
    conditions = [
        f"symbol = 'S{row % 5}'"
        if name == "symbol"
        else random.choice(
            [f"{name} < {number}", f"{name} >= {number}.5", f"{name} BETWEEN {number} AND {number + 30}"]
        )
        for name in names
    ]
    more = random.choice(["", "", f" AND price IN ({number}, {number + 5})", f" AND (price < {number} OR change > 50)"])
    return " AND ".join(conditions) + more


def test_texts_of_any_shape_match_like_each_alone(tmp_path: Path) -> None:
    random = Random(7)
    written = [_of_any_shape(random, row) for row in range(engine_module.FEW_TEXTS + 50)]
    at_once, one_by_one = Engine(), Engine()
    at_once.subscribe_table(SubscriptionTable.from_arrow(pa.table({"filter": written})))
    for row, text in enumerate(written):
        one_by_one.subscribe(text, id=row)
    at_once.save(tmp_path)
    values = {"price": (5, 30.5, 2**53 + 1), "volume": (10, 60), "change": (0.25, 77), "symbol": ("S1", "T")}
    events = [{name: random.choice(some) for name, some in values.items() if random.random() < 0.8} for _ in range(40)]
    for engine in (at_once, Engine.load(tmp_path)):
        assert [engine.match(event) for event in events] == [one_by_one.match(event) for event in events]
    assert not at_once.namespaces()[0]._single, "boxes decide all of them: no object is kept"


@pytest.mark.parametrize("n", [10, 9])
def test_memory_is_given_back_after_a_large_load_and_its_merge(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    merging_at: list[bool] = []
    engine = Engine()
    monkeypatch.setattr(merging, "MANY_ROWS", 10)
    monkeypatch.setattr(merging, "give_back_memory", lambda: merging_at.append(engine._merge._gives_back))
    engine.subscribe_boxes(["x"], [[i] for i in range(n)], [[i + 1] for i in range(n)])
    engine.wait()
    assert merging_at == [False] * (n == 10)


@pytest.mark.parametrize("kind", ["boxes", "balls", "texts"])
def test_memory_is_given_back_when_the_copies_of_a_load_are_gone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of boxes, the centres of balls and what texts were compiled to are copies that no index keeps."""
    copies: list[weakref.ref[object]] = []
    counts: list[int] = []

    def noting(make: Callable[..., object]) -> Callable[..., object]:
        def make_and_note(*arguments: object, **options: object) -> object:
            made = make(*arguments, **options)
            copies.append(weakref.ref(made))
            return made

        return make_and_note

    monkeypatch.setattr(merging, "MANY_ROWS", 10)
    monkeypatch.setattr(merging, "give_back_memory", lambda: counts.append(sum(copy() is not None for copy in copies)))
    monkeypatch.setattr(SubscriptionTable, "from_boxes", noting(SubscriptionTable.from_boxes))
    monkeypatch.setattr(SubscriptionTable, "from_balls", noting(SubscriptionTable.from_balls))
    monkeypatch.setattr(engine_module, "compile_texts", noting(engine_module.compile_texts))
    engine = Engine()
    if kind == "boxes":
        engine.subscribe_boxes(["x"], [[i] for i in range(10)], [[i + 1] for i in range(10)])
    elif kind == "balls":
        engine.subscribe_balls("v", [[i, 0] for i in range(10)], [1.0] * 10)
    else:
        engine.subscribe_table(SubscriptionTable.from_arrow(table()))
    engine.wait()
    assert (len(copies), counts) == (1, [0])


@pytest.mark.parametrize(("many_rows", "gives_back"), [(1_000, True), (5_000, False)])
def test_memory_is_given_back_after_merges_that_leave_out_many_rows(
    many_rows: int, gives_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    ids = engine.subscribe_boxes(["x"], [[i] for i in range(4_000)], [[i + 1] for i in range(4_000)])
    engine.wait()
    threads: list[str] = []
    monkeypatch.setattr(merging, "MANY_ROWS", many_rows)
    monkeypatch.setattr(merging, "give_back_memory", lambda: threads.append(threading.current_thread().name))
    for subscription_id in ids[:2_000]:
        engine.unsubscribe(subscription_id)
        engine.wait()
    assert threads == ["tamis-merge"] * gives_back


def test_memory_is_given_back_when_the_merge_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back, may_end = list[str](), threading.Event()
    monkeypatch.setattr(merging, "give_back_memory", lambda: given_back.append(threading.current_thread().name))

    class Waits:
        def wants_merge(self) -> bool:
            return True

        def plan_merge(self) -> None:
            assert may_end.wait(60)

    background = merging.BackgroundMerge(threading.RLock())
    background.nudge(Waits())  # type: ignore[arg-type]
    background.give_back(merging.MANY_ROWS)
    assert not given_back
    may_end.set()
    background.wait()
    assert given_back == ["tamis-merge"]
