"""Every filter as it is, equal ones each (*every*) or once (*identity*): the yardsticks of the other policies."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.index.dominance.batches import Questions
from tamis.model.subscription import Filter, Subscription
from tamis.routing.core.summary import Growth, Wanted

__all__ = ["Every", "Identity"]


class Every:
    """Nothing stands for anything: each subscription is announced."""

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return None: there is no home but one's own."""
        return None

    def grow(self, subscription: Subscription) -> Growth:
        """Return the subscription itself."""
        return Growth(subscription)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: one by one is as quick."""

    def opened(self, content: Subscription) -> None:
        """Take note of a new group: nothing depends on it."""

    def closed(self, content: Wanted) -> None:
        """Take note that a group has ended: nothing depended on it."""


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

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: one by one is as quick."""

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        self._keys[content.filters] = str(content.id)

    def closed(self, content: Wanted) -> None:
        """Take note that a group has ended."""
        if self._keys.get(content.filters) == content.id:
            del self._keys[content.filters]
