"""The counting matcher: Siena fast forwarding.

A *forwarding table* holds every constraint once, in an index of its kind, with the filters that use it
(`table`). An event is put to the indexes; each satisfied constraint adds one to the counter of each filter
that uses it, and a filter whose counter reaches the number of its constraints is complete.

Filters belong to groups: the filters of one subscription to its *row*, those of all subscriptions behind
one link to that *interface*. A group is a disjunction, so it is matched when one of its filters is complete;
from then on its other filters are not counted, and when all groups are matched the search ends.
`match` counts by row, `next_hops` by interface. Such a stop saves most when the event matches nearly
everywhere, which is what happens in the middle of a broker network.

Cheap constraints (hash and binary search) are asked first. Those that cost (LIKE, balls, regions) are asked
only where the answer matters: a filter that uses them belongs to a group that is not matched yet, and all
its cheap constraints were satisfied.

A missing attribute satisfies the constraints whose sets contain the missing value, so every indexed
attribute is looked at, in the event or not. A filter without constraints gets one that always holds. A filter
with a ``rest``, or with a constraint whose index only proposes, is confirmed by `tamis.algebra.evaluate.matches`.

Implements: [crtree] section 2.2, the Siena Fast Forwarding algorithm (SFF).
Deviation: a constraint is a set of values, a pattern, a region or a ball, where SFF has one comparison; a
range is one constraint, not two.
Deviation: indexed attributes are visited kind by kind, the cheap kinds first, where SFF follows the
attributes of the message; absence can satisfy a constraint, and costly constraints may be spared.
Deviation: filters come and go; SFF's table is built once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Literal

import numpy as np

from tamis.algebra.evaluate import matches
from tamis.errors import InvariantError
from tamis.index.counting.table import DEFAULT_INDEXES, ConstraintTable, CountedFilter, Indexes
from tamis.index.protocols import Guarantee, IndexStatistics, MatchRows, Rows, match_each
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable

__all__ = ["CountingMatcher", "Interface"]

#: A broker's name for the link to a neighbour or a client.
Interface = int | str

#: The position in `CountedFilter.groups` of the group that is counted.
_ROW: Literal[0] = 0
_INTERFACE: Literal[1] = 1


class CountingMatcher:
    """Finds rows, or interfaces, by counting satisfied constraints.

    Guarantee: EXACT. An event costs half a microsecond or so for each satisfied constraint of each filter,
    `match_table` as much per event. It is for the lab and for brokers with few filters; when not to use it:
    beyond some ten thousand filters, above all when events satisfy many of them in part. The packed matcher
    is for millions.

    Parameters
    ----------
    indexes
        How the constraint index of each kind is made; see `tamis.index.counting.constraint_index`.

    Examples
    --------
    >>> from tamis.model.subscription import Filter, Subscription, Values
    >>> from tamis.model.value_set import ValueSet
    >>> def below(price):
    ...     return Subscription(price, (Filter((Values("price", ValueSet.between(None, (price, 0))),)),))
    >>> matcher = CountingMatcher()
    >>> matcher.add(0, below(10), interface="north")
    >>> matcher.add(1, below(20), interface="north")
    >>> matcher.add(2, below(30), interface="south")
    >>> matcher.match({"price": 5}), matcher.next_hops({"price": 5}), matcher.next_hops({"price": 25})
    (array([0, 1, 2], dtype=int32), ['north', 'south'], ['south'])
    """

    guarantee = Guarantee.EXACT

    def __init__(self, indexes: Indexes = DEFAULT_INDEXES) -> None:
        self._table = ConstraintTable(indexes)
        #: ``{row: its filters}``; none: the subscription never matches.
        self._rows: dict[int, list[CountedFilter]] = {}
        #: ``{group: number of its filters}`` by row and by interface, none 0: what can be matched at all.
        self._groups: tuple[dict[Interface, int], dict[Interface, int]] = ({}, {})
        self._n_counted = 0
        self._n_verified = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, subscription: Subscription, interface: Interface | None = None) -> None:
        """Add a subscription under a free row, behind an interface.

        Without one the row is its own interface, under its number; so where rows without an interface stand beside
        others, let the interfaces of those be strings.
        """
        if row in self._rows:
            raise KeyError(f"row {row} is taken")
        groups = (row, row if interface is None else interface)
        self._rows[row] = [CountedFilter(groups, filter) for filter in subscription.filters]
        for counted in self._rows[row]:
            # First the groups: a reader that meets the filter must not think that all groups are matched.
            for group, sizes in zip(groups, self._groups, strict=True):
                sizes[group] = sizes.get(group, 0) + 1
            self._table.add(counted)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        for counted in self._rows.pop(row):
            self._table.remove(counted)
            for group, sizes in zip(counted.groups, self._groups, strict=True):
                sizes[group] -= 1
                if not sizes[group]:
                    del sizes[group]

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        return np.array(sorted(self._matched(event, _ROW)), dtype=np.int32)

    def next_hops(self, event: Event, came_from: Interface | None = None) -> list[Interface]:
        """Return the interfaces with a subscription that matches, sorted: numbers, then strings.

        Nothing is counted for ``came_from``, which is never among them.
        """
        spared = set() if came_from is None else {came_from}
        return sorted(
            self._matched(event, _INTERFACE, spared), key=lambda interface: (isinstance(interface, str), interface)
        )

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table, one event after the other; a bad row matches nothing."""
        return match_each(self.match, events)

    def statistics(self) -> IndexStatistics:
        """Return the contents and the counters.

        ``evaluations`` are single constraints evaluated, ``counted`` steps of counters, ``verified`` complete
        counts that raw values had to confirm. With several readers at once they may fall behind.
        """
        details = {
            "filters": sum(map(len, list(self._rows.values()))),
            "constraints": len(self._table),
            "postings": self._table.n_postings,
            "interfaces": len(self._groups[_INTERFACE]),
            "evaluations": self._table.evaluations,
            "counted": self._n_counted,
            "verified": self._n_verified,
        }
        return IndexStatistics("counting", len(self), details)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless postings, reference counts and groups are those of the filters held."""
        self._table.check_invariants()
        filters = [counted for held in self._rows.values() for counted in held]
        if sum(len(counted.numbers) for counted in filters) != self._table.n_postings:
            raise InvariantError(f"{self._table.n_postings} postings of {len(filters)} filters")
        for counted in filters:
            if not all(counted in self._table.users.get(number, ()) for number in counted.numbers):
                raise InvariantError(f"a filter of row {counted.groups[_ROW]} is missing under a constraint")
        for by, sizes in enumerate(self._groups):
            if sizes != Counter(counted.groups[by] for counted in filters):
                raise InvariantError(f"groups {sizes} are not those of the filters")

    def _matched(self, event: Event, by: Literal[0, 1], spared: Set[Interface] = frozenset()) -> set[Interface]:
        """Return the groups with a filter that matches; those spared are left out."""
        matched, counts = set(spared), dict[CountedFilter, int]()
        if not matched.issuperset(list(self._groups[by])):
            self._count(event, by, matched, counts)
        self._n_counted += sum(counts.values())
        return matched - spared

    def _count(
        self, event: Event, by: Literal[0, 1], matched: set[Interface], counts: dict[CountedFilter, int]
    ) -> None:
        """Count satisfied constraints until all are evaluated or every group is in ``matched``."""
        groups, users = self._groups[by], self._table.users

        def wanted(number: int) -> bool:
            waiting = (user for user in list(users.get(number, ())) if user.groups[by] not in matched)
            return any(counts.get(user, 0) >= user.n_cheap for user in waiting)

        for number in self._table.satisfied(event, wanted):
            for user in list(users.get(number, ())):
                group = user.groups[by]
                if group in matched:
                    continue
                counts[user] = count = counts.get(user, 0) + 1
                if count >= user.needed and self._confirms(event, user):
                    matched.add(group)
                    if len(matched) >= len(groups) and matched.issuperset(list(groups)):
                        return

    def _confirms(self, event: Event, counted: CountedFilter) -> bool:
        if not counted.proposes:
            return True
        self._n_verified += 1
        return matches(event, counted.filter)
