"""The routing table of a broker: all interests, where an event goes, and what each neighbour must be sent.

*Interests* are the subscriptions of clients, and the entries that neighbours announced. Both directions follow from
them: for events, each namespace has an index of all clients' subscriptions, which finds those that match, and an index
for each neighbour, which stops at the first filter that matches; for announcements, one `Summary` per neighbour and
namespace has the interests of all except that neighbour as its members (promise R3), and decides what to announce and
retract.

A neighbour that has not sent its table yet is assumed to want everything (promise R6: when in doubt, forward).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.engine.shelf import MergeAtOnce, Merging, Shelf
from tamis.engine.text_batch import LazyBatch
from tamis.errors import InvariantError
from tamis.index.dominance.batches import Questions
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import EventMatcher, Lookup
from tamis.model.schema import Event, Schema
from tamis.model.subscription import EVERYTHING, Subscription, SubscriptionId
from tamis.node.effects import Link, Persist
from tamis.routing.core.counters import Counters
from tamis.routing.core.event_batch import EventBatch
from tamis.routing.core.interest import Interest, Interests, NamedInterest, ReadInterests
from tamis.routing.core.summary import Changes, Origin, Summary, Wanted
from tamis.routing.policies import CellOptions, Policy
from tamis.routing.policies.cell_tables import USUAL_CELLS, CellTables, is_sent
from tamis.routing.policies.two_stage import TwoStageTable

__all__ = [
    "ALL_NAMESPACES",
    "MatchedNeighbours",
    "Readers",
    "RoutingTable",
    "TableChanges",
    "fill_summaries",
    "n_entries",
]

#: The namespace of an entry that matches every event of every namespace. No client may use it.
ALL_NAMESPACES = "*"

#: With at least this many subscriptions of clients, or filters of a neighbour, a batch is matched as a table.
SMALL_TABLE = 129

#: The most events times subscriptions that are matched at once if the result has a limit: all of them may match.
MOST_PAIRS = 8_000_000

#: The clients that want an event, each with its subscriptions that match.
Readers = dict[Link, list[Interest]]

#: The filter of a neighbour that wants every event.
_ALL = Subscription("*", (EVERYTHING,), None, ALL_NAMESPACES)

_NO_INTERESTS: Final = Interests()


@dataclass
class _Space:
    """One namespace: the subscriptions of all clients, and the filters of each neighbour, by key."""

    clients: Shelf
    links: dict[Link, Shelf] = field(default_factory=dict)

    @property
    def is_large(self) -> bool:
        """Whether a neighbour has enough filters that a batch of events is best matched as a table."""
        return any(len(shelf) >= SMALL_TABLE for shelf in self.links.values())

    def origins(self, client_of: Mapping[SubscriptionId, Link]) -> Iterator[Origin]:
        """Yield the origins of all subscriptions on the shelves; two-stage tables check their invariants."""
        yield from (Origin(client_of[subscription.id], str(subscription.id)) for subscription in self.clients)
        for link, shelf in self.links.items():
            yield from (Origin(link, str(subscription.id)) for subscription in shelf)
            if isinstance(shelf.now.matcher, TwoStageTable):
                shelf.now.matcher.check_invariants()


class _Summaries(dict[str, Summary]):
    """The summaries of one link by namespace; created on first use."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __missing__(self, namespace: str) -> Summary:
        summary = self[namespace] = Summary(self._policy.make())
        return summary


class MatchedNeighbours(Enum):
    """Which neighbours are matched: all, those whose filters another thread may read, or the others."""

    ALL = "all"
    BESIDE = "beside"
    HERE = "here"


@dataclass(eq=False)
class TableChanges:
    """The changes of the table while another thread read it."""

    #: Keys of clients' subscriptions that were replaced: a reader may have seen neither the old nor the new one.
    replaced: set[str] = field(default_factory=set)
    #: Neighbours whose entries changed.
    links: set[Link] = field(default_factory=set)


