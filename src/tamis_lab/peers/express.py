"""Many peers in one process, as fast as they can think: the bulk path of experiments.

The cores are the real ones; messages are handed over as objects, in the order in which they were sent, without bytes,
clock or faults. The tree is the one that the simulator builds message by message when everything goes well.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from tamis.node.effects import Deliver, Effect, Link, Send
from tamis.overlay import messages as m
from tamis.overlay.peer import USER, PeerCore

__all__ = ["Express"]


class Express:
    """Peers and the mail between them."""

    def __init__(self) -> None:
        self.peers: dict[str, PeerCore] = {}
        #: Messages that were handed over, by kind.
        self.messages: Counter[str] = Counter()
        #: ``(peer, delivery)`` in order.
        self.deliveries: list[tuple[str, m.PeerDelivery]] = []
        self.now = 0.0
        self._mail: deque[tuple[str, Link, Any]] = deque()

    def add(self, core: PeerCore) -> None:
        """Add a peer."""
        self.peers[core.name] = core

    def remove(self, name: str) -> None:
        """Take a peer away, without a word to the others."""
        del self.peers[name]

    def submit(self, name: str, message: Any) -> None:
        """Give a peer a message of its user."""
        self._mail.append((name, USER, message))

    def run(self, at_most: int | None = None) -> None:
        """Hand over messages until there are none left, or ``at_most`` of them."""
        handed_over = 0
        while self._mail and handed_over != at_most:
            handed_over += 1
            name, sender, message = self._mail.popleft()
            core = self.peers.get(name)
            if core is not None:
                self.carry_out(name, core.handle(message, sender=sender, now=self.now))

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        """Put what a peer sends into the mail, and note what it delivers."""
        for effect in effects:
            if isinstance(effect, Send):
                self.messages[type(effect.message).__name__] += 1
                self._mail.append((effect.link, name, effect.message))
            elif isinstance(effect, Deliver):
                self.deliveries.append((name, effect.message))

    def round(self, contacts: Sequence[str | None] = (None,)) -> None:
        """Let every peer live through one round; the contacts are given out in turn."""
        self.now += 1.0
        for number, name in enumerate(list(self.peers)):
            self.submit(name, m.Check(contacts[number % len(contacts)]))
        self.run()

    def seats(self) -> Iterable[Any]:
        """Yield every seat; for statistics and pictures, no peer sees this."""
        return (seat for core in self.peers.values() for seat in core.seats.values() if not seat.left)
