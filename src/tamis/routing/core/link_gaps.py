"""What links were not sent because they were full, by namespace: the policy ``drop`` of a link (promise G23).

The first event that is not sent opens a gap. While it is open no further event is sent on that link, so that the gap
has one place among the events. When the link is free, its neighbour gets a `LinkGap`, tells its clients, and
passes it on: whatever a client behind the link may have missed is counted in the gaps that it is told of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tamis.node import records
from tamis.node.effects import Effect, Key, Link, Persist, Send
from tamis.routing.messages import EventId, LinkGap
from tamis.routing.policies import Policy

__all__ = ["AddLink", "LinkGaps", "RemoveLink", "SkipLink"]


@dataclass(frozen=True)
class SkipLink:
    """No event is to be sent over a link, or events are to be sent again. It never crosses a wire."""

    link: Link
    is_skipped: bool


@dataclass(frozen=True)
class AddLink:
    """A link to a broker that is a neighbour from now on; ``record`` is what a restart knows of it.

    ``drops`` says whether events are dropped while the link is full, and ``namespaces`` which may cross it, None: all.
    ``resent`` are messages that wait for a dead link and go over this one, too, and ``gaps`` those of that link.
    """

    link: Link
    policy: Policy
    record: Persist
    drops: bool = False
    namespaces: frozenset[str] | None = None
    resent: tuple[Any, ...] = ()
    gaps: tuple[LinkGap, ...] = ()


@dataclass(frozen=True)
class RemoveLink:
    """A neighbour is to be forgotten, with all that it asked for and all that waits for it."""

    link: Link
    record: Persist


class LinkGaps:
    """The open gaps of a broker's links."""

    def __init__(self) -> None:
        self._open: dict[Link, dict[str, LinkGap]] = {}
        #: Gaps that are not on disk as they are now.
        self._changed: set[tuple[Link, str]] = set()

    @property
    def links(self) -> Collection[Link]:
        """The links that have a gap."""
        return self._open.keys()

    def add(self, link: Link, namespace: str, first: EventId, count: int = 1) -> None:
        """Count events of a namespace that are not sent; ``first`` is the first of them."""
        gaps = self._open.setdefault(link, {})
        known = gaps.get(namespace)
        gaps[namespace] = (
            LinkGap(namespace, first, count)
            if known is None
            else msgspec.structs.replace(known, count=known.count + count)
        )
        self._changed.add((link, namespace))

    def take_changes(self) -> list[Effect]:
        """Return what to persist of what was counted since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return [
            records.LINK_GAP.put(link, namespace, value=msgspec.msgpack.encode(self._open[link][namespace]))
            for link, namespace in changed
        ]

    def of(self, link: Link) -> list[LinkGap]:
        """Return the gaps of a link, by namespace."""
        return [gap for _, gap in sorted(self._open.get(link, {}).items())]

    def forget(self, link: Link) -> list[Effect]:
        """Drop the gaps of a link that is removed; its neighbour is not told."""
        self._changed = {place for place in self._changed if place[0] != link}
        return [records.LINK_GAP.drop(link, namespace) for namespace in sorted(self._open.pop(link, {}))]

    def close(self, link: Link) -> list[Effect]:
        """Tell a neighbour what it was not sent, and send again."""
        effects: list[Effect] = []
        for namespace, gap in sorted(self._open.pop(link, {}).items()):
            self._changed.discard((link, namespace))
            effects += [records.LINK_GAP.drop(link, namespace), Send(link, gap)]
        return effects

    def restore(self, stored: Mapping[Key, bytes], neighbours: Collection[Link]) -> None:
        """Take back the gaps of neighbours that an earlier life persisted."""
        for (link, namespace), value in records.LINK_GAP.items(stored):
            if link in neighbours:
                self._open.setdefault(link, {})[namespace] = msgspec.msgpack.decode(value, type=LinkGap)
