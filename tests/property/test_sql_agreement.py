"""Random subscriptions and events, answered by tamis and by a database: the two must agree on every pair.

The subscriptions are texts, and the same text is the WHERE clause of a query in DuckDB, but for what the
dialects spell differently (`as_sql`). Values are few, so that they meet, and chosen where systems go wrong:
integers that float64 cannot hold, both zeros, subnormals, text beyond U+FFFF, patterns with escapes, zones.

DuckDB compares an integer with a double as doubles, which is not exact. So doubles are only put beside
integers within 2^53, and large integers beside integers; `tests/cases/large-numbers.json` has the rest.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tamis.engine import Engine
from tamis.index.registry import MATCHERS
from tamis.model.schema import Schema
from tamis.model.types import Boolean, Number, String, Timestamp
from tests.conftest import SEED

SCHEMA = Schema(
    {
        "d": Number(),
        "i": Number(-100, 100),
        "h": Number(),
        "s": String(),
        "t": String(),
        "b": Boolean(),
        "at": Timestamp(),
    }
)

DOUBLES = [0.0, -0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 1.0, -1.5, 2.0, 99.95, 5e-324, -1e300, 1e-9, 2.0**53]
DOUBLES += [1.7976931348623157e308, 2.2250738585072014e-308, 2.225073858507201e-308, -3.0, 2.5]
INTEGERS = [*range(-4, 5), 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1]
HUGE = [*INTEGERS, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2]
LETTERS = "aabbB%_\\' é\uff5e\U0001f600\n"
MOMENTS = [dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC) + dt.timedelta(microseconds=n) for n in (-1, 0, 1, 10**6)]
MOMENTS += [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]
MOMENTS += [dt.datetime(2024, 2, 29, tzinfo=dt.UTC), dt.datetime(2026, 2, 1, tzinfo=dt.UTC)]
ZONES = [dt.UTC, *(dt.timezone(dt.timedelta(minutes=m)) for m in (60, 330, -210))]

Source = random.Random


def word(source: Source) -> str:
    return "".join(source.choices(LETTERS, k=source.randint(0, 3)))


def pattern(source: Source) -> str:
    pieces = ["a", "b", "%", "%", "_", "\\%", "\\_", "\\\\", "é", "\U0001f600", "\\b"]
    return "".join(source.choices(pieces, k=source.randint(0, 4)))


def double(source: Source) -> float:
    return source.choice(DOUBLES) if source.random() < 0.8 else source.uniform(-3, 3)


def moment(source: Source) -> dt.datetime:
    return source.choice(MOMENTS)


#: A value of each attribute, as events carry it.
VALUES: dict[str, Callable[[Source], Any]] = {
    "d": double,
    "i": lambda source: source.choice(INTEGERS),
    "h": lambda source: source.choice(HUGE),
    "s": word,
    "t": word,
    "b": lambda source: source.random() < 0.5,
    "at": moment,
}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def double_literal(source: Source) -> str:
    if source.random() < 0.3:
        return str(source.choice([-3, -1, 0, 1, 2, 2**53]))
    text = repr(double(source))
    return text if "e" in text else f"{text}e0"  # with an exponent DuckDB reads a double, not a decimal


def integer_literal(source: Source) -> str:
    return str(source.choice(INTEGERS)) if source.random() < 0.85 else f"{source.randint(-4, 4)}.5"


def moment_literal(source: Source) -> str:
    instant = moment(source)
    if instant.time() == dt.time() and source.random() < 0.5:
        return f"DATE('{instant.date()}')"
    return f"TIMESTAMP('{instant.astimezone(source.choice(ZONES)).isoformat()}')"


#: A value of each attribute, as subscriptions write it.
LITERALS: dict[str, Callable[[Source], str]] = {
    "d": double_literal,
    "i": integer_literal,
    "h": lambda source: str(source.choice(HUGE)),
    "s": lambda source: quoted(word(source)),
    "t": lambda source: quoted(word(source)),
    "b": lambda source: source.choice(["TRUE", "FALSE", "true"]),
    "at": moment_literal,
}


def condition(source: Source) -> str:
    attribute = source.choice(list(SCHEMA))
    name, negated = f'"{attribute}"', source.choice(["", "NOT "])
    literal = LITERALS[attribute]
    kind = source.choice(["compare", "compare", "turned", "between", "in", "null", "own"])
    if kind == "compare":
        return f"{name} {source.choice(OPERATORS)} {literal(source)}"
    if kind == "turned":
        return f"{literal(source)} {source.choice(OPERATORS)} {name}"
    if kind == "between":
        return f"{name} {negated}BETWEEN {literal(source)} AND {literal(source)}"
    if kind == "in":
        return f"{name} {negated}IN ({', '.join(literal(source) for _ in range(source.randint(1, 5)))})"
    if kind == "null":
        return f"{name} IS {negated}NULL"
    if attribute == "b":
        return name
    return f'"{source.choice("st")}" {negated}LIKE {quoted(pattern(source))}'


OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def subscription(source: Source, depth: int = 3) -> str:
    kind = source.choice(["leaf", "leaf", "and", "or", "not"]) if depth else "leaf"
    if kind == "leaf":
        return condition(source) if source.random() < 0.97 else source.choice(["TRUE", "FALSE"])
    if kind == "not":
        return f"NOT ({subscription(source, depth - 1)})"
    parts = [subscription(source, depth - 1) for _ in range(source.randint(2, 3))]
    return f" {kind.upper()} ".join(part if source.random() < 0.3 else f"({part})" for part in parts)


def event(source: Source) -> dict[str, Any]:
    return {name: make(source) for name, make in VALUES.items() if source.random() < 0.8}


def arrow_table(events: Sequence[dict[str, Any]]) -> pa.Table:
    """Return events as columns; ``h`` needs more than int64 and comes as decimals."""
    types = {"d": pa.float64(), "i": pa.int64(), "h": pa.decimal128(20, 0), "b": pa.bool_()}
    types |= {"s": pa.string(), "t": pa.string(), "at": pa.timestamp("us", "UTC")}
    columns = {name: [event.get(name) for event in events] for name in SCHEMA}
    columns["h"] = [None if number is None else Decimal(number) for number in columns["h"]]
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def as_sql(text: str) -> str:
    r"""Return a subscription as DuckDB spells it.

    >>> as_sql(r"s LIKE 'a\_%' OR at < DATE('2026-01-31')")
    "s LIKE 'a\\_%' ESCAPE '\\' OR at < TIMESTAMPTZ '2026-01-31T00:00:00Z'"
    """
    text = re.sub(r"LIKE ('(?:[^']|'')*')", r"LIKE \1 ESCAPE '\\'", text)
    text = re.sub(r"\bTIMESTAMP\(('[^']*')\)", r"TIMESTAMPTZ \1", text)
    return re.sub(r"\bDATE\('([^']*)'\)", r"TIMESTAMPTZ '\1T00:00:00Z'", text)


Answers = npt.NDArray[np.bool_]


def answers_of_the_database(texts: Sequence[str], events: pa.Table) -> Answers:
    """Return which event (row) fits which subscription (column), by DuckDB."""
    matrix = np.zeros((events.num_rows, len(texts)), dtype=bool)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("given", events.append_column("row", pa.array(range(events.num_rows), pa.int64())))
        database.execute("CREATE TABLE events AS SELECT * REPLACE (CAST(h AS HUGEINT) AS h) FROM given")
        for column, text in enumerate(texts):
            query = f"SELECT row FROM events WHERE {as_sql(text)}"
            matrix[database.execute(query).fetchnumpy()["row"], column] = True
    return matrix


def answers_of_tamis(texts: Sequence[str], events: pa.Table, matcher: str) -> Answers:
    """Return which event (row) fits which subscription (column), by an engine."""
    engine = Engine(SCHEMA, matcher)
    for column, text in enumerate(texts):
        engine.subscribe(text, id=column)
    matches = engine.match_table(events)
    matrix = np.zeros((events.num_rows, len(texts)), dtype=bool)
    matrix[matches.event, matches.subscription] = True
    return matrix


def compare(seed: int, n_subscriptions: int, n_events: int) -> None:
    source = random.Random(seed)
    texts = [subscription(source) for _ in range(n_subscriptions)]
    events = arrow_table([event(source) for _ in range(n_events)])
    wanted = answers_of_the_database(texts, events)
    assert 0.2 < wanted.mean() < 0.7, "the generator has become dull"
    for matcher in MATCHERS:
        matrix = answers_of_tamis(texts, events, matcher)
        different = [(texts[s], events.slice(e, 1).to_pylist()) for e, s in np.argwhere(matrix != wanted)[:5]]
        assert not different, f"{matcher}: {int((matrix != wanted).sum())} pairs differ"


def test_a_million_pairs() -> None:
    compare(SEED, 1000, 1000)


@pytest.mark.soak
@pytest.mark.parametrize("round", range(1, 21))
def test_soak_twenty_million_pairs(round: int) -> None:
    compare(SEED + round, 1000, 1000)


def test_single_events_are_answered_as_in_a_table() -> None:
    source = random.Random(SEED)
    texts, events = [subscription(source) for _ in range(100)], [event(source) for _ in range(100)]
    for matcher in MATCHERS:
        matrix = answers_of_tamis(texts, arrow_table(events), matcher)
        engine = Engine(SCHEMA, matcher)
        for column, text in enumerate(texts):
            engine.subscribe(text, id=column)
        assert [engine.match(event) for event in events] == [np.flatnonzero(row).tolist() for row in matrix]


@pytest.mark.parametrize("needed", ["LIKE", "NOT LIKE", "BETWEEN", "NOT BETWEEN", "IN", "NOT IN", "NULL", *OPERATORS])
def test_the_generator_uses(needed: str) -> None:
    source = random.Random(SEED)
    assert sum(f" {needed} " in f"{subscription(source)} " for _ in range(1000)) > 30
