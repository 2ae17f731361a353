"""Regions: points, lines and polygons, one or several, in the plane or on the globe."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
import shapely

from tamis.errors import LimitError, SchemaError, shorten
from tamis.model import shapes
from tamis.model.geometry_text import exact_wkt, read_point_column, read_wkb, read_wkb_column
from tamis.model.shapes import geometries_of, plain_rings
from tamis.model.types.base import AttributeType, Form
from tamis.model.types.column import Column, Mask, PointColumn
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError, is_null

if TYPE_CHECKING:
    from tamis.kernels.polygons.flat_rings import Rings

__all__ = ["Region"]

#: Polygons of a column from which on they are judged all at once.
_WORTH_A_KERNEL = 64

#: Degrees of all edges of a geodetic value: for distances an edge is cut into pieces of a tenth of a degree.
MAX_DEGREES = 2_000

#: The largest longitude and latitude.
_GLOBE = (180.0, 90.0)


@dataclass(frozen=True)
class Region(AttributeType):
    """Points, lines, polygons, several of them or a collection, in the plane (longitude first).

    ``z="drop"`` leaves a third coordinate out, which is refused otherwise. ``geodetic``: the coordinates are degrees of
    longitude and latitude; distances are metres on the sphere, and what crosses the antimeridian is split there.
    ``invalid="repair"`` repairs what is not valid, in events and in subscriptions; it is refused otherwise, which
    ``"refuse"`` says as well.
    """

    z: str | None = None
    geodetic: bool = False
    invalid: str | None = None
    name: ClassVar[str] = "region"
    form: ClassVar[Form] = Form.REGION
    python_types: ClassVar[tuple[type, ...]] = (shapely.Geometry,)
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"text", "binary", "list of numbers", "object"})

    def __post_init__(self) -> None:
        if self.z not in (None, "drop"):
            raise SchemaError("", f"z is 'drop' or None, not {self.z!r}")
        if not isinstance(self.geodetic, bool):
            raise SchemaError("", f"geodetic is true or false, not {self.geodetic!r}")
        if self.invalid not in (None, "refuse", "repair"):
            raise SchemaError("", f"invalid is 'refuse' or 'repair', not {self.invalid!r}")
        if self.invalid == "refuse":  # the default is never written: schemas of before know no such field
            object.__setattr__(self, "invalid", None)

    def canonical(self, value: object) -> shapes.RegionValue:
        """Return valid shapely geometry from WKT, WKB, GeoJSON, shapely or (x, y)."""
        geometry = self.fitted(shapes.operand(value))
        if self.geodetic and not isinstance(geometry, shapely.Point) and geometry.length > MAX_DEGREES:
            raise LimitError("degrees of all edges of a geodetic region", math.ceil(geometry.length), MAX_DEGREES)
        return geometry

    def fitted(self, geometry: shapes.Operand) -> shapes.Operand:
        """Return what `tamis.model.shapes.operand` read as values and conditions of this type have it."""
        repair = self.invalid == "repair"
        return shapes.fitted(geometry, drop_z=self.z == "drop", geodetic=self.geodetic, repair=repair)

    @classmethod
    def of_value(cls, value: object) -> Self | None:
        """Return the type for shapely geometry and GeoJSON."""
        is_geojson = isinstance(value, dict) and ("coordinates" in value or "geometries" in value)
        return cls() if is_geojson or isinstance(value, shapely.Geometry) else None

    @classmethod
    def of_arrow(cls, field: pa.Field, kind: pa.DataType, column: Any) -> Self | None:
        """Return the type for a column that says it is GeoArrow, and for a binary one that begins with WKB."""
        if b"geoarrow" in (field.metadata or {}).get(b"ARROW:extension:name", b""):
            return cls()
        is_bytes = pat.is_binary(kind) or pat.is_large_binary(kind)
        return cls() if column is not None and is_bytes and _is_wkb(column) else None

    def from_arrow(self, name: str, array: pa.Array, present: Mask) -> Column | None:
        """Decode all WKB at once, points to coordinates; only other values than plain regions are checked singly."""
        if not (pat.is_binary(array.type) or pat.is_large_binary(array.type)):
            return None
        xy = read_point_column(array)
        if xy is not None and not (self.geodetic and (np.abs(xy) > _GLOBE).any()):
            return PointColumn(self, xy)
        encoded, geometries = read_wkb_column(array)
        return self._regions(name, encoded, geometries, present)

    def from_numpy(self, name: str, data: npt.NDArray[Any]) -> Column | None:
        """Return the regions of an array of objects."""
        if data.dtype != object or data.ndim != 1 or isinstance(data, np.ma.MaskedArray):
            return None
        present = np.array([not is_null(value) for value in data], dtype=bool)
        return self._regions(name, data, geometries_of(data), present)

    def _regions(self, name: str, raw: npt.NDArray[Any], geometries: npt.NDArray[Any], present: Mask) -> Column:
        """Return the column of geometries that shapely reads from raw values; a column of points needs no kernel."""
        plain = (shapely.get_type_id(geometries) == 0) & ~shapely.has_z(geometries) & ~shapely.has_m(geometries)
        plain &= np.isfinite(shapely.get_x(geometries)) & np.isfinite(shapely.get_y(geometries))
        rings: Rings | None = None
        if np.count_nonzero(present & ~plain) > _WORTH_A_KERNEL:
            rings, plain = plain_rings(geometries)
        if self.geodetic:
            plain &= (np.abs(shapely.bounds(geometries)) <= [180.0, 90.0, 180.0, 90.0]).all(axis=1)
            plain &= shapely.length(geometries) <= MAX_DEGREES
        column = Column(self, geometries, plain & present, rings=rings if plain.all() else None)
        for row in np.flatnonzero(present & ~plain):
            column.take(name, int(row), raw[row])
        return column

    def to_json(self, value: Any) -> Any:
        """Return WKT whose coordinates read back to the last bit."""
        return exact_wkt(value)

    def shown(self, value: Any) -> str:
        """Return the beginning of the geometry."""
        return shorten(value)

    def to_wire(self, value: Any) -> Any:
        """Return WKB."""
        return shapely.to_wkb(value)

    def wire_to_json(self, value: Any) -> Any:
        """Return WKT of WKB without a second judgement of the geometry."""
        try:
            return self.to_json(read_wkb(value)) if isinstance(value, bytes) else value
        except LimitError as error:
            raise UnfitError(str(error)) from None

    @classmethod
    def plain(cls, value: Any) -> Any:
        """Return WKB."""
        return shapely.to_wkb(value)

    def samples(self, allowed: ValueSet) -> Iterator[shapely.Point]:
        """Yield a point."""
        yield shapely.Point(0, 0)


def _is_wkb(column: Any) -> bool:
    first = next((value for value in column.slice(0, 1000).to_pylist() if value), None)
    try:
        return first is not None and read_wkb(first) is not None
    except (UnfitError, LimitError):
        return False
