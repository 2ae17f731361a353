"""Standing questions about storms: what each county asks, what some people ask, and three that are broken."""

from __future__ import annotations

import shapely

from tamis.model.geometry_text import read_wkb

__all__ = ["BROKEN_QUESTIONS", "QUESTIONS", "ask_about_county"]

#: Wind thresholds of the county subscriptions, in knots: tropical storm, damaging, hurricane, major hurricane.
_WINDS = (34, 50, 64, 96)

#: By id. The groups are meant: some cover others, some say the same in other words, one can never be true.
QUESTIONS = {
    # How strong: `hurricane` covers `hurricane-2` and so on; the first two say nearly the same.
    "hurricane": "status = 'hurricane'",
    "hurricane-by-category": "category >= 1",
    "hurricane-2": "status = 'hurricane' AND category >= 2",
    "major-hurricane": "status = 'hurricane' AND category >= 3",
    "major-hurricane-in-other-words": "NOT (category < 3) AND NOT (status <> 'hurricane')",
    "category-5": "category = 5",
    "storm-force": "wind >= 48",
    "deep-low": "pressure < 920",
    "deep-though-no-hurricane": "pressure < 960 AND category IS NULL",
    "weak-though-wide": "wind < 50 AND diameter >= 400",
    "giant": "diameter > 800",
    "small-and-strong": "wind >= 100 AND diameter BETWEEN 1 AND 120",
    # What kind.
    "subtropical": "status LIKE 'subtropical%'",
    "storms-of-both-kinds": "status LIKE '%tropical storm'",
    "no-longer-tropical": "status IN ('extratropical', 'other low') AND wind >= 64",
    "not-yet-a-storm": "NOT status IN ('hurricane', 'tropical storm', 'subtropical storm', 'extratropical')",
    "hurricane-or-very-wide": "status = 'hurricane' OR diameter >= 600",
    "strong-or-deep-in-the-gulf": (
        "(wind >= 96 OR pressure <= 950) AND S_INTERSECTS(disc, BBOX(-97.9, 18, -81, 30.5))"
    ),
    # Which storm.
    "katrina": "storm = 'Katrina-2005'",
    "sandy-as-a-hurricane": "storm = 'Sandy-2012' AND status = 'hurricane'",
    "every-irma": "name = 'Irma'",
    "gulf-names": "name IN ('Katrina', 'Rita', 'Ida', 'Laura', 'Michael', 'Harvey')",
    "retired-of-2017": "storm IN ('Harvey-2017', 'Irma-2017', 'Maria-2017', 'Nate-2017')",
    # When.
    "season-2005": "at >= TIMESTAMP('2005-06-01T00:00:00Z') AND at < TIMESTAMP('2006-02-01T00:00:00Z')",
    "season-2020-hurricanes": "at >= TIMESTAMP('2020-05-01T00:00:00Z') AND at < TIMESTAMP('2021-01-01T00:00:00Z')"
    " AND status = 'hurricane'",
    "since-2022": "at >= TIMESTAMP('2022-01-01T00:00:00Z')",
    "labor-day-2019": "at BETWEEN TIMESTAMP('2019-09-01T00:00:00Z') AND TIMESTAMP('2019-09-03T00:00:00Z')"
    " AND wind >= 137",
    "before-satellite-fields": "diameter IS NULL AND category >= 4",
    # Where, as numbers and as boxes.
    "far-north": "lat > 55 AND wind >= 34",
    "east-of-the-azores": "lon > -25 AND status = 'hurricane'",
    "near-bermuda": "S_INTERSECTS(disc, BBOX(-65, 32.2, -64.6, 32.5)) AND wind >= 50",
    "caribbean-only": "S_WITHIN(disc, BBOX(-86, 11, -61, 21))",
    "clear-of-the-mainland": "S_DISJOINT(disc, BBOX(-125, 24.5, -66.9, 49.4)) AND wind >= 113",
    "new-york-harbor": "S_CONTAINS(disc, BBOX(-74.1, 40.5, -73.9, 40.8))",
    "cape-canaveral": "S_INTERSECTS(disc, BBOX(-80.7, 28.35, -80.5, 28.65)) AND NOT status = 'tropical depression'",
    "offshore-platform": "S_CONTAINS(disc, BBOX(-90.05, 27.25, -89.95, 27.35)) AND wind >= 64",
    # Never true.
    "impossible": "wind >= 137 AND wind < 34",
}

#: By id: a comparison that ends too early, a column that storms do not have, a ring that crosses itself.
BROKEN_QUESTIONS = {
    "broken-syntax": "status = 'hurricane' AND category >=",
    "broken-attribute": "windspeed >= 64",
    "broken-polygon": "S_INTERSECTS(disc, POLYGON((-81 25, -80 26, -80 25, -81 26, -81 25)))",
}


def ask_about_county(fips: str, part: int, region: bytes) -> tuple[str, str]:
    """Return (id, CQL2 text): the storms whose wind field reaches this polygon, with winds the county cares for.

    >>> triangle = shapely.Polygon([(0, 0), (1, 0), (0, 1), (0, 0)]).wkb
    >>> ask_about_county("12086", 1, triangle)
    ('county-12086-1', 'S_INTERSECTS(disc, POLYGON ((0 0, 1 0, 0 1, 0 0))) AND wind >= 96')
    """
    # 17 digits hold every double; GEOS writes the shortest text that reads back as the same.
    border = shapely.to_wkt(read_wkb(region), rounding_precision=17)
    wind = _WINDS[int(fips) // 2 % len(_WINDS)]  # halved, because most county codes are odd
    return f"county-{fips}-{part}", f"S_INTERSECTS(disc, {border}) AND wind >= {wind}"
