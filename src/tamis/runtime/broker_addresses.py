"""The addresses of a broker and its standbys: checked before anything is sent there, and tried in turn."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from tamis.errors import ModelError
from tamis.runtime.client.clear_text import check_encrypted

__all__ = ["BrokerAddresses", "check_broker_url"]


class BrokerAddresses:
    """The addresses of one broker: its own and those of its standbys. One is in use until it fails.

    >>> addresses = BrokerAddresses("http://a.example,http://b.example")
    >>> addresses.leave("http://a.example")
    >>> addresses.leave("http://a.example")  # another thread has left it already
    >>> addresses.current, len(addresses)
    ('http://b.example', 2)
    """

    def __init__(self, urls: str | Sequence[str]) -> None:
        texts = [urls] if isinstance(urls, str) else urls
        self.urls = tuple(dict.fromkeys(url.strip() for text in texts for url in text.split(",")))
        if not self.urls:
            raise ModelError("name the address of a broker, or several of the same broker")
        self._turn = 0

    def __len__(self) -> int:
        return len(self.urls)

    def __str__(self) -> str:
        return ", ".join(self.urls)

    @property
    def current(self) -> str:
        """The address in use."""
        return self.urls[self._turn % len(self.urls)]

    @property
    def has_others(self) -> bool:
        """Whether the broker may be at another address."""
        return len(self.urls) > 1

    def leave(self, url: str) -> None:
        """Use the next address, unless another caller has left ``url`` already."""
        if url == self.current:
            self._turn += 1

    def check(self, token: str | None, *, insecure: bool, with_websockets: bool = True) -> None:
        """Raise `ModelError` unless each can be the address of a broker to which this token may be sent."""
        for url in self.urls:
            check_encrypted(url, token, insecure=insecure)
            check_broker_url(url, with_websockets=with_websockets)


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
