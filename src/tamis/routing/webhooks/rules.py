"""Which addresses a broker may call for its users.

A user who chooses where a broker sends requests could reach services that only the broker can: those of its own
machine, its network, its cloud. So the operator names the hosts, and a host must resolve to public addresses, unless
the operator named their network, too. The checked address is the one that is called
(`tamis.runtime.webhooks.calling`): resolving the name again could give another.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from tamis.errors import ModelError, RefusedError

__all__ = ["Target", "WebhookRules"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Largest number of characters of a URL.
MAX_URL = 2_048

#: IPv6 networks whose addresses hold an IPv4 address, and the bits behind it: a gateway would call the IPv4 address.
_WITH_IPV4 = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)

#: Addresses of gateways in the local network.
_LOCAL_GATEWAYS = ipaddress.IPv6Network("64:ff9b:1::/48")


@dataclass(frozen=True)
class Target:
    """Where requests of a webhook go."""

    is_encrypted: bool
    host: str
    port: int
    #: Path and query, as the request line has them.
    path: str

    @property
    def authority(self) -> str:
        """The header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_encrypted else 80) else f"{host}:{self.port}"


class WebhookRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a broker's operator: ``[webhooks]`` of its configuration. Without hosts nothing is called."""

    #: Names that may be called: ``hooks.example.com``, ``*.example.com`` (not ``example.com`` itself), ``*`` for all.
    hosts: tuple[str, ...] = ()
    #: Private networks that may be called nevertheless, as ``10.1.0.0/16``.
    networks: tuple[str, ...] = ()
    #: Whether ``http://`` may be called, within ``networks`` only.
    http: bool = False
    #: The certificates of the authorities that endpoints may have; without it those of the system.
    ca_file: str = ""
    #: The largest number of webhooks of a broker.
    most: int = 1_000

    def check(self) -> None:
        """Raise `ModelError` unless every host and network can be read."""
        for network in self.networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ModelError(f"[webhooks] networks: {error}") from None
        for host in self.hosts:
            name = host.removeprefix("*.")
            if host != "*" and (not name or "*" in name or "/" in name or ("." in name and ":" in name)):
                raise ModelError(f"[webhooks] hosts: expected a name, *.name or *, without a port, got {host!r}")

    def read_url(self, url: str) -> Target:
        """Return the target of a URL; raise `ModelError` if it is malformed, `RefusedError` if it is not allowed."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise ModelError(f"url: {error}") from None
        if not url.isascii() or not url.isprintable() or " " in url or len(url) > MAX_URL:
            raise ModelError(f"url: expected at most {MAX_URL:,} ASCII characters without spaces")
        if parts.scheme not in ("https", "http") or not host:
            raise ModelError("url: expected https://host/path")
        if parts.username is not None or parts.fragment:
            raise ModelError("url: no user, password or fragment; requests are signed with the secret")
        if parts.scheme == "http" and not self.http:
            raise RefusedError(403, "url: expected https://; http:// needs `http = true` in [webhooks] of the broker")
        self._demand_host(host)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Target(parts.scheme == "https", host, port or (443 if parts.scheme == "https" else 80), path)

    def demand_address(self, text: str, target: Target) -> None:
        """Raise `RefusedError` unless the address that a host resolved to may be called."""
        address: Address = ipaddress.ip_address(text.partition("%")[0])
        if self._is_named(address):
            return
        if not target.is_encrypted:
            raise RefusedError(403, f"{target.host} is outside `networks` of [webhooks]; http:// stays within them")
        if not _is_public(address):
            raise RefusedError(403, f"{target.host} has an address that is not public; see `networks` of [webhooks]")

    def _demand_host(self, host: str) -> None:
        if not self.hosts:
            raise RefusedError(403, "this broker calls no webhooks: name `hosts` under [webhooks] in its configuration")
        for allowed in self.hosts:
            pattern = allowed.lower().rstrip(".")
            if pattern in ("*", host) or (pattern.startswith("*.") and host.endswith(pattern[1:])):
                return
        raise RefusedError(403, f"host {host!r} is not among `hosts` of [webhooks] in the broker's configuration")

    def _is_named(self, address: Address) -> bool:
        return any(address in ipaddress.ip_network(network) for network in self.networks)


def _is_public(address: Address) -> bool:
    """Whether an address is public, and the IPv4 address in it as well."""
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _WITH_IPV4:
            if address in network:
                return _is_public(ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF))
        if address.teredo is not None or address.is_site_local or address in _LOCAL_GATEWAYS:
            return False
    return address.is_global and not address.is_multicast
