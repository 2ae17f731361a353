"""What the process around a broker's edge asks about shared queues. These messages never cross a wire.

Each is handled in one transaction and answered (`Answer`) with `Taken` or `Settled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tamis.node.effects import Link

__all__ = ["Bury", "Drop", "Replay", "Request", "Settle", "Settled", "Shared", "Take", "Taken"]

#: Numbers of messages in a queue with their bodies.
Letters = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Take:
    """A consumer wants messages that no other consumer holds; they are its own for ``seconds``.

    A message that was taken ``most`` times and never acknowledged is not given out again; 0: there is no limit.
    """

    link: Link
    consumer: str
    limit: int
    seconds: float
    most: int = 0


@dataclass(frozen=True)
class Taken:
    """The numbers of the messages that a consumer holds now, each with how often it was taken; and worn-out ones."""

    numbers: Mapping[int, int]
    #: Messages that were taken as often as they may be: their bodies are to be put into the dead letters.
    worn: tuple[int, ...] = ()


@dataclass(frozen=True)
class Settle:
    """A consumer has dealt with messages that it holds, or gives them back."""

    link: Link
    consumer: str
    done: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bury:
    """Worn-out messages of a queue go to its dead letters."""

    link: Link
    dead: Link
    letters: Letters
    most: int


@dataclass(frozen=True)
class Replay:
    """Dead letters go back to the end of their queue."""

    link: Link
    dead: Link
    letters: Letters


@dataclass(frozen=True)
class Drop:
    """Dead letters are no longer needed."""

    dead: Link
    numbers: tuple[int, ...]


Request = Take | Settle | Bury | Replay | Drop


@dataclass(frozen=True)
class Shared:
    """A request about a shared queue."""

    request: Request


@dataclass(frozen=True)
class Settled:
    """What became of some messages: how many are settled, and which the consumer no longer held."""

    count: int
    late: tuple[int, ...] = ()
    #: ``{link: number}``: everything up to this number is settled, so that the stream may forget it.
    floors: Mapping[Link, int] = field(default_factory=dict)
