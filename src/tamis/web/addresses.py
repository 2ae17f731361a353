"""Ids in addresses: an id may be any text, a slash in it, written ``%2F``, is not a boundary of the path.

A server hands the path on decoded, where ``team%2Falerts`` and ``team/alerts`` are the same. So routes are found by a
path in which such a slash is an underscore, and the id itself is read from the path as it was sent.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tamis.model.subscription import SubscriptionId

__all__ = ["SlashesInNames", "id_in", "possible_ids"]

_NUMBER = re.compile(r"-?[0-9]{1,19}")
_SLASH = re.compile(b"%2f", re.IGNORECASE)

#: The segment of the path that is the id, behind "", "v1" and "subscriptions".
_ID_SEGMENT = 3


class SlashesInNames:
    """Lets an application find its routes as if names had no slashes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        raw = scope.get("raw_path", b"")
        if _SLASH.search(raw):
            scope = {**scope, "path": unquote(_SLASH.sub(b"_", raw).decode("ascii", "replace"))}
        await self._app(scope, receive, send)


def id_in(request: Request) -> str:
    """Return the id of the subscription that a request names in its path."""
    return unquote(request.scope["raw_path"].decode("ascii", "replace").split("/")[_ID_SEGMENT])


def possible_ids(text: str) -> list[SubscriptionId]:
    """Return the ids that a text in a path may mean: itself, and the number that it is.

    >>> possible_ids("alerts"), possible_ids("-5"), possible_ids("--5")
    (['alerts'], ['-5', -5], ['--5'])
    """
    return [text, int(text)] if _NUMBER.fullmatch(text) else [text]
