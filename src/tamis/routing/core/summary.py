"""The filters announced on a link: a small set that represents many subscriptions.

A broker keeps one `Summary` per outgoing link and namespace. Its *members* are the subscriptions that the neighbour
must know of: all except the neighbour's own (promise R3). Its *groups* are the filters that were announced to it. Each
member has a *home*: one group that contains it, or several that contain it together. A `Strategy`, the policy of the
link, finds homes and makes groups; this module does the bookkeeping, which is the same for covering, subsumption and
merging:

* a group whose filter was built from a member (its *contributor*) ends when that member leaves, and the remaining
  members look for a home again (promises R8, R9; the passive list of the papers);
* a new group takes over the members of the groups it absorbs.

All changes between two calls of `take_changes` are one change for the neighbour: the difference between what it had and
what it must have; announcements come before retractions (promise R2).

A change moves at most `SLICE` members from one home to another, however many there are (promise R14). A group is
*ending* until its last member has found another home: it accepts no new members, but stays announced, so that nothing
is lost meanwhile. The remaining work is done in further calls of `advance`. Nothing of this is on disk: a broker that
restarts builds its summaries from its interests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tamis.algebra.covers import is_covered
from tamis.errors import InvariantError
from tamis.index.dominance.batches import Questions
from tamis.index.protocols import CoveringIndex
from tamis.model.subscription import Subscription
from tamis.routing.core.interest import NamedInterest

__all__ = [
    "SLICE",
    "Changes",
    "NewGroup",
    "Origin",
    "Placement",
    "Strategy",
    "Summary",
    "Wanted",
    "find_content",
    "finder_of",
    "keys_of_contents",
]

#: Members that one change may move to another home; each takes up to half a millisecond.
SLICE = 64


#: A subscription under its key.
Wanted = Subscription | NamedInterest


class Origin(NamedTuple):
    """Where a member comes from: the client or neighbour, and the key it has there."""

    source: str
    key: str


class NewGroup(NamedTuple):
    """A new group: its filter, the keys of the groups it is merged from, and those of other groups that it covers."""

    content: Subscription
    absorbed: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()


class Placement(NamedTuple):
    """The homes of subscriptions that were added together.

    ``homes`` has the key of a group for each subscription; a subscription with its own key is a new group. ``covered``
    are the keys of older groups that a new group covers, by position; ``contents`` are the filters of new groups that
    differ from their subscription.
    """

    homes: list[str]
    covered: dict[int, tuple[str, ...]]
    contents: Mapping[int, Subscription] = MappingProxyType({})


class Strategy(Protocol):
    """Decides about the groups of one link, for a policy. It may miss a home, but never return a wrong one."""

    @property
    def finder(self) -> CoveringIndex | None:
        """The index that proposes covers, if there is one."""

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups that provably contain a subscription together; None if none were found."""

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the group to make for a subscription that has no home."""

    def opened(self, content: Subscription) -> None:
        """Note a new group; its key is ``content.id``."""

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""

    def place(self, keys: Sequence[str], questions: Questions) -> Placement | None:
        """Find homes for many subscriptions at once and note the new groups; None: call `find_homes` for each.

        ``keys`` are the keys of the questions if they become groups; no group has one of them yet.
        """


@dataclass
class Changes:
    """The changes for a neighbour: announced filters, retracted keys, and plans of ranges by namespace.

    With ``again`` there is more to do: call `Summary.advance` soon.
    """

    announce: list[Wanted] = field(default_factory=list)
    retract: list[str] = field(default_factory=list)
    plans: list[tuple[str, bytes]] = field(default_factory=list)
    again: bool = False

    def __bool__(self) -> bool:
        return bool(self.announce or self.retract or self.plans)


@dataclass(eq=False)
class _Group:
    """An announced filter, its members, and the members it was built from."""

    content: Wanted
    members: dict[Origin, None]
    contributors: set[Origin]
    #: Whether it accepts members: it is not ending, and no other group has absorbed it.
    is_open: bool = True


@dataclass(eq=False)
class _Ending:
    """An ending group, and its members that may still need another home, the next one last."""

    group: _Group
    members: list[Origin]


@dataclass(eq=False)
class _Absorbing:
    """A group, and the groups that it covers and has to absorb, the next one last."""

    group: _Group
    covered: list[_Group]


@dataclass
class _Member:
    subscription: Wanted
    homes: tuple[str, ...]


class Summary:
    """The members and groups of one outgoing link in one namespace."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        #: ``{key: group}``: exactly the filters that the neighbour has after applying everything sent to it.
        self._groups: dict[str, _Group] = {}
        #: ``{origin: member}``: exactly the subscriptions that the neighbour must know of; its homes list it.
        self.members: dict[Origin, _Member] = {}
        #: The number of members that are not announced themselves.
        self.n_suppressed = 0
        #: The remaining work, in order of arrival.
        self._tasks: deque[_Ending | _Absorbing] = deque()
        #: How many more members may move before changes are taken.
        self._left = SLICE
        #: Whether `take_changes` asked for `advance`, and it was not called yet.
        self._is_due = False
        #: ``{key: filter}`` of the groups touched since changes were last taken: the filters at that time.
        self._before: dict[str, Wanted | None] = {}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def is_busy(self) -> bool:
        """Whether `advance` has something to do."""
        return bool(self._tasks)

    def add(self, origin: Origin, subscription: Wanted) -> None:
        """Add a member: it gets a home, or is announced."""
        self._settle(origin, subscription)
        self._work()

    def add_many(self, arrivals: Sequence[tuple[Origin, Wanted]], questions: Questions) -> None:
        """Add many members; ``questions`` are their filters, in the same order."""
        free = [i for i, (origin, _) in enumerate(arrivals) if origin.key not in self._groups]
        fresh = [arrivals[i] for i in free]
        fresh_questions = questions if len(free) == len(arrivals) else questions.take(free)
        placement = self._strategy.place([origin.key for origin, _ in fresh], fresh_questions)
        if placement is None:
            free, fresh, placement = [], [], Placement([], {})
        for i, covered in placement.covered.items():
            origin, content = fresh[i]
            self._begin(origin, placement.contents.get(i, content), (), covered)
        for (origin, subscription), key in zip(fresh, placement.homes, strict=True):
            self._move_in(origin, subscription, (key,))
        for i in sorted(set(range(len(arrivals))).difference(free)):
            self._settle(*arrivals[i])
        self._work()

    def _settle(self, origin: Origin, interest: Wanted) -> None:
        """Give a member a home."""
        subscription = interest if isinstance(interest, Subscription) else interest.made()
        homes = self._strategy.find_homes(subscription)
        if homes is None:
            keyed = _with_free_key(origin, subscription, self._groups)
            group = self._groups.get(str(keyed.id))
            is_open = group is not None and group.is_open
            homes = (str(keyed.id),)
            if not is_open:
                growth = self._strategy.grow(keyed)
                self._begin(origin, *growth)
                self._strategy.opened(growth.content)
                homes = (str(growth.content.id),)
        self._move_in(origin, interest, homes)

    def _move_in(self, origin: Origin, subscription: Wanted, homes: tuple[str, ...]) -> None:
        self.members[origin] = _Member(subscription, homes)
        self.n_suppressed += homes != (origin.key,)
        for key in homes:
            self._groups[key].members[origin] = None

    def remove(self, origin: Origin) -> None:
        """Remove a member; members that only its group represented are announced."""
        homes = self._leave(origin)
        for key in homes:
            group = self._groups.get(key)
            if group is not None and group.is_open and origin in group.contributors:
                self._dissolve(group)
        self._work()

    def advance(self) -> None:
        """Continue the remaining work, as far as one change may go."""
        self._is_due = False
        self._work()

    def _work(self) -> None:
        while self._tasks and self._left > 0:
            task = self._tasks[0]
            is_done = self._move_members(task) if isinstance(task, _Ending) else self._absorb_covered(task)
            if is_done:
                self._tasks.popleft()

    def take_changes(self) -> Changes:
        """Return the changes for the neighbour since the last call."""
        changes, previous = Changes(), self._before
        self._before, self._left = {}, SLICE
        changes.again = self.is_busy and not self._is_due
        self._is_due = self.is_busy
        for key, content in previous.items():
            group = self._groups.get(key)
            if group is None and content is not None:
                changes.retract.append(key)
            elif group is not None and (content is None or _differ(content, group.content)):
                changes.announce.append(group.content)
        return changes

    def contents(self) -> Iterator[Wanted]:
        """Yield everything the neighbour must hold."""
        return (group.content for group in self._groups.values())

    def suppressed(self, only: Origin | None = None) -> Iterator[tuple[Origin, tuple[str, ...]]]:
        """Yield the members that are not announced themselves, each with its homes; or ``only`` this one."""
        origins = self.members if only is None else [only] if only in self.members else []
        for origin in origins:
            if (homes := self.members[origin].homes) != (origin.key,):
                yield origin, homes

    def check_invariants(self, *, exact: bool) -> None:
        """Raise `InvariantError` unless the groups match all that the members match and, if ``exact``, nothing more.

        This checks promises R1 and R5 for one link by two inclusions: every member provably lies in its homes, and
        every group in the members it was built from.
        """
        for origin, member in self.members.items():
            homes = [self._groups[key] for key in member.homes]
            if not all(origin in home.members for home in homes):
                raise InvariantError(f"{origin} is not a member of its homes {member.homes}")
            outer = [filter for home in homes for filter in home.content.filters]
            if not is_covered(member.subscription.filters, outer):
                raise InvariantError(f"{origin} is withheld, but {member.homes} do not contain it")
        if self.n_suppressed != sum(1 for _ in self.suppressed()):
            raise InvariantError(f"{self.n_suppressed} members are counted as suppressed, which is not their number")
        ending = [task.group for task in self._tasks if isinstance(task, _Ending)]
        for key, group in self._groups.items():
            if not group.is_open:
                if group not in ending or not group.members.keys() <= self.members.keys():
                    raise InvariantError(f"group {key!r} is ending, but no task moves its members")
                continue
            if not group.contributors <= group.members.keys() <= self.members.keys():
                raise InvariantError(f"group {key!r} is stale: built from {sorted(group.contributors)}")
            parts = [filter for origin in group.contributors for filter in self.members[origin].subscription.filters]
            if exact and not is_covered(group.content.filters, parts):
                raise InvariantError(f"group {key!r} matches more than its parts {sorted(group.contributors)}")

    def _begin(
        self, origin: Origin, content: Wanted, absorbed: tuple[str, ...] = (), covered: tuple[str, ...] = ()
    ) -> None:
        """Make the group of a member; it replaces the groups that it is merged from or that it covers."""
        key = str(content.id)
        parts = [self._groups[old_key] for old_key in absorbed]
        inner = [self._groups[old_key] for old_key in covered]
        group = _Group(content, {}, {origin}.union(*(part.contributors for part in parts)))
        ending = self._groups.get(key)  # it has the same filter, so its members can stay
        self._before.setdefault(key, _content_of(self._groups.get(key)))
        self._groups[key] = group
        if ending is not None:
            group.members |= ending.members
        for part in parts:
            self._absorb(group, part)
        if inner:
            self._tasks.append(_Absorbing(group, inner[::-1]))

    def _absorb(self, group: _Group, part: _Group) -> None:
        """End a group and move its members to another one."""
        key, old_key = str(group.content.id), str(part.content.id)
        self._before.setdefault(old_key, _content_of(self._groups.get(old_key)))
        del self._groups[old_key]
        part.is_open = False
        self._strategy.closed(part.content)
        group.members |= part.members
        for origin in part.members:
            member = self.members[origin]
            self.n_suppressed -= member.homes != (origin.key,)
            member.homes = tuple(dict.fromkeys(key if home == old_key else home for home in member.homes))
            self.n_suppressed += member.homes != (origin.key,)

    def _absorb_covered(self, task: _Absorbing) -> bool:
        """Absorb groups that a group covers as long as members may move; return whether none is left."""
        while task.covered and self._left > 0 and task.group.is_open:
            part = task.covered.pop()
            if not part.is_open:
                continue
            if len(part.members) <= SLICE:
                self._left -= 1 + len(part.members)
                self._absorb(task.group, part)
            else:  # its members find their new home one by one
                self._left -= 1
                self._dissolve(part)
        return not task.covered or not task.group.is_open

    def _dissolve(self, group: _Group) -> None:
        """Start to end a group; its members look for a home again, in order if they are few."""
        self._strategy.closed(group.content)
        group.is_open = False
        is_small = len(group.members) <= SLICE
        self._tasks.append(_Ending(group, sorted(group.members, reverse=True) if is_small else list(group.members)))

    def _move_members(self, task: _Ending) -> bool:
        """Find other homes for members of an ending group as long as members may move; return whether it has ended."""
        group, key = task.group, str(task.group.content.id)
        while task.members and self._left > 0 and self._groups.get(key) is group:
            origin = task.members.pop()
            if origin in group.members:
                self._left -= 1
                subscription = self.members[origin].subscription
                self._leave(origin)
                self._settle(origin, subscription)
        if self._groups.get(key) is not group:  # a new group with the same filter has taken over its members
            return True
        if not task.members:
            self._before.setdefault(key, _content_of(self._groups.get(key)))
            del self._groups[key]
        return not task.members

    def _leave(self, origin: Origin) -> tuple[str, ...]:
        homes = self.members.pop(origin).homes
        self.n_suppressed -= homes != (origin.key,)
        for key in homes:
            if key in self._groups:
                del self._groups[key].members[origin]
        return homes


def keys_of_contents(summary: Summary) -> list[str]:
    """Return the keys of everything the neighbour must hold."""
    return list(summary._groups)


def finder_of(summary: Summary) -> CoveringIndex | None:
    """Return the index that proposes covers, if the policy of the link has one."""
    return summary._strategy.finder


def find_content(summary: Summary, key: str) -> Wanted | None:
    """Return the filter that the neighbour must hold under a key; None if there is none."""
    return _content_of(summary._groups.get(key))


def _with_free_key(origin: Origin, subscription: Subscription, groups: Mapping[str, _Group]) -> Subscription:
    """Return the subscription under a key that no group with another filter has, ending groups included."""
    key = str(subscription.id)
    while (group := groups.get(key)) is not None and group.content.filters != subscription.filters:
        key = f"{key}@{origin.source}"
    return subscription if key == str(subscription.id) else replace(subscription, id=key)


def _differ(old: Wanted, new: Wanted) -> bool:
    return old is not new and old.filters != new.filters


def _content_of(group: _Group | None) -> Wanted | None:
    return None if group is None else group.content
