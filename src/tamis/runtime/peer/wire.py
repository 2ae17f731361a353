"""One TCP connection between peers: frames with four bytes of length in front, each with a limit and a deadline."""

from __future__ import annotations

import asyncio
import contextlib

from tamis.errors import RemoteProtocolError

__all__ = ["FRAME_SECONDS", "IDLE_SECONDS", "MAX_FRAME", "WRITE_SECONDS", "FramedConnection"]

#: Bytes of a frame. The largest is an event with a region, 1 MiB; nodes that change owners are smaller.
MAX_FRAME = 2 * 1024 * 1024
#: Seconds without a frame after which a listener closes a connection; the dialling end does so after half that time.
IDLE_SECONDS = 120.0
#: Seconds for the rest of a frame once it has begun, and until a frame is in the hands of the system.
FRAME_SECONDS, WRITE_SECONDS = 30.0, 10.0


class FramedConnection:
    """Frames over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        #: The machine at the other end, for messages to people; without its port, so that one machine is named once.
        self.origin = str((writer.get_extra_info("peername") or ("a closed connection",))[0])

    @property
    def is_closing(self) -> bool:
        """Whether either end has closed the connection, as far as is known here."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def read(self, limit: int) -> bytes:
        """Return the next frame; `RemoteProtocolError` when it is longer than ``limit``, TimeoutError when late."""
        async with asyncio.timeout(IDLE_SECONDS):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > limit:
            raise RemoteProtocolError(self.origin, f"a frame of {size:,} bytes is more than the {limit:,} accepted")
        async with asyncio.timeout(FRAME_SECONDS):
            return await self._reader.readexactly(size)

    async def write(self, frame: bytes) -> None:
        """Send a frame; TimeoutError when the other end does not take it in time."""
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        async with asyncio.timeout(WRITE_SECONDS):
            await self._writer.drain()

    def cut(self) -> None:
        """Close the connection without waiting for what was not sent."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection once what was written has left, or soon; errors of the other end are none."""
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            with contextlib.suppress(OSError):
                self.cut()
