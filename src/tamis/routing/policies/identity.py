"""Filters without reduction: every one (*every*), or equal ones once (*identity*). Baselines for the other policies."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.index.dominance.batches import Questions
from tamis.model.subscription import Filter, Subscription
from tamis.routing.core.summary import NewGroup, Placement, Wanted

__all__ = ["EveryStrategy", "IdentityStrategy"]


class EveryStrategy:
    """Each subscription is announced by itself."""

    finder = None

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return None: each subscription is its own home."""
        return None

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the subscription itself."""
        return NewGroup(subscription)

    def place(self, keys: Sequence[str], questions: Questions) -> Placement:
        """Return each subscription as its own home; none of them is compiled."""
        return Placement(list(keys), dict.fromkeys(range(len(keys)), ()))

    def opened(self, content: Subscription) -> None:
        """Do nothing: nothing depends on groups."""

    def closed(self, content: Wanted) -> None:
        """Do nothing: nothing depends on groups."""


class IdentityStrategy:
    """A home is a group with the same filters."""

    finder = None

    def __init__(self) -> None:
        self._keys: dict[tuple[Filter, ...], str] = {}

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return the group with the same filters."""
        key = self._keys.get(subscription.filters)
        return None if key is None else (key,)

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the subscription itself."""
        return NewGroup(subscription)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: one by one is as quick."""

    def opened(self, content: Subscription) -> None:
        """Note a new group."""
        self._keys[content.filters] = str(content.id)

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""
        if self._keys.get(content.filters) == content.id:
            del self._keys[content.filters]