class RoutingTable:
    """The interests of a broker's neighbours and clients; ``neighbours`` gives the policy of each link.

    ``counters`` count the work of the tables, by link; ``cells`` are the cells used if no policy of a link has any.
    ``merging`` runs the merges of the indexes; without it they run at once.
    """

    def __init__(
        self,
        neighbours: Mapping[Link, Policy],
        schema: Schema,
        counters: dict[Link, Counters] | None = None,
        cells: CellOptions = USUAL_CELLS,
        merging: Merging | None = None,
    ) -> None:
        self._neighbours = dict(neighbours)
        self._merging = MergeAtOnce() if merging is None else merging
        self._counters = {link: Counters() for link in neighbours} if counters is None else counters
        #: ``{source: {key: interest}}``: exactly the current interests of each client and neighbour.
        self._interests: dict[Link, Interests] = {link: Interests() for link in neighbours}
        #: Removed neighbours with entries that are still announced to the others.
        self.leaving: set[Link] = set()
        #: ``{new neighbour: interests that may be missing in its summaries}``: it is sent its table when none are left.
        self.filling: dict[Link, deque[Origin]] = {}
        #: Neighbours that have not sent their table yet.
        self.unspoken: set[Link] = set(neighbours)
        self.summaries = {link: _Summaries(policy) for link, policy in neighbours.items()}
        #: Received and sent ranges of cells.
        self.cells = CellTables(schema, {link: policy.cells for link, policy in neighbours.items()}, cells)
        self._namespaces: dict[str, _Space] = {}
        #: ``{key: client}`` of every interest of a client: keys contain the client's name, so no two clients share one.
        self.client_of: dict[SubscriptionId, Link] = {}
        #: Records of changes, one for each thread that reads the table.
        self.watches: list[TableChanges] = []

    def add_neighbour(self, link: Link, policy: Policy) -> None:
        """Add a neighbour that has not sent its table; `fill_summaries` assembles the table that it is sent."""
        if link in self.leaving:  # its new entries would be withdrawn with the old ones
            raise InvariantError(f"link {link!r} is added while its former entries are withdrawn")
        self.cells.add_link(link, policy.cells, is_sent_ranges=not policy.floods)
        self._neighbours[link] = policy
        self._counters.setdefault(link, Counters())
        self._interests[link], self.summaries[link] = Interests(), _Summaries(policy)
        self.unspoken.add(link)
        if not policy.floods:
            self.filling[link] = deque(
                Origin(source, key) for source, interests in self._interests.items() for key in interests
            )

    def remove_neighbour(self, link: Link) -> list[Persist]:
        """Stop sending to a neighbour; it is in `leaving` until its entries are dropped, one by one.

        Returns what to persist of its ranges, which are dropped at once.
        """
        for changes in self.watches:
            changes.links.add(link)
        withdrawn = self.cells.remove_link(link, list(self._others(link)))
        for name, space in list(self._namespaces.items()):
            space.links.pop(link, None)
            _drop_empty(self._namespaces, name)
        del self._neighbours[link], self.summaries[link]
        self.unspoken.discard(link)
        self.filling.pop(link, None)
        if self._interests[link]:
            self.leaving.add(link)
        else:
            del self._interests[link]
        return withdrawn

    def interests(self, source: Link) -> Interests:
        """Return the interests of a client or neighbour, by key; only this table changes them."""
        return self._interests.get(source, _NO_INTERESTS)

    def clients(self) -> list[Link]:
        """Return the clients that have interests."""
        brokers = self._neighbours.keys() | self.leaving
        return [source for source, interests in self._interests.items() if interests and source not in brokers]

    def put_many(self, interests: Sequence[tuple[Link, str, Interest]], read: ReadInterests | None = None) -> None:
        """Add or replace interests, in order; new ones are added to the indexes together.

        ``read`` has them compiled; those that it lists as bad are skipped.
        """
        read = ReadInterests([interest for _, _, interest in interests]) if read is None else read
        added: dict[Origin, int] = {}
        for position, (source, key, interest) in enumerate(interests):
            if position in read.bad:
                continue
            current = self._interests.setdefault(source, Interests())
            if key in current:
                if current[key].says_same(interest):
                    current.put(key, interest)
                    continue
                self._admit(read, added)  # the interest to be replaced may be among these
                added = {}
                self.drop(source, key)
                for changes in self.watches:
                    changes.replaced.add(key)
            current.put(key, interest)
            added[Origin(source, key)] = position
        self._admit(read, added)

    def drop(self, source: Link, key: str) -> None:
        """Remove an interest; KeyError if there is none."""
        for changes in self.watches if source in self._neighbours else ():
            changes.links.add(source)
        subscription = self._interests[source].take(key)
        origin = Origin(source, key)
        if source not in self.leaving:
            self._shelf(source, subscription.namespace).remove(key)
            _drop_empty(self._namespaces, subscription.namespace, source)
            if source not in self._neighbours:  # a neighbour may know a client of the same name elsewhere
                del self.client_of[key]
        for link in self._others(source):
            if self._neighbours[link].cells:
                if link not in self.filling or is_sent(self.cells, link, origin, subscription.namespace):
                    self.cells.remove(link, origin, subscription.namespace)
            elif link not in self.filling or origin in self.summaries[link][subscription.namespace].members:
                self.summaries[link][subscription.namespace].remove(origin)
        if source in self.leaving and not self._interests[source]:
            del self._interests[source]
            self.leaving.discard(source)

    def put_ranges(self, source: Link, namespace: str, plan: Any) -> None:
        """Apply a plan of a neighbour's ranges in a namespace."""
        for changes in self.watches:
            changes.links.add(source)
        self.cells.apply(source, namespace, plan, list(self._others(source)))

    def take_changes(self, link: Link) -> Changes:
        """Return the changes for a neighbour since the last call."""
        changes = Changes()
        for namespace, summary in list(self.summaries[link].items()):
            taken = summary.take_changes()
            if not (summary.members or summary or summary.is_busy):  # a new one would be the same
                del self.summaries[link][namespace]
            changes.announce += taken.announce
            changes.retract += taken.retract
            changes.again |= taken.again
        changes.plans = self.cells.take_plans(link)
        return changes

    def contents(self, link: Link) -> Iterator[Wanted]:
        """Yield everything a neighbour must hold."""
        if self._neighbours[link].floods:
            yield _ALL
        for summary in self.summaries[link].values():
            yield from summary.contents()

    def next_hops(
        self, event: Event, namespace: str, came_from: Link, part: MatchedNeighbours = MatchedNeighbours.ALL
    ) -> list[Link]:
        """Return the neighbours that want an event, sorted, without the one it came from."""
        hops: set[Link] = set() if part is MatchedNeighbours.BESIDE else set(self.unspoken)
        for name in (namespace, ALL_NAMESPACES):
            links = _links_of(self._namespaces, name)
            if part is not MatchedNeighbours.ALL:
                is_beside = part is MatchedNeighbours.BESIDE
                links = {link: shelf for link, shelf in list(links.items()) if _has_readers(shelf) == is_beside}
            candidates = (link for link in links if link not in hops and link != came_from)
            hops.update([link for link in candidates if links[link].matches_any(event)])
            if part is not MatchedNeighbours.BESIDE:
                hops.update(self.cells.wanting(event, name, {came_from, *hops}))
        hops.discard(came_from)
        return sorted(hops)

    def next_hops_of_batch(self, batch: EventBatch, came_from: Link) -> list[list[Link]]:
        """Return the next hops of each event; each neighbour's filters are matched once, with all events."""
        names = (batch.namespace, ALL_NAMESPACES)
        is_large = any(space.is_large for space in map(self._namespaces.get, names) if space is not None)
        if batch.is_small or not (is_large or any(map(self.cells.are_wanted, names))):
            return [self.next_hops(event, batch.namespace, came_from) for event in batch.events]
        hops: list[list[Link]] = [[] for _ in batch.events]
        for link in sorted(self._neighbours.keys() - {came_from}):
            for i in np.flatnonzero(self._wanted_by(link, batch)).tolist():
                hops[i].append(link)
        for i in batch.table.bad:
            hops[i] = self.next_hops(batch.events[i], batch.namespace, came_from)
        return hops

    def matching_of_batch(self, batch: EventBatch, limit: int | None = None) -> list[list[SubscriptionId]]:
        """Return the keys of the clients' subscriptions that match each event; many events are matched as a table.

        With ``limit`` the list ends after the event at which the total of keys reaches it, or earlier.
        """
        space = self._namespaces.get(batch.namespace)
        if space is None:
            return [[] for _ in batch.events]
        if limit is not None:
            batch = batch.head(max(1, MOST_PAIRS // max(1, len(space.clients))))
        if batch.is_small or len(space.clients) < SMALL_TABLE:
            return list(_up_to(map(space.clients.match, batch.events), limit))
        matches, bad = space.clients.match_table(batch.table, limit), batch.table.bad
        return [space.clients.match(batch.events[i]) if i in bad else keys for i, keys in enumerate(matches)]

    def group(self, keys: Iterable[SubscriptionId]) -> Readers:
        """Return the subscriptions under these keys by client; those that have ended are left out."""
        readers: Readers = {}
        for key in keys:
            client = self.client_of.get(key)
            if client is not None:
                readers.setdefault(client, []).append(self._interests[client][str(key)])
        return readers

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the summary of each neighbour has exactly the interests of the others."""
        self.cells.check_invariants()
        origins = {Origin(source, key) for source, interests in self._interests.items() for key in interests}
        for link, policy in self._neighbours.items():
            for summary in self.summaries[link].values():
                summary.check_invariants(exact=policy.exact)
            summarised = {origin for summary in self.summaries[link].values() for origin in summary.members}
            summarised |= self.cells.origins(link)
            due = set() if policy.floods else {origin for origin in origins if origin.source != link}
            if summarised != due and not (link in self.filling and summarised < due):
                surplus, missing = sorted(summarised - due), sorted(due - summarised)
                raise InvariantError(f"the summary of link {link!r} has {surplus} without reason, or lacks {missing}")
        shelved = {origin for space in self._namespaces.values() for origin in space.origins(self.client_of)}
        if shelved != (due := {origin for origin in origins if origin.source not in self.leaving}):
            raise InvariantError(f"the matchers and the table of interests differ in {sorted(shelved ^ due)}")

    def _others(self, source: Link) -> Iterator[Link]:
        """Yield the neighbours that must be sent the interests of a source; never the source itself."""
        return (link for link, policy in self._neighbours.items() if link != source and not policy.floods)

    def _wanted_by(self, link: Link, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """Return for each event of a batch whether a neighbour wants it; bad rows of its table are undecided."""
        is_wanted = np.full(len(batch), link in self.unspoken)
        for name in (batch.namespace, ALL_NAMESPACES):
            table = _links_of(self._namespaces, name).get(link)
            if table is not None and len(table) and not is_wanted.all():
                is_wanted |= table.matches_any_of(batch.table)
            if not is_wanted.all():
                is_wanted |= self.cells.wanted_of(link, name, batch.table)
        return is_wanted

    def _admit(self, read: ReadInterests, added: Mapping[Origin, int]) -> None:
        """Put new interests, given by their positions in ``read``, into the indexes and the summaries."""
        shelves: dict[int, tuple[Shelf, list[tuple[int, Origin]]]] = {}
        for origin, position in added.items():
            if origin.source not in self._neighbours:
                self.client_of[origin.key] = origin.source
            shelf = self._shelf(origin.source, self._interests[origin.source][origin.key].namespace)
            shelves.setdefault(id(shelf), (shelf, []))[1].append((position, origin))
        for shelf, arrivals in shelves.values():
            chosen = [(position, origin.key) for position, origin in arrivals]
            batch = read.batch(shelf.now.name, chosen)
            if batch is not None and shelf.now.roles.columns is not None:
                shelf.add_lazy(batch)
            else:
                shelf.add([read.named(position, key) for position, key in chosen])
            links = list(self._others(arrivals[0][1].source))
            self._summarise([origin for _, origin in arrivals], shelf.now.name, batch, links)

    def _summarise(
        self, origins: Sequence[Origin], namespace: str, batch: LazyBatch | None, links: Sequence[Link]
    ) -> None:
        """Put interests into the summaries of the neighbours that must be sent them.

        All are of clients, or all of one neighbour; ``batch`` has them as columns, if they are many.
        """
        if not links:
            return
        interests = [NamedInterest(origin.key, self._interests[origin.source][origin.key]) for origin in origins]
        arrivals, questions = list(zip(origins, interests, strict=True)), None
        for link in links:
            if self._neighbours[link].cells:
                for origin, interest in arrivals:
                    self.cells.add(link, origin, interest.made())
            elif batch is not None:
                questions = _questions(interests, batch) if questions is None else questions
                self.summaries[link][namespace].add_many(arrivals, questions)
            else:
                for origin, interest in arrivals:
                    self.summaries[link][namespace].add(origin, interest)

    def _shelf(self, source: Link, namespace: str) -> Shelf:
        """Return the shelf with the interests of a client or neighbour."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = _Space(Shelf(namespace, PackedMatcher, self._merging))
        space = self._namespaces[namespace]
        if source not in self._neighbours:
            return space.clients
        if source not in space.links:
            space.links[source] = Shelf(
                namespace, partial(_link_matcher, self._neighbours[source], self._counters[source]), self._merging
            )
        return space.links[source]


def _links_of(namespaces: Mapping[str, _Space], name: str) -> Mapping[Link, Shelf]:
    """Return the filters of each neighbour in a namespace; another thread may drop the namespace meanwhile."""
    space = namespaces.get(name)
    return {} if space is None else space.links


def _drop_empty(namespaces: dict[str, _Space], name: str, source: Link | None = None) -> None:
    """Drop the shelf of a neighbour if it is empty, and the namespace if no shelf is left in it."""
    space = namespaces[name]
    if source in space.links and not space.links[source]:
        del space.links[source]
    if not space.links and not space.clients:
        del namespaces[name]


def fill_summaries(table: RoutingTable, limit: int) -> bool:
    """Put up to ``limit`` interests into the summaries of each new neighbour; return whether any was incomplete."""
    was_filling = bool(table.filling)
    for link, waiting in list(table.filling.items()):
        groups: dict[tuple[Link, str], list[Origin]] = {}
        for origin in (waiting.popleft() for _ in range(min(limit, len(waiting)))):
            interest = table.interests(origin.source).get(origin.key)  # it may have ended, or changed since
            if interest is None or is_sent(table.cells, link, origin, interest.namespace):
                continue
            if origin not in table.summaries[link][interest.namespace].members:
                neighbour = "" if origin.key in table.client_of else origin.source
                groups.setdefault((neighbour, interest.namespace), []).append(origin)
        for (_, namespace), origins in groups.items():
            read = ReadInterests([table.interests(origin.source)[origin.key] for origin in origins])
            batch = read.batch(namespace, [(i, origin.key) for i, origin in enumerate(origins)])
            table._summarise(origins, namespace, batch, [link])
        if not waiting:
            del table.filling[link]
    return was_filling


def n_entries(table: RoutingTable, source: Link) -> int:
    """Return the number of filters and ranges of a neighbour."""
    ranges = (runs for _, spaces in table.cells.ranges(source) for runs in spaces)
    return len(table.interests(source)) + sum(map(len, ranges))


def _has_readers(shelf: Shelf) -> bool:
    """Whether another thread may read a shelf while this one changes it."""
    return isinstance(shelf.now.matcher, PackedMatcher)


def _questions(interests: Sequence[NamedInterest], batch: LazyBatch) -> Questions:
    """Return the interests of a batch as questions; those that are not columns are compiled already."""
    subscriptions: list[Wanted] = list(interests)
    for row, subscription in batch.others:
        subscriptions[row] = subscription
    return Questions(subscriptions, batch.columns)


def _up_to(lists: Iterable[list[SubscriptionId]], limit: int | None) -> Iterator[list[SubscriptionId]]:
    """Yield lists until the total of their items reaches ``limit``; None: all of them."""
    count = 0
    for keys in lists:
        yield keys
        count += len(keys)
        if limit is not None and count >= limit:
            return


def _link_matcher(policy: Policy, counters: Counters, lookup: Lookup) -> EventMatcher:
    """Return the index of a neighbour's filters."""
    return PackedMatcher(lookup) if policy.stages is None else TwoStageTable(policy.stages, counters)
