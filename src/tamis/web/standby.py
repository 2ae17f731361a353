"""The port of a standby: every request is answered with 503 until the broker takes over.

A load balancer sees 503 at ``/healthz``; clients and neighbours that were given several addresses try the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

__all__ = ["make_standby_app"]

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def make_standby_app(name: str) -> Starlette:
    """Return the application of a standby of the broker ``name``."""
    refusal = JSONResponse(
        {"error": f"this is a standby of broker {name}; another process serves, use its address"},
        503,
        {"Retry-After": "1"},
    )
    return Starlette(
        routes=[
            Route("/healthz", _health(name), methods=["GET"]),
            Route("/{path:path}", _refuse(refusal), methods=_METHODS),
            WebSocketRoute("/{path:path}", _refuse_socket(refusal)),
        ]
    )


def _health(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def health(request: Request) -> Response:
        return JSONResponse({"status": "standby", "broker": name, "role": "standby"}, 503)

    return health


def _refuse(refusal: Response) -> Callable[[Request], Awaitable[Response]]:
    async def refuse(request: Request) -> Response:
        return refusal

    return refuse


def _refuse_socket(refusal: Response) -> Callable[[WebSocket], Awaitable[None]]:
    async def refuse(socket: WebSocket) -> None:
        await socket.send_denial_response(refusal)

    return refuse
