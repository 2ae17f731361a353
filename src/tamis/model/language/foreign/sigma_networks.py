"""Networks as regular expressions over the text of addresses, for the ``cidr`` modifier of Sigma.

An IPv4 address has one text. An IPv6 address may be written in several ways; read are those of RFC 5952 (as most
systems write them), the form with all digits, and an IPv4 address as the end, in either case.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

__all__ = ["network_expression"]

_OCTET = "[0-9]{1,3}"
_HEX = "[0-9A-Fa-f]"
_GROUP = f"{_HEX}{{1,4}}"
_ADDRESS = r"\.".join([_OCTET] * 4)


def network_expression(network: IPv4Network | IPv6Network) -> str:
    r"""Return a regular expression that the text of an address fits when it lies in the network.

    >>> from ipaddress import ip_network
    >>> network_expression(ip_network("172.16.0.0/12"))
    '^172\\.(1[6-9]|2[0-9]|3[0-1])\\.[0-9]{1,3}\\.[0-9]{1,3}$'
    >>> network_expression(ip_network("fe80::/10"))
    '^([fF][eE][89abAB][0-9A-Fa-f]:[0-9A-Fa-f:.]*)$'
    """
    if isinstance(network, IPv4Network):
        lows, highs = network.network_address.packed, network.broadcast_address.packed
        return "^" + r"\.".join(_octet(low, high) for low, high in zip(lows, highs, strict=True)) + "$"
    return _prefix(network)


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


def _prefix(network: IPv6Network) -> str:
    """Return the texts of all addresses of a network: with the groups that the prefix fixes, or ``::`` for zeros."""
    n_fixed = -(-network.prefixlen // 16)
    lows = [int(group, 16) for group in network.network_address.exploded.split(":")[:n_fixed]]
    fixed = [_group(low, max(0, 16 * (i + 1) - network.prefixlen)) for i, low in enumerate(lows)]
    rest = 8 - n_fixed
    written = "".join(f"{group}:" for group in fixed) + "[0-9A-Fa-f:.]*" if rest else ":".join(fixed)
    texts = [written, *_shortened(fixed, lows, bool(network.prefixlen % 16), rest)]
    if network.prefixlen > 96:
        fronts = [":".join(fixed[:6]), *_shortened(fixed[:6], lows[:6], False, 0)]
        before_end = "|".join(front if front.endswith(":") else f"{front}:" for front in fronts)
        texts.append(f"({before_end}){_dotted(network)}")
    return f"^({'|'.join(texts)})$" if n_fixed else "^[0-9A-Fa-f]*:[0-9A-Fa-f:.]*$"


def _shortened(fixed: list[str], lows: list[int], is_partial: bool, rest: int) -> Iterator[str]:
    """Yield the texts in which ``::`` is in the place of fixed groups of zeros, and of free ones behind them.

    The last fixed group may be other than zero when it is partial, and ``rest`` groups are free.
    """
    for is_zero, numbers in itertools.groupby(range(len(lows)), lambda number: not lows[number]):
        run = list(numbers)
        before = ":".join(fixed[: run[0]])
        if not is_zero:
            continue
        behind = [*fixed[run[-1] + 1 :], *_free(rest)]
        if run[-1] + 1 < len(fixed):
            yield f"{before}::{':'.join(behind)}"
            continue
        yield f"{before}::{_up_to(rest)}"
        if is_partial:
            yield f"{before}::{':'.join([fixed[-1], *behind])}"


def _free(n: int) -> list[str]:
    return [_GROUP] * n if n < 2 else [_GROUP] * (n - 2) + [f"({_GROUP}:{_GROUP}|{_ADDRESS})"]


def _up_to(n: int) -> str:
    """Return the texts of at most ``n`` free groups."""
    groups = f"({_GROUP}:){{0,{n - 1}}}{_GROUP}"
    return "" if not n else f"({groups})?" if n == 1 else f"({groups}|({_GROUP}:){{0,{n - 2}}}{_ADDRESS})?"


def _dotted(network: IPv6Network) -> str:
    """Return the last 32 bits of a network as the text of an IPv4 network."""
    v4 = IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))
    return network_expression(v4)[1:-1]


def _group(low: int, n_free: int) -> str:
    """Return the texts of the numbers that begin as ``low`` does; the last ``n_free`` bits are free.

    Leading zeros may be left out.
    """
    text, is_zero, has_zeros = "", True, False
    for shift in (12, 8, 4, 0):
        first = low >> shift & 15
        last = first | ((1 << min(4, max(0, n_free - shift))) - 1)
        if shift and not text and not last:
            has_zeros = True
            continue
        text = (f"({text})?" if text and is_zero else text) + _digits(first, last)
        is_zero = is_zero and not first
    return f"0*{text}" if has_zeros else text


def _digits(first: int, last: int) -> str:
    if (first, last) == (0, 15):
        return _HEX
    digits = "".join(f"{digit:x}" for digit in range(first, last + 1))
    both = digits + "".join(digit.upper() for digit in digits if digit.isalpha())
    return both if len(both) == 1 else f"[{both}]"
