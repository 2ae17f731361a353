"""The part of a routing table that is ranges of cells: what MICS links say and hear.

On such a link a neighbour is told no filters, only which keys of a Hilbert curve somebody asks for, and how that set
changes: ranges that come, then ranges that go, in one step (PAPERS M.3.5). A broker that got ranges passes ranges on,
for it knows no filters to pass. It passes them on every link, whatever the link's policy does with filters.

Cells round outwards, so a link is told too much, never too little. They are never used to withhold a filter (PAPERS
M.3.7), and the last broker matches exactly (M.3.8). A neighbour whose cells are others than ours is forwarded all
events until it has sent its table anew (RELIABILITY R10); the receivers of `tamis.index.mics` see to that.

Implements: [mics] section 2, one table per neighbour; section 3.6, imperfect merging by a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from tamis.errors import InvariantError, LimitError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Boolean, Number
from tamis.node.effects import Link
from tamis.routing.summary import Origin

__all__ = ["CellSummary", "CellTables", "space_of"]

#: Attributes that the curve runs through; events that differ in others share cells.
MAX_AXES = 3
#: Cells of an attribute are 2 to the power of this.
BITS = 6


def space_of(schema: Schema) -> Any:
    """Return the cells of a schema: those of the first attributes that are numbers with a domain, or booleans."""
    from tamis.index.mics.space import ContentSpace  # late: it loads numba

    def has_cells(name: str) -> bool:
        kind = schema[name]
        return isinstance(kind, Boolean) or (isinstance(kind, Number) and None not in (kind.lo, kind.hi))

    return ContentSpace.from_schema(schema, [name for name in schema if has_cells(name)][:MAX_AXES], BITS)


class CellSummary:
    """What a broker tells one neighbour in one namespace: the union of the ranges of its members."""

    def __init__(self, space: Any, gap: int = 0) -> None:
        from tamis.index.mics.table import RangeTable

        self.space = space
        self._table = RangeTable(space.n_keys, gap)
        #: ``{origin: ranges}``: exactly what lies in the table.
        self._ranges: dict[Origin, Any] = {}
        #: What the neighbour has to hear; None: nothing.
        self._plan: Any = None

    def put(self, origin: Origin, ranges: Any) -> None:
        """Let the neighbour know of ranges, in place of those of the same origin."""
        gained = self._table.add(ranges)
        old = self._ranges.get(origin)
        self._ranges[origin] = ranges
        self._note(gained, None if old is None else self._table.remove(old))

    def drop(self, origin: Origin) -> None:
        """Forget the ranges of an origin."""
        self._note(None, self._table.remove(self._ranges.pop(origin)))

    def take_plan(self) -> bytes | None:
        """Return what has changed for the neighbour since the last call."""
        plan, self._plan = self._plan, None
        return None if plan is None or plan.is_empty else _written(self.space, plan)

    def snapshot(self) -> bytes:
        """Return everything the neighbour must hold."""
        return _written(self.space, _plan(self.space, self._table.ranges(), None, is_full=True))

    def ranges(self) -> Any:
        """Return the union."""
        return self._table.ranges()

    def origins(self) -> Set[Origin]:
        """Return where the ranges come from."""
        return self._ranges.keys()

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the table is the union of the members' ranges."""
        self._table.check_invariants()
        if not all(self._table.covers(ranges) for ranges in self._ranges.values()):
            raise InvariantError("ranges of a member are not in the union")
        if not self._ranges and not self._table.is_empty:
            raise InvariantError("ranges are left without a member")

    def _note(self, gained: Any, lost: Any) -> None:
        plan = _plan(self.space, gained, lost)
        self._plan = plan if self._plan is None else self._plan.then(plan)


