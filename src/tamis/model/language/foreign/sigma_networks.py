"""Networks as regular expressions over the text of addresses, for the ``cidr`` modifier of Sigma.

An IPv4 address has one text. An IPv6 address may be written in several ways; read are those of RFC 5952 (as most
systems write them) and the form with all digits, in either case.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from tamis.errors import SubscriptionError

__all__ = ["network_expression"]

_OCTET = "[0-9]{1,3}"
_HEX = "[0-9A-Fa-f]"


def network_expression(network: IPv4Network | IPv6Network) -> str:
    r"""Return a regular expression that the text of an address fits when it lies in the network.

    >>> from ipaddress import ip_network
    >>> network_expression(ip_network("172.16.0.0/12"))
    '^172\\.(1[6-9]|2[0-9]|3[0-1])\\.[0-9]{1,3}\\.[0-9]{1,3}$'
    >>> network_expression(ip_network("fe80::/10"))
    '^[fF][eE][89abAB][0-9A-Fa-f]:'
    """
    if isinstance(network, IPv4Network):
        lows, highs = network.network_address.packed, network.broadcast_address.packed
        return "^" + r"\.".join(_octet(low, high) for low, high in zip(lows, highs, strict=True)) + "$"
    return _host(network) if network.prefixlen == 128 else _prefix(network)


def _octet(low: int, high: int) -> str:
    if (low, high) == (0, 255):
        return _OCTET
    if low == high:
        return str(low)
    parts = []
    for tens in range(low // 10, high // 10 + 1):
        first, last = max(low, 10 * tens) % 10, min(high, 10 * tens + 9) % 10
        parts.append(f"{tens or ''}" + (str(first) if first == last else f"[{first}-{last}]"))
    return f"({'|'.join(parts)})"


def _host(network: IPv6Network) -> str:
    texts = {network.network_address.compressed, network.network_address.exploded}
    return f"(?i)^({'|'.join(sorted(texts))})$"


def _prefix(network: IPv6Network) -> str:
    """Return the start of all texts; groups of zeros may be left out of a text, so none may be among the fixed ones."""
    n_groups, rest = divmod(network.prefixlen, 16)
    groups = network.network_address.exploded.split(":")
    fixed, partial = groups[:n_groups], groups[n_groups] if rest else ""
    if not network.prefixlen or "0000" in fixed or partial.startswith("0"):
        raise SubscriptionError(
            f"the network {network} has no equivalent: its addresses are not told by how they start"
        )
    digits = rest // 4
    written = "".join(f"{_group(group)}:" for group in fixed) + _digits(partial[:digits])
    if rest % 4:
        low = int(partial[digits], 16)
        choices = "".join(f"{value:x}" for value in range(low, low + (1 << (4 - rest % 4))))
        upper = "".join(letter.upper() for letter in choices if letter.isalpha())
        written += f"[{choices}{upper}]"
    return f"^{written}" + _HEX * (4 - digits - bool(rest % 4)) * bool(rest) + ":" * bool(rest)


def _group(group: str) -> str:
    """Return a group of four digits, whose leading zeros may be left out."""
    shortest = group.lstrip("0")
    return "0?" * (len(group) - len(shortest)) + _digits(shortest)


def _digits(text: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in text)
