"""Geometry of every kind, circles on the sphere, cosines and clocks: every matcher agrees with independent formulas."""

from __future__ import annotations

import datetime as dt
import math
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import shapely

import tamis
from tamis.algebra.covers import covers
from tamis.engine import Engine
from tamis.geometry.rcc8 import compose
from tamis.geometry.relations import relation_of
from tamis.model.schema import Schema
from tamis.model.types import Number, Region, Timestamp, Vector

MATCHERS = ("packed", "counting", "linear")
#: Function -> what shapely says of the event's geometry and the operand.
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


def _ring(rng: np.random.Generator) -> shapely.Polygon:
    x, y = rng.integers(0, 9, 2)
    w, h = rng.integers(1, 6, 2)
    box = shapely.box(x, y, x + w, y + h)
    return box if rng.random() < 0.6 else shapely.Polygon([(x, y), (x + w, y), (x, y + h)])


def _geometry(rng: np.random.Generator) -> shapely.Geometry:
    """Return a valid geometry of any kind on a small grid, where touching is common."""
    while True:
        kind = rng.integers(0, 9)
        points = rng.integers(0, 13, (int(rng.integers(2, 5)), 2)).astype(float)
        shape: shapely.Geometry = _ring(rng)
        if kind == 0:
            shape = shapely.Point(points[0])
        elif kind == 1:
            shape = shapely.MultiPoint(points)
        elif kind == 2:
            shape = shapely.LineString(points)
        elif kind == 3:
            shape = shapely.MultiLineString([points[:2], rng.integers(0, 13, (2, 2)).astype(float)])
        elif kind == 4:
            shape = shapely.difference(shapely.box(0, 0, 12, 12), shapely.union(_ring(rng), _ring(rng)))
        elif kind == 5:
            shape = shapely.union(_ring(rng), _ring(rng))
        elif kind == 6:
            shape = shapely.GeometryCollection([shapely.Point(points[0]), _ring(rng)])
        try:
            return tamis.Region().canonical(shape)  # type: ignore[return-value]
        except ValueError:
            continue


def _check_geometry(rng: np.random.Generator, n_subscriptions: int, n_events: int) -> None:
    schema = Schema({"area": Region(), "x": Number()})
    names = list(SHAPELY)
    texts, wanted = {}, {}
    for i in range(n_subscriptions):
        name, operand = names[i % len(names)], _geometry(rng)
        negated = rng.random() < 0.25
        texts[i] = f"{'NOT ' if negated else ''}{name}(area, {operand.wkt})"
        wanted[i] = (SHAPELY[name], operand, negated)
    events = [_geometry(rng) for _ in range(n_events)]
    expected = [
        sorted(i for i, (says, operand, negated) in wanted.items() if bool(says(event, operand)) != negated)
        for event in events
    ]
    for kind in MATCHERS:
        engine = Engine(schema, matcher=kind)
        for i, text in texts.items():
            engine.subscribe(text, id=i)
        matches = [sorted(engine.match({"area": event, "x": 1})) for event in events]
        assert matches == expected, kind
        table = engine.match_table({"area": np.array(events, dtype=object)})
        in_table = [sorted(table.of(i)) for i in range(len(events))]
        assert in_table == expected, f"{kind}, as a table"


def test_every_matcher_agrees_with_shapely(rng: np.random.Generator) -> None:
    _check_geometry(rng, 48, 40)


@pytest.mark.soak
def test_every_matcher_agrees_with_shapely_often(rng: np.random.Generator) -> None:
    for _ in range(100):
        _check_geometry(rng, 200, 200)


def test_the_composition_table_holds_for_every_kind_of_geometry(rng: np.random.Generator) -> None:
    for _ in range(600):
        a, b, shape = _ring(rng), _ring(rng), _geometry(rng)
        possible = compose(frozenset({relation_of(shape, a)}), relation_of(a, b))
        assert relation_of(shape, b) in possible, (shape.wkt, a.wkt, b.wkt)


def test_a_cover_that_is_proved_holds(rng: np.random.Generator) -> None:
    schema = Schema({"area": Region()})
    proved = 0
    for _ in range(250):
        first, second = (f"{rng.choice([*SHAPELY])}(area, {_geometry(rng).wkt})" for _ in range(2))
        outer = f"{first} OR {second}" if rng.random() < 0.3 else first
        inner = second if outer == first else f"{second} AND NOT {first}"
        answer = covers(outer, inner, schema)
        if not answer:
            continue
        proved += 1
        engine = Engine(schema, matcher="linear")
        engine.subscribe(outer, id="outer")
        engine.subscribe(inner, id="inner")
        for _ in range(30):
            assert engine.match({"area": _geometry(rng)}) != ["inner"], (outer, inner)
    assert proved > 20


