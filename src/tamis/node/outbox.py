"""The messages of a stream that wait for an acknowledgement: the sizes of all of them, the bodies of the newest.

A client may be away for days while a hundred thousand messages wait for it. In memory each of them costs four bytes;
its body is on disk, and is read from there when it is sent (promises G17, G19). A restart loads only the sizes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tamis.errors import InvariantError
from tamis.node.effects import Link

__all__ = ["Backlog", "Outbox", "ReadOutbox"]

#: Called with a link, a number and a limit; returns (number, message) pairs of the link above the number, at most
#: ``limit`` of them, and at least one if there is any.
ReadOutbox = Callable[[Link, int, int], list[tuple[int, bytes]]]

#: Messages of one read when all that wait are needed.
_PAGE = 256


@dataclass
class Backlog:
    """Messages on disk that wait for a link: the last acknowledged number, and the sizes of the messages after it."""

    acknowledged: int = 0
    sizes: array[int] = field(default_factory=lambda: array("I"))


class Outbox:
    """Messages with the numbers ``acknowledged + 1`` to ``last``.

    >>> outbox = Outbox()
    >>> outbox.append(b"one"), outbox.append(b"three")
    (1, 2)
    >>> outbox.acknowledge(1), len(outbox), outbox.bytes, outbox.find(2)
    (range(1, 2), 1, 5, b'three')
    """

    def __init__(self, backlog: Backlog | None = None) -> None:
        backlog = Backlog() if backlog is None else backlog
        self.acknowledged = backlog.acknowledged
        self.last = self.acknowledged + len(backlog.sizes)
        #: The bytes of all waiting messages, and of those whose bodies are in memory.
        self.bytes = sum(backlog.sizes)
        self.bytes_in_memory = 0
        #: Bodies in memory: consecutive, and up to ``last``.
        self._bodies: dict[int, bytes] = {}
        #: Sizes of the messages with numbers from ``_base + 1`` on; those of acknowledged messages are removed in bulk.
        self._sizes, self._base = backlog.sizes, self.acknowledged

    def __len__(self) -> int:
        return self.last - self.acknowledged

    def append(self, body: bytes) -> int:
        """Add a message; returns its number."""
        self.last += 1
        self._bodies[self.last] = body
        self._sizes.append(len(body))
        self.bytes += len(body)
        self.bytes_in_memory += len(body)
        return self.last

    def find(self, number: int) -> bytes | None:
        """Return the body of a waiting message; None if it is on disk only."""
        return self._bodies.get(number)

    def size_of(self, number: int) -> int:
        """Return the bytes of a waiting message."""
        return self._sizes[number - self._base - 1]

    def acknowledge(self, number: int) -> range:
        """Remove everything up to a number; returns the numbers that are removed."""
        done = range(self.acknowledged + 1, min(number, self.last) + 1)
        for acknowledged_number in done:
            self.bytes -= self.size_of(acknowledged_number)
            self.bytes_in_memory -= len(self._bodies.pop(acknowledged_number, b""))
        if done:
            self.acknowledged = done[-1]
        if 2 * (n_stale := self.acknowledged - self._base) > len(self._sizes):  # so that it costs O(1) per message
            del self._sizes[:n_stale]
            self._base = self.acknowledged
        return done

    def renumber(self, acknowledged: int) -> None:
        """Renumber the waiting messages to follow ``acknowledged``; all bodies must be in memory."""
        self._base += acknowledged - self.acknowledged
        self._bodies = dict(enumerate(self._bodies.values(), acknowledged + 1))
        self.acknowledged, self.last = acknowledged, acknowledged + len(self)

    def spill(self, upto: int, messages: int, n_bytes: int) -> None:
        """Drop bodies of messages up to ``upto`` (they are on disk), the oldest first, down to the two bounds."""
        for number in list(self._spillable(upto, messages, n_bytes)):
            self.bytes_in_memory -= len(self._bodies.pop(number))

    def bodies(self, link: Link, read: ReadOutbox, most: int | None = None) -> Iterator[bytes]:
        """Yield the bodies of waiting messages, from disk if they are not in memory; all of them, or the first few.

        At most ``most`` of them are read from disk at once; further ones may follow.
        """
        number = self.acknowledged
        while number < self.last and number + 1 not in self._bodies:
            page = read(link, number, min(_PAGE, self.last - number, most or _PAGE))
            if not page:
                raise InvariantError(f"message {number + 1} of link {link!r} is neither in memory nor on disk")
            yield from (body for _, body in page)
            number = page[-1][0]
        yield from (self._bodies[number_in_memory] for number_in_memory in range(number + 1, self.last + 1))

    def _spillable(self, upto: int, messages: int, n_bytes: int) -> Iterator[int]:
        size = self.bytes_in_memory
        for number, body in self._bodies.items():
            if number > upto or (upto - number < messages and size <= n_bytes):
                return
            size -= len(body)
            yield number
