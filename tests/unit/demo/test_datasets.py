"""The bundled data: whole, exact, and such that the questions about it have something to find."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import shapely
from bokeh_sampledata import us_counties

import tamis
from tamis.demo import datasets
from tamis.demo.shared_borders import join_borders
from tamis.demo.storm_questions import QUESTIONS
from tamis.demo.wind_field import wind_fields
from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.shapes import polygon

#: SHA-256 of the source's outlines.
DIGEST = "e54e8cd0f22300896efa8e9eb1c8c2bcbe743a260b409c383bbd8685641ab5ed"


@pytest.fixture(scope="module")
def counties() -> pa.Table:
    return datasets.counties()


@pytest.fixture(scope="module")
def storms() -> pa.Table:
    return datasets.storms()


@pytest.fixture(scope="module")
def questions() -> dict[str, str]:
    table = datasets.county_subscriptions()
    return dict(zip(table["id"].to_pylist(), table["filter"].to_pylist(), strict=True))


def polygons(column: pa.ChunkedArray) -> Any:
    return shapely.from_wkb(column.to_numpy())


def rings(parts: Any) -> list[bytes]:
    """Give polygons in one form, wherever their rings start and whichever way they run."""
    return sorted(shapely.to_wkb(shapely.normalize(parts), byte_order=1))


# Counties


def test_every_county_part_is_a_simple_polygon(counties: pa.Table) -> None:
    regions = polygons(counties["region"])
    assert shapely.is_valid(regions).all()
    assert not shapely.get_num_interior_rings(regions).any()
    for region in counties["region"].to_pylist()[::50]:
        polygon(region)


def test_parts_are_counted_from_the_largest(counties: pa.Table) -> None:
    areas = shapely.area(polygons(counties["region"]))
    rows = list(zip(counties["fips"].to_pylist(), counties["part"].to_pylist(), areas, strict=True))
    for (fips, part, area), (after, number, smaller) in itertools.pairwise(rows):
        assert number == (part + 1 if fips == after else 1)
        assert smaller <= area or fips != after
        assert fips <= after
    assert sum(count > 1 for count in Counter(row[0] for row in rows).values()) == 77


def test_county_coordinates_are_unchanged(counties: pa.Table) -> None:
    """The digest was taken from the source's own rings; the next test takes it from the source again."""
    digest = hashlib.sha256(b"".join(rings(polygons(counties["region"])))).hexdigest()
    assert digest == DIGEST


def test_the_source_has_that_digest() -> None:
    parts = shapely.get_parts([county["geometry"] for county in us_counties.records()])
    outlines = shapely.polygons(shapely.get_exterior_ring(parts))
    assert hashlib.sha256(b"".join(rings(outlines))).hexdigest() == DIGEST


def test_neighbours_share_their_border_to_the_bit(counties: pa.Table) -> None:
    """Nearly every edge that is not coast is walked in both directions; 13 twice in one, where counties overlap."""
    corners, part = shapely.get_coordinates(polygons(counties["region"]), return_index=True)
    _, number = np.unique(corners, axis=0, return_inverse=True)
    inside = part[1:] == part[:-1]
    walked = Counter(zip(number[:-1][inside].tolist(), number[1:][inside].tolist(), strict=True))
    shared = sum((end, start) in walked for start, end in walked) // 2
    assert (walked.total(), len(walked), shared) == (505_962, 505_949, 238_991)


def test_borders_join_forwards_and_backwards() -> None:
    """Two squares side by side: the line between them is kept once. The second line lies off the grid."""
    degree, back = 200_000, 199_999
    borders = pa.table(
        {
            "lon": pa.array([[degree, 0], [], [0, degree, 0, back]], pa.list_(pa.int32())),
            "lat": pa.array([[0, degree], [], [back, 0, degree, 0]], pa.list_(pa.int32())),
            "exact": pa.array([None, [1.0, 1.0, 1 / 3, 1.0, 0.0, 0.0, 1.0, 0.0], None], pa.list_(pa.float64())),
        }
    )
    left, right = join_borders(borders, pa.chunked_array([[[0, 1], [~0, 2]]]))
    assert left.wkt == "POLYGON ((1 0, 1 1, 0.3333333333333333 1, 0 0, 1 0))"
    assert right.wkt == "POLYGON ((1 1, 1 0, 2 0, 2 1, 1 1))"


# Storms


def test_fixes_are_in_order_and_have_their_own_id(storms: pa.Table) -> None:
    assert pc.count_distinct(storms["id"]).as_py() == storms.num_rows
    assert storms["at"].to_pylist() == sorted(storms["at"].to_pylist())
    assert storms["storm"].null_count == storms["wind"].null_count == 0
    hurricanes = storms.filter(pc.equal(storms["status"], "hurricane"))
    assert hurricanes["category"].null_count == 0


def test_a_storm_keeps_its_year_into_the_next(storms: pa.Table) -> None:
    zeta = storms.filter(pc.equal(storms["storm"], "Zeta-2005"))
    assert {at.year for at in zeta["at"].to_pylist()} == {2005, 2006}
    assert sorted(zeta["id"].to_pylist()) == [f"Zeta-2005-{number:03}" for number in range(1, zeta.num_rows + 1)]


def test_a_disc_for_each_diameter(storms: pa.Table) -> None:
    has_field = pc.greater(pc.fill_null(storms["diameter"], 0), 0)
    assert pc.is_valid(storms["disc"]).equals(has_field)
    fixes = storms.filter(has_field)
    discs = polygons(fixes["disc"])
    assert shapely.is_valid(discs).all()
    assert (shapely.get_num_coordinates(discs) == 33).all()
    assert shapely.contains_xy(discs, fixes["lon"].to_numpy(), fixes["lat"].to_numpy()).all()


