"""The console: a page, its modules, a map without tiles (scripts/make_world.py), and Leaflet from its own package."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["page_routes"]

_CONSOLE = Path(__file__).parents[1] / "console"


class _Files(StaticFiles):
    """Files that a browser asks for again each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_routes() -> list[BaseRoute]:
    """Return the routes of the console."""

    async def index(_: Request) -> Response:
        return FileResponse(_CONSOLE / "index.html", headers={"Cache-Control": "no-cache"})

    return [
        Route("/", index),
        Mount("/console", _Files(directory=_CONSOLE)),
        Mount("/leaflet", _Files(directory=_leaflet())),
    ]


def _leaflet() -> Path:
    from xstatic.pkg import leaflet  # type: ignore[import-untyped]

    return Path(leaflet.BASE_DIR)
