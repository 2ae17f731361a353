"""The routing table of a broker: who asks for what, where an event goes, and what each neighbour must hear.

*Interests* are what came in: the subscriptions of clients, and the entries that neighbours announced. From them follow
both directions. Inwards, a matcher per namespace says which neighbours and which clients want an event. Outwards, one
`Summary` per neighbour and namespace has the interests of everybody but that neighbour as its members (promise
R3), and says what to announce and retract.

A neighbour that has not spoken yet is taken to want everything (promise R6: when in doubt, forward).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np

from tamis.errors import InvariantError
from tamis.index.counting import CountingMatcher
from tamis.index.protocols import Guarantee, Lookup, Matcher, demand
from tamis.index.registry import DEFAULT_MATCHER, MATCHERS
from tamis.model.schema import Event, Schema
from tamis.model.subscription import EVERYTHING, Subscription
from tamis.model.tables import EventTable
from tamis.node.effects import Link
from tamis.routing.core.counters import Counters
from tamis.routing.core.summary import Changes, Origin, Summary
from tamis.routing.policies import CellOptions, Policy
from tamis.routing.policies.cell_tables import USUAL_CELLS, CellTables
from tamis.routing.policies.two_stage import TwoStageTable

__all__ = ["ALL_NAMESPACES", "Readers", "RoutingTable"]

#: The namespace of an entry that asks for every event of every namespace. No client may use it.
ALL_NAMESPACES = "*"

#: Events of a batch, and subscriptions of clients, from which on they meet as one table.
SMALL_BATCH, SMALL_TABLE = 16, 129

#: The clients that want an event, each with its subscriptions that match.
Readers = dict[Link, list[Subscription]]

#: What a neighbour asks for that wants every event.
_ALL = Subscription("*", (EVERYTHING,), None, ALL_NAMESPACES)


@dataclass
class _Namespace:
    """The matchers of one namespace: neighbours by link, in one stage or in two, and clients' subscriptions by row."""

    clients: Matcher
    neighbours: CountingMatcher = field(default_factory=CountingMatcher)
    staged: dict[Link, TwoStageTable] = field(default_factory=dict)

    def next_hops(self, event: Event, came_from: Link) -> set[Link]:
        """Return the neighbours with a filter that matches."""
        found = set(map(str, self.neighbours.next_hops(event, came_from)))
        found.update(link for link, table in self.staged.items() if link != came_from and table.wants(event))
        return found