def _haversine(a: tuple[float, float], b: tuple[float, float]) -> float:
    (lon1, lat1), (lon2, lat2) = (tuple(map(math.radians, point)) for point in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6_371_008.771_415 * math.asin(math.sqrt(min(h, 1.0)))


def _check_circles(rng: np.random.Generator, n_circles: int, n_events: int) -> None:
    centers = np.column_stack((rng.uniform(-180, 180, n_circles), np.degrees(np.arcsin(rng.uniform(-1, 1, n_circles)))))
    radii = 10.0 ** rng.uniform(0, 4.2, n_circles)
    points = np.column_stack((rng.uniform(-180, 180, n_events), np.degrees(np.arcsin(rng.uniform(-1, 1, n_events)))))
    engine = Engine(Schema({"where": Region(geodetic=True), "x": Number()}))
    for i, ((x, y), radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
        engine.subscribe(f"S_DWITHIN(where, POINT({x!r} {y!r}), {radius!r}, 'km')", id=i)
    table = engine.match_table({"where": np.array([shapely.Point(point) for point in points], dtype=object)})
    for k, point in enumerate(points.tolist()):
        single = set(engine.match({"where": point}))
        assert single == set(table.of(k))
        for i in range(n_circles):
            distance = _haversine(tuple(point), tuple(centers[i].tolist()))
            if abs(distance - radii[i] * 1000) > 0.01:  # a centimetre: the two formulas round differently
                assert (i in single) == (distance < radii[i] * 1000), (point, centers[i], radii[i])


def test_circles_agree_with_the_haversine_formula(rng: np.random.Generator) -> None:
    _check_circles(rng, 120, 60)


@pytest.mark.soak
def test_circles_agree_with_the_haversine_formula_often(rng: np.random.Generator) -> None:
    for _ in range(20):
        _check_circles(rng, 1_000, 500)


def test_cosines_agree_with_a_dot_product(rng: np.random.Generator) -> None:
    directions, vectors = rng.normal(size=(80, 5)), rng.normal(size=(60, 5)).astype(np.float32)
    least = rng.uniform(-1, 1, 80)
    engine = Engine(Schema({"look": Vector(5), "x": Number()}))
    for i, direction in enumerate(directions.tolist()):
        rest = " AND x > 0" if i % 2 else ""
        engine.subscribe(f"V_COSINE(look, ({', '.join(map(repr, direction))}), {float(least[i])!r}){rest}", id=i)
    cosines = vectors.astype(np.float64) @ directions.T
    cosines /= np.linalg.norm(vectors, axis=1)[:, None].astype(np.float64) * np.linalg.norm(directions, axis=1)
    table = engine.match_table({"look": vectors, "x": np.ones(60)})
    for k, vector in enumerate(vectors):
        expected = set(np.flatnonzero(cosines[k] >= least).tolist())
        assert np.abs(cosines[k] - least).min() > 1e-6 or set(table.of(k)) ^ expected <= {
            int(np.abs(cosines[k] - least).argmin())
        }
        assert set(engine.match({"look": vector, "x": 1})) == set(table.of(k)) == expected


def test_clocks_agree_with_the_calendar(rng: np.random.Generator) -> None:
    zones = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"]
    engine = Engine(Schema({"at": Timestamp(), "x": Number()}))
    wanted = []
    for i in range(60):
        zone, begin, end = zones[i % 5], *(int(hour) for hour in rng.integers(0, 24, 2))
        day = int(rng.integers(0, 7))
        name = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day]
        wanted.append((zone, begin, end, day))
        text = f"T_TIME(at, '{begin:02}:00', '{end:02}:00', '{zone}') AND T_WEEKDAY(at, '{name}', '{zone}')"
        engine.subscribe(text, id=i)
    start = dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(minutes=int(minutes)) for minutes in rng.integers(0, 60 * 24 * 365 * 70, 300)]
    table = engine.match_table({"at": moments, "x": [1] * 300})
    for k, moment in enumerate(moments):
        expected = []
        for i, (zone, begin, end, day) in enumerate(wanted):
            local = moment.astimezone(zoneinfo.ZoneInfo(zone))
            inside = begin <= local.hour < end if begin < end else local.hour >= begin or local.hour < end
            if inside and local.weekday() == day:
                expected.append(i)
        assert sorted(engine.match({"at": moment})) == sorted(table.of(k)) == expected
