"""A renewed TLS certificate is used without a restart: its files are watched."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Final

__all__ = ["follow_certificate"]

#: Seconds between two checks of the files.
LOOK_SECONDS: Final = 5.0

_log = logging.getLogger("tamis")


async def follow_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Watch the files for as long as the broker runs; new connections get the certificate that is in them.

    If the key does not fit the certificate, for example while the second file is being written, nothing changes, and
    the files are read again later.
    """
    loaded = _state(certificate, key)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        state = _state(certificate, key)
        if state is None or state == loaded:
            continue
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)  # a bad pair breaks a context
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            _log.warning("TLS certificate %s: %s; the former certificate stays in use", certificate, error)
        else:
            _log.warning("TLS certificate %s: the new certificate is in use", certificate)
            loaded = state


def _state(*paths: str) -> tuple[tuple[int, int, int], ...] | None:
    """Return a value that changes when one of the files does; None while one is missing."""
    try:
        stats = [os.stat(path) for path in paths]
    except OSError:
        return None
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)
