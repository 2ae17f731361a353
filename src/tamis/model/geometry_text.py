"""Checks WKT and WKB from outside before GEOS reads them.

The readers of GEOS (before 3.15) recurse once per level of nesting: a value of 100,000 levels overflows the stack and
ends the process, and no exception is raised that could be caught. So every value is checked here first, in time linear
in its length and without recursion:

* its length is bounded;
* its type is a point, a line, a polygon, a multi-type whose parts are exactly that, or a collection of these; a
  collection inside a collection is refused, so that no value has more than `MAX_DEPTH` levels;
* the counts in WKB fit its length; the rings of WKB and the parentheses of WKT are bounded.

No other module passes text and bytes to GEOS; a test checks this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.errors import LimitError, shorten
from tamis.model.values import UnfitError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MAX_BYTES",
    "MAX_RINGS",
    "coordinate",
    "exact_wkt",
    "read_point_column",
    "read_wkb",
    "read_wkb_column",
    "read_wkbs",
    "read_wkt",
]

#: Characters of WKT and bytes of WKB. A region of 10,000 vertices has 160,000 bytes as WKB.
MAX_BYTES = 1024 * 1024

#: Rings and parts of one value: 10,000 vertices, at least four to a ring.
MAX_RINGS = 2_500

#: Parentheses within each other in WKT: a collection, a multipolygon, a polygon, a ring.
MAX_DEPTH = 4

#: The names of the type codes of WKB. Those from 8 on are curves and surfaces, which GEOS does not compare.
_NAMES: Final = (
    *("Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
    *("GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon", "MultiCurve", "MultiSurface"),
)
_POINT, _LINE, _POLYGON, _MULTI_POINT, _MULTI_POLYGON, _COLLECTION = 1, 2, 3, 4, 6, 7

#: The flags of EWKB in a type code.
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000
_FLAGS = _Z | _M | _SRID

#: How most values begin: a little-endian point, and a little-endian polygon of one ring.
_PLAIN_POINT, _PLAIN_RING = b"\x01\x01\x00\x00\x00", b"\x01\x03\x00\x00\x00\x01\x00\x00\x00"
_POINT_BYTES = len(_PLAIN_POINT) + 16

_FLAT_WKT = re.compile(
    r"[ \t\r\n]*(?:POINT|LINESTRING|LINEARRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|(GEOMETRYCOLLECTION))",
    re.IGNORECASE,
)
_COLLECTIONS = re.compile("COLLECTION", re.IGNORECASE)
_PARENTHESES = re.compile(r"[()]")


def read_wkt(text: str) -> shapely.Geometry:
    """Return the geometry of a WKT text; `UnfitError` says why it has none, `LimitError` that it is too long.

    >>> read_wkt("POINT (1 2)")
    <POINT (1 2)>
    """
    if len(text) > MAX_BYTES:
        raise LimitError("characters of a region as WKT", len(text), MAX_BYTES)
    begins = _FLAT_WKT.match(text)
    if begins is None:
        raise UnfitError(f"not WKT: expected POINT, LINESTRING, POLYGON or a MULTI form of them, got {shorten(text)}")
    parentheses = text.count("(")
    if parentheses > 2 * MAX_RINGS + 1:
        raise LimitError("parentheses of a region as WKT", parentheses, 2 * MAX_RINGS + 1)
    if begins[1]:
        _check_collection(text)
    return _read(shapely.from_wkt, text, "WKT")


def _check_collection(text: str) -> None:
    """Raise unless the WKT of a collection is at most `MAX_DEPTH` levels deep and holds no other collection."""
    if len(_COLLECTIONS.findall(text)) > 1:
        raise UnfitError(_NESTED)
    depth = 0
    for parenthesis in _PARENTHESES.finditer(text):
        depth += 1 if parenthesis[0] == "(" else -1
        if depth > MAX_DEPTH:
            raise LimitError("levels of parentheses of a region as WKT", depth, MAX_DEPTH)


def exact_wkt(geometry: shapely.Geometry) -> str:
    """Return the WKT of a geometry, whose coordinates read back to the last bit.

    ``shapely.to_wkt`` stops after 16 decimals whatever precision it is asked for (in GEOS 3.14 the number
    -0.0002072179058609398 loses its last three digits); ``repr`` gives the shortest digits that are exact.

    >>> exact_wkt(shapely.LineString([(0, 0.1), (1, 2)])), exact_wkt(shapely.MultiPoint([(0, 0), (1, 1)]))
    ('LINESTRING (0 0.1, 1 2)', 'MULTIPOINT ((0 0), (1 1))')
    """
    name = geometry.geom_type.upper()
    if isinstance(geometry, shapely.GeometryCollection):
        return f"{name} ({', '.join(map(exact_wkt, geometry.geoms))})"
    return f"{name} {'Z ' if geometry.has_z else ''}{_body(geometry)}"


def _body(geometry: shapely.Geometry) -> str:
    if isinstance(geometry, shapely.Polygon):
        parts = [_positions(ring) for ring in (geometry.exterior, *geometry.interiors)]
    elif isinstance(geometry, shapely.Point | shapely.LineString):
        return _positions(geometry)
    else:
        parts = [_body(part) for part in geometry.geoms]
    return f"({', '.join(parts)})"


def _positions(geometry: shapely.Geometry) -> str:
    rows = shapely.get_coordinates(geometry, include_z=geometry.has_z).tolist()
    return f"({', '.join(' '.join(map(coordinate, row)) for row in rows)})"


def coordinate(value: float) -> str:
    """Return the shortest digits that read back as a number."""
    return repr(value).removesuffix(".0")


def read_wkb(data: bytes) -> shapely.Geometry:
    """Return the geometry of WKB or EWKB, raw or hexadecimal; `UnfitError` says why it has none.

    >>> read_wkb(shapely.Point(1, 2).wkb)
    <POINT (1 2)>
    """
    if data[:1] in (b"0", b"1"):  # the digits of a byte order: GEOS would take it for hexadecimal, too
        data = _from_hexadecimal(data)
    if len(data) == _POINT_BYTES and data.startswith(_PLAIN_POINT):
        return shapely.from_wkb(data)
    if not _is_plain(data):
        _check_wkb(data)
    return _read(shapely.from_wkb, data, "WKB")


def read_wkbs(values: Iterable[bytes | None]) -> npt.NDArray[np.object_]:
    """Return the geometries of many values as `read_wkb` reads them; None for None.

    >>> read_wkbs([shapely.Point(1, 2).wkb])
    array([<POINT (1 2)>], dtype=object)
    """
    return np.array([None if value is None else read_wkb(value) for value in values], dtype=object)


def read_wkb_column(array: pa.Array) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Return the values of a binary Arrow array, and the geometries of those that are plainly a point or polygon.

    All are checked and read at once. A value without a geometry may still have one: ask `read_wkb`.
    """
    encoded = array.to_numpy(zero_copy_only=False)  # None where null
    flat = _is_flat(array)
    readable = encoded if flat.all() else np.where(flat, encoded, None)
    return encoded, shapely.from_wkb(readable, on_invalid="ignore")