class CellTables:
    """The ranges that neighbours asked for, and those that each of them is told; ``gaps`` by link."""

    def __init__(self, schema: Schema, gaps: dict[Link, int]) -> None:
        self._schema = schema
        self._gaps = gaps
        self._made: Any = None
        #: ``{neighbour: {namespace: receiver}}``: what each neighbour asked for as ranges.
        self._asked: dict[Link, dict[str, Any]] = {link: {} for link in gaps}
        #: The same as plain ranges, everything for a receiver that is lost; namespaces without any are left out.
        self._ranges: dict[Link, dict[str, Any]] = {link: {} for link in gaps}
        #: ``{neighbour: {namespace: summary}}``: what each neighbour is told as ranges.
        self._told: dict[Link, dict[str, CellSummary]] = {link: {} for link in gaps}

    @property
    def _space(self) -> Any:
        if self._made is None:
            self._made = space_of(self._schema)
        return self._made

    # Outwards

    def add(self, link: Link, origin: Origin, subscription: Subscription) -> None:
        """Tell a neighbour of a subscription, as ranges."""
        self._summary(link, subscription.namespace).put(origin, self._space.ranges_of(subscription))

    def remove(self, link: Link, origin: Origin, namespace: str) -> None:
        """Tell a neighbour that a subscription has ended."""
        self._summary(link, namespace).drop(origin)

    def take_plans(self, link: Link) -> list[tuple[str, bytes]]:
        """Return what changed for a neighbour, by namespace."""
        plans = [(namespace, summary.take_plan()) for namespace, summary in self._told[link].items()]
        return [(namespace, plan) for namespace, plan in plans if plan is not None]

    def snapshots(self, link: Link) -> list[tuple[str, bytes]]:
        """Return everything a neighbour must hold, by namespace."""
        return [(name, summary.snapshot()) for name, summary in self._told[link].items() if summary.origins()]

    def origins(self, link: Link) -> set[Origin]:
        """Return whose subscriptions a neighbour is told of as ranges; ranges that are passed on have no key."""
        return {origin for summary in self._told[link].values() for origin in summary.origins() if origin.key}

    # Inwards

    def read(self, plan: bytes) -> Any:
        """Read what a neighbour says about its ranges; ModelError when it is nothing of the kind."""
        from tamis.index.mics.plan import RangePlan

        return RangePlan.from_bytes(plan)

    def apply(self, source: Link, namespace: str, plan: Any, others: Iterable[Link]) -> None:
        """Take over what a neighbour says, and tell the others."""
        receiver = self._receiver(source, namespace)
        receiver.apply(plan)
        ranges = self._space.everything if receiver.is_lost else receiver.ranges()[0]
        self._ranges[source].pop(namespace, None)
        if len(ranges):
            self._ranges[source][namespace] = ranges
        for link in others:
            if len(ranges):
                self._summary(link, namespace).put(Origin(source, ""), ranges)
            elif Origin(source, "") in self._summary(link, namespace).origins():
                self._summary(link, namespace).drop(Origin(source, ""))

    def empty_plan(self) -> Any:
        """Return the plan of a neighbour that asks for nothing."""
        return _plan(self._space, None, None, is_full=True)

    def namespaces(self, source: Link) -> list[str]:
        """Return the namespaces in which a neighbour asks for ranges."""
        return sorted(self._ranges[source])

    def stored(self, source: Link, namespace: str) -> bytes | None:
        """Return what a neighbour asked for as it is kept on disk; None: nothing."""
        ranges = self._ranges[source].get(namespace)
        return None if ranges is None else _written(self._space, _plan(self._space, ranges, None, is_full=True))

    def ranges(self, source: Link) -> Iterator[tuple[str, Any]]:
        """Yield what a neighbour asked for, by namespace."""
        return iter(sorted(self._ranges[source].items()))

    def told(self, link: Link) -> Iterator[tuple[str, Any]]:
        """Yield what a neighbour was told, by namespace."""
        return ((namespace, summary.ranges()) for namespace, summary in sorted(self._told[link].items()))

    def wanting(self, event: Event, namespace: str, spared: Set[Link]) -> Iterator[Link]:
        """Yield the neighbours with a range around an event; those spared are not asked."""
        for link, ranges in self._ranges.items():
            if namespace in ranges and link not in spared and self._asked[link][namespace].matches(event):
                yield link

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every table is the union of what lies in it."""
        for summaries in self._told.values():
            for summary in summaries.values():
                summary.check_invariants()

    def _summary(self, link: Link, namespace: str) -> CellSummary:
        told = self._told[link]
        if namespace not in told:
            told[namespace] = CellSummary(self._space, self._gaps[link])
        return told[namespace]

    def _receiver(self, source: Link, namespace: str) -> Any:
        from tamis.index.mics.link import RangeReceiver

        asked = self._asked[source]
        if namespace not in asked:
            asked[namespace] = RangeReceiver([self._space])
        return asked[namespace]


def _plan(space: Any, added: Any, removed: Any, *, is_full: bool = False) -> Any:
    from tamis.curves.runs import NO_RUNS
    from tamis.index.mics.link import version_of
    from tamis.index.mics.plan import RangeDelta, RangePlan

    delta = RangeDelta(NO_RUNS if added is None else added, NO_RUNS if removed is None else removed)
    return RangePlan(version_of([space]), (delta,), is_full)


def _written(space: Any, plan: Any) -> bytes:
    try:
        return bytes(plan.to_bytes())
    except LimitError:  # more ranges than a message holds: ask for everything
        return bytes(_plan(space, space.everything, None, is_full=True).to_bytes())
