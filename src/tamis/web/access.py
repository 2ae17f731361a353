"""The rights of a request, by its token, its origin and its host.

A token comes in the ``Authorization`` header and nowhere else (promise S11). A broker on loopback needs none,
so any page that a browser shows could send it requests: a request whose ``Origin`` or ``Host`` is not the broker's own
is refused (S10), which also stops foreign names that resolve to this machine. For images and scripts, browsers send
``Sec-Fetch-Site`` instead of ``Origin``: it shows the requests that another site caused, and they are refused.

Without a token a request is trusted because it comes from this machine. A reverse proxy on this machine would extend
that trust to its callers, so requests that a proxy passed on need a token.

A JSON Web Token of the issuer in ``[auth.jwt]`` is read by `tamis.runtime.identity`; the broker's own tokens have no
dot.

A token for a link (``broker``) opens links and nothing else; other tokens open no links (S5).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from tamis.errors import MissingExtraError, RefusedError, shorten
from tamis.routing.edge.limits import MAX_TOKEN
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.tokens import LOCAL, Token, Tokens
from tamis.web.port.connection_limits import ON_RESERVE

if TYPE_CHECKING:
    from tamis.runtime.identity.jwt_tokens import JwtTokens

__all__ = ["Access", "address_of"]

_LOCAL_ADMIN = Rights(LOCAL, is_admin=True)

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

#: What browsers send with a request that a page of another site, or of another host or port of the same site, caused.
_OTHER_SITES = frozenset({"cross-site", "same-site"})

#: Headers that proxies add.
_OF_PROXIES = ("forwarded", "via", "x-real-ip")


class Access:
    """Finds the rights of a request, by configuration and tokens."""

    def __init__(self, config: BrokerConfig, tokens: Tokens, links: Mapping[str, LinkConfig] | None = None) -> None:
        self._config = config
        self._links = {} if links is None else links
        self.tokens = tokens
        self.jwt = _jwt_of(config, tokens)
        self._hosts = _LOOPBACK | {config.host} | set(config.hosts)

    def rights(self, connection: HTTPConnection) -> Rights:
        """Return the rights of a client; `RefusedError` when it has none."""
        self.check_origin(connection)
        rights = replace(self._rights(connection), address=address_of(connection))
        connection.state.rights = rights
        if getattr(connection.state, ON_RESERVE, False) and not rights.is_admin:
            raise RefusedError(503, "too many connections; connect again later")
        return rights

    def broker(self, connection: HTTPConnection, name: str) -> str:
        """Return the digest of the token that authenticates broker ``name``, "" if none is needed.

        `RefusedError` unless there is a link to that broker and its token is for this link and its namespaces.
        """
        self.check_origin(connection)
        link = self._links.get(name)
        if link is None:
            raise RefusedError(403, f"this broker has no link to a broker {name!r}")
        secret, problem = _secret(connection), f"a token made for broker {name!r} is needed"
        if secret is None:
            self._demand_local(connection, problem)
            return ""
        token = self._token(secret)
        if token.broker != name:
            raise RefusedError(401, problem)
        if token.namespaces is not None and not (link.namespaces and {*link.namespaces} <= {*token.namespaces}):
            raise RefusedError(
                403, f"the token of {name!r} is for {', '.join(token.namespaces)}; the link has other `namespaces`"
            )
        return token.sha256

    def demand_live(self, rights: Rights) -> None:
        """Raise `RefusedError` when a token ended while its request was read."""
        if rights.digest and not self.is_live(rights.digest):
            raise RefusedError(401, "the token was revoked or has expired")

    def is_live(self, digest: str) -> bool:
        """Whether a connection that was opened with this token may stay (S4)."""
        if self.jwt is not None and digest.startswith("jwt "):
            return self.jwt.is_live(digest)
        return self.tokens.is_live(digest)

    def may_go_on(self, digest: str) -> bool:
        """Whether a webhook that was set up with this token may continue.

        It ends when a token of this broker ends. Tokens of other issuers expire within minutes by design, so it ends
        only if such a token is revoked, or if the issuer is no longer configured.
        """
        if self.jwt is not None and digest.startswith("jwt "):
            return not self.jwt.is_revoked(digest)
        return self.tokens.is_live(digest)

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raise `RefusedError` when the request is for another host, or a page of another origin caused it."""
        host = _host_of(f"//{connection.headers.get('host', '')}")
        if host not in self._hosts:
            raise RefusedError(
                421, f"this broker does not answer to the name {shorten(host)}; see `hosts` in its configuration"
            )
        origin = connection.headers.get("origin")
        if origin in self._config.origins:
            return
        if origin is not None and origin.partition("://")[2] != connection.headers.get("host"):
            raise RefusedError(
                403, f"pages of {shorten(origin)} may not use this broker; see `origins` in its configuration"
            )
        if connection.headers.get("sec-fetch-site", "").lower() in _OTHER_SITES:
            raise RefusedError(403, "pages of other sites may not use this broker; see `origins` in its configuration")

    def _demand_local(self, connection: HTTPConnection, problem: str) -> None:
        """Raise `RefusedError` unless a request without a token comes from this machine, and through no proxy."""
        if self._config.require_tokens:
            raise RefusedError(401, problem)
        if (proxy := _sign_of_proxy(connection)) is not None:
            raise RefusedError(
                401, f"this request came through a proxy ({proxy}), so it needs a token; set require_tokens = true"
            )

    def _rights(self, connection: HTTPConnection) -> Rights:
        secret = _secret(connection)
        if secret is None:
            self._demand_local(connection, "a token is needed: Authorization: Bearer TOKEN")
            return _LOCAL_ADMIN
        if self.jwt is not None and "." in secret:
            return self.jwt.rights(secret)
        token = self._token(secret)
        if token.broker:
            raise RefusedError(403, f"token {token.name!r} is for the link of broker {token.broker!r}, not for clients")
        return token.rights()

    def _token(self, secret: str) -> Token:
        token = self.tokens.find(secret)
        if token is None:
            raise RefusedError(401, "the token is unknown, expired or revoked")
        return token


