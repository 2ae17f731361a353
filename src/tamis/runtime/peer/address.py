"""Addresses of peers: how they are written, and which of them a peer may dial.

The messages of the tree carry addresses of third peers, so a peer connects to what others tell it. Two rules bound
what a false address can do. A peer on loopback dials loopback only, and any other peer never does; nor does it dial
addresses that name no single machine of a network (unspecified, multicast, link-local, reserved). A host name is
resolved once and every address that it stands for is checked before the connection is made to that address: a name
that is resolved again could mean another machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import NamedTuple

from tamis.errors import ModelError
from tamis.runtime.client.clear_text import is_loopback

__all__ = ["MAX_NAME", "Address", "SocketAddress", "address_of", "resolve"]

#: Characters of a name: a host name has at most 253, and brackets, colon and port come to it.
MAX_NAME = 262

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?", re.ASCII)


class Address(NamedTuple):
    """A host, as a name or IP address, and a port.

    >>> Address.parse("[::1]:4000"), str(Address("::1", 4000))
    (Address(host='::1', port=4000), '[::1]:4000')
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine; host names other than localhost are not."""
        return is_loopback(self.host)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``; ModelError when it is not written exactly as `str` writes it."""
        host, _, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        digits = port.isascii() and port.isdecimal() and len(port) <= 5
        if len(text) > MAX_NAME or not digits or not 0 < int(port) < 65536 or not _is_host(bare, host != bare):
            raise ModelError(f"expected host:port of a peer, not {text[:MAX_NAME]!r}")
        return cls(bare, int(port))


class SocketAddress(NamedTuple):
    """An IP address that may be dialled, with its port."""

    ip: str
    port: int


def address_of(url: str) -> str:
    """Return ``host:port`` of an address or URL; ModelError when it is none.

    >>> address_of("tcp://127.0.0.1:4000/")
    '127.0.0.1:4000'
    """
    try:
        return str(Address.parse(url.removeprefix("tcp://").removesuffix("/")))
    except ModelError:
        raise ModelError(f"expected the address of a peer, such as tcp://127.0.0.1:4000, not {url!r}") from None


async def resolve(address: Address, *, from_loopback: bool) -> SocketAddress:
    """Return the endpoint of an address; ModelError when this peer may not dial it, OSError when it has none."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    endpoints = [SocketAddress(str(entry[4][0]), address.port) for entry in entries]
    for endpoint in endpoints:
        if problem := _problem(endpoint.ip, from_loopback):
            raise ModelError(f"{address}: {problem}")
    if not endpoints:
        raise OSError(f"{address.host} has no address")
    return endpoints[0]


def _problem(text: str, from_loopback: bool) -> str:
    """Return why an IP address may not be dialled, "" when it may."""
    ip = ipaddress.ip_address(text.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if from_loopback:
        return "" if ip.is_loopback else "a peer that listens on loopback connects to loopback only"
    if ip.is_loopback:
        return "a peer that listens on a network does not connect to loopback"
    if ip.is_unspecified or ip.is_multicast or ip.is_link_local or ip.is_reserved:
        return f"{ip} is not the address of one machine on a network"
    return ""


def _is_host(host: str, in_brackets: bool) -> bool:
    if in_brackets or ":" in host:
        try:
            return in_brackets and "%" not in host and ipaddress.ip_address(host).version == 6
        except ValueError:
            return False
    return _HOST.fullmatch(host) is not None
