"""How a request ends when something is wrong: a status, and a JSON object that names the culprit."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tamis.errors import (
    DiskFullError,
    DuplicateSubscriptionError,
    LimitError,
    ModelError,
    RefusedError,
    SubscriptionError,
    SubscriptionSyntaxError,
    TamisError,
    UnknownSubscriptionError,
    shorten,
)
from tamis.web.server import server_of

__all__ = ["AUDITED_STATUS", "HANDLERS", "SECURITY_HEADERS", "OneLength", "SecurityHeaders", "status_of"]

#: Sent with every answer. Pages of the broker load nothing from elsewhere and run nothing that stands in the page.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

#: Refused because of who asks, or for how much: that is noted in the audit.
AUDITED_STATUS = frozenset({401, 403, 413, 421})

_STATUS: tuple[tuple[type[TamisError], int], ...] = (
    (UnknownSubscriptionError, 404),
    (DuplicateSubscriptionError, 409),
    (LimitError, 413),
    (DiskFullError, 507),
    (ModelError, 400),
)


def status_of(error: TamisError) -> int:
    """Return the HTTP status that says what an error says."""
    if isinstance(error, RefusedError):
        return error.code
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


async def _tamis_error(request: Request, error: Exception) -> Response:
    status = status_of(error) if isinstance(error, TamisError) else 500
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (503, 507):
        headers["Retry-After"] = "1"
    if isinstance(error, RefusedError | LimitError) and status in AUDITED_STATUS:
        server_of(request).note_refusal(request, f"{request.method} {request.url.path}", str(error))
    return _answer(status, str(error), headers, _in_filter(error))


def _in_filter(error: Exception) -> dict[str, int | str]:
    """Return the place of a mistake in a filter's text, and the text as it was probably meant, if they are known."""
    if not isinstance(error, SubscriptionError | SubscriptionSyntaxError):
        return {}
    known = {"position": error.position, "corrected": error.corrected}
    return {name: value for name, value in known.items() if value is not None}


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _answer(500, "an error within the broker")
    headers = dict(error.headers or {})
    return _answer(error.status_code, _problem(request, error, headers), headers)


def _problem(request: Request, error: HTTPException, headers: dict[str, str]) -> str:
    """Say what is wrong and what would not be."""
    path = shorten(request.url.path)
    if error.status_code == 404:
        return f"there is nothing at {path}; /openapi.json lists what there is"
    if error.status_code == 405:
        return f"{request.method} is not for {path}; it takes {headers.get('Allow', 'another method')}"
    return error.detail


def _answer(
    status: int, problem: str, headers: dict[str, str] | None = None, more: dict[str, int | str] | None = None
) -> Response:
    body = {"error": problem, "status": status, **(more or {})}
    return JSONResponse(body, status, headers)


async def _defect(_: Request, __: Exception) -> Response:
    """Answer after an error of ours, which goes to the log; this is outside of all middleware."""
    response = _answer(500, "an error within the broker; its log says more")
    response.headers.update(SECURITY_HEADERS)
    return response


class SecurityHeaders:
    """Adds `SECURITY_HEADERS` to every answer of an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, add if scope["type"] == "http" else send)


class OneLength:
    """Refuses a request with two lengths, and ends its connection: a proxy may take the rest for another request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        names = {name for name, _ in scope.get("headers", ())}
        if scope["type"] == "http" and {b"content-length", b"transfer-encoding"} <= names:
            problem = "a request has Content-Length or Transfer-Encoding, not both"
            await _answer(400, problem, {"Connection": "close"})(scope, receive, send)
        else:
            await self._app(scope, receive, send)


#: What Starlette calls for which error; not in threads of its own, for the audit belongs to the loop.
HANDLERS = {TamisError: _tamis_error, HTTPException: _http_error, Exception: _defect}
