"""Repeated and nested attributes: every matcher agrees with DuckDB's lists, and the algebra never claims too much."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tamis
from tamis.algebra.evaluate import matches

SCHEMA = tamis.Schema(
    {
        "tags": tamis.Many(tamis.String()),
        "sizes": tamis.Many(tamis.Number()),
        "x": tamis.Number(),
        "d.s": tamis.String(),
    }
)
LETTERS = "abcd"


def _condition(chance: random.Random) -> tuple[str, str]:
    """Return a condition as CQL2 and as DuckDB says it; a missing list is NULL in both."""
    letters = chance.sample(LETTERS, chance.randint(1, 3))
    texts = ", ".join(f"'{letter}'" for letter in letters)
    low = chance.randint(0, 5)
    high = low + chance.randint(0, 2)
    op = chance.choice(["<", "<=", ">", ">=", "=", "<>"])
    return chance.choice(
        [
            (f"tags = '{letters[0]}'", f"list_contains(tags, '{letters[0]}')"),
            (f"tags <> '{letters[0]}'", f"len(list_filter(tags, lambda e: e <> '{letters[0]}')) > 0"),
            (f"tags IN ({texts})", f"list_has_any(tags, [{texts}])"),
            (f"tags NOT IN ({texts})", f"NOT list_has_any(tags, [{texts}])"),
            (f"tags LIKE '%{letters[0]}%'", f"len(list_filter(tags, lambda e: e LIKE '%{letters[0]}%')) > 0"),
            (f"A_CONTAINS(tags, ({texts}))", f"list_has_all(tags, [{texts}])"),
            (f"A_CONTAINEDBY(tags, ({texts}))", f"list_has_all([{texts}], tags)"),
            (f"A_EQUALS(tags, ({texts}))", f"(list_has_all([{texts}], tags) AND list_has_all(tags, [{texts}]))"),
            (f"A_OVERLAPS(tags, ({texts}))", f"list_has_any(tags, [{texts}])"),
            (f"sizes {op} {low}", f"len(list_filter(sizes, lambda e: e {op} {low})) > 0"),
            (f"sizes BETWEEN {low} AND {high}", f"len(list_filter(sizes, lambda e: e BETWEEN {low} AND {high})) > 0"),
            (f"x {op} {low}", f"x {op} {low}"),
            (f"d.s = '{letters[0]}'", f"d.s = '{letters[0]}'"),
            ("tags IS NULL", "tags IS NULL"),
        ]
    )


def _predicate(chance: random.Random, depth: int = 2) -> tuple[str, str]:
    if depth == 0 or chance.random() < 0.3:
        return _condition(chance)
    parts = [_predicate(chance, depth - 1) for _ in range(2)]
    word = chance.choice([" AND ", " OR "])
    joined = tuple(word.join(f"({part[i]})" for part in parts) for i in (0, 1))
    return (f"NOT ({joined[0]})", f"NOT ({joined[1]})") if chance.random() < 0.3 else (joined[0], joined[1])


def _event(chance: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {
        "tags": [chance.choice(LETTERS) for _ in range(chance.randint(0, 3))],
        "sizes": [chance.randint(0, 6) for _ in range(chance.randint(0, 3))],
        "x": chance.randint(0, 6),
        "d": {"s": chance.choice(LETTERS)},
    }
    return {name: value for name, value in event.items() if chance.random() < 0.85}


def _table(events: list[dict[str, Any]]) -> pa.Table:
    kinds = pa.schema(
        {
            "tags": pa.list_(pa.string()),
            "sizes": pa.list_(pa.int64()),
            "x": pa.int64(),
            "d": pa.struct({"s": pa.string()}),
        }
    )
    return pa.Table.from_pylist([{name: event.get(name) for name in kinds.names} for event in events], kinds)


def _check(seed: int, n_filters: int, n_events: int) -> None:
    chance = random.Random(seed)
    filters = [_predicate(chance) for _ in range(n_filters)]
    events = [_event(chance) for _ in range(n_events)]
    table = _table(events)
    connection = duckdb.connect()
    connection.register("events", table)
    answers = connection.sql("SELECT " + ", ".join(f"({sql})" for _, sql in filters) + " FROM events").fetchall()
    wanted = [[number for number, answer in enumerate(row) if answer] for row in answers]
    for matcher in ("packed", "counting", "linear"):
        engine = tamis.Engine(SCHEMA, matcher=matcher)
        for number, (text, _) in enumerate(filters):
            engine.subscribe(text, id=number)
        assert [engine.match(event) for event in events] == wanted, matcher
        matches = engine.match_table(table)
        assert [matches.of(row) for row in range(n_events)] == wanted, matcher


@pytest.mark.parametrize("seed", range(3))
def test_matchers_agree_with_duckdb(seed: int) -> None:
    _check(seed, 200, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_050))
def test_matchers_agree_with_duckdb_often(seed: int) -> None:
    _check(seed, 1_000, 400)


@pytest.mark.parametrize("seed", range(2))
def test_covers_claims_nothing_that_an_event_denies(seed: int) -> None:
    chance = random.Random(seed)
    events = [SCHEMA.event(_event(chance)) for _ in range(150)]
    proved = 0
    for _ in range(150):
        a, b = _predicate(chance, 1)[0], _predicate(chance, 1)[0]
        pairs = ((a, b), (f"({a}) OR ({b})", a), (a, f"({a}) AND ({b})"))
        for wide, narrow in pairs:
            answer = tamis.covers(wide, narrow, SCHEMA)
            met = [_matching(text, events) for text in (wide, narrow)]
            if answer:
                proved += 1
                assert met[1] <= met[0], (wide, narrow)
            elif answer.witness is not None:
                assert not _matching(wide, [answer.witness])
                assert _matching(narrow, [answer.witness])
            if tamis.conflicts(wide, narrow, SCHEMA):
                assert not met[0] & met[1], (wide, narrow)
    assert proved > 100


def _matching(text: str, events: list[Any]) -> set[int]:
    filters = tamis.simplify(text, SCHEMA).filters
    return {number for number, event in enumerate(events) if any(matches(event, filter) for filter in filters)}
