"""The interface of everything that runs in a node: messages in, effects out.

A core has no clock, no sockets and no random numbers: the time is an argument, messages are calls, and effects are
returned. The simulator and the network drive the same core, so what is proved in one holds in the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.node.effects import Effect, Key, Link

__all__ = ["Core", "Dropped", "LinkFree", "LinkFull", "LinkRoom", "LinkUp", "Story", "Word"]


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The other end of a link is in a life that has none of our state: first contact, or its disk was lost.

    ``unacknowledged`` are the messages sent to its former life that it may not have received; ``overflow`` are those
    that waited behind them without numbers.
    """

    unacknowledged: tuple[Any, ...] = ()
    overflow: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkFull:
    """The outbox of a link has reached its quota: how many messages wait, and their bytes."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LinkFree:
    """The outbox of a link that was full has emptied to half of its quota."""


@dataclass(frozen=True, slots=True)
class LinkRoom:
    """The outbox of a link has room for messages of its overflow; the core answers with `Refill`."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The overflow of a link was full: these messages, the oldest of it, will not be sent."""

    messages: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """An unnumbered message of the other end of a link; it may be repeated, or be lost."""

    message: Any


class Story:
    """The last ``length`` messages that a core handled, for error reports; they are formatted only when it is read.

    >>> story = Story(2)
    >>> for step in ("a", "b", "c"):
    ...     story.note(1.5, "alice", step)
    >>> story.lines()
    ["at 1.500 from alice: 'b'", "at 1.500 from alice: 'c'"]
    """

    def __init__(self, length: int = 50) -> None:
        self._steps: deque[tuple[float, str, object]] = deque(maxlen=length)

    def note(self, now: float, sender: str, message: object) -> None:
        """Record a message."""
        self._steps.append((now, sender, message))

    def lines(self) -> list[str]:
        """Return the steps as text, the oldest first."""
        return [f"at {now:.3f} from {sender}: {message!r}" for now, sender, message in self._steps]


class Core(Protocol):
    """The logic of a node. Both drivers use only this interface."""

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Handle one message of ``sender``; return all its effects, as one transaction."""

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Restore what an earlier life persisted; called once, before anything else."""

    def check_invariants(self) -> None:
        """Raise `InvariantError`, with the story, unless every invariant of the state holds."""
