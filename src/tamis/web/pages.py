"""The console: a page, its modules, a map without tiles (scripts/make_world.py), and Leaflet from its own package."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["page_routes"]

_CONSOLE = Path(__file__).with_name("console")


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

    return [
        Route("/", index),
        Mount("/console", _Files(_CONSOLE, headers)),
        Mount("/leaflet", _Files(_leaflet(), headers)),
    ]


def _leaflet() -> Path:
    from xstatic.pkg import leaflet  # type: ignore[import-untyped]

    return Path(leaflet.BASE_DIR)
