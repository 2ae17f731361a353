"""Identity: equal filters are announced once, all others as they are. The yardstick of the other policies."""

from __future__ import annotations

from tamis.model.subscription import Filter, Subscription
from tamis.routing.summary import Growth

__all__ = ["Identity"]


class Identity:
    """A home is a group with the same filters."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Filter, ...], str] = {}

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return the group with the same filters."""
        key = self._keys.get(subscription.filters)
        return None if key is None else (key,)

    def grow(self, subscription: Subscription) -> Growth:
        """Return the subscription itself."""
        return Growth(subscription)

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        self._keys[content.filters] = str(content.id)

    def closed(self, content: Subscription) -> None:
        """Take note that a group has ended."""
        if self._keys.get(content.filters) == content.id:
            del self._keys[content.filters]
