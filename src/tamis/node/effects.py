"""The effects of a core: values, not calls, so that a test of a core compares two lists.

All effects of one call are one transaction. The driver of a node commits every `Persist` before the first message
is sent (promises G1, G11), so a crash cannot lose state that others have seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Again",
    "Answer",
    "Attach",
    "Deliver",
    "Effect",
    "Key",
    "Leave",
    "Link",
    "LinkKey",
    "Persist",
    "Queue",
    "Refill",
    "Send",
    "Tell",
]

#: The name of a connection to a neighbour or a client: the name of the other end.
Link = str

#: A subscription of a client or a neighbour: its link, and its key there.
LinkKey = tuple[Link, str]

#: The key of a record on a node's disk.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Persist:
    """Keep ``value`` under ``key``, durably; None removes the key."""

    key: Key
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message over a link: in order, exactly once, however often the connection fails."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Queue:
    """Send a message over a link that drops, in its order among these, unless it becomes the oldest of too many.

    What finds no room waits (`tamis.node.overflow`). With ``is_held`` it waits for a `Refill` in any case.
    """

    link: Link
    message: Any
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Refill:
    """Number what waits in the overflow of a link, as far as its outbox has room; with ``is_all`` all of it."""

    link: Link
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver an event to a client, in the manner of `Send`."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message on the current connection of a link: at once, ahead of the queue, and lost with the connection."""

    link: Link
    message: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Return a value to the caller in this process that sent the message, once the transaction is durable."""

    value: Any


@dataclass(frozen=True, slots=True)
class Attach:
    """Create streams for links that this process acts for; they are on disk from their first message on."""

    links: Iterable[Link]


@dataclass(frozen=True, slots=True)
class Leave:
    """End the stream of a link to a neighbour, drop its waiting messages, and close its connection for a reason."""

    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class Again:
    """Send the core a `Tick` soon: there is more work than one step does."""


Effect = Persist | Send | Queue | Refill | Deliver | Tell | Answer | Attach | Leave | Again
