"""Who waits for whom: when an update, or a subscription, is known wherever it must be.

Updates of a link are numbered, and a neighbour confirms them in order. Whatever comes in, a subscription or a
neighbour's update, is settled when every *other* neighbour has confirmed all that was sent to it up to then. That one
rule covers what was announced because of it, and also what was withheld: its cover was sent earlier on the same link,
so it is confirmed earlier (promise R13). Waiting goes outwards in a tree, so it ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from dataclasses import dataclass

from tamis.node.effects import Link

__all__ = ["Confirmations"]


@dataclass
class _Waiting:
    """Something of ``source`` that is settled when each link has confirmed its number."""

    source: Link
    what: Hashable
    needed: dict[Link, int]
    #: Whether it was never settled before, so that nothing may be delivered for it too early.
    is_new: bool = True


class Confirmations:
    """The numbers of the updates sent and confirmed on each link, and everything that waits for them."""

    def __init__(self, links: Iterable[Link]) -> None:
        #: The number of the last update sent on each link.
        self.sent: dict[Link, int] = dict.fromkeys(links, 0)
        #: The number up to which each link has confirmed; never above ``sent``.
        self.confirmed: dict[Link, int] = dict.fromkeys(self.sent, 0)
        #: In the order in which they came.
        self._waiting: list[_Waiting] = []

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def number_next(self, link: Link) -> int:
        """Return the number of the update that is sent now."""
        self.sent[link] += 1
        return self.sent[link]

    def expect(self, source: Link, what: Hashable, owed: Set[Link], *, is_new: bool = True) -> None:
        """Let something wait for all links but ``source``; those ``owed`` a first update will get it as the next."""
        needed = {link: number + (link in owed) for link, number in self.sent.items() if link != source}
        self._waiting.append(_Waiting(source, what, needed, is_new))

    def is_early(self, source: Link, what: Hashable, link: Link) -> bool:
        """Whether events of a link come too early for something new: the link has not confirmed it yet.

        Before that a broker out there may still drop what it asks for. If one event came through by luck and the next
        did not, the reader would have a hole (promise R12).
        """
        return any(
            one.is_new and one.source == source and one.what == what and self.confirmed[link] < one.needed[link]
            for one in self._waiting
        )

    def forget(self, source: Link, what: Hashable = None) -> None:
        """Let nothing of a source wait any more, or only not this."""
        self._waiting = [one for one in self._waiting if one.source != source or what not in (None, one.what)]

    def confirm(self, link: Link, number: int) -> None:
        """Take note that a link has confirmed all updates up to a number."""
        self.confirmed[link] = max(self.confirmed[link], min(number, self.sent[link]))

    def take_settled(self) -> list[tuple[Link, Hashable]]:
        """Return what need wait no longer, in order."""
        settled: list[_Waiting] = []
        waiting: list[_Waiting] = []
        for one in self._waiting:
            is_settled = all(self.confirmed[link] >= number for link, number in one.needed.items())
            (settled if is_settled else waiting).append(one)
        self._waiting = waiting
        return [(one.source, one.what) for one in settled]
