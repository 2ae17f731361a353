"""The address of a broker, checked before anything is sent there."""

from __future__ import annotations

from urllib.parse import urlsplit

from tamis.errors import ModelError

__all__ = ["check_broker_url"]


def check_broker_url(url: str, *, with_websockets: bool = True) -> None:
    """Raise `ModelError`, which says what is wrong, unless ``url`` can be the address of a broker.

    ``with_websockets``: ws:// and wss:// are addresses, too.

    >>> check_broker_url("https://north.example:8443")
    >>> check_broker_url("ftp://north.example")
    Traceback (most recent call last):
        ...
    tamis.errors.ModelError: expected the address of a broker, such as https://north.example:8443, got 'ftp://north.example'
    >>> check_broker_url("http://north.example:99999")
    Traceback (most recent call last):
        ...
    tamis.errors.ModelError: 'http://north.example:99999': Port out of range 0-65535
    """
    schemes = ("http", "https", "ws", "wss") if with_websockets else ("http", "https")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:  # brackets that are not an IPv6 address, or the port
        raise ModelError(f"{url!r}: {error}") from None
    is_address = parts.scheme in schemes and parts.hostname and port != 0 and not (parts.query or parts.fragment)
    if not is_address or not url.isprintable() or " " in url:
        raise ModelError(f"expected the address of a broker, such as https://north.example:8443, got {url!r}")
    if parts.username is not None:
        raise ModelError("the address of a broker has no user or password; its token is given apart")
