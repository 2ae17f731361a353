"""An event on its way through brokers or peers."""

from __future__ import annotations

import msgspec

from tamis.node.vocabulary import Count

__all__ = ["EventId", "Published"]


class EventId(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, order=True, gc=False):
    """The publisher of an event, the life of the publisher, and the number of the event in that life."""

    publisher: str
    epoch: Count
    seq: Count


class Published(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An event under way; ``payload`` is the same bytes from its publisher to each of its readers."""

    id: EventId
    namespace: str
    payload: bytes
