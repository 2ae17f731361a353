"""A node whose messages may be lost: what it builds checks itself, and what must arrive is answered.

The same calls as `tamis.node.node.Node`, so that one simulator drives both. A message is one frame; nothing is
numbered, kept or sent again here. What is no message, or one that the core cannot apply, is refused and counted; it
stops nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tamis.errors import RemoteProtocolError
from tamis.node.core import Core
from tamis.node.effects import Again, Deliver, Effect, Key, Link, Persist
from tamis.node.node import Codec, Transaction

__all__ = ["DatagramNode"]


class DatagramNode:
    """A core behind unreliable wires; what its user gets is kept until `take_deliveries`."""

    def __init__(self, core: Core, codec: Codec, stored: Mapping[Key, bytes] | None = None) -> None:
        self.core = core
        #: What was sent, and its bytes, by kind of message.
        self.sent: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        #: Frames that were no message of this protocol.
        self.refused = 0
        #: A tick would change nothing: rounds are somebody else's clock.
        self.is_waiting = False
        self._codec = codec
        self._deliveries: list[Any] = []
        self._stored = stored or {}

    def start(self, now: float) -> Transaction:
        """Take up life with what was persisted."""
        stored, self._stored = self._stored, {}
        return self._follow(self.core.restore(stored, now=now))

    def attach(self, link: Link, now: float) -> Transaction:
        """Nothing happens: anybody may write to anybody."""
        return Transaction()

    def receive(self, data: bytes, *, link: Link, now: float) -> Transaction:
        """Take a frame from the wire."""
        try:
            return self.submit(self._codec.decode(data, link), sender=link, now=now)
        except RemoteProtocolError:
            self.refused += 1
            return Transaction()

    def submit(self, message: Any, *, sender: Link, now: float) -> Transaction:
        """Give the core a message of somebody in this process: a user, a timer."""
        return self._follow(self.core.handle(message, sender=sender, now=now))

    def tick(self, now: float) -> Transaction:
        """Nothing waits for time alone."""
        return Transaction()

    def take_deliveries(self) -> list[Any]:
        """Return what the user of the core gets since the last call, and forget it."""
        deliveries, self._deliveries = self._deliveries, []
        return deliveries

    def _follow(self, effects: list[Effect]) -> Transaction:
        transaction = Transaction()
        for effect in effects:
            if isinstance(effect, Persist):
                transaction.changes.append(effect)
            elif isinstance(effect, Deliver):
                self._deliveries.append(effect.message)
            elif isinstance(effect, Again):
                transaction.again = True
            else:
                data, kind = self._codec.encode(effect.message), type(effect.message).__name__
                self.sent[kind] += 1
                self.bytes[kind] += len(data)
                transaction.frames.append((effect.link, data))
        return transaction
