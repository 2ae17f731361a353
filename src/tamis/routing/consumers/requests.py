"""Requests about shared queues, by the process around a broker's edge. These messages never cross a wire.

Each is handled in one transaction and answered (`Answer`) with `Taken` or `Settled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tamis.node.effects import Link
from tamis.routing.edge.limits import MAX_PAGE_BYTES

__all__ = ["Bury", "Drop", "Fail", "Replay", "Request", "Settle", "Settled", "Shared", "Take", "Taken"]

#: Numbers of messages in a queue with their bodies.
Letters = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Take:
    """A consumer takes messages that no other consumer holds; it holds them for ``seconds``.

    A request with the ``id`` of a former one is the same request, whose answer was lost: the consumer gets the messages
    that the former one gave it. A message that was taken ``most`` times without an acknowledgement is not taken again;
    0: there is no limit. The messages have ``max_bytes`` together; a single one may have more.
    """

    link: Link
    consumer: str
    limit: int
    seconds: float
    most: int = 0
    max_bytes: int = MAX_PAGE_BYTES
    id: str = ""


@dataclass(frozen=True)
class Taken:
    """The messages that a consumer holds now, as ``{number: times taken}``; and worn-out messages, in bytes as many."""

    numbers: Mapping[int, int]
    #: Messages that were taken as often as allowed: their bodies must be moved to the dead letters.
    worn: tuple[int, ...] = ()


@dataclass(frozen=True)
class Settle:
    """A consumer settles messages that it holds, or releases them."""

    link: Link
    consumer: str
    done: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fail:
    """Messages were delivered over another interface and not acknowledged; each counts as taken once more.

    The answer is a `Taken` whose ``worn`` are the messages that were delivered ``most`` times, or are settled.
    Without ``is_sure`` the reader may have failed on other messages: none becomes worn out by that.
    """

    link: Link
    numbers: tuple[int, ...]
    most: int
    is_sure: bool = True


@dataclass(frozen=True)
class Bury:
    """Moves worn-out messages of a queue to its dead letters."""

    link: Link
    dead: Link
    letters: Letters
    most: int


@dataclass(frozen=True)
class Replay:
    """Moves dead letters back to the end of their queue."""

    link: Link
    dead: Link
    letters: Letters


@dataclass(frozen=True)
class Drop:
    """Deletes dead letters."""

    dead: Link
    numbers: tuple[int, ...]


Request = Take | Settle | Fail | Bury | Replay | Drop


@dataclass(frozen=True)
class Shared:
    """A request about a shared queue."""

    request: Request


@dataclass(frozen=True)
class Settled:
    """The result of a request: how many messages are settled, and which the consumer no longer held."""

    count: int
    late: tuple[int, ...] = ()
    #: ``{link: number}``: everything up to this number is settled, so that the stream may forget it.
    floors: Mapping[Link, int] = field(default_factory=dict)
