"""Maps values to vectors so that a condition becomes a ball: points of the sphere or the plane, and directions.

"Within 50 km of here" is a ball around a unit vector: the straight line through the earth is shorter than a chord that
belongs to the arc. "At least this cosine" is a ball around a direction among vectors of length 1. So the exact kernels
for balls decide both (`tamis.geometry.balls`), about the float64 vectors that `tamis.kernels.sphere` computes.

A *derived attribute* is such a space of an attribute, named by the space, NUL and the attribute. Only indexes use the
name.

The earth is a sphere with the mean radius of the ellipsoid WGS 84, `EARTH_RADIUS`. Distances on it differ from those on
the ellipsoid by up to 0.56 %. The rounding of a distance is below a millionth of a millimetre near the centre of a
circle, and below a tenth of a millimetre at the antipodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import shapely

from tamis.model.columns import Column
from tamis.model.subscription import Ball, Constraint, Cosine, Geometric
from tamis.model.types.column import PointColumn
from tamis.model.values import Value

__all__ = [
    "EARTH_RADIUS",
    "Derived",
    "as_ball",
    "chord",
    "circle_balls",
    "cosine_ball",
    "derived_of",
    "sphere_vectors",
    "unit_vector",
    "vector_of",
    "vectors_of_column",
]

#: Metres: the mean (2a + b) / 3 of the half axes of WGS 84.
EARTH_RADIUS = 6_371_008.771_415

_Vectors = npt.NDArray[np.float64]

_SEPARATOR = "\0"


class Derived(NamedTuple):
    """A space of an attribute: ``sphere``, ``plane`` or ``unit``."""

    space: str
    attribute: str

    @property
    def name(self) -> str:
        """The name of the derived attribute.

        >>> derived_of(Derived("sphere", "where").name)
        Derived(space='sphere', attribute='where')
        """
        return f"{self.space}{_SEPARATOR}{self.attribute}"


@lru_cache(maxsize=4096)
def derived_of(name: str) -> Derived | None:
    """Return the space of a derived attribute's name; None for an ordinary attribute."""
    space, separator, attribute = name.partition(_SEPARATOR)
    return Derived(space, attribute) if separator and space in ("sphere", "plane", "unit") else None


def chord(metres: float) -> float:
    """Return the chord on the unit sphere of two points that are ``distance`` metres apart on the earth.

    Beyond half the globe it is 3, longer than any: rounding must not exclude the antipodes.

    >>> chord(0.0), round(chord(math.pi / 3 * EARTH_RADIUS), 9), chord(1e9)
    (0.0, 1.0, 3.0)
    """
    angle = metres / EARTH_RADIUS
    return 2.0 * math.sin(angle / 2) if angle < math.pi else 3.0


def sphere_vectors(degrees: _Vectors) -> _Vectors:
    """Return the unit vectors float64[n, 3] of longitudes and latitudes float64[n, 2]."""
    from tamis.kernels.sphere import points_on_sphere  # late: importing tamis must not import numba

    vectors = np.empty((len(degrees), 3))
    points_on_sphere(np.ascontiguousarray(degrees), vectors)
    return vectors


def unit_vector(vector: _Vectors) -> _Vectors | None:
    """Return a vector divided by its length; None for a vector of zeros."""
    unit = _units(vector[None])[0]
    return None if math.isnan(unit[0]) else unit


def _units(vectors: _Vectors) -> _Vectors:
    from tamis.kernels.sphere import scale_to_unit

    units = np.empty(vectors.shape)
    scale_to_unit(np.require(vectors, np.float64, ["C", "W"]), units)
    return units


def cosine_ball(constraint: Cosine) -> tuple[tuple[float, ...], float]:
    """Return centre and radius of the ball of unit vectors whose cosine with a direction is large enough.

    >>> cosine_ball(Cosine("look", (0.0, 2.0), 0.5))
    ((0.0, 1.0), 1.0)
    """
    return _cosine_ball(constraint.direction, constraint.least)