class RoutingTable:
    """The interests of a broker's neighbours and clients; ``neighbours`` gives the policy of each link.

    ``counters`` note what the tables did, by link; ``cells`` are those of links that are told ranges by others.
    """

    def __init__(
        self,
        neighbours: Mapping[Link, Policy],
        schema: Schema,
        make_matcher: Callable[[Lookup], Matcher] = MATCHERS[DEFAULT_MATCHER],
        counters: Mapping[Link, Counters] | None = None,
        cells: CellOptions = USUAL_CELLS,
    ) -> None:
        self._neighbours = dict(neighbours)
        self._counters = counters or {link: Counters() for link in neighbours}
        self._make_matcher = make_matcher
        #: ``{source: {key: subscription}}``: exactly what each client and neighbour asks for now.
        self._interests: dict[Link, dict[str, Subscription]] = {link: {} for link in neighbours}
        #: Neighbours that have not said yet what they ask for.
        self.unspoken: set[Link] = set(neighbours)
        self._summaries: dict[Link, dict[str, Summary]] = {link: {} for link in neighbours}
        #: What came and goes as ranges of cells.
        self.cells = CellTables(schema, {link: policy.cells for link, policy in neighbours.items()}, cells)
        self._namespaces: dict[str, _Namespace] = {}
        self._rows: dict[Origin, int] = {}
        self._origins: dict[int, Origin] = {}
        self._next_row = 0

    def note_spoken(self, link: Link) -> None:
        """Take note that a neighbour has said all it asks for."""
        self.unspoken.discard(link)

    def n_entries(self, source: Link) -> int:
        """Return how many filters and ranges a neighbour asks for."""
        ranges = (one for _, spaces in self.cells.ranges(source) for one in spaces)
        return len(self.interests(source)) + sum(map(len, ranges))

    def interests(self, source: Link) -> Mapping[str, Subscription]:
        """Return what a client or neighbour asks for, by key."""
        return self._interests.get(source, {})

    def clients(self) -> list[Link]:
        """Return the clients that ask for something."""
        return [source for source, held in self._interests.items() if held and source not in self._neighbours]

    def put(self, source: Link, key: str, subscription: Subscription) -> None:
        """Add an interest, or change the one under this key."""
        held = self._interests.setdefault(source, {})
        if key in held:
            if (held[key].filters, held[key].namespace) == (subscription.filters, subscription.namespace):
                held[key] = subscription
                return
            self.drop(source, key)
        held[key] = subscription
        origin = Origin(source, key)
        self._admit(origin, subscription)
        announced = subscription if subscription.id == key else replace(subscription, id=key)
        for link in self._others(source):
            if self._neighbours[link].cells:
                self.cells.add(link, origin, announced)
            else:
                self._summary(link, subscription.namespace).add(origin, announced)

    def drop(self, source: Link, key: str) -> None:
        """Remove an interest; KeyError when it is not there."""
        subscription = self._interests[source].pop(key)
        origin = Origin(source, key)
        self._expel(origin, subscription)
        for link in self._others(source):
            if self._neighbours[link].cells:
                self.cells.remove(link, origin, subscription.namespace)
            else:
                self._summary(link, subscription.namespace).remove(origin)

    def put_ranges(self, source: Link, namespace: str, plan: Any) -> None:
        """Take over what a neighbour says about its ranges in a namespace."""
        self.cells.apply(source, namespace, plan, list(self._others(source)))

    def take_changes(self, link: Link) -> Changes:
        """Return what a neighbour has to learn since the last call."""
        changes = Changes()
        for summary in self._summaries[link].values():
            found = summary.take_changes()
            changes.announce += found.announce
            changes.retract += found.retract
            changes.again |= found.again
        changes.plans = self.cells.take_plans(link)
        return changes

    def contents(self, link: Link) -> Iterator[Subscription]:
        """Yield everything a neighbour must hold."""
        if self._neighbours[link].floods:
            yield _ALL
        for summary in self._summaries[link].values():
            yield from summary.contents()

    def summaries(self, link: Link) -> Iterable[Summary]:
        """Return the summaries of a link, one per namespace."""
        return self._summaries[link].values()

    def next_hops(self, event: Event, namespace: str, came_from: Link) -> list[Link]:
        """Return the neighbours that want an event, sorted; the one it came from is never among them."""
        wanted = set(self.unspoken)
        for name in (namespace, ALL_NAMESPACES):
            if name in self._namespaces:
                wanted |= self._namespaces[name].next_hops(event, came_from)
            wanted.update(self.cells.wanting(event, name, {came_from, *wanted}))
        wanted.discard(came_from)
        return sorted(wanted)

    def readers(self, event: Event, namespace: str) -> Readers:
        """Return the clients that want an event, each with its subscriptions that match; exact."""
        home = self._namespaces.get(namespace)
        return {} if home is None else self._readers(home.clients.match(event).tolist())

    def readers_of_batch(self, events: Sequence[Event], namespace: str, schema: Schema) -> list[Readers]:
        """Return the readers of each event; many events meet many subscriptions as one table."""
        home = self._namespaces.get(namespace)
        if home is None or len(events) < SMALL_BATCH or len(home.clients) < SMALL_TABLE:
            return [self.readers(event, namespace) for event in events]
        table = EventTable.of(_columns(events, schema), schema, presence=True)
        offsets, rows = (found.tolist() for found in home.clients.match_table(table))
        bad = table.bad  # a column has no place for a long decimal
        return [
            self.readers(event, namespace) if i in bad else self._readers(sorted(rows[offsets[i] : offsets[i + 1]]))
            for i, event in enumerate(events)
        ]

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless each neighbour is told of all interests of the others, and of no more."""
        self.cells.check_invariants()
        known = {Origin(source, key) for source, held in self._interests.items() for key in held}
        for link, policy in self._neighbours.items():
            for summary in self._summaries[link].values():
                summary.check_invariants(exact=policy.exact)
            told = {origin for summary in self._summaries[link].values() for origin, _ in summary.members()}
            told |= self.cells.origins(link)
            due = set() if policy.floods else {origin for origin in known if origin.source != link}
            if told != due:
                more, less = sorted(told - due), sorted(due - told)
                raise InvariantError(f"link {link!r} was told too much, {more}, or too little, {less}")
        for table in (one for home in self._namespaces.values() for one in home.staged.values()):
            table.check_invariants()
        if self._rows.keys() != known:
            raise InvariantError(f"the matchers know {sorted(self._rows.keys() ^ known)} wrongly")

    def _readers(self, rows: Sequence[int]) -> Readers:
        readers: Readers = {}
        for row in rows:
            origin = self._origins[row]
            readers.setdefault(origin.source, []).append(self._interests[origin.source][origin.key])
        return readers

    def _others(self, source: Link) -> Iterator[Link]:
        """Yield the neighbours that must hear of what a source asks for; never the source itself."""
        return (link for link, policy in self._neighbours.items() if link != source and not policy.floods)

    def _summary(self, link: Link, namespace: str) -> Summary:
        summaries = self._summaries[link]
        if namespace not in summaries:
            summaries[namespace] = Summary(self._neighbours[link].make())
        return summaries[namespace]

    def _admit(self, origin: Origin, subscription: Subscription) -> None:
        row, home = self._next_row, self._namespace(subscription.namespace)
        self._next_row += 1
        self._rows[origin], self._origins[row] = row, origin
        stages = self._neighbours[origin.source].stages if origin.source in self._neighbours else None
        if stages is not None:
            if origin.source not in home.staged:
                home.staged[origin.source] = TwoStageTable(stages, self._counters[origin.source])
            home.staged[origin.source].add(row, subscription)
        elif origin.source in self._neighbours:
            home.neighbours.add(row, subscription, origin.source)
        else:
            home.clients.add(row, subscription)

    def _expel(self, origin: Origin, subscription: Subscription) -> None:
        row, home = self._rows.pop(origin), self._namespace(subscription.namespace)
        del self._origins[row]
        if origin.source in home.staged:
            home.staged[origin.source].remove(row)
        else:
            (home.neighbours if origin.source in self._neighbours else home.clients).remove(row)

    def _namespace(self, name: str) -> _Namespace:
        if name not in self._namespaces:
            matcher = self._make_matcher(self._find)
            demand(Guarantee.EXACT, matcher.guarantee)
            self._namespaces[name] = _Namespace(matcher)
        return self._namespaces[name]

    def _find(self, row: int) -> Subscription | None:
        origin = self._origins.get(row)
        return None if origin is None else self._interests[origin.source].get(origin.key)


def _columns(events: Sequence[Event], schema: Schema) -> dict[str, Any]:
    """Return the values of events by name, None where there is none."""
    names = set(schema).union(*events)
    if all(len(event) == len(names) for event in events):  # all have the same: read without a question
        return {name: _column(list(map(itemgetter(name), events))) for name in sorted(names)}
    return {name: _column([event.get(name) for event in events]) for name in sorted(names)}


def _column(values: list[Any]) -> Any:
    """Return values as a column; floats and gaps become an array, which is read as a whole."""
    kinds = set(map(type, values))
    return np.array(values, dtype=np.float64) if float in kinds and kinds <= {float, type(None)} else values
