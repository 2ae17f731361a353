"""Regions that are not valid: what a repair makes of them, what it refuses, and that every matcher sees the same."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st

import tamis
from tamis.algebra.evaluate import matches
from tamis.errors import LimitError, SchemaError
from tamis.model.language.compiler import compile_text
from tamis.model.repair import MAX_CONTACTS, repaired
from tamis.model.schema import Schema
from tamis.model.shapes import MAX_VERTICES, region, valid
from tamis.model.types import Region
from tamis.model.values import UnfitError
from tamis.node.content import Content
from tests.effort import effort

MENDING = Region(invalid="repair")
EIGHT = "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (EIGHT, "MULTIPOLYGON (((0 0, 5 5, 0 10, 0 0)), ((10 0, 5 5, 10 10, 10 0)))"),
        ("POLYGON ((0 0, 4 0, 4 4, 4 9, 4 4, 0 4, 0 0))", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"),
        ("POLYGON ((0 0, 4 0, 4 0, 4 4, 0 0))", "POLYGON ((0 0, 4 0, 4 4, 0 0))"),
        (
            "POLYGON ((4 4, 6 4, 6 6, 4 4), (0 0, 9 0, 9 9, 0 9, 0 0))",
            "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (4 4, 6 4, 6 6, 4 4))",
        ),
        (
            "MULTIPOLYGON (((0 0, 6 0, 6 6, 0 6, 0 0)), ((2 2, 8 2, 8 4, 2 4, 2 2)))",
            "POLYGON ((0 0, 6 0, 6 2, 8 2, 8 4, 6 4, 6 6, 0 6, 0 0))",
        ),
        (
            "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 4 1, 4 4, 1 4, 1 1), (3 3, 6 3, 6 6, 3 6, 3 3))",
            "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 4 1, 4 3, 6 3, 6 6, 3 6, 3 4, 1 4, 1 1))",
        ),
        ("MULTILINESTRING ((0 0, 0 0), (1 1, 2 2))", "LINESTRING (1 1, 2 2)"),
        ("MULTIPOINT ((1 1), EMPTY)", "POINT (1 1)"),
        ("GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (3 3, 3 3))", "GEOMETRYCOLLECTION (POINT (1 1))"),
    ],
)
def test_what_a_repair_makes(form: str, expected: str) -> None:
    mended = MENDING.canonical(form)
    assert shapely.equals(mended, shapely.from_wkt(expected))
    assert mended.is_valid
    assert mended.geom_type == shapely.from_wkt(expected).geom_type
    with pytest.raises(UnfitError, match=r"declare Region\(invalid='repair'\)"):
        Region().canonical(form)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("POLYGON ((0 0, 4 0, 8 0, 0 0))", "nothing is left"),
        ("LINESTRING (1 1, 1 1)", "nothing is left"),
        ("POLYGON ((0 0, 4 0, 0 4, 0 0), (0 0, 4 0, 0 4, 0 0))", "nothing is left"),
        ("POLYGON ((0 0, 1e308 0, 1e308 1e308, -1e308 1e308, 1e308 0, 0 0))", "cannot be repaired"),
        ("POLYGON ((0 0, nan 0, 1 1, 0 0))", "NaN and infinity|not WKT"),
        ("POLYGON EMPTY", "an empty geometry"),
        ("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 1)))", "collection inside a collection"),
        ("POLYGON Z ((0 0 1, 9 9 1, 9 0 1, 0 9 1, 0 0 1))", "third coordinate"),
        ("POLYGON ((170 0, -170 9, -170 0, 170 9, 170 0))", "antimeridian"),
    ],
)
def test_what_no_repair_helps(form: str, problem: str) -> None:
    with pytest.raises(UnfitError, match=problem):
        MENDING.canonical(form)


def test_what_is_valid_stays_as_it_is() -> None:
    for form in ("POLYGON ((0 0, 4 0, 4 4, 0 0))", "POINT (1 2)", "LINESTRING (0 0, 2 2, 2 0, 0 2)"):
        assert MENDING.canonical(form).wkt == Region().canonical(form).wkt == form


def test_only_two_words_say_what_happens() -> None:
    with pytest.raises(SchemaError, match="invalid is 'refuse' or 'repair', not 'ignore'"):
        Region(invalid="ignore")
    assert Schema.from_json(Schema({"a": MENDING}).to_json()) == Schema({"a": MENDING})
    assert Region(invalid="refuse") == Region()
    assert Schema.from_json('{"attributes": {"a": {"type": "region", "invalid": "refuse"}}}') == Schema({"a": Region()})


_COORDINATE = st.integers(0, 6)

#: Without its spike, a ring that jumps from -170 to 170.
HIDDEN_JUMP = "POLYGON ((-170 0, 0 -5, -170 0, 170 0, 170 10, -170 10, -170 0))"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            HIDDEN_JUMP,
            "MULTIPOLYGON (((170 0, 180 0, 180 10, 170 10, 170 0)), ((-180 0, -170 0, -170 10, -180 10, -180 0)))",
        ),
        (
            "POLYGON ((170 0, 175 0, 175 5, 170 5, 170 2, -170 2, 170 2, 170 0))",
            "POLYGON ((170 0, 175 0, 175 5, 170 5, 170 0))",
        ),
        (
            "GEOMETRYCOLLECTION (LINESTRING (5 5, 5 5), LINESTRING (170 0, -170 0))",
            "GEOMETRYCOLLECTION (MULTILINESTRING ((170 0, 180 0), (-180 0, -170 0)))",
        ),
        (
            "GEOMETRYCOLLECTION(POINT EMPTY, POLYGON((170 0, -170 0, 170 0)), POINT(1 1), LINESTRING (170 0, -170 0))",
            "GEOMETRYCOLLECTION (POINT (1 1), MULTILINESTRING ((170 0, 180 0), (-180 0, -170 0)))",
        ),
        (
            "MULTIPOLYGON (((170 0, -170 0, 170 0)), ((1 1, 2 1, 2 2, 1 1)))",
            "POLYGON ((1 1, 2 1, 2 2, 1 1))",
        ),
    ],
)
def test_a_repair_on_the_globe_leaves_what_would_be_read_again(form: str, expected: str) -> None:
    mended = Region(geodetic=True, invalid="repair").canonical(form)
    assert shapely.equals(mended, shapely.from_wkt(expected))
    assert mended.geom_type == shapely.from_wkt(expected).geom_type


def test_a_part_far_from_the_antimeridian_stays_where_it_is() -> None:
    crossing, far = "(170 0, -170 0, -170 5, 170 5, 170 0)", "(-10 0, 10 0, 10 10, -10 10, -10 0)"
    for invalid in ("refuse", "repair"):
        cut = Region(geodetic=True, invalid=invalid).canonical(f"MULTIPOLYGON (({crossing}), ({far}))")
        assert cut.area == 20 * 5 + 20 * 10
        assert shapely.contains_xy(cut, [0, 175, -175, 50], [5, 2, 2, 5]).tolist() == [True, True, True, False]
        with pytest.raises(UnfitError, match="another ring of its polygon lies around x = 0"):
            Region(geodetic=True, invalid=invalid).canonical(f"POLYGON ({far}, {crossing})")


def test_a_filter_that_was_repaired_is_read_by_the_next_broker() -> None:
    text = f"S_INTERSECTS(area, {HIDDEN_JUMP})"
    with pytest.raises(tamis.SubscriptionError, match="an edge from x = -170 to 170"):
        Content(Schema({"area": MENDING})).compile(text)
    content, neighbour = (Content(Schema({"area": Region(geodetic=True, invalid="repair")})) for _ in range(2))
    filters = content.compile(text)
    assert neighbour.read_filter(content.write_filter(filters)) == filters
    events = [content.schema.event({"area": point}) for point in [(0, 5), (175, 5), (-175, 5)]]
    assert [any(matches(event, filter) for filter in filters) for event in events] == [False, True, True]


def test_the_pieces_of_a_cut_are_counted() -> None:
    y = np.linspace(-80, 80, MAX_VERTICES // 2)
    ring = np.concatenate([np.column_stack([np.full(len(y), 170), y]), np.column_stack([np.full(len(y), -170), -y])])
    with pytest.raises(LimitError, match="vertices of a region"):
        Region(geodetic=True).canonical(shapely.Polygon(ring))


_LONGITUDE = st.sampled_from([-180, -179, -170, -150, -120, -60, 0, 60, 120, 150, 170, 179, 180])
_BESIDE_180 = st.lists(st.tuples(_LONGITUDE, _COORDINATE), min_size=3, max_size=7)
_POLYGONS = st.builds(shapely.Polygon, _BESIDE_180, st.lists(_BESIDE_180, max_size=1))
_LINES = st.builds(shapely.LineString, st.lists(st.tuples(_LONGITUDE, _COORDINATE), min_size=2, max_size=4))
_SHAPES = _POLYGONS | st.builds(shapely.MultiPolygon, st.lists(_POLYGONS, min_size=1, max_size=3))
_COLLECTIONS = st.builds(shapely.GeometryCollection, st.lists(_SHAPES | _LINES, min_size=1, max_size=3))


@given(_SHAPES | _COLLECTIONS)
@example(shapely.from_wkt(HIDDEN_JUMP))
@example(shapely.from_wkt("POLYGON ((170 0, 175 0, 175 5, 170 5, 170 2, -170 2, 170 2, 170 0))"))
@example(shapely.from_wkt("GEOMETRYCOLLECTION (MULTIPOLYGON EMPTY, LINESTRING (170 0, -170 0))"))
def test_a_value_is_the_same_when_it_is_read_again(geometry: shapely.Geometry) -> None:
    for geodetic in (False, True):
        for invalid in ("refuse", "repair"):
            kind = Region(geodetic=geodetic, invalid=invalid)
            try:
                value = kind.canonical(geometry)
            except (UnfitError, LimitError):
                continue
            assert kind.to_wire(kind.canonical(kind.to_wire(value))) == kind.to_wire(value)
            assert Region(geodetic=geodetic).canonical(value) == value  # what was repaired is valid


_RING = st.lists(st.tuples(_COORDINATE, _COORDINATE), min_size=3, max_size=8)
#: Points beside the grid, where no edge of a ring on it runs but by chance.
_PROBES = [(x + 0.3137, y + 0.5411) for x in range(-1, 7) for y in range(-1, 7)]


def winding(ring: list[tuple[int, int]], x: float, y: float) -> int:
    """Return how often a ring goes around a point, by the crossings of a ray to the east."""
    turns = 0
    for (a, b), (c, d) in zip(ring, [*ring[1:], ring[0]], strict=True):
        side = (c - a) * (y - b) - (x - a) * (d - b)
        turns += (b <= y < d and side > 0) - (d <= y < b and side < 0)
    return turns


@given(_RING)
@example([(0, 0), (2, 2), (2, 0), (0, 2)])
@example([(3, 1), (0, 1), (5, 4), (3, 1), (1, 1), (5, 0)])  # GEOS leaves neighbours that share an edge
@example([(0, 0), (6, 0), (6, 6), (0, 6), (0, 0), (4, 2), (4, 4), (2, 4)])
def test_a_ring_encloses_what_it_winds_around(ring: list[tuple[int, int]]) -> None:
    enclosed = [winding(ring, x, y) != 0 for x, y in _PROBES]
    try:
        mended = MENDING.canonical(shapely.Polygon(ring))
    except UnfitError:
        assert not any(enclosed)
    else:
        assert shapely.contains_xy(mended, np.array(_PROBES)).tolist() == enclosed


@given(st.lists(_RING, min_size=1, max_size=3), st.lists(_RING, min_size=1, max_size=2))
def test_a_repaired_value_matches_as_the_value_that_shapely_repairs(
    operand: list[list[tuple[int, int]]], value: list[list[tuple[int, int]]]
) -> None:
    """The type repairs both sides; before it, shapely repairs them for an attribute that refuses what is not valid."""
    raw = [shapely.MultiPolygon([shapely.Polygon(ring) for ring in rings]) for rings in (operand, value)]
    mended = [shapely.make_valid(shape, method="structure", keep_collapsed=False) for shape in raw]
    mended = [shapely.union_all(shapely.get_parts(shape)) for shape in mended]
    if any(shape.is_empty for shape in mended):
        return
    text = [f"S_INTERSECTS(area, {shape.wkt})" for shape in (raw[0], mended[0])]
    filters = compile_text(text[0], Schema({"area": MENDING})).filters
    event = Schema({"area": MENDING}).event({"area": raw[1]})
    expected = bool(shapely.intersects(mended[1], mended[0]))
    assert any(matches(event, filter) for filter in filters) == expected
    for matcher in ("packed", "linear"):
        engine = tamis.Engine(Schema({"area": MENDING}), matcher)
        engine.subscribe(text[0], id="repaired")
        assert bool(engine.match({"area": raw[1].wkt})) == expected, matcher
        assert bool(engine.match_table({"area": [raw[1].wkb]}).of(0)) == expected, matcher


@pytest.mark.parametrize("n", [200, 1_000, MAX_VERTICES])
def test_a_tangle_is_refused_before_it_costs(n: int) -> None:
    tangle = shapely.Polygon(np.random.default_rng(5).random((n, 2)))

    def refuse() -> None:
        with pytest.raises(LimitError, match="in a region to repair"):
            repaired(tangle)

    assert effort(refuse) < 10  # 1.5 were measured


def knots(n: int, k: int) -> shapely.Polygon:
    """Return a circle of n vertices, k pairs of which are exchanged."""
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    first = np.arange(k) * (n // k)
    ring[first], ring[first + 1] = ring[first + 1], ring[first].copy()
    return shapely.Polygon(ring)


def test_many_flaws_of_a_long_ring_are_repaired() -> None:
    ring = knots(MAX_VERTICES - 3_000, 900)
    mended = region(ring, repair=True)
    assert mended.is_valid
    assert mended.area == pytest.approx(np.pi, abs=1e-3)
    assert effort(lambda: region(ring, repair=True)) < 60  # 20 were measured
    with pytest.raises(LimitError, match=f"more than the {MAX_CONTACTS:,} accepted"):
        region(knots(MAX_VERTICES, MAX_CONTACTS + 1), repair=True)
    with pytest.raises(LimitError, match="vertices of a region"):  # after the repair
        region(knots(MAX_VERTICES, 900), repair=True)


def test_a_filter_cannot_grow_beyond_its_limits_by_repairs() -> None:
    comb = ", ".join(f"{x} {x % 2 * 2 - 1}" for x in range(120))
    text = f"S_INTERSECTS(area, POLYGON ((0 -1, {comb}, 119 0, 0 0, 0 -1)))"
    schema = Schema({"area": MENDING})
    assert compile_text(text, schema).filters
    with pytest.raises(tamis.SubscriptionError, match="WKT and GeoJSON regions in one filter"):
        compile_text(" OR ".join([text] * 3), schema)


def test_a_constant_relation_is_not_repaired() -> None:
    with pytest.raises(UnfitError, match="Self-intersection"):
        valid(shapely.from_wkt(EIGHT))
