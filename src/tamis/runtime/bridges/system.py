"""What a bridge needs of a messaging system, and what an error means for the message that caused it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.errors import DiskFullError, ModelError, RefusedError

__all__ = ["Find", "IncomingMessage", "Outcome", "OutgoingMatch", "System", "is_for_good", "is_temporary"]

#: Given a lane and where it begins otherwise, returns the number behind which to read; blocks, so call it in a thread.
Find = Callable[[str, Callable[[], int]], int]

#: What became of a message: None, or why not.
Outcome = BaseException | None


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message that came in.

    A system that numbers its messages names a ``lane`` (a partition, a stream), the ``number`` in it and ``after``, the
    number of the message that it read before in this lane. Systems without numbers leave ``lane`` empty.
    """

    source: str
    payload: bytes
    lane: str = ""
    number: int = 0
    after: int = 0
    #: What the system needs to acknowledge it.
    handle: Any = None


@dataclass(frozen=True, slots=True)
class OutgoingMatch:
    """A match on its way out; ``id`` is the same whenever the same match is sent."""

    destination: str
    payload: bytes
    id: str


class System(Protocol):
    """A connection to a messaging system. It reconnects by itself; errors that waiting cannot fix are raised."""

    #: The word in command lines, producers' names and errors: ``nats``.
    kind: str
    #: The attribute of an event that says where it came from.
    attribute: str
    #: Characters that a value may not bring into a destination.
    reserved: str

    async def open(self, find: Find) -> None:
        """Connect; `ConnectionLostError` or `RefusedError` when that is not possible."""

    async def read(self, most: int) -> Sequence[IncomingMessage]:
        """Return the next messages, at least one, in the order of their lanes."""

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages that the broker has, or that can never be events."""

    async def rewind(self, lane: str, number: int) -> None:
        """Read a lane again behind a number: the broker does not have what came since."""

    async def send(self, batch: Sequence[OutgoingMatch]) -> list[Outcome]:
        """Send matches; returns what became of each once the system has it, or not."""

    async def close(self) -> None:
        """End the connection."""


def is_temporary(problem: BaseException) -> bool:
    """Whether the same message may be accepted later: a link or a disk is full, a connection is lost."""
    if isinstance(problem, RefusedError):
        return problem.code >= 500 or problem.code == 429
    return isinstance(problem, DiskFullError | TimeoutError | OSError) and not isinstance(problem, ImportError)


def is_for_good(problem: BaseException) -> bool:
    """Whether a message can never be handed over, while others can: it is not JSON, unfit or too large."""
    if isinstance(problem, RefusedError):
        return problem.code in (400, 413)
    return isinstance(problem, ModelError)
