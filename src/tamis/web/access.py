"""Who is asking, and from where.

A token comes in the ``Authorization`` header and nowhere else (promise S11). A broker on loopback needs none,
so any page that a browser shows could speak to it: whatever names an ``Origin`` or a ``Host`` that is not the broker's
own is refused (S10), which also stops names that are made to resolve to this machine.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from tamis.errors import RefusedError
from tamis.routing.rights import Rights
from tamis.runtime.config import BrokerConfig
from tamis.runtime.tokens import LOCAL, Token, Tokens

__all__ = ["Access", "address_of"]

_EVERYBODY_HERE = Rights(LOCAL, is_admin=True)

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    """Answers who may do what, by configuration and tokens."""

    def __init__(self, config: BrokerConfig, tokens: Tokens) -> None:
        self._config = config
        self.tokens = tokens
        self._hosts = _LOOPBACK | {config.host} | set(config.hosts)

    def rights(self, connection: HTTPConnection) -> Rights:
        """Return the rights of whoever asks; `RefusedError` when there are none."""
        self.check_origin(connection)
        token = self._token(connection)
        if token is None and self._config.require_tokens:
            raise RefusedError(401, "a token is needed: Authorization: Bearer TOKEN")
        rights = replace(_EVERYBODY_HERE if token is None else token.rights(), address=address_of(connection))
        connection.state.rights = rights
        return rights

    def broker(self, connection: HTTPConnection, name: str) -> None:
        """Raise `RefusedError` unless the other end may be the broker it says it is."""
        self.check_origin(connection)
        if all(link.name != name for link in self._config.links):
            raise RefusedError(403, f"this broker has no link to a broker {name!r}")
        token = self._token(connection)
        if token is None and not self._config.require_tokens:
            return
        if token is None or token.broker != name:
            raise RefusedError(401, f"a token is needed that was made for broker {name!r}")

    def is_live(self, principal: str) -> bool:
        """Whether somebody who was let in may stay (S4)."""
        return principal == LOCAL or self.tokens.is_live(principal)

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raise `RefusedError` when a page of somebody else asks."""
        host = urlsplit(f"//{connection.headers.get('host', '')}").hostname or ""
        if host not in self._hosts:
            raise RefusedError(
                421, f"this broker does not answer to the name {host!r}; see `hosts` in its configuration"
            )
        origin = connection.headers.get("origin")
        if origin is None or origin in self._config.origins:
            return
        if origin == "null" or urlsplit(origin).netloc != connection.headers.get("host"):
            raise RefusedError(403, f"pages of {origin!r} may not ask this broker; see `origins` in its configuration")

    def _token(self, connection: HTTPConnection) -> Token | None:
        given = connection.headers.get("authorization")
        if given is None:
            return None
        scheme, _, secret = given.partition(" ")
        token = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise RefusedError(401, "the token is unknown, expired or revoked")
        return token


def address_of(connection: HTTPConnection) -> str:
    """Return from what kind of place somebody speaks: ``loopback`` or ``remote``."""
    host = connection.client.host if connection.client is not None else ""
    try:
        return "loopback" if ipaddress.ip_address(host).is_loopback else "remote"
    except ValueError:
        return "remote"
