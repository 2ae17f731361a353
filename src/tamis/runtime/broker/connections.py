"""Where the links of a broker stand on disk, and the wires that they have now."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tamis.model.schema import Schema
from tamis.node.effects import Link
from tamis.node.frames import Frame, encode_frame
from tamis.node.node import Node, Transaction
from tamis.routing import messages as m

__all__ = ["CLIENT_EPOCH", "Connection", "Mark", "introduce"]

#: The life that every client claims: it goes on with the stream of its name, whatever it remembers.
CLIENT_EPOCH = 1


@dataclass(frozen=True)
class Mark:
    """Where a link stood when a step was taken: the life of its other end, and the numbers of its last messages."""

    peer_epoch: int = 0
    received: int = 0
    sent: int = 0


@dataclass(eq=False)
class Connection:
    """A wire to the other end of a link, as long as it lasts."""

    link: Link
    #: The number of the last message written to this wire, in the stream with ``peer_epoch``.
    written: int = 0
    peer_epoch: int = -1
    #: What to say at once.
    words: deque[m.Message] = field(default_factory=deque)
    owes_answer: bool = True
    #: The schema that the other end was told; None: it is a broker and has its own.
    told_schema: Schema | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    closed: str = ""
    #: Whether the other end may try again.
    may_return: bool = False

    def close(self, reason: str = "closed") -> None:
        """Tell whoever writes to this wire to end it."""
        self.closed = self.closed or reason
        self.news.set()

    def close_for_now(self, reason: str) -> None:
        """Tell whoever writes to this wire to end it; the other end may connect again."""
        self.may_return = self.may_return or not self.closed
        self.close(reason)


def introduce(links: list[Link], node: Node[Any], now: float) -> Transaction:
    """Let a node meet clients that have said who they are, all in one transaction."""
    hello, whole = encode_frame(Frame(CLIENT_EPOCH, node.epoch, 0, 0)), Transaction()
    for link in links:
        for one in (node.attach(link, now), node.receive(hello, link=link, now=now)):
            whole.changes += one.changes
            whole.frames += one.frames
    return whole
