"""URLs of messaging systems: a scheme, a host, a port, a user name, and never a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from tamis.errors import ModelError

__all__ = ["ServerAddress", "read_address"]


class ServerAddress(NamedTuple):
    """Where a server is, and who connects."""

    scheme: str
    host: str
    port: int
    user: str


def read_address(url: str, ports: Mapping[str, int], password_variable: str) -> ServerAddress:
    """Read a URL with one of some schemes, which have these ports; `ModelError` says what is wrong with it.

    >>> read_address("mqtts://bridge@broker.example", {"mqtt": 1883, "mqtts": 8883}, "PASSWORD")
    ServerAddress(scheme='mqtts', host='broker.example', port=8883, user='bridge')
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ModelError(f"{url!r}: {error}") from None
    if parts.scheme not in ports or not parts.hostname or parts.path.strip("/") or parts.query:
        plain, secure = ports
        raise ModelError(f"expected {plain}://host:port or {secure}://user@host:port, got {url!r}")
    if parts.password is not None:
        raise ModelError(f"no password in a URL: set {password_variable}")
    return ServerAddress(parts.scheme, parts.hostname, port or ports[parts.scheme], parts.username or "")