@pytest.mark.parametrize("lat", [0.0, 25.0, -40.0, 60.0])
def test_corners_lie_half_a_diameter_away(lat: float) -> None:
    """By the great circle, in nautical miles; small discs, on which the earth is nearly flat."""
    [disc] = wind_fields(np.array([-75.0]), np.array([lat]), np.array([60.0]))
    lon_2, lat_2 = np.radians(shapely.get_coordinates(disc)).T
    lat_1, lon_1 = np.radians(lat), np.radians(-75.0)
    cosine = np.sin(lat_1) * np.sin(lat_2) + np.cos(lat_1) * np.cos(lat_2) * np.cos(lon_2 - lon_1)
    assert np.degrees(np.arccos(cosine)) * 60 == pytest.approx(30.0, rel=0.01)


def test_no_wind_no_disc() -> None:
    assert wind_fields(np.zeros(2), np.zeros(2), np.array([0.0, np.nan])).tolist() == [None, None]


# Storms and counties


def whole_counties(discs: Any, counties: pa.Table) -> int:
    """Count the pairs (disc, county) in which the disc holds all parts of the county."""
    disc, part = shapely.STRtree(polygons(counties["region"])).query(discs, predicate="contains")
    fips = np.array(counties["fips"].to_pylist())
    names, of_part, n_parts = np.unique(fips, return_inverse=True, return_counts=True)
    pairs, n_held = np.unique(disc * len(names) + of_part[part], return_counts=True)
    return int((n_held == n_parts[pairs % len(names)]).sum())


def test_the_join_of_storms_and_counties(storms: pa.Table, counties: pa.Table) -> None:
    """Circles in plain degrees give 19,388 pairs (counted before, from the source); ours are wider to the north."""
    fixes = storms.filter(pc.is_valid(storms["disc"]))
    centres = shapely.points(fixes["lon"].to_numpy(), fixes["lat"].to_numpy())
    plain = shapely.buffer(centres, fixes["diameter"].to_numpy() / 120, quad_segs=8)
    assert whole_counties(plain, counties) == 19_388
    assert whole_counties(polygons(fixes["disc"]), counties) == 24_601


def test_counties_are_notified_of_katrina(storms: pa.Table, counties: pa.Table, questions: dict[str, str]) -> None:
    """The engine's answer is shapely's: the disc meets the part, and the wind is what the county asked for."""
    near = counties.filter(pc.is_in(counties["state"], pa.array(["FL", "AL", "MS", "LA"])))
    ids = [f"county-{row['fips']}-{row['part']}" for row in near.select(["fips", "part"]).to_pylist()]
    katrina = storms.filter(pc.equal(storms["storm"], "Katrina-2005"))
    engine = tamis.Engine(tamis.Schema.from_arrow(katrina))
    for name in ids:
        engine.subscribe(questions[name], id=name)
    matches = engine.match_table(katrina)

    wind = katrina["wind"].to_numpy()
    limits = np.array([int(questions[name].rsplit(">= ", 1)[1]) for name in ids])
    meets = shapely.intersects(polygons(katrina["disc"])[:, None], polygons(near["region"])[None, :])
    event, part = np.nonzero(meets & (wind[:, None] >= limits))
    want = {(int(row), ids[column]) for row, column in zip(event, part, strict=True)}
    assert set(zip(matches.event.tolist(), matches.subscription, strict=True)) == want
    assert len(want) > 200


# Questions


def test_county_questions_ask_for_each_part_and_all_winds(counties: pa.Table, questions: dict[str, str]) -> None:
    texts = [text for name, text in questions.items() if name.startswith("county-")]
    assert len(texts) == counties.num_rows == len(questions) - len(QUESTIONS)
    assert {text.rsplit(">= ", 1)[1] for text in texts} == {"34", "50", "64", "96"}
    borders = [text.removeprefix("S_INTERSECTS(disc, ").rsplit(")", 1)[0] for text in texts]
    assert shapely.to_wkb(shapely.from_wkt(borders), byte_order=1).tolist() == counties["region"].to_pylist()


def test_every_question_but_the_impossible_finds_a_storm(storms: pa.Table) -> None:
    engine = tamis.Engine(tamis.Schema.from_arrow(storms))
    for name, text in QUESTIONS.items():
        engine.subscribe(text, id=name)
    notified = set(engine.match_table(storms).subscription)
    assert set(QUESTIONS) - notified == {"impossible"}


def test_some_questions_cover_others(storms: pa.Table) -> None:
    schema = tamis.Schema.from_arrow(storms)
    wide, narrow = QUESTIONS["hurricane-2"], QUESTIONS["major-hurricane"]
    assert tamis.covers(wide, narrow, schema=schema)
    assert not tamis.covers(narrow, wide, schema=schema)
    assert tamis.equivalent(narrow, QUESTIONS["major-hurricane-in-other-words"], schema=schema)


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("broken-syntax", SubscriptionSyntaxError, "expected a value at column 37"),
        ("broken-attribute", SubscriptionError, "did you mean 'wind'"),
        ("broken-polygon", SubscriptionError, "not a simple polygon"),
    ],
)
def test_broken_questions_are_refused(storms: pa.Table, name: str, kind: type[Exception], problem: str) -> None:
    table = datasets.broken_subscriptions()
    assert table.num_rows == 3
    engine = tamis.Engine(tamis.Schema.from_arrow(storms))
    with pytest.raises(kind, match=problem):
        engine.subscribe(table["filter"][table["id"].index(name).as_py()].as_py(), id=name)
