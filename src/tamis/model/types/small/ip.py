"""Addresses of the internet protocol, versions 4 and 6, in one order: those of version 4 come first."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, ClassVar

from tamis.errors import shorten
from tamis.model.types.base import DiscreteType
from tamis.model.values import UnfitError

__all__ = ["Ip", "network_ends"]

#: Addresses of version 4; those of version 6 follow.
_VERSION_4 = 2**32

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Ip(DiscreteType):
    """An address such as 10.1.2.3 or 2001:db8::1; ``IP_WITHIN(ip, '10.0.0.0/8')`` tests for a network.

    An address of version 4 that is written as one of version 6 (``::ffff:10.1.2.3``) is the one of version 4.
    """

    name: ClassVar[str] = "ip"
    arrow_kinds: ClassVar[frozenset[str] | None] = frozenset({"text"})
    python_types: ClassVar[tuple[type, ...]] = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    first: ClassVar[int] = 0
    last: ClassVar[int] = _VERSION_4 + 2**128 - 1

    @property
    def words(self) -> str:
        """The type in a sentence."""
        return "an ip"

    def canonical(self, value: object) -> int:
        """Return the place of an address in the order of all."""
        if isinstance(value, str) and "%" not in value:
            try:
                value = ipaddress.ip_address(value)
            except ValueError:
                raise UnfitError(f"expected an address such as 10.1.2.3 or 2001:db8::1, not {shorten(value)}") from None
        if not isinstance(value, _Address):
            raise UnfitError(f"expected an address such as 10.1.2.3 or 2001:db8::1, not {shorten(value)}")
        return _place(value)

    def to_wire(self, value: Any) -> Any:
        """Return an address as text: one of version 6 has more bits than an integer of MessagePack."""
        return self.to_json(value)

    def to_json(self, value: Any) -> Any:
        """Return the address as text."""
        return str(_address(value))


def _place(address: _Address) -> int:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return _VERSION_4 + int(address)
        address = address.ipv4_mapped
    return int(address)


def _address(number: int) -> _Address:
    return ipaddress.IPv4Address(number) if number < _VERSION_4 else ipaddress.IPv6Address(number - _VERSION_4)


def network_ends(text: str) -> tuple[str, str]:
    """Return the first and the last address of a network such as 10.0.0.0/8, or raise `UnfitError`.

    >>> network_ends("10.0.0.0/8")
    ('10.0.0.0', '10.255.255.255')
    """
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise UnfitError(f"expected a network such as 10.0.0.0/8 or 2001:db8::/32: {error}") from None
    return str(network[0]), str(network[-1])
