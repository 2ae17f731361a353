"""What a link carries: a small set of filters that stands for many subscriptions.

A broker keeps one `Summary` per outgoing link and namespace. Its *members* are the subscriptions that the neighbour
must know of, which are those from everywhere but this neighbour (promise R3); its *groups* are the filters that
were announced to it. Each member is at home in one group that contains it, or in several that contain it together.
A `Strategy`, the policy of the link, finds homes and makes groups; this module keeps the books, and they are the same
for covering, subsumption and merging:

* a group whose filter was built from a member (its *contributor*) ends when that member leaves, and the members that
  are left look for a home again (promises R8, R9; the passive list of the papers);
* a new group takes over the members of the groups it absorbs.

Whatever happens between two calls of `take_changes` is one change for the neighbour: the difference between what it
had and what it must have, announced before it is retracted (promise R2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from tamis.algebra.covers import is_covered
from tamis.errors import InvariantError
from tamis.model.subscription import Subscription

__all__ = ["Changes", "Growth", "Origin", "Strategy", "Summary"]


class Origin(NamedTuple):
    """Where a member comes from: the client or neighbour, and the key it has there."""

    source: str
    key: str


class Growth(NamedTuple):
    """A new group: its filter, and the keys of the groups that it absorbs."""

    content: Subscription
    absorbed: tuple[str, ...] = ()


class Strategy(Protocol):
    """What a policy decides about the groups of one link. It may fail to see a home, never invent one."""

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups that together contain a subscription, proved; None when none were found."""

    def grow(self, subscription: Subscription) -> Growth:
        """Return the group to make for a subscription that has no home."""

    def opened(self, content: Subscription) -> None:
        """Take note of a new group; its key is ``content.id``."""

    def closed(self, content: Subscription) -> None:
        """Take note that a group has ended."""


@dataclass
class Changes:
    """What a neighbour has to learn: filters by key, then the keys that end; and plans of ranges by namespace."""

    announce: list[Subscription] = field(default_factory=list)
    retract: list[str] = field(default_factory=list)
    plans: list[tuple[str, bytes]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.announce or self.retract or self.plans)


@dataclass
class _Group:
    """An announced filter, the members at home in it, and those it was built from."""

    content: Subscription
    members: dict[Origin, None]
    contributors: set[Origin]


@dataclass
class _Member:
    subscription: Subscription
    homes: tuple[str, ...]


