"""Which addresses a broker may call for its users.

A user who chooses where a broker sends requests could reach services that only the broker can: those of its own
machine, its network, its cloud. So the operator names the hosts, and a host must resolve to public addresses, unless
the operator named their network, too. The checked address is the one that is called
(`tamis.runtime.webhooks.calling`): resolving the name again could give another.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

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

#: A part of an IPv4 address as old resolvers read it: decimal, octal or hexadecimal.
_INET_PART = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,12}")

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
        """Raise `ModelError` unless every host and network can be read, and the number of webhooks is one."""
        if self.most < 0:
            raise ModelError(f"[webhooks] most: expected a whole number of at least 0, got {self.most}")
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
            host = (parts.hostname or "").rstrip(".")
        except ValueError:  # brackets that are not closed, or hold no IPv6 address
            raise ModelError("url: expected https://host/path") from None
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
        target = Target(parts.scheme == "https", host, _port(parts), path)
        if (address := _literal_address(host)) is not None:  # the addresses of a name are checked at each call
            self.demand_address(address, target)
        return target

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


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ModelError("url: a port is a number from 1 to 65,535")
    return port or (443 if parts.scheme == "https" else 80)


def _literal_address(host: str) -> str | None:
    """Return the address that a host is, in any form that resolvers read; None for a name.

    >>> [_literal_address(host) for host in ("10.0.0.1", "0x7f000001", "127.1", "0177.0.0.1", "::1", "a.example")]
    ['10.0.0.1', '127.0.0.1', '127.0.0.1', '127.0.0.1', '::1', None]
    """
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    *first, last = host.split(".")
    if len(first) > 3 or not all(map(_INET_PART.fullmatch, (*first, last))):
        return None
    try:
        *numbers, rest = map(_inet_number, (*first, last))
    except ValueError:  # an 8 or 9 among octal digits
        return None
    n_left = 4 - len(first)
    if any(number > 255 for number in numbers) or rest >= 256**n_left:
        return None
    return str(ipaddress.IPv4Address(bytes(numbers) + rest.to_bytes(n_left, "big")))


def _inet_number(part: str) -> int:
    if part[:2] in ("0x", "0X"):
        return int(part, 16)
    return int(part, 8 if part.startswith("0") else 10)


def _is_public(address: Address) -> bool:
    """Whether an address is public, and the IPv4 address in it as well."""
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _WITH_IPV4:
            if address in network:
                return _is_public(ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF))
        if address.teredo is not None or address.is_site_local or address in _LOCAL_GATEWAYS:
            return False
    return address.is_global and not address.is_multicast
