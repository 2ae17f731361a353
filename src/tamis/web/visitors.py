"""Connections by token, and the task that closes them when their token ends (promise S4).

One task checks the tokens of all connections: client sockets, links of other brokers, and streams. A token is
identified by its SHA-256, so that a newer token of the same name, perhaps with fewer rights, does not keep old
connections open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

from tamis.web.access import Access

__all__ = ["LOOK_SECONDS", "REASON", "Visitors"]

#: Seconds between two looks at the tokens.
LOOK_SECONDS: Final = 1.0

#: The reason that is sent to the other end.
REASON: Final = "the token was revoked or has expired"

_log = logging.getLogger("tamis")


class Visitors:
    """The connections that were opened with a token."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._present: dict[object, tuple[str, Callable[[str], None]]] = {}

    @contextlib.contextmanager
    def staying(self, digest: str, end: Callable[[str], None]) -> Iterator[None]:
        """Within this, ``end`` is called with a reason when the token with this digest ends; "" is not a token."""
        key = object()
        if digest:
            self._present[key] = (digest, end)
        try:
            yield
        finally:
            self._present.pop(key, None)

    def look(self) -> None:
        """End everything whose token is no longer valid."""
        ended = {digest for digest, _ in self._present.values() if not self._access.is_live(digest)}
        for digest, end in list(self._present.values()):
            if digest in ended:
                end(REASON)

    async def watch(self) -> None:
        """Look for as long as the broker runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Exception:  # a watch that ends would let revoked tokens stay
                _log.exception("checking the tokens failed; the next check is in %g s", LOOK_SECONDS)
