"""Bounds TLS handshakes that are begun and never finished (promise S20).

A TCP connection takes a place at the gate before its handshake begins, so that handshakes count for their address and
in all like any other connection. A handshake that is not done within `HANDSHAKE_SECONDS` is cut.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from tamis.routing.edge.limits import HANDSHAKE_SECONDS
from tamis.web.port.connection_limits import Gate

__all__ = ["with_handshakes"]


class _EarlyBytes(asyncio.Protocol):
    """Keeps the bytes that arrive between the end of a handshake and the connection of the protocol above."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Keep the bytes."""
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self.is_lost = True


class _Door(asyncio.Protocol):
    """Lets a connection through to the protocol that ``make`` returns, once it is encrypted."""

    def __init__(self, make: Callable[[], asyncio.Protocol], context: ssl.SSLContext, gate: Gate) -> None:
        self._make = make
        self._context = context
        self._gate = gate
        self._greeting: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a place at the gate and begin the handshake; a connection without a place is cut."""
        peer = transport.get_extra_info("peername")
        if self._gate.admit(transport, peer[0] if isinstance(peer, tuple) else "") is None:
            transport.abort()
            return
        transport.pause_reading()
        self._greeting = asyncio.create_task(self._greet(transport))

    async def _greet(self, transport: asyncio.Transport) -> None:
        early, loop = _EarlyBytes(), asyncio.get_running_loop()
        try:
            encrypted = await loop.start_tls(
                transport, early, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, asyncio.CancelledError):  # no TLS, too slow, gone; or the broker stops
            transport.abort()
            return
        finally:
            self._gate.release(transport)  # the protocol above takes a place for itself, in this turn of the loop
        if encrypted is None or early.is_lost:
            transport.abort()
            return
        protocol = self._make()
        encrypted.set_protocol(protocol)
        protocol.connection_made(encrypted)
        if early.data and not encrypted.is_closing():
            protocol.data_received(bytes(early.data))


def with_handshakes(
    protocol: Callable[..., asyncio.Protocol], context: ssl.SSLContext, gate: Gate
) -> Callable[..., asyncio.Protocol]:
    """Return a factory of protocols that do the TLS handshake first; it takes the arguments of ``protocol``."""

    def make(**arguments: Any) -> asyncio.Protocol:
        return _Door(lambda: protocol(**arguments), context, gate)

    return make
