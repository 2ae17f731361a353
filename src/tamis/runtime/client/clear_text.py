"""A token is not sent unencrypted over a network, where others could read it and use it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tamis.errors import ModelError

__all__ = ["check_encrypted", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address; other names are not looked up.

    >>> is_loopback("localhost"), is_loopback("127.0.0.5"), is_loopback("::1"), is_loopback("north.example")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_encrypted(url: str, token: str | None, *, insecure: bool = False) -> None:
    """Raise `ModelError` when a token would be sent unencrypted to another machine; ``insecure`` allows it.

    >>> check_encrypted("https://north.example:8443", "tamis_x")
    >>> check_encrypted("http://north.example:8080", "tamis_x")
    Traceback (most recent call last):
        ...
    tamis.errors.ModelError: a token would be sent to north.example unencrypted: use https://, or allow it (insecure)
    """
    if not token or insecure:
        return
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ModelError(f"{url!r}: {error}") from None
    if parts.scheme.lower() not in ("https", "wss") and not is_loopback(host):
        raise ModelError(f"a token would be sent to {host} unencrypted: use https://, or allow it (insecure)")
