"""Links that carry some namespaces only: which parts of a message may cross them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec

from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import AddLink, RemoveLink, SkipLink
from tamis.routing.early_entries import EarlyEntries

__all__ = ["Borders", "cut_message"]


class Borders:
    """The namespaces that may cross each link (promise S5); a link without an entry carries all."""

    def __init__(self, allowed: Mapping[Link, Set[str]]) -> None:
        self._allowed = dict(allowed)

    def follow(self, change: AddLink | RemoveLink | SkipLink) -> None:
        """Follow a change of a link: note the namespaces of an added link, forget those of a removed one."""
        if not isinstance(change, SkipLink):
            self._allowed.pop(change.link, None)
        if isinstance(change, AddLink) and change.namespaces:
            self._allowed[change.link] = change.namespaces

    def crossing(self, link: Link, message: Any) -> Any:
        """Return the part of a message that may cross a link; None: nothing."""
        allowed = self._allowed.get(link)
        return message if allowed is None else cut_message(message, allowed)


def cut_message(message: Any, allowed: Set[str]) -> Any:
    """Return a message without its parts about other namespaces; None if nothing is left.

    Updates and parts of a table always cross, even if they are empty: the neighbour must confirm their number.

    >>> cut_message(m.Publish(m.Published(m.EventId("a", 1, 1), "secret", b"")), {"open"}) is None
    True
    """
    if isinstance(message, EarlyEntries):
        return EarlyEntries(cut_message(message.message, allowed))
    if isinstance(message, m.Update | m.TablePart):
        return msgspec.structs.replace(
            message,
            announce=tuple(entry for entry in message.announce if entry.namespace in allowed),
            ranges=tuple(part for part in message.ranges if part.namespace in allowed),
        )
    if isinstance(message, m.Publish):
        return message if message.event.namespace in allowed else None
    if isinstance(message, m.PublishBatch):
        events = tuple(event for event in message.events if event.namespace in allowed)
        return m.PublishBatch(events) if events else None
    if isinstance(message, m.LinkGap):
        return message if message.namespace in allowed else None
    return message
