"""Every operator on many pairs: whole tables of answers beside DuckDB, shapely and closed formulas.

The independent side answers all pairs of a table at once, DuckDB as one column for each subscription, shapely and the
formulas of the sphere as one matrix. So a million pairs take seconds, and a soak asks twenty million.
"""

from __future__ import annotations

import datetime as dt
import decimal
import ipaddress
import random
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import shapely

import tamis
from tamis import Date, Decimal, Engine, Ip, Many, Number, Region, Schema, String, Timestamp, Vector
from tests.conftest import SEED

Matrix = npt.NDArray[np.bool_]
Both = tuple[str, str]

MATCHERS = ("packed", "counting", "linear")
SCHEMA = Schema(
    {"tags": Many(String()), "labels": Many(String()), "sizes": Many(Number())}
    | {"d.n": Number(), "s": String(), "ip": Ip(), "day": Date()}
    | {"at": Timestamp(), "start": Timestamp(), "stop": Timestamp(), "big": Number(), "ok": tamis.Boolean()}
    | {"a": Number(), "b": Number(), "q": Number(), "t": String(), "cash": Decimal(scale=2), "fee": Decimal(scale=2)}
)
LETTERS = "abcd"
TEXTS = ("", "a", "A", "ab", "Ab", "äb", "ÄB", "é", "abc", "ba", "B-12", "x a y")
ADDRESSES = ("10.0.0.1", "10.0.1.7", "10.200.0.0", "11.0.0.0", "9.255.255.255")
NETWORKS = ("10.0.0.0/8", "10.0.0.0/23", "10.0.1.7/32", "0.0.0.0/0", "11.0.0.0/8")
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = 86_400_000_000
CENTS = pa.decimal128(10, 2)
FIRST = int(EPOCH.timestamp()) * 1_000_000
#: Microseconds after `FIRST` at which moments lie: at the ends of days and beside them, so that they meet.
MOMENTS = tuple(day * DAY + beside for day in range(5) for beside in (0, 1, DAY // 2, DAY - 1))


def stamp(moment: int) -> str:
    """Return a moment after `FIRST` as RFC 3339."""
    return (EPOCH + dt.timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


#: Relation -> what it says of the ends f, t of the event's interval and a, b of the operand's.
RELATIONS = {
    "T_AFTER": "f > b",
    "T_BEFORE": "t < a",
    "T_CONTAINS": "f < a AND t > b",
    "T_DISJOINT": "t < a OR f > b",
    "T_DURING": "f > a AND t < b",
    "T_EQUALS": "f = a AND t = b",
    "T_FINISHEDBY": "f < a AND t = b",
    "T_FINISHES": "f > a AND t = b",
    "T_INTERSECTS": "f <= b AND t >= a",
    "T_MEETS": "t = a",
    "T_METBY": "f = b",
    "T_OVERLAPPEDBY": "f > a AND f < b AND t > b",
    "T_OVERLAPS": "f < a AND t > a AND t < b",
    "T_STARTEDBY": "f = a AND t > b",
    "T_STARTS": "f = a AND t < b",
}


def relation(chance: random.Random) -> Both:
    """Return a relation of time between one or two attributes and an interval, a moment or a day."""
    name, rule = chance.choice(list(RELATIONS.items()))
    low, high = sorted(chance.sample(MOMENTS, 2))
    kind = chance.choice(["interval", "days", "open", "moment", "day"])
    operand = f"INTERVAL('{stamp(low)}', '{stamp(high)}')"
    if kind == "days":
        low, high = low // DAY * DAY, high // DAY * DAY + DAY - 1
        operand = f"INTERVAL('{stamp(low)[:10]}', '{stamp(high)[:10]}')"
    elif kind == "open":
        high, operand = 10**12, f"INTERVAL('{stamp(low)}', '..')"
    elif kind == "moment":
        high, operand = low, f"TIMESTAMP('{stamp(low)}')"
    elif kind == "day":
        low = low // DAY * DAY
        high, operand = low + DAY - 1, f"DATE('{stamp(low)[:10]}')"
    attribute, ends = chance.choice([("at", ('"at"', '"at"')), ("INTERVAL(start, stop)", ("start", "stop"))])
    names = {"f": ends[0], "t": ends[1], "a": str(low), "b": str(high)}
    if chance.random() < 0.25:  # of attributes on both sides
        operand, names["b"] = chance.choice([("at", '"at"'), ("INTERVAL(at, stop)", "stop")])
        names["a"] = '"at"'
    sql = " ".join(names.get(word, word) for word in rule.split())
    return f"{name}({attribute}, {operand})", f"({sql})"


def text_condition(chance: random.Random) -> Both:
    """Return a condition on text; the alphabet has one lower and one upper case for each letter."""
    word = chance.choice(TEXTS).replace("'", "")
    pattern = chance.choice([f"{word}%", f"%{word}%", f"_{word}", f"%{word}"])
    regex = chance.choice(["a+b?", "^a", "c$", "[bB]-[0-9]+", "^(ab|ba)$", "x.a"])
    return chance.choice(
        [
            (f"CASEI(s) = CASEI('{word}')", f"lower(s) = lower('{word}')"),
            (f"ACCENTI(s) = ACCENTI('{word}')", f"strip_accents(s) = strip_accents('{word}')"),
            (
                f"CASEI(ACCENTI(s)) LIKE CASEI(ACCENTI('{pattern}'))",
                f"lower(strip_accents(s)) LIKE lower(strip_accents('{pattern}'))",
            ),
            (f"CASEI(s) IN (CASEI('{word}'), CASEI('Ab'))", f"lower(s) IN (lower('{word}'), 'ab')"),
            (f"s ILIKE '{pattern}'", f"lower(s) LIKE lower('{pattern}')"),
            (f"s LIKE '{pattern}'", f"s LIKE '{pattern}'"),
            (f"s MATCHES '{regex}'", f"regexp_matches(s, '{regex}')"),
            (f"CASEI(s) <> CASEI('{word}')", f"lower(s) <> lower('{word}')"),
        ]
    )


def list_condition(chance: random.Random) -> Both:
    """Return a condition on repeated attributes."""
    letters = chance.sample(LETTERS, chance.randint(1, 3))
    texts = ", ".join(f"'{letter}'" for letter in letters)
    op, low = chance.choice(["<", "<=", ">", ">=", "=", "<>"]), chance.randint(0, 5)
    high = low + chance.randint(0, 2)
    numbers = ", ".join(map(str, range(low, high + 1)))
    return chance.choice(
        [
            (f"tags = '{letters[0]}'", f"list_contains(tags, '{letters[0]}')"),
            (f"tags NOT IN ({texts})", f"NOT list_has_any(tags, [{texts}])"),
            (f"A_CONTAINS(tags, ({texts}))", f"list_has_all(tags, [{texts}])"),
            (f"A_CONTAINEDBY(sizes, ({numbers}))", f"list_has_all([{numbers}], sizes)"),
            (f"A_EQUALS(tags, ({texts}))", f"(list_has_all([{texts}], tags) AND list_has_all(tags, [{texts}]))"),
            (f"A_OVERLAPS(sizes, ({numbers}))", f"list_has_any(sizes, [{numbers}])"),
            (f"sizes {op} {low}", f"len(list_filter(sizes, lambda e: e {op} {low})) > 0"),
            (f"sizes BETWEEN {low} AND {high}", f"len(list_filter(sizes, lambda e: e BETWEEN {low} AND {high})) > 0"),
            ("tags IS NOT NULL", "tags IS NOT NULL"),
            ("A_CONTAINS(tags, labels)", "list_has_all(tags, labels)"),
            ("A_CONTAINEDBY(tags, labels)", "list_has_all(labels, tags)"),
            ("A_EQUALS(labels, tags)", "(list_has_all(tags, labels) AND list_has_all(labels, tags))"),
            ("A_OVERLAPS(tags, labels)", "list_has_any(tags, labels)"),
        ]
    )


def small_condition(chance: random.Random) -> Both:
    """Return a condition on nested values, addresses, days, moments and booleans."""
    op, low = chance.choice(["<", "<=", ">", ">=", "=", "<>"]), chance.randint(0, 5)
    network = ipaddress.ip_network(chance.choice(NETWORKS))
    moment = chance.choice(MOMENTS)
    ends = int(network.network_address), int(network.broadcast_address)
    return chance.choice(
        [
            (f"d.n {op} {low}", f"d.n {op} {low}"),
            (f"{low} {op} d.n", f"{low} {op} d.n"),
            (f"IP_WITHIN(ip, '{network}')", f"ip BETWEEN {ends[0]} AND {ends[1]}"),
            (f"day {op} DATE('2026-01-0{low + 1}')", f"day {op} DATE '2026-01-0{low + 1}'"),
            (f"at {op} TIMESTAMP('{stamp(moment)}')", f'"at" {op} {moment}'),
            (f"big {op} {2**53 + low}", f"big {op} {2**53 + low}"),
            ("ok", "ok"),
            ("NOT ok", "NOT ok"),
        ]
    )


def total(chance: random.Random) -> str:
    """Return a sum or product of numbers that both languages write and calculate alike: whole numbers and quarters."""
    names = chance.sample(["a", "b", "q", "d.n"], chance.randint(1, 3))
    terms = [f"{chance.randint(1, 4)} * {name}" if chance.random() < 0.5 else name for name in names]
    joined = chance.choice([" + ", " - ", " * "]).join(f"({term})" for term in terms)
    return f"{joined} {chance.choice('+-')} {chance.randint(0, 5)}" if chance.random() < 0.5 else joined


def arithmetic_condition(chance: random.Random) -> Both:
    """Return a condition on computed values, or on two attributes."""
    op, low = chance.choice(["<", "<=", ">", ">=", "=", "<>"]), chance.randint(-9, 9)
    left, right, divisor = total(chance), total(chance), chance.choice([2, 3, -2, "b"])
    # A quotient is compared without dividing: DuckDB would round it.
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    quotient = f"CASE WHEN b > 0 THEN a {op} {low} * b WHEN b < 0 THEN a {turned} {low} * b END"
    zero_is_null = f"nullif({divisor}, 0)"
    both_ways = [
        f"{left} {op} {right}",
        f"{left} {op} {low}",
        f"{left} BETWEEN {low} AND {low + 7}",
        f"{left} IN ({low}, b, q, {right})",
        f"({left}) IS NULL",
        f"big - {2**53} {op} a",
        f"cash + fee {op} 0.{chance.randint(1, 40):02}",
        f"2 * cash - fee {op} 0.{chance.randint(1, 40):02}",
        f"cash {op} fee",
        f"a {op} d.n",
        f"s {op} t",
        f'start {op} "at"',
    ]
    return chance.choice(
        [
            *((text, text) for text in both_ways),
            (f"a / b {op} {low}", quotient),
            (f"a % {divisor} {op} {low}", f"a % {zero_is_null} {op} {low}"),
            (f"a div {divisor} {op} {low}", f"(a - a % {zero_is_null}) / {zero_is_null} {op} {low}"),
            (f"a ^ 2 + b ^ 2 {op} {low * low}", f"a * a + b * b {op} {low * low}"),
        ]
    )


def predicate(chance: random.Random, depth: int, conditions: Sequence[Callable[[random.Random], Both]]) -> Both:
    """Return a tree of conditions as CQL2 and as SQL."""
    if depth == 0 or chance.random() < 0.25:
        return chance.choice(conditions)(chance)
    parts = [predicate(chance, depth - 1, conditions) for _ in range(chance.randint(2, 3))]
    joint = chance.choice([" AND ", " OR "])
    text, sql = (joint.join(f"({part[i]})" for part in parts) for i in (0, 1))
    return (f"NOT ({text})", f"NOT ({sql})") if chance.random() < 0.3 else (text, sql)


def event_columns(chance: random.Random, n: int) -> dict[str, pa.Array]:
    """Return the columns of events; each value is missing one time in eight."""

    def column(draw: Callable[[], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if chance.random() < 0.125 else draw() for _ in range(n)], kind)

    moment, words = pa.int64(), pa.list_(pa.string())
    return {
        **{name: column(lambda: chance.choices(LETTERS, k=chance.randint(0, 3)), words) for name in ("tags", "labels")},
        "sizes": column(lambda: [chance.randint(0, 6) for _ in range(chance.randint(0, 3))], pa.list_(pa.int64())),
        "d": column(lambda: {"n": chance.randint(0, 6)}, pa.struct({"n": pa.int64()})),
        "s": column(lambda: chance.choice(TEXTS), pa.string()),
        "ip": column(lambda: chance.choice(ADDRESSES), pa.string()),
        "day": column(lambda: dt.date(2026, 1, chance.randint(1, 7)), pa.date32()),
        "big": column(lambda: 2**53 + chance.randint(-2, 8), pa.int64()),
        "ok": column(lambda: chance.random() < 0.5, pa.bool_()),
        **{name: column(lambda: chance.choice(MOMENTS), moment) for name in ("at", "start", "stop")},
        **{name: column(lambda: chance.randint(-9, 9), pa.int64()) for name in "ab"},
        "q": column(lambda: chance.randint(-20, 20) / 4, pa.float64()),
        "t": column(lambda: chance.choice(TEXTS), pa.string()),
        **{name: column(lambda: decimal.Decimal(chance.randint(0, 30)) / 100, CENTS) for name in ("cash", "fee")},
    }


def as_moments(numbers: pa.Array) -> pa.Array:
    return pa.array(
        [None if number is None else EPOCH + dt.timedelta(microseconds=number) for number in numbers.to_pylist()]
    )


def answers(engine: Engine, table: Any, n_events: int, n_filters: int) -> Matrix:
    """Return what an engine says of every pair, whose subscriptions are numbered."""
    matches = engine.match_table(table)
    matrix = np.zeros((n_events, n_filters), np.bool_)
    matrix[np.repeat(np.arange(n_events), np.diff(matches.offsets)), matches.rows] = True
    return matrix


def engine_of(texts: list[str], schema: Schema, matcher: str) -> Engine:
    engine = Engine(schema, matcher=matcher)
    for number, text in enumerate(texts):
        assert engine.subscribe(text, id=number) == number
    return engine


def differences(matrix: Matrix, wanted: Matrix, texts: list[str]) -> list[tuple[int, str]]:
    rows, columns = np.nonzero(matrix != wanted)
    return [(int(row), texts[column]) for row, column in zip(rows[:5], columns[:5], strict=True)]


def check_scalars(seed: int, n_filters: int, n_events: int, matchers: tuple[str, ...] = ("packed",)) -> int:
    """Compare all pairs of conditions on one attribute each with DuckDB; return how many there were."""
    conditions = (relation, text_condition, list_condition, small_condition)
    return check_with_duckdb(random.Random(seed), n_filters, n_events, matchers, conditions)


def check_arithmetic(seed: int, n_filters: int, n_events: int, matchers: tuple[str, ...] = ("packed",)) -> int:
    """Compare all pairs of conditions on computed values and on two attributes with DuckDB; return how many."""
    conditions = (arithmetic_condition, arithmetic_condition, arithmetic_condition, small_condition)
    return check_with_duckdb(random.Random(seed), n_filters, n_events, matchers, conditions)


def check_with_duckdb(
    chance: random.Random,
    n_filters: int,
    n_events: int,
    matchers: tuple[str, ...],
    conditions: Sequence[Callable[[random.Random], Both]],
) -> int:
    """Compare all pairs with DuckDB; return how many there were."""
    both = [predicate(chance, chance.randint(0, 2), conditions) for _ in range(n_filters)]
    columns = event_columns(chance, n_events)
    numbers = pa.array(
        [None if address is None else int(ipaddress.ip_address(address)) for address in columns["ip"].to_pylist()]
    )
    connection = duckdb.connect()
    connection.register("events", pa.table(columns | {"ip": numbers}))
    query = ", ".join(f"coalesce({sql}, false) AS c{number}" for number, (_, sql) in enumerate(both))
    columns_of_duckdb = connection.sql(f"SELECT {query} FROM events").fetchnumpy()
    wanted = np.column_stack([np.asarray(columns_of_duckdb[f"c{number}"], np.bool_) for number in range(n_filters)])
    assert 0.1 < wanted.mean() < 0.9
    texts = [text for text, _ in both]
    table = pa.table(columns | {name: as_moments(columns[name]) for name in ("at", "start", "stop")})
    for matcher in matchers:
        matrix = answers(engine_of(texts, SCHEMA, matcher), table, n_events, n_filters)
        assert differences(matrix, wanted, texts) == [], matcher
    return n_filters * n_events


SHAPELY: dict[str, Callable[[Any, Any], Any]] = {
    "S_INTERSECTS": shapely.intersects,
    "S_DISJOINT": shapely.disjoint,
    "S_EQUALS": shapely.equals,
    "S_TOUCHES": shapely.touches,
    "S_CROSSES": shapely.crosses,
    "S_OVERLAPS": shapely.overlaps,
    "S_WITHIN": shapely.within,
    "S_CONTAINS": shapely.contains,
}


def geometries(rng: np.random.Generator, n: int) -> npt.NDArray[np.object_]:
    """Return valid geometries of every kind on a small grid, where touching is common."""
    low, size = rng.integers(0, 9, (2, n, 2)), rng.integers(1, 6, (2, n, 2))
    a, b = (shapely.box(*(low[i].T), *((low[i] + size[i]).T)) for i in (0, 1))
    points = rng.integers(0, 13, (n, 4, 2)).astype(float)
    points[:, 1] += (points[:, 1] == points[:, 0]).all(axis=1)[:, None]  # a line has two ends
    kinds = [
        shapely.points(points[:, 0]),
        shapely.multipoints(shapely.points(points[:, :3]).ravel(), indices=np.repeat(np.arange(n), 3)),
        shapely.linestrings(points[:, :2]),
        a,
        shapely.union(a, b),
        shapely.difference(shapely.box(0, 0, 15, 15), shapely.union(a, b)),
        shapely.geometrycollections(np.column_stack([shapely.points(points[:, 2]), a])),
    ]
    drawn = np.choose(rng.integers(0, len(kinds), n), kinds)
    return np.where(shapely.is_valid(drawn) & ~shapely.is_empty(drawn), drawn, kinds[0])


def check_geometry(seed: int, n_filters: int, n_events: int, matchers: tuple[str, ...] = ("packed",)) -> int:
    """Compare all pairs of geometries with shapely; return how many there were."""
    rng = np.random.default_rng(seed)
    operands, events = geometries(rng, n_filters), geometries(rng, n_events)
    names, negated = rng.choice([*SHAPELY, "S_DWITHIN"], n_filters), rng.random(n_filters) < 0.25
    wanted = np.empty((n_events, n_filters), np.bool_)
    texts = []
    for number, (name, operand) in enumerate(zip(names, operands, strict=True)):
        distance = int(rng.integers(0, 6))
        holds = shapely.dwithin(events, operand, distance) if name == "S_DWITHIN" else SHAPELY[name](events, operand)
        wanted[:, number] = holds != negated[number]
        third = f", {distance}" if name == "S_DWITHIN" else ""
        texts.append(f"{'NOT ' * bool(negated[number])}{name}(area, {operand.wkt}{third})")
    others = geometries(rng, n_events)
    texts += [f"{name}(area, other)" for name in SHAPELY]
    wanted = np.column_stack([wanted, *(compare(events, others) for compare in SHAPELY.values())])
    columns = {"area": events, "other": others}
    table = pa.table({name: pa.array(shapely.to_wkb(column), pa.binary()) for name, column in columns.items()})
    schema = Schema(dict.fromkeys(columns, Region()))
    for matcher in matchers:
        matrix = answers(engine_of(texts, schema, matcher), table, n_events, len(texts))
        assert differences(matrix, wanted, texts) == [], (seed, matcher)
    return n_filters * n_events


def haversine(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the distances of all places in a to all in b, in metres on the sphere of mean radius."""
    (x, y), (u, v) = np.radians(a).T[:, :, None], np.radians(b).T[:, None, :]
    half = np.sin((v - y) / 2) ** 2 + np.cos(y) * np.cos(v) * np.sin((u - x) / 2) ** 2
    distances: npt.NDArray[np.float64] = 2 * 6_371_008.771415 * np.arcsin(np.sqrt(np.minimum(half, 1)))
    return distances


def places(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Return longitudes and latitudes: all over the globe, at the poles, and on both sides of the antimeridian."""
    lonlat = np.column_stack((rng.uniform(-180, 180, n), rng.uniform(-90, 90, n)))
    lonlat[::5, 0] = rng.choice([-180.0, 179.9, -179.9, 180.0], len(lonlat[::5]))
    lonlat[::7, 1] = rng.choice([90.0, -90.0, 89.9, -89.9], len(lonlat[::7]))
    return lonlat


def check_balls(seed: int, n_filters: int, n_events: int, matchers: tuple[str, ...] = ("packed",)) -> int:
    """Compare circles on the sphere and cosines with closed formulas, but for pairs at the rim; return how many."""
    rng = np.random.default_rng(seed)
    centers, where = places(rng, n_filters), places(rng, n_events)
    metres = 10 ** rng.uniform(3, 7.2, n_filters)
    directions, looks = rng.normal(size=(n_filters, 4)), rng.normal(size=(n_events, 4))
    least, is_circle = rng.uniform(-0.5, 0.99, n_filters), rng.random(n_filters) < 0.6
    texts = [
        f"S_DWITHIN(where, POINT({x!r} {y!r}), {m!r}, 'm')"
        if circle
        else f"V_COSINE(look, ({', '.join(map(repr, d))}), {c!r})"
        for (x, y), m, d, c, circle in zip(
            centers.tolist(), metres.tolist(), directions.tolist(), least.tolist(), is_circle, strict=True
        )
    ]
    cosines = looks @ directions.T / np.outer(np.linalg.norm(looks, axis=1), np.linalg.norm(directions, axis=1))
    excess = np.where(is_circle, 1 - haversine(where, centers) / metres, cosines - least)
    at_rim = np.abs(excess) < 1e-7
    assert at_rim.mean() < 1e-4
    schema = Schema({"where": Region(geodetic=True), "look": Vector(4)})
    table = pa.table({"where": pa.array(shapely.to_wkb(shapely.points(where)), pa.binary()), "look": looks.tolist()})
    for matcher in matchers:
        matrix = answers(engine_of(texts, schema, matcher), table, n_events, n_filters)
        assert differences(np.where(at_rim, excess >= 0, matrix), excess >= 0, texts) == [], (seed, matcher)
    return int(np.count_nonzero(~at_rim))


CHECKS = {"scalars": check_scalars, "arithmetic": check_arithmetic, "geometry": check_geometry, "balls": check_balls}


@pytest.mark.parametrize("check", CHECKS)
def test_every_matcher_agrees_with_an_independent_evaluation(check: str) -> None:
    assert CHECKS[check](SEED, 150, 100, MATCHERS) > 14_900


@pytest.mark.soak
@pytest.mark.parametrize(
    ("check", "part"),
    [(check, part) for check in CHECKS for part in range(10 if check in ("scalars", "arithmetic") else 5)],
)
def test_thirty_million_pairs_agree_with_an_independent_evaluation(check: str, part: int) -> None:
    assert CHECKS[check](10_000 + part, 500, 2_000) > 999_000
