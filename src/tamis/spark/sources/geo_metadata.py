"""What a GeoParquet file says of its geometry, read from the footers alone."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.errors import TableError
from tamis.model.schema import Schema
from tamis.model.types import Region

__all__ = ["geometry_columns"]

#: Longitude first, in degrees. GeoParquet keeps x before y in EPSG:4326, too.
_LONGITUDE_LATITUDE = {("OGC", "CRS84"), ("EPSG", "4326")}


def geometry_columns(path: str) -> Schema:
    """Return the geometry columns as regions; `TableError` unless they are WKB in longitude and latitude."""
    if "://" in path:
        raise TableError(
            f"{path}: GeoParquet is read from a path; read it as parquet and name the region in the schema"
        )
    files = [file for name in sorted(glob.glob(path)) for file in _files(Path(name))]
    if not files:
        raise TableError(f"{path}: there is no .parquet file in it")
    names: set[str] = set()
    for file in files:
        columns = _columns(file)
        for name, column in columns.items():
            _check(file, name, column)
        names |= columns.keys()
    return Schema({name: Region() for name in sorted(names)})


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path]


def _columns(file: Path) -> Mapping[str, Any]:
    try:
        metadata = pq.read_metadata(file).metadata or {}
        geo = msgspec.json.decode(metadata.get(b"geo", b"{}"))
    except (pa.ArrowInvalid, msgspec.DecodeError) as error:
        raise TableError(f"{file}: cannot be read as geoparquet: {error}") from None
    columns = geo.get("columns") if isinstance(geo, dict) else None
    if not isinstance(columns, dict) or not columns:
        raise TableError(
            f"{file}: no GeoParquet (no `geo` metadata); read it as parquet and name the region in the schema"
        )
    return columns


def _check(file: Path, name: str, column: Mapping[str, Any]) -> None:
    where = f"{file}, column {name!r}"
    if column.get("encoding") != "WKB":
        raise TableError(f"{where}: the geometry is {column.get('encoding')}; tamis reads WKB")
    if column.get("edges", "planar") != "planar":
        raise TableError(f"{where}: edges are {column['edges']}; tamis takes them as straight lines in the plane")
    if "crs" not in column:  # GeoParquet's own default is OGC:CRS84
        return
    crs = column["crs"] or {}
    named = crs.get("id") or {}
    if (named.get("authority"), str(named.get("code"))) not in _LONGITUDE_LATITUDE:
        raise TableError(
            f"{where}: coordinates in {crs.get('name', 'no stated system')}; convert them to longitude and latitude"
            " (OGC:CRS84) first"
        )