def _secret(connection: HTTPConnection) -> str | None:
    """Return the token of a request, None when it has none."""
    headers = connection.headers.getlist("authorization")
    if not headers:
        return None
    if len(headers) > 1:  # a proxy may have checked a different one than this broker would
        raise RefusedError(400, "expected one Authorization header, got several")
    [header] = headers
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer":
        raise RefusedError(401, "unknown authorization scheme: expected Authorization: Bearer TOKEN")
    if len(secret) > MAX_TOKEN:
        raise RefusedError(401, f"a token has at most {MAX_TOKEN:,} characters, got {len(secret):,}")
    return secret.strip()


def _jwt_of(config: BrokerConfig, tokens: Tokens) -> JwtTokens | None:
    """Return the reader of another issuer's tokens; only a broker with an issuer imports its libraries."""
    if config.auth.jwt is None:
        return None
    try:
        from tamis.runtime.identity.jwt_tokens import JwtTokens
    except ImportError as error:
        raise MissingExtraError(f"[auth.jwt] ({error.name})", "jwt") from None
    return JwtTokens(config.auth.jwt, tokens)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that are not an IPv6 address
        return url.removeprefix("//")


def _sign_of_proxy(connection: HTTPConnection) -> str | None:
    """Return the sign that a proxy passed on a request; None if there is none.

    A proxy may add no header, as nginx without settings. It then uses HTTP/1.0 to the server behind it, though, which
    no browser, curl or Python client does.
    """
    if connection.scope.get("http_version") == "1.0":
        return "HTTP/1.0"
    names = connection.headers.keys()
    return next((name for name in names if name in _OF_PROXIES or name.startswith("x-forwarded-")), None)


def address_of(connection: HTTPConnection) -> str:
    """Return the kind of address the connection comes from: ``loopback`` or ``remote``."""
    host = connection.client.host if connection.client is not None else ""
    try:
        return "loopback" if ipaddress.ip_address(host).is_loopback else "remote"
    except ValueError:
        return "remote"
