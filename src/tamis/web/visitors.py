"""Who is connected with which token, and the task that cuts connections when their token ends (promise S4).

One task looks at the tokens for all of them: client sockets, links of other brokers, and streams. A token is known by
its SHA-256, so that a newer token of the same name, perhaps with fewer rights, does not keep old connections open.
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
    """Everything that stays open by the right of a token."""

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
                _log.exception("the look at the tokens failed; the next one is in %g s", LOOK_SECONDS)
