"""The one shape of everything that runs in a node: messages in, effects out.

A core knows no clock, no socket and no chance: the time comes as an argument, messages as calls, and what it
wants done is returned. The simulator and the network drive the same core, so what one proves the other has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.node.effects import Effect, Key, Link

__all__ = ["Core", "LinkFree", "LinkFull", "LinkUp"]


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The other end of a link is there in a life that knows nothing of ours: first contact, or its disk was lost.

    ``unacknowledged`` are the messages sent to its former life that it may never have seen.
    """

    unacknowledged: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkFull:
    """The outbox of a link has reached its quota: how many messages wait, and their bytes."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LinkFree:
    """The outbox of a link that was full has emptied to half of its quota."""


class Core(Protocol):
    """A node's mind. Both drivers know only this."""

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Take one message of ``sender``; return everything that follows from it, as one transaction."""

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Take back what an earlier life persisted; called once, before anything else."""

    def check_invariants(self) -> None:
        """Raise `InvariantError`, with the story, unless every sentence about the state holds."""
