"""What is noted about events while their publishers work on them.

A publisher numbers its events and says with each below which number all are done (the *floor*). Notes about those are
dropped; that they are done stays known, for a copy that was on its way for long comes back with the floor of old, and
would be taken for news.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tamis.overlay.messages import EventId, Published

__all__ = ["EventBook"]

T = TypeVar("T")


@dataclass
class _Page(Generic[T]):
    """The events of one life of a publisher: numbers below ``floor`` are done."""

    floor: int = 0
    notes: dict[int, T] = field(default_factory=dict)


class EventBook(Generic[T]):
    """A note for each event that is not done.

    >>> book = EventBook[str]()
    >>> first, third = (Published(EventId("alice", 1, seq), "", b"", floor) for seq, floor in [(1, 1), (3, 2)])
    >>> book.write(first.id, "seen")
    >>> book.is_done(first), book.is_done(third), book.is_done(first)
    (False, False, True)
    >>> book.read(first.id) is None
    True
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], _Page[T]] = {}

    def is_done(self, event: Published) -> bool:
        """Whether its publisher is done with an event; what it says about earlier ones is noted."""
        page = self._page(event.id)
        if event.floor > page.floor:
            page.floor = event.floor
            for seq in [seq for seq in page.notes if seq < page.floor]:
                del page.notes[seq]
        return event.id.seq < page.floor

    def read(self, id: EventId) -> T | None:
        """Return the note about an event, if there is one."""
        page = self._pages.get((id.publisher, id.epoch))
        return None if page is None else page.notes.get(id.seq)

    def write(self, id: EventId, note: T) -> None:
        """Note something about an event that is not done."""
        self._page(id).notes[id.seq] = note

    def erase(self, id: EventId) -> None:
        """Drop the note about an event."""
        self._page(id).notes.pop(id.seq, None)

    def __iter__(self) -> Iterator[T]:
        return iter([note for page in self._pages.values() for note in page.notes.values()])

    def _page(self, id: EventId) -> _Page[T]:
        key = (id.publisher, id.epoch)
        if key not in self._pages:
            self._pages[key] = _Page()
        return self._pages[key]
