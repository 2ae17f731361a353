"""Write the map of the console: outlines of the bundled regions and of the states of the United States, as GeoJSON.

    python scripts/make_world.py

Everything comes from data that tamis bundles (src/tamis/data/LICENSES.md). Rounded to a hundredth of a degree, which is
about a kilometre, the whole map takes some 200 kB; the page needs no tiles and no network.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import shapely

from tamis.demo.datasets import counties, quake_regions

TARGET = Path(__file__).resolve().parents[1] / "src" / "tamis" / "web" / "console" / "world.geojson"
DEGREES = 0.01


def main() -> None:
    """Write the file."""
    regions = shapely.from_wkb(quake_regions()["region"].to_pylist())
    table = counties()
    states: dict[str, list[shapely.Geometry]] = {}
    for state, shape in zip(table["state"].to_pylist(), shapely.from_wkb(table["region"].to_pylist()), strict=True):
        states.setdefault(state, []).append(shape)
    outlines = [*regions, *(shapely.union_all(shapely.set_precision(some, DEGREES)) for some in states.values())]
    simple = shapely.set_precision(shapely.simplify(outlines, 5 * DEGREES), DEGREES)
    features = [
        {"type": "Feature", "properties": {}, "geometry": msgspec.json.decode(shapely.to_geojson(outline))}
        for outline in simple
        if not outline.is_empty
    ]
    TARGET.write_bytes(msgspec.json.encode({"type": "FeatureCollection", "features": features}))
    print(f"wrote {len(features)} outlines to {TARGET}")


if __name__ == "__main__":
    main()
