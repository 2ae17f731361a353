"""Points of the globe as unit vectors, and vectors of length 1.

Single events and tables of events use the same loops: two paths that round differently could give different results for
a point on the rim of a circle.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import hot_kernel

__all__ = ["points_on_sphere", "scale_to_unit"]


@hot_kernel
def points_on_sphere(degrees: npt.NDArray[np.float64], vectors: npt.NDArray[np.float64]) -> None:
    """Write the unit vector of each longitude and latitude, float64[n, 2] in degrees, to ``vectors`` float64[n, 3]."""
    for i in range(degrees.shape[0]):
        longitude, latitude = math.radians(degrees[i, 0]), math.radians(degrees[i, 1])
        across = math.cos(latitude)
        vectors[i, 0] = across * math.cos(longitude)
        vectors[i, 1] = across * math.sin(longitude)
        vectors[i, 2] = math.sin(latitude)


@hot_kernel
def scale_to_unit(vectors: npt.NDArray[np.float64], units: npt.NDArray[np.float64]) -> None:
    """Write each vector of float64[n, d] divided by its length to ``units``; NaN for a vector of zeros.

    The largest coordinate is divided out first, so that no square overflows or underflows.
    """
    for i in range(vectors.shape[0]):
        largest = 0.0
        for j in range(vectors.shape[1]):
            largest = max(largest, abs(vectors[i, j]))
        if not largest > 0.0:
            for j in range(vectors.shape[1]):
                units[i, j] = np.nan
            continue
        total = 0.0
        for j in range(vectors.shape[1]):
            units[i, j] = vectors[i, j] / largest
            total += units[i, j] * units[i, j]
        length = math.sqrt(total)
        for j in range(vectors.shape[1]):
            units[i, j] /= length
