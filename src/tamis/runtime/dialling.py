"""The WebSocket that a client or a broker opens to a broker."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tamis.runtime.packets import SUBPROTOCOL

__all__ = [
    "ATTEMPT_SECONDS",
    "BEAT",
    "FIRST_PAUSE",
    "dial",
    "longer_pause",
    "socket_errors",
    "websocket_url",
    "words_of_failure",
]

#: Seconds before a broken connection is tried again, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0

#: Where there are several addresses: seconds for each attempt, between two pings, and until one counts as unanswered.
#: A broker that hangs or was cut off is left after 3 seconds; one address alone is given 40.
ATTEMPT_SECONDS, BEAT = 2.0, (0.5, 2.5)

#: Seconds between two attempts at most where there are several addresses: only one of them is the right one.
_LONGEST_OF_SEVERAL = 0.2


def websocket_url(url: str) -> str:
    """Return the URL of a broker's WebSocket.

    >>> websocket_url("https://north.example:8443/")
    'wss://north.example:8443/v1/connect'
    """
    scheme, _, rest = url.rstrip("/").partition("://")
    return f"ws{scheme.lower().removeprefix('http').removeprefix('ws')}://{rest}/v1/connect"


def longer_pause(pause: float, n_addresses: int) -> float:
    """Return the seconds until the next attempt after one that came ``pause`` seconds after the one before.

    >>> longer_pause(0.5, 1), longer_pause(0.9, 1), longer_pause(0.9, 2)
    (1.0, 1.0, 0.2)
    """
    return min(2 * pause, LONGEST_PAUSE if n_addresses == 1 else _LONGEST_OF_SEVERAL)


@asynccontextmanager
async def dial(
    url: str,
    token: str | None,
    *,
    max_size: int,
    timeout: float,
    ssl: ssl.SSLContext | None = None,
    beat: tuple[float, float] | None = None,
    subprotocols: Sequence[str] = (SUBPROTOCOL,),
) -> AsyncIterator[Any]:
    """Open a WebSocket; it is closed at the end of the context. ``beat`` is as `BEAT`.

    A closing handshake that is cancelled would leave the TCP connection open: the other side may never answer it.
    """
    from websockets import Subprotocol
    from websockets.asyncio.client import connect

    # Without a context, the authorities of the system hold for wss://; None would mean no TLS.
    tls: dict[str, Any] = {} if ssl is None else {"ssl": ssl}
    websocket = await connect(
        url,
        additional_headers={"Authorization": f"Bearer {token}"} if token else {},
        subprotocols=list(map(Subprotocol, subprotocols)),
        max_size=max_size,
        compression=None,
        open_timeout=timeout,
        proxy=None,
        ping_interval=20.0 if beat is None else beat[0],
        ping_timeout=20.0 if beat is None else beat[1],
        close_timeout=10.0 if beat is None else beat[0],
        **tls,
    )
    try:
        yield websocket
    finally:
        try:
            await websocket.close()
        finally:
            websocket.transport.abort()


def socket_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of a WebSocket that breaks."""
    from websockets.exceptions import WebSocketException

    return (WebSocketException,)


def words_of_failure(error: BaseException) -> str:
    """Return in plain words why a broker was not reached.

    >>> words_of_failure(ConnectionRefusedError(111, "Connection refused")), words_of_failure(TimeoutError("timed out"))
    ('connection refused', 'timed out')
    >>> words_of_failure(OSError(113, "Connect call failed ('10.1.2.3', 443)"))
    'no route to host'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be verified: {error.verify_message}"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    is_of_another_list = isinstance(error, (ssl.SSLError, socket.gaierror))  # their numbers mean something else
    if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode and not is_of_another_list:
        text = os.strerror(error.errno)  # the text of asyncio names the addresses that it tried
    return text[:1].lower() + text[1:]
