"""Closes connections whose client stops reading (promise S20).

A connection whose write buffer is above its high mark waits for its reader. When that lasts for `WRITE_DEADLINE` the
connection is *aborted*: closing it would wait for the reader again, which could hold the socket and its buffer forever.
This is done in the protocol, so that it holds for HTTP, streams and WebSocket alike.
"""

from __future__ import annotations

import asyncio

__all__ = ["WRITE_DEADLINE", "with_write_deadline"]

#: Seconds within which a reader must make room.
WRITE_DEADLINE = 10.0


def with_write_deadline(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Return a protocol of uvicorn that aborts connections whose client does not read."""

    class Impatient(protocol):  # type: ignore[misc, valid-type]
        _cut: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self._cut = asyncio.get_running_loop().call_later(WRITE_DEADLINE, self.transport.abort)

        def resume_writing(self) -> None:
            self._cancel_deadline()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_deadline()
            super().connection_lost(exc)

        def _cancel_deadline(self) -> None:
            if self._cut is not None:
                self._cut.cancel()
                self._cut = None

    return Impatient