def read_point_column(array: pa.Array) -> npt.NDArray[np.float64] | None:
    """Return x and y of each row of a binary Arrow array of plain points; None when it holds anything else."""
    if array.null_count or not len(array):
        return None
    _, offsets, data = array.buffers()
    width = np.int64 if str(array.type) == "large_binary" else np.int32
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    if (np.diff(ends) != _POINT_BYTES).any():
        return None
    rows = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(-1, _POINT_BYTES)
    head = len(_PLAIN_POINT)
    if (rows[:, :head] != np.frombuffer(_PLAIN_POINT, np.uint8)).any():
        return None
    xy: npt.NDArray[np.float64] = rows[:, head:].copy().view("<f8")
    return xy if np.isfinite(xy).all() else None


_NESTED = "a collection inside a collection; write its parts into the outer one"


#: Messages of GEOS about common mistakes, and our explanations.
_REASONS = {
    "Invalid number of points in LinearRing": "a ring has at least four points, the last one equal to the first",
    "point array must contain 0 or >1 elements": "a line has at least two points, a ring at least four",
    "closed linestring": "repeat the first point of a ring at its end",
    "Expected number but encountered ','": "the numbers of a point have a space between them: POINT(13.4 52.5)",
    "Expected word but encountered number": "each ring stands in parentheses of its own: POLYGON((0 0, 1 0, 1 1, 0 0))",
}