@lru_cache(maxsize=4096)
def _cosine_ball(direction: tuple[float, ...], least: float) -> tuple[tuple[float, ...], float]:
    center = unit_vector(np.array(direction))
    assert center is not None  # a direction is not zero: the language refuses it
    # The squared distance of two unit vectors is 2 - 2 cos. Rounding both to float64 may add some units in the last
    # place; without room for them a vector would not be found by itself times three at a cosine of 1.
    slack = 8e-16 * len(direction) if least > 1 - 1e-15 else 0.0
    return tuple(center.tolist()), math.sqrt(max(2.0 - 2.0 * least, 0.0)) + slack


@lru_cache(maxsize=65_536)
def _circle(x: float, y: float, distance: float, on_sphere: bool) -> tuple[tuple[float, ...], float]:
    if not on_sphere:
        return (x, y), distance
    return tuple(sphere_vectors(np.array([[x, y]]))[0].tolist()), chord(distance)


def circle_balls(attribute: str, x: _Vectors, y: _Vectors, radii: _Vectors, *, on_sphere: bool) -> list[Ball]:
    """Return circles around points as balls, as `as_ball` does: radii in metres on the sphere, else in units of x, y.

    >>> [ball] = circle_balls("at", np.array([1.0]), np.array([2.0]), np.array([3.0]), on_sphere=False)
    >>> ball.center, ball.radius
    ((1.0, 2.0), 3.0)
    """
    name = Derived("sphere" if on_sphere else "plane", attribute).name
    points = np.column_stack((x, y))
    centers = (sphere_vectors(points) if on_sphere else points).tolist()
    lengths = [chord(radius) if on_sphere else radius for radius in radii.tolist()]
    return [Ball(name, tuple(center), length) for center, length in zip(centers, lengths, strict=True)]


def as_ball(constraint: Constraint) -> Ball | None:
    """Return a constraint as a ball in a space of its attribute; None if it is not a ball.

    A circle is a ball for points only; other geometry must be compared on raw values.
    """
    if isinstance(constraint, Ball):
        return constraint
    if isinstance(constraint, Cosine):
        name = Derived("unit", constraint.attribute).name
        return Ball(name, *cosine_ball(constraint), constraint.negated)
    if isinstance(constraint, Geometric) and constraint.function == "S_DWITHIN":
        center = constraint.geometry
        if isinstance(center, shapely.Point):
            name = Derived("sphere" if constraint.on_sphere else "plane", constraint.attribute).name
            ball = _circle(center.x, center.y, constraint.distance, constraint.on_sphere)
            return Ball(name, *ball, constraint.negated)
    return None


def vector_of(event: Mapping[str, Value], name: str) -> _Vectors | None:
    """Return the event's vector for an attribute, derived or not; None if it has none."""
    derived = derived_of(name)
    value = event.get(name if derived is None else derived.attribute)
    if derived is None:
        return value if isinstance(value, np.ndarray) else None
    if derived.space == "unit":
        return unit_vector(value) if isinstance(value, np.ndarray) else None
    if not isinstance(value, shapely.Point):
        return None
    point = np.array([[value.x, value.y]])
    if derived.space == "sphere":
        point = sphere_vectors(point)
    vector: _Vectors = point[0]
    return vector


def vectors_of_column(
    columns: Mapping[str, Column], name: str, rows: npt.NDArray[np.int64] | None = None
) -> tuple[_Vectors, npt.NDArray[np.bool_]] | None:
    """Return the vectors of the rows of a table, all or some, on an attribute, derived or not, and which have one."""
    derived = derived_of(name)
    column = columns.get(name if derived is None else derived.attribute)
    if column is None:
        return None
    if derived is not None and isinstance(column, PointColumn):
        coordinates = column.xy if rows is None else column.xy[rows]
        return (sphere_vectors(coordinates) if derived.space == "sphere" else coordinates), np.ones(
            len(coordinates), np.bool_
        )
    values, present = column.values, column.present
    if rows is not None:
        values, present = values[rows], present[rows]
    if derived is None or derived.space == "unit":
        if values.ndim != 2:
            return None
        if derived is None:
            return values, present
        units = _units(values)
        return units, present & ~np.isnan(units[:, 0])
    shapes = values if present.all() else np.where(present, values, None)
    points = shapely.get_type_id(shapes) == shapely.GeometryType.POINT
    xy = np.column_stack((shapely.get_x(shapes), shapely.get_y(shapes)))
    return (sphere_vectors(xy) if derived.space == "sphere" else xy), points
