"""Answers with many rows: encoded row by row, with pauses for others, and bounded in bytes (promise S26)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from tamis.routing.edge.limits import MAX_PAGE_BYTES
from tamis.web.work.pacing import Pace

__all__ = ["JsonRows"]


class JsonRows:
    """The rows of one answer as JSON.

    A page ends before the row with which it would have more than ``most_bytes``; its first row may be longer.
    """

    def __init__(self, pace: Pace, most_bytes: int | None = MAX_PAGE_BYTES) -> None:
        self._pace = pace
        self._most_bytes = most_bytes
        self._texts: list[bytes] = []
        self._bytes = 0
        pace.begin_small()

    def __len__(self) -> int:
        return len(self._texts)

    async def add(self, row: Mapping[str, Any]) -> bool:
        """Add a row; return False, without it, if the page has rows and no room for it."""
        text = _encode(row)
        if self._texts and self._most_bytes is not None and self._bytes + len(text) > self._most_bytes:
            return False
        self._texts.append(text)
        self._bytes += len(text)
        await self.breathe()
        return True

    async def breathe(self) -> None:
        """Let others run if this answer has taken long."""
        await self._pace.breathe()

    def response(
        self,
        name: str,
        more: Mapping[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return an answer with the list of the rows under ``name``, and with ``more``."""
        rest = _encode(more)[1:] if more else b"}"
        head = _encode({name: []})[:-2]
        body = b"".join((head, b",".join(self._texts), b"]", b"," if more else b"", rest))
        return Response(body, status, headers, media_type="application/json")


def _encode(value: Mapping[str, Any]) -> bytes:
    """Return a value as JSON, as Starlette's `JSONResponse` writes it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
