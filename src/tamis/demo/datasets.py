"""Real data that comes with the package: earthquakes and regions, storms and counties, and questions about them.

The files lie in ``tamis/data``, read through ``importlib.resources``, so they are found in a checkout, a
wheel or a zip alike; ``LICENSES.md`` beside them tells source and terms. ``scripts/make_data.py`` and
``scripts/make_storm_data.py`` made them.
Every call reads its file afresh: what a caller changes, no other caller sees.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from tamis.demo.shared_borders import join_borders
from tamis.demo.storm_questions import BROKEN_QUESTIONS, QUESTIONS, ask_about_county
from tamis.demo.wind_field import wind_fields

__all__ = [
    "broken_subscriptions",
    "counties",
    "county_subscriptions",
    "earthquakes",
    "quake_regions",
    "quake_subscriptions",
    "storms",
]


def earthquakes() -> pa.Table:
    """Read the 1,707 seismic events of one week, oldest first.

    ``at`` is a UTC timestamp, ``depth`` is in km (negative above sea level), ``epicentre`` is a WKB point,
    ``felt`` (reports by people) and ``alert`` are mostly null.

    >>> table = earthquakes()
    >>> table.num_rows
    1707
    >>> table.column_names  # doctest: +NORMALIZE_WHITESPACE
    ['id', 'at', 'mag', 'mag_type', 'depth', 'place', 'lon', 'lat', 'epicentre', 'felt', 'tsunami', 'alert',
     'status', 'type', 'network']
    >>> table["place"][0].as_py()
    '37km NNE of Amboy, Washington'
    """
    return _read_table("earthquakes.parquet")


def quake_regions() -> pa.Table:
    """Read the regions (states, provinces) in which those events lie, and their neighbours, sorted by code.

    ``region`` is a WKB polygon: simple, without holes. Two neighbours share their border exactly.

    >>> table = quake_regions()
    >>> table.num_rows
    217
    >>> table.column_names
    ['code', 'name', 'country', 'region']
    >>> table["name"][table["code"].index("US-CA").as_py()].as_py()
    'California'
    """
    return _read_table("regions.parquet")


def quake_subscriptions() -> list[tuple[str, str]]:
    """Read 67 standing questions about earthquakes as pairs (id, CQL2 text).

    Some cover others, some are equivalent, some can never match.

    >>> questions = dict(quake_subscriptions())
    >>> len(questions)
    67
    >>> questions["strong-shallow"]
    'mag >= 5 AND depth < 70'
    """
    lines = (files("tamis") / "data" / "quake_subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["id"], row["filter"]) for row in map(json.loads, lines)]


def counties() -> pa.Table:
    """Read the counties of the United States, one row for each polygon a county consists of, sorted by code.

    ``fips`` is the county's code; ``part`` counts its polygons from 1, the largest first (77 counties have more
    than one). ``region`` is a WKB polygon: simple, with the source's coordinates to the last digit. Two
    neighbours share their border exactly. Regions have no holes, so a county around a city (Virginia has
    many) is given with the city in it.

    >>> table = counties()
    >>> table.num_rows, len(set(table["fips"].to_pylist()))
    (3398, 3233)
    >>> table.column_names
    ['fips', 'part', 'name', 'state', 'region']
    >>> table["name"][table["fips"].index("12086").as_py()].as_py()
    'Miami-Dade County'
    """
    table, borders = _read_table("counties.parquet"), _read_table("county_borders.parquet")
    regions = join_borders(borders, table["borders"])
    return table.drop_columns("borders").append_column(_region_field("region"), _as_wkb(regions))


def storms() -> pa.Table:
    """Read 19,537 positions of Atlantic storms, 1975 to 2022, oldest first.

    ``id`` names the position (fix), ``storm`` the storm; a name alone comes back after some years. ``at`` is a UTC
    timestamp, cut to the hour, so a few storms have two positions at one time. ``wind`` is the highest sustained
    wind in knots, ``pressure`` that of the centre in hPa, ``category`` that of a hurricane and else null.
    ``diameter`` is that of the field of winds of 34 knots and more, in nautical miles: 0 when no wind is so strong,
    null when it was not measured (before 2004, and between the six-hourly positions). ``disc`` is that field as a
    WKB polygon, null where there is none.

    >>> table = storms()
    >>> table.num_rows, table.num_rows - table["disc"].null_count
    (19537, 7104)
    >>> table.column_names  # doctest: +NORMALIZE_WHITESPACE
    ['id', 'storm', 'name', 'at', 'lat', 'lon', 'status', 'category', 'wind', 'pressure', 'diameter', 'disc']
    >>> table["status"][table["id"].index("Katrina-2005-021").as_py()].as_py()
    'hurricane'
    """
    table = _read_table("storms.parquet")
    numbered = zip(table["storm"].to_pylist(), table["number"].to_pylist(), strict=True)
    ids = pa.array([f"{storm}-{number:03}" for storm, number in numbered], pa.string())
    table = table.set_column(table.column_names.index("number"), "id", ids)
    discs = wind_fields(table["lon"].to_numpy(), table["lat"].to_numpy(), table["diameter"].to_numpy())
    return table.append_column(_region_field("disc"), _as_wkb(discs))


def county_subscriptions() -> pa.Table:
    """Write the standing questions about storms: one for each part of a county, and some that people ask.

    ``id`` is ``county-`` with code and part, or a few words; ``filter`` is CQL2 text over the columns of `storms`.

    >>> table = county_subscriptions()
    >>> table.column_names
    ['id', 'filter']
    >>> questions = dict(zip(table["id"].to_pylist(), table["filter"].to_pylist()))
    >>> questions["major-hurricane"]
    "status = 'hurricane' AND category >= 3"
    >>> questions["county-12086-1"][:24], questions["county-12086-1"][-14:]
    ('S_INTERSECTS(disc, POLYG', 'AND wind >= 96')
    """
    questions = [ask_about_county(**county) for county in counties().select(["fips", "part", "region"]).to_pylist()]
    return _questions([*questions, *QUESTIONS.items()])


def broken_subscriptions() -> pa.Table:
    """Give questions about storms that cannot be taken as they are, each for another reason.

    >>> broken_subscriptions()["id"].to_pylist()
    ['broken-syntax', 'broken-attribute', 'broken-polygon']
    """
    return _questions(list(BROKEN_QUESTIONS.items()))


def _questions(pairs: list[tuple[str, str]]) -> pa.Table:
    ids, texts = zip(*pairs, strict=True)
    return pa.table({"id": pa.array(ids, pa.string()), "filter": pa.array(texts, pa.string())})


def _region_field(name: str) -> pa.Field:
    # GeoArrow's mark, so that a schema learns the type even where the first thousand storms have no disc.
    return pa.field(name, pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})


def _as_wkb(polygons: npt.NDArray[Any]) -> pa.Array:
    return pa.array(shapely.to_wkb(polygons, byte_order=1), pa.binary())


def _read_table(name: str) -> pa.Table:
    # Not pq.read_table(file): its threads may outlive the call and then abort the interpreter at exit when
    # the source is a Python object (apache/arrow 33975, 50482); a third of short programs died of it.
    content = (files("tamis") / "data" / name).read_bytes()
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