class Summary:
    """The members and groups of one outgoing link in one namespace."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        #: ``{key: group}``: exactly what the neighbour holds once it has applied everything sent to it.
        self._groups: dict[str, _Group] = {}
        #: ``{origin: member}``: exactly what the neighbour must know of; each home is a group with it in its members.
        self._members: dict[Origin, _Member] = {}
        #: How many members were never announced themselves.
        self.n_suppressed = 0
        #: ``{key: filter}``: what the neighbour had when changes were last taken, of the groups touched since.
        self._before: dict[str, Subscription | None] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, origin: Origin, subscription: Subscription) -> None:
        """Let the neighbour know of a subscription, one way or the other."""
        homes = self._strategy.find_homes(subscription)
        if homes is None:
            own = self._with_free_key(origin, subscription)
            taken = self._groups.get(str(own.id))
            homes = (self._open(origin, self._strategy.grow(own), own) if taken is None else str(own.id),)
        self._members[origin] = _Member(subscription, homes)
        self.n_suppressed += homes != (origin.key,)
        for key in homes:
            self._groups[key].members[origin] = None

    def remove(self, origin: Origin) -> None:
        """Forget a subscription; what it alone kept from the neighbour is announced."""
        homes = self._leave(origin)
        for key in homes:
            group = self._groups.get(key)
            if group is not None and origin in group.contributors:
                self._dissolve(key, group)

    def take_changes(self) -> Changes:
        """Return what changed for the neighbour since the last call."""
        changes, before = Changes(), self._before
        self._before = {}
        for key, old in before.items():
            group = self._groups.get(key)
            if group is None and old is not None:
                changes.retract.append(key)
            elif group is not None and (old is None or old.filters != group.content.filters):
                changes.announce.append(group.content)
        return changes

    def contents(self) -> Iterator[Subscription]:
        """Yield everything the neighbour must hold."""
        return (group.content for group in self._groups.values())

    def suppressed(self) -> Iterator[tuple[Origin, tuple[str, ...]]]:
        """Yield the members that were never announced themselves, and who stands for them."""
        for origin, member in self._members.items():
            if member.homes != (origin.key,):
                yield origin, member.homes

    def stand_ins(self, origin: Origin) -> tuple[str, ...]:
        """Return who stands for a member that was never announced itself; nothing for any other."""
        member = self._members.get(origin)
        return () if member is None or member.homes == (origin.key,) else member.homes

    def members(self) -> Iterator[tuple[Origin, Subscription]]:
        """Yield everything the neighbour must know of."""
        return ((origin, member.subscription) for origin, member in self._members.items())

    def check_invariants(self, *, exact: bool) -> None:
        """Raise `InvariantError` unless the groups say what the members say, no less and, if ``exact``, no more.

        A rebuild from the members would say the same; so this is promises R1 and R5 for one link, by two
        inclusions: every member is proved to lie in its homes, every group in the members it was built from.
        """
        for origin, member in self._members.items():
            homes = [self._groups[key] for key in member.homes]
            if not all(origin in home.members for home in homes):
                raise InvariantError(f"{origin} does not live where it says: {member.homes}")
            outer = [filter for home in homes for filter in home.content.filters]
            if not is_covered(member.subscription.filters, outer):
                raise InvariantError(f"{origin} is withheld, but {member.homes} do not contain it")
        if self.n_suppressed != sum(1 for _ in self.suppressed()):
            raise InvariantError(f"{self.n_suppressed} members are counted as suppressed, which is not their number")
        for key, group in self._groups.items():
            if not group.contributors or not group.contributors <= group.members.keys() <= self._members.keys():
                raise InvariantError(f"group {key!r} is stale: built from {sorted(group.contributors)}")
            parts = [filter for one in group.contributors for filter in self._members[one].subscription.filters]
            if exact and not is_covered(group.content.filters, parts):
                raise InvariantError(f"group {key!r} says more than {sorted(group.contributors)}, its parts")

    def _with_free_key(self, origin: Origin, subscription: Subscription) -> Subscription:
        """Return the subscription under a key that no group with another filter has."""
        taken = self._groups.get(str(subscription.id))
        if taken is None or taken.content.filters == subscription.filters:
            return subscription
        return replace(subscription, id=f"{subscription.id}@{origin.source}")

    def _open(self, origin: Origin, growth: Growth, subscription: Subscription) -> str:
        content, absorbed = growth
        key = str(content.id)
        contributors = {origin}
        members: dict[Origin, None] = {}
        for old in absorbed:
            group = self._close(old)
            members |= group.members
            if content is not subscription:  # a merge is built from all its parts
                contributors |= group.contributors
        for one in members:
            held = self._members[one]
            self.n_suppressed -= held.homes != (one.key,)
            held.homes = tuple(dict.fromkeys(key if home in absorbed else home for home in held.homes))
            self.n_suppressed += held.homes != (one.key,)
        self._touch(key)
        self._groups[key] = _Group(content, members, contributors)
        self._strategy.opened(content)
        return key

    def _close(self, key: str) -> _Group:
        self._touch(key)
        group = self._groups.pop(key)
        self._strategy.closed(group.content)
        return group

    def _dissolve(self, key: str, group: _Group) -> None:
        """End a group; its members look for a home again, in order, so that the outcome is the same everywhere."""
        self._close(key)
        orphans = {origin: self._members[origin].subscription for origin in sorted(group.members)}
        for origin in orphans:
            self._leave(origin)
        for origin, subscription in orphans.items():
            self.add(origin, subscription)

    def _leave(self, origin: Origin) -> tuple[str, ...]:
        homes = self._members.pop(origin).homes
        self.n_suppressed -= homes != (origin.key,)
        for key in homes:
            if key in self._groups:
                del self._groups[key].members[origin]
        return homes

    def _touch(self, key: str) -> None:
        if key not in self._before:
            group = self._groups.get(key)
            self._before[key] = None if group is None else group.content
