"""How many bytes the TCP connections of a process have carried, as the Linux kernel counts them.

The kernel is asked through ``sock_diag`` (netlink(7), sock_diag(7)), as ``ss -ti`` does: nothing stands between two
brokers, so counting costs them nothing. The count includes the headers of WebSocket, not those of TCP and IP.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["link_bytes"]

_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST_AND_DUMP = 4, 20, 0x301
_DONE_OR_ERROR: Final = (3, 2)
#: The extension that is asked for, and the bit of connections that are established.
_TCP_INFO, _ESTABLISHED = 2, 1 << 1
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
#: struct inet_diag_msg: the destination port, the inode, and its size.
_PORT_AT, _INODE_AT, _MESSAGE_SIZE = 6, 68, 72
#: struct tcp_info: tcpi_bytes_acked and tcpi_bytes_received, u64 each.
_BYTES_AT: Final = 120


def link_bytes(pid: int, port: int) -> int | None:
    """Return the bytes that connections of a process to a port on this machine carried both ways; None if unknown."""
    try:
        inodes = _socket_inodes(pid)
        return sum(size for inode, remote, size in _connections() if inode in inodes and remote == port)
    except (OSError, AttributeError):  # no such process, or another system than Linux
        return None


def _socket_inodes(pid: int) -> set[int]:
    targets = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.append(os.readlink(entry))
    return {int(target[8:-1]) for target in targets if target.startswith("socket:[")}


def _connections() -> Iterator[tuple[int, int, int]]:
    """Yield the inode, the remote port and the bytes of every connection over IPv4."""
    request = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), _ESTABLISHED) + bytes(48)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
        netlink.settimeout(5)
        netlink.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_AND_DUMP, 1, 0) + request)
        while True:
            data = netlink.recv(1 << 16)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind in _DONE_OR_ERROR:
                    return
                yield _connection(data[_HEADER.size : length])
                data = data[_aligned(length) :]


def _connection(message: bytes) -> tuple[int, int, int]:
    (port,), (inode,) = struct.unpack_from(">H", message, _PORT_AT), struct.unpack_from("=I", message, _INODE_AT)
    position, size = _MESSAGE_SIZE, 0
    while position + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, position)
        if kind == _TCP_INFO:
            size = sum(struct.unpack_from("=QQ", message, position + _ATTRIBUTE.size + _BYTES_AT))
        position += _aligned(max(length, _ATTRIBUTE.size))
    return inode, port, size


def _aligned(length: int) -> int:
    return (length + 3) & ~3
