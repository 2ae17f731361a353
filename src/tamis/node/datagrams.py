"""A node whose messages may be lost: its protocol must repair itself, and confirm what must arrive.

It has the methods of `tamis.node.node.Node`, so that one simulator drives both. A message is one frame; nothing is
numbered, kept or sent again here. A frame that is not a message, or that the core cannot apply, is refused and counted,
without other effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import RemoteProtocolError
from tamis.node.core import Core
from tamis.node.effects import Again, Deliver, Effect, Key, Link, Persist, Send
from tamis.node.node import Codec, Transaction

__all__ = ["DatagramNode", "Datagrams"]


@dataclass
class Datagrams(Transaction):
    """A transaction whose messages leave as single frames."""

    frames: list[tuple[Link, bytes]] = field(default_factory=list)


class DatagramNode:
    """A core behind unreliable connections; deliveries to its user are kept until `take_deliveries`."""

    def __init__(self, core: Core, codec: Codec, stored: Mapping[Key, bytes] | None = None) -> None:
        self.core = core
        #: Messages sent, and their bytes, by kind of message.
        self.sent: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        #: Frames that were not a message of this protocol.
        self.refused = 0
        self._codec = codec
        self._deliveries: list[Any] = []
        self._stored = stored or {}

    def start(self, now: float) -> Datagrams:
        """Start the core with what was persisted."""
        stored, self._stored = self._stored, {}
        return self._follow(self.core.restore(stored, now=now))

    def receive(self, data: bytes, *, link: Link, now: float) -> Datagrams:
        """Handle a frame from the wire."""
        try:
            return self.submit(self._codec.decode(data, link), sender=link, now=now)
        except RemoteProtocolError:
            self.refused += 1
            return Datagrams()

    def submit(self, message: Any, *, sender: Link, now: float) -> Datagrams:
        """Pass the core a message from this process: from a user or a timer."""
        return self._follow(self.core.handle(message, sender=sender, now=now))

    def take_deliveries(self) -> list[Any]:
        """Return the deliveries to the user of the core since the last call, and forget them."""
        deliveries, self._deliveries = self._deliveries, []
        return deliveries

    def _follow(self, effects: list[Effect]) -> Datagrams:
        transaction = Datagrams()
        for effect in effects:
            if isinstance(effect, Persist):
                transaction.changes.append(effect)
            elif isinstance(effect, Deliver):
                self._deliveries.append(effect.message)
            elif isinstance(effect, Again):
                transaction.again = True
            elif isinstance(effect, Send):
                data, kind = self._codec.encode(effect.message), type(effect.message).__name__
                self.sent[kind] += 1
                self.bytes[kind] += len(data)
                transaction.frames.append((effect.link, data))
        return transaction
