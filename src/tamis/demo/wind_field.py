"""The field of strong winds around a storm's centre, as a polygon in degrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

__all__ = ["wind_fields"]

#: Corners of the polygon. Inscribed in the circle, it misses less than 0.7 % of its area.
_CORNERS = 32

#: Nautical miles to a degree of latitude: that is how the mile was made.
_MILES = 60

#: Decimals of a corner, about one metre; so the last bit of a platform's cosine cannot show.
_DECIMALS = 5


def wind_fields(
    lon: npt.NDArray[np.float64], lat: npt.NDArray[np.float64], diameter: npt.NDArray[np.float64]
) -> npt.NDArray[Any]:
    """Return for each centre the disc of that diameter (nautical miles), or None where it is 0 or NaN.

    A degree of longitude shrinks with the cosine of the latitude; that of the centre is taken for the whole disc.

    >>> [disc] = wind_fields(np.array([-80.0]), np.array([60.0]), np.array([120.0]))
    >>> [float(side) for side in disc.bounds]
    [-82.0, 59.0, -78.0, 61.0]
    """
    has_field = diameter > 0
    lon, lat, diameter = lon[has_field, None], lat[has_field, None], diameter[has_field, None]
    angle = 2 * np.pi * np.arange(_CORNERS) / _CORNERS
    reach = diameter / 2 / _MILES
    x = lon + reach / np.cos(np.radians(lat)) * np.cos(angle)
    y = lat + reach * np.sin(angle)
    discs = np.full(len(has_field), None, dtype=object)
    discs[has_field] = shapely.polygons(np.round(np.stack((x, y), axis=-1), _DECIMALS))
    return discs
