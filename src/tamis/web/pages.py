"""The console: a page, its modules, Leaflet from its installed package, and a map of the world without tiles."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec
import shapely
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["page_routes"]

_CONSOLE = Path(__file__).with_name("console")

#: Decimals of a degree on the map: about a kilometre, so that the whole map is some hundred kilobytes.
_DECIMALS = 2


class _Files(StaticFiles):
    """Files with the headers that every answer of a broker has."""

    def __init__(self, directory: Path, headers: dict[str, str]) -> None:
        super().__init__(directory=directory)
        self._headers = headers

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(self._headers)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_routes(headers: dict[str, str]) -> list[BaseRoute]:
    """Return the routes of the console."""

    async def index(_: Request) -> Response:
        return FileResponse(_CONSOLE / "index.html", headers={**headers, "Cache-Control": "no-cache"})

    async def world(_: Request) -> Response:
        return Response(_world(), media_type="application/geo+json", headers=headers)

    return [
        Route("/", index),
        Route("/console/world.geojson", world),
        Mount("/console", _Files(_CONSOLE, headers)),
        Mount("/leaflet", _Files(_leaflet(), headers)),
    ]


def _leaflet() -> Path:
    from xstatic.pkg import leaflet

    return Path(leaflet.BASE_DIR)


@lru_cache(maxsize=1)
def _world() -> bytes:
    """Return the outlines of the bundled regions and of the states of the United States as GeoJSON."""
    from tamis.workload.datasets import counties, quake_regions

    regions = shapely.from_wkb(quake_regions()["region"].to_pylist())
    table = counties()
    states: dict[str, list[shapely.Geometry]] = {}
    for state, shape in zip(table["state"].to_pylist(), shapely.from_wkb(table["region"].to_pylist()), strict=True):
        states.setdefault(state, []).append(shape)
    outlines = [*regions, *(shapely.union_all(shapely.set_precision(some, 0.01)) for some in states.values())]
    simple = shapely.set_precision(shapely.simplify(outlines, 0.05), 10.0**-_DECIMALS)
    features = [
        {"type": "Feature", "properties": {}, "geometry": msgspec.json.decode(shapely.to_geojson(one))}
        for one in simple
        if not one.is_empty
    ]
    return msgspec.json.encode({"type": "FeatureCollection", "features": features})
