"""Events that were dropped because a link was full or skipped, by namespace (promise G23).

The first event that is dropped opens a gap. The events of a link are dropped from the oldest on, so the gap is before
all that wait behind the outbox. When that moves on, the neighbour first gets a `LinkGap`, tells its clients, and passes
it on: every event that a client behind the link may have missed is counted in the gaps that the client is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tamis.node import records
from tamis.node.effects import Effect, Key, Link, Persist, Send
from tamis.node.vocabulary import MAX_COUNT
from tamis.routing.messages import EventId, LinkGap, Message, Publish
from tamis.routing.policies import Policy

__all__ = ["AddLink", "LinkGaps", "RemoveLink", "SkipLink"]


@dataclass(frozen=True)
class SkipLink:
    """Stop sending events over a link, or resume. It never crosses a wire."""

    link: Link
    is_skipped: bool


@dataclass(frozen=True)
class AddLink:
    """Add a link to a broker; ``record`` is the change that persists it.

    ``drops`` says whether the oldest events are dropped while the link is full, ``namespaces`` are those that may cross
    it, None: all. ``resent`` are messages that wait for the link ``dead`` and are sent over this one, too.
    """

    link: Link
    policy: Policy
    record: Persist
    drops: bool = False
    namespaces: frozenset[str] | None = None
    resent: tuple[Any, ...] = ()
    dead: Link = ""


@dataclass(frozen=True)
class RemoveLink:
    """Remove a neighbour, with its entries and all messages that wait for it."""

    link: Link
    record: Persist


class LinkGaps:
    """The open gaps of a broker's links."""

    def __init__(self) -> None:
        self._open: dict[Link, dict[str, LinkGap]] = {}
        #: Gaps whose current state is not on disk.
        self._changed: set[tuple[Link, str]] = set()

    @property
    def links(self) -> Collection[Link]:
        """The links that have a gap."""
        return self._open.keys()

    def add(self, link: Link, namespace: str, first: EventId, count: int = 1) -> None:
        """Count events of a namespace that are dropped; ``first`` is the first of them."""
        gaps = self._open.setdefault(link, {})
        open_gap = gaps.get(namespace)
        gaps[namespace] = (
            LinkGap(namespace, first, count)
            if open_gap is None
            else msgspec.structs.replace(open_gap, count=min(open_gap.count + count, MAX_COUNT))
        )
        self._changed.add((link, namespace))

    def add_all(self, link: Link, messages: Iterable[Message]) -> int:
        """Count the events of messages that are dropped, and those of gaps among them; return how many events it is."""
        n = 0
        for message in messages:
            if isinstance(message, LinkGap):
                self.add(link, message.namespace, message.first, message.count)
            events = (message.event,) if isinstance(message, Publish) else getattr(message, "events", ())
            for event in events:
                self.add(link, event.namespace, event.id)
            n += len(events)
        return n

    def take_changes(self) -> list[Effect]:
        """Return the changes of gaps since the last call, to persist."""
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
        self._changed = {key for key in self._changed if key[0] != link}
        return [records.LINK_GAP.drop(link, namespace) for namespace in sorted(self._open.pop(link, {}))]

    def close(self, link: Link) -> list[Effect]:
        """Close the gaps of a link: return the messages that report them to the neighbour."""
        effects: list[Effect] = []
        for namespace, gap in sorted(self._open.pop(link, {}).items()):
            self._changed.discard((link, namespace))
            effects += [records.LINK_GAP.drop(link, namespace), Send(link, gap)]
        return effects

    def restore(self, stored: Mapping[Key, bytes], neighbours: Collection[Link]) -> None:
        """Restore the gaps of neighbours that an earlier life persisted."""
        for (link, namespace), value in records.LINK_GAP.items(stored):
            if link in neighbours:
                self._open.setdefault(link, {})[namespace] = msgspec.msgpack.decode(value, type=LinkGap)
