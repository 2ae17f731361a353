"""What a core wants done: values, not calls, so that a test of a core compares two lists.

All effects of one call are one transaction. The driver of a node commits every `Persist` before the first message
leaves (promises G1, G11), so nothing that others have seen can be forgotten in a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Again", "Answer", "Attach", "Deliver", "Effect", "Key", "Link", "Persist", "Send", "Tell"]

#: What a node calls the way to a neighbour or to a client: the name of who is at the other end.
Link = str

#: Where something is kept on a node's disk.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Persist:
    """Keep ``value`` under ``key``, durably; None removes the key."""

    key: Key
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message over a link: in order, once, however often the wire fails."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand an event to a client: as `Send`, and what the whole network is for."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Tell:
    """Say something on the connection that a link has now: at once, beside the queue, and lost with the connection."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Return a value to the caller in this process that sent the message, once the transaction is durable."""

    value: Any


@dataclass(frozen=True, slots=True)
class Attach:
    """Have streams for links whose other ends speak through this process; on disk they begin with a first message."""

    links: Iterable[Link]


@dataclass(frozen=True, slots=True)
class Again:
    """Give the core a `Tick` soon: work is left that one step does not do at once."""


Effect = Persist | Send | Deliver | Tell | Answer | Attach | Again