def _read(reader: Any, value: str | bytes, form: str) -> shapely.Geometry:
    try:
        with np.errstate(invalid="ignore", over="ignore"):  # NaN is refused later; no need to warn as well
            return reader(value)
    except (shapely.errors.GEOSException, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        reason = re.sub(r"^\w*Exception: ", "", reason)
        reason = next((explanation for sign, explanation in _REASONS.items() if sign in reason), reason)
        raise UnfitError(f"not {form}: {reason}") from None


def _is_plain(data: bytes) -> bool:
    """Whether WKB is a point or a single ring in the usual form, of exactly the length that it says."""
    if len(data) == _POINT_BYTES:
        return data.startswith(_PLAIN_POINT)
    if not data.startswith(_PLAIN_RING) or len(data) > MAX_BYTES:
        return False
    return len(data) == 13 + 16 * int.from_bytes(data[9:13], "little")


def _from_hexadecimal(data: bytes) -> bytes:
    if len(data) > 2 * MAX_BYTES:
        raise LimitError("bytes of a region as WKB", len(data) // 2, MAX_BYTES)
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise UnfitError("not WKB: expected hexadecimal digits") from None


def _check_wkb(data: bytes) -> None:
    """Raise unless WKB is a point, line, polygon, multi-type or a collection of them, with counts that it can hold."""
    if len(data) > MAX_BYTES:
        raise LimitError("bytes of a region as WKB", len(data), MAX_BYTES)
    walk = _Walk(data)
    kind = walk.enter()
    if kind < _COLLECTION:
        _check_flat(walk, kind)
        return
    for _ in range(walk.count("parts")):
        part = walk.enter()
        if part == _COLLECTION:
            raise UnfitError(_NESTED)
        _check_flat(walk, part)


def _check_flat(walk: _Walk, kind: int) -> None:
    """Walk over a geometry that is not a collection; raise unless the parts of a multi-type are of its kind."""
    if kind < _MULTI_POINT:
        walk.skip_body(kind)
        return
    for _ in range(walk.count("parts")):
        part = walk.enter()
        if part != kind - 3:  # the codes of the multi-types follow those of their parts in the same order
            raise UnfitError(f"not WKB: a {_NAMES[part]} inside a {_NAMES[kind]}")
        walk.skip_body(part)


@dataclass
class _Walk:
    """A position in WKB that advances over one geometry after the other."""

    data: bytes
    at: int = 0
    is_little: bool = True
    n_dimensions: int = 2
    rings: int = 0

    def enter(self) -> int:
        """Read the header of a geometry; return its type without dimensions."""
        order = self._take(1)[0]
        if order > 1:
            raise UnfitError(f"not WKB: byte order {order}; expected 0 or 1")
        self.is_little = order == 1
        code = self._number()
        dimensions, kind = divmod(code & ~_FLAGS, 1000)
        if dimensions > 3 or not _POINT <= kind <= _COLLECTION:
            name = f"a {_NAMES[kind]}" if dimensions <= 3 and 0 < kind < len(_NAMES) else f"geometry type {code}"
            raise UnfitError(f"not WKB of a region: {name}; expected a point, line, polygon or several of them")
        has_z, has_m = bool(code & _Z) or dimensions in (1, 3), bool(code & _M) or dimensions in (2, 3)
        self.n_dimensions = 2 + has_z + has_m
        if code & _SRID:
            self._take(4)
        return kind

    def skip_body(self, kind: int) -> None:
        """Skip the coordinates of a point, a line or a polygon."""
        if kind == _POINT:
            self._take(8 * self.n_dimensions)
        elif kind == _LINE:
            self._skip_points()
        else:
            for _ in range(self.count("rings")):
                self._skip_points()

    def count(self, what: str) -> int:
        """Read how many rings or parts follow, and bound all of them together."""
        number = self._number()
        self.rings += number
        if self.rings > MAX_RINGS:
            raise UnfitError(f"not a region: {number} {what}, more than {MAX_RINGS} together")
        return number

    def _skip_points(self) -> None:
        self._take(8 * self.n_dimensions * self._number())

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little" if self.is_little else "big")

    def _take(self, n: int) -> memoryview:
        end = self.at + n
        if end > len(self.data):
            raise UnfitError("not WKB: it ends too early")
        chunk = memoryview(self.data)[self.at : end]
        self.at = end
        return chunk


def _is_flat(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each value of a binary array whether its first bytes are those of a point or polygon."""
    flat = np.zeros(len(array), np.bool_)
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return flat
    width = np.int64 if str(array.type) == "large_binary" else np.int32
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(ends)
    rows = np.flatnonzero((lengths >= 9) & (lengths <= MAX_BYTES))
    start, raw = ends[rows], np.frombuffer(data, np.uint8)
    order, *code = (raw[start + i].astype(np.uint32) for i in range(5))
    little = code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24
    big = code[3] | code[2] << 8 | code[1] << 16 | code[0] << 24
    kind = np.where(order == 1, little, big) & np.uint32(~_FLAGS & 0xFFFFFFFF)
    flat[rows] = (order <= 1) & ((kind == _POINT) | (kind == _POLYGON))
    return flat
