"""Where the regions of the experiments come from: the paper's generator, or real polygons in its universe."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.demo.datasets import counties, quake_regions
from tamis_bench.workloads.regions import UNIVERSE, star_regions, synthetic_regions

__all__ = ["REAL", "REAL_READING", "draw_regions"]

REAL: Final = ("counties", "provinces")
REAL_READING: Final = "The paper's data are lost: counties of the United States, provinces of the world."
#: Corners of a drawn region: what a county has on average, to the nearest ten.
_CORNERS: Final = 40
#: West, south, east, north; Alaska and the islands would leave most of the universe empty.
_MAINLAND: Final = (-125, 24, -66, 50)


def draw_regions(data: str, n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return regions in the universe: n of the paper's generator, n drawn ones, or at most n real polygons.

    ``data`` is "synthetic", "drawn" (as many and as small as the polygons of a map) or a data set of `REAL`.
    """
    if data == "drawn":  # together they have about the area of the universe
        return star_regions(n, _CORNERS, float(np.sqrt(UNIVERSE[0] * UNIVERSE[1] / n)), rng)
    if data == "synthetic":
        return synthetic_regions(n, rng)
    polygons = rng.permutation(_real_polygons(data))[:n]
    low = shapely.total_bounds(polygons)[:2]
    size = shapely.total_bounds(polygons)[2:] - low
    moved: npt.NDArray[Any] = shapely.transform(polygons, lambda xy: (xy - low) / size * UNIVERSE)
    return moved


def _real_polygons(data: str) -> npt.NDArray[Any]:
    table = counties() if data == "counties" else quake_regions()
    name = next(field.name for field in table.schema if field.name in ("area", "region", "county"))
    polygons: npt.NDArray[Any] = shapely.from_wkb(np.array(table[name].to_pylist(), dtype=object))
    if data == "counties":
        west, south, east, north = shapely.bounds(polygons).T
        inside = (west > _MAINLAND[0]) & (south > _MAINLAND[1]) & (east < _MAINLAND[2]) & (north < _MAINLAND[3])
        polygons = polygons[inside]
    return polygons
