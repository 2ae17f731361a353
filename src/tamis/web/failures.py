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

#: Sent with every answer. Pages of the broker load nothing from other hosts and run no inline scripts.
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

#: Statuses of requests that lack a right or exceed a limit: these are noted in the audit.
AUDITED_STATUS = frozenset({401, 403, 413, 421})

#: Characters of a method that an answer repeats.
MAX_METHOD = 40

_STATUS: tuple[tuple[type[TamisError], int], ...] = (
    (UnknownSubscriptionError, 404),
    (DuplicateSubscriptionError, 409),
    (LimitError, 413),
    (DiskFullError, 507),
    (ModelError, 400),
)


def status_of(error: TamisError) -> int:
    """Return the HTTP status of an error."""
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
    details = {"position": error.position, "corrected": error.corrected}
    return {name: value for name, value in details.items() if value is not None}


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _answer(500, "internal error of the broker")
    headers = dict(error.headers or {})
    return _answer(error.status_code, _problem(request, error, headers), headers)


def _problem(request: Request, error: HTTPException, headers: dict[str, str]) -> str:
    """Return the message of a 404, which says where the endpoints are listed, or of a 405, with the allowed methods."""
    path = shorten(request.url.path)
    if error.status_code == 404:
        return f"no such endpoint: {path}; /openapi.json lists all endpoints"
    if error.status_code == 405:
        method = request.method[:MAX_METHOD]
        return f"{path} does not accept {method}; allowed: {headers.get('Allow', 'another method')}"
    return error.detail


def _answer(
    status: int, problem: str, headers: dict[str, str] | None = None, more: dict[str, int | str] | None = None
) -> Response:
    body = {"error": problem, "status": status, **(more or {})}
    return JSONResponse(body, status, headers)


async def _defect(_: Request, __: Exception) -> Response:
    """Answer 500 after an unexpected exception, which goes to the log. No middleware runs after this."""
    response = _answer(500, "internal error of the broker; its log says more")
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
    """Refuses a request with two lengths and closes its connection: a proxy might read the rest as another request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        names = {name for name, _ in scope.get("headers", ())}
        if scope["type"] == "http" and {b"content-length", b"transfer-encoding"} <= names:
            problem = "a request may have Content-Length or Transfer-Encoding, not both"
            await _answer(400, problem, {"Connection": "close"})(scope, receive, send)
        else:
            await self._app(scope, receive, send)


#: Starlette's handlers by error. They are coroutines, so that none runs in a thread: the audit belongs to the event
#: loop.
HANDLERS = {TamisError: _tamis_error, HTTPException: _http_error, Exception: _defect}
