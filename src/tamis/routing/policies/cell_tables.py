"""The part of a routing table that is ranges of cells: what MICS links send and receive.

On such a link a neighbour is sent no filters, only which keys of a Hilbert curve are wanted, and how that set
changes: ranges that come, then ranges that go, in one step (erratum M.3.5). A broker that got ranges passes ranges on,
for it knows no filters to pass. It passes them on every link, whatever the link's policy does with filters.

Cells round outwards, so a link gets too many keys, never too few. They are never used to withhold a filter (erratum
M.3.7), and the last broker matches exactly (M.3.8). A neighbour whose cells are others than ours is forwarded all
events until it has sent its table again (promise R10); the receivers of `tamis.index.mics` ensure that.

Implements: [mics] section 2, one table per neighbour; section 3.6, imperfect merging by a gap.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError, LimitError, ModelError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable
from tamis.node import records
from tamis.node.effects import Link, Persist
from tamis.routing.core.summary import Origin
from tamis.routing.policies.cell_records import changed_blocks
from tamis.routing.policies.cells import CellOptions

if TYPE_CHECKING:
    from tamis.curves.runs import Runs
    from tamis.index.mics.link import RangeReceiver, TableKeys
    from tamis.index.mics.plan import RangeDelta, RangePlan
    from tamis.index.mics.space import ContentSpace

    #: Content spaces, one per group of attributes; and ranges of keys in each of them.
    Spaces = Sequence[ContentSpace]
    Ranges = tuple[Runs, ...]

__all__ = ["USUAL_CELLS", "CellSummary", "CellTables", "common_cells", "empty_plan"]

#: The cells of a network without a policy that says otherwise.
USUAL_CELLS = CellOptions()


class CellSummary:
    """What a broker tells one neighbour in one namespace: the union of the ranges of its members, in each space."""

    def __init__(self, spaces: Spaces, options: CellOptions | None = None) -> None:
        from tamis.index.mics.table import RangeTable  # late: it loads numba

        self.spaces = spaces
        self._options = options or USUAL_CELLS
        self._tables = [RangeTable(space.n_keys, self._options.gap) for space in spaces]
        #: Changes since the gaps were chosen, and how many there may be before they are chosen again.
        self._n_changes, self._due = 0, 1
        #: ``{origin: ranges}`` of subscriptions; with those of `_passed` exactly what lies in the tables.
        self._ranges: dict[Origin, Ranges] = {}
        #: What gives the ranges of each origin that passes on ranges of its own.
        self._passed: dict[Origin, Callable[[], Ranges]] = {}
        #: What the neighbour must be sent; None: nothing.
        self._plan: RangePlan | None = None

    def put(self, origin: Origin, ranges: Ranges) -> None:
        """Let the neighbour know of ranges, in place of those of the same origin."""
        gained = [table.add(one) for table, one in zip(self._tables, ranges, strict=True)]
        old = self._ranges.get(origin)
        self._ranges[origin] = ranges
        self._note(gained, self._removed(old))

    def drop(self, origin: Origin) -> None:
        """Forget the ranges of an origin."""
        self._note(None, self._removed(self._ranges.pop(origin)))

    def change(self, origin: Origin, deltas: Sequence[RangeDelta], ranges: Callable[[], Ranges] | None) -> None:
        """Take over a change of the ranges that an origin passes on; ``ranges`` gives all of them, None: none is left.

        Costs in proportion to the change.
        """
        gained = [table.add(delta.added) for table, delta in zip(self._tables, deltas, strict=True)]
        lost = [table.remove(delta.removed) for table, delta in zip(self._tables, deltas, strict=True)]
        if ranges is None:
            self._passed.pop(origin, None)
        else:
            self._passed[origin] = ranges
        self._note(gained, lost)

    def take_plan(self) -> bytes | None:
        """Return what has changed for the neighbour since the last call."""
        plan, self._plan = self._plan, None
        return None if plan is None or plan.is_empty else _written(self.spaces, plan)

    def snapshot(self) -> bytes:
        """Return everything the neighbour must hold."""
        return _written(self.spaces, _plan(self.spaces, self.ranges(), None, is_full=True))

    def ranges(self) -> Ranges:
        """Return the union in each space."""
        return tuple(table.ranges() for table in self._tables)

    def origins(self) -> Set[Origin]:
        """Return where the ranges come from."""
        return self._ranges.keys() | self._passed.keys()

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless each table is the union of the members' ranges."""
        for number, table in enumerate(self._tables):
            table.check_invariants()
            passed = [ranges() for ranges in self._passed.values()]
            if not all(table.covers(ranges[number]) for ranges in [*self._ranges.values(), *passed]):
                raise InvariantError("ranges of a member are not in the union")
            if not self.origins() and not table.is_empty:
                raise InvariantError("ranges are left without a member")

    def _removed(self, ranges: Ranges | None) -> list[Runs] | None:
        if ranges is None:
            return None
        return [table.remove(one) for table, one in zip(self._tables, ranges, strict=True)]

    def _note(self, gained: Sequence[Runs] | None, lost: Sequence[Runs] | None) -> None:
        plan = _plan(self.spaces, gained, lost)
        self._plan = plan if self._plan is None else self._plan.then(plan)
        self._n_changes += 1
        if (self._options.false_positives or self._options.max_ranges) and self._n_changes >= self._due:
            self._fit_gaps()

    def _fit_gaps(self) -> None:
        """Choose the gaps by the ranges there are; again after a quarter as many changes as there are members."""
        self._n_changes, self._due = 0, max(1, len(self.origins()) // 4)
        fitted = [table.fit_gap(self._options.false_positives, self._options.max_ranges) for table in self._tables]
        plan = _plan(self.spaces, [gained for gained, _ in fitted], [lost for _, lost in fitted])
        self._plan = plan if self._plan is None else self._plan.then(plan)


class CellTables:
    """The ranges that neighbours asked for, and those that each of them is sent.

    ``options`` are those of each link, None for a link that carries filters; all name the same cells, or the
    ``usual`` ones when no link has any.
    """

    def __init__(self, schema: Schema, options: Mapping[Link, CellOptions | None], usual: CellOptions) -> None:
        self._schema = schema
        self._link_options = dict(options)
        self._options = common_cells(options.values(), usual)
        self._made: Spaces = ()
        #: The table whose keys were computed last, and its keys in each space.
        self._keyed: tuple[weakref.ref[EventTable], list[TableKeys]] | None = None
        #: ``{neighbour: {namespace: receiver}}``: what each neighbour asked for as ranges.
        self._asked: dict[Link, dict[str, RangeReceiver]] = {link: {} for link in options}
        #: The receivers that ask for something.
        self._ranges: dict[Link, dict[str, RangeReceiver]] = {link: {} for link in options}
        #: What of a neighbour's ranges in a namespace is not on disk yet.
        self._unsaved: dict[tuple[Link, str], list[Persist]] = {}
        #: ``{neighbour: {namespace: summary}}``: what each neighbour is sent as ranges.
        self._told: dict[Link, dict[str, CellSummary]] = {link: {} for link in options}

    @property
    def spaces(self) -> Spaces:
        """The content spaces that this broker uses."""
        if not self._made:
            self._made = self._options.spaces_of(self._schema)
        return self._made

    def add_link(self, link: Link, options: CellOptions | None, *, is_told: bool) -> None:
        """Have one neighbour more; ``is_told`` says whether it is sent the ranges of the others."""
        common = common_cells([*self._link_options.values(), options], self._options)
        if common.grid != self._options.grid and self._made:
            raise ModelError("the cells of this link differ from those that the broker uses; restart it with the link")
        self._options, self._link_options[link] = common, options
        self._asked[link], self._ranges[link], self._told[link] = {}, {}, {}
        for source, receivers in self._ranges.items() if is_told else ():
            for namespace, receiver in receivers.items():
                everything = _plan(self.spaces, _all_of(self.spaces, receiver), None).parts
                ranges = partial(_all_of, self.spaces, receiver)
                self._summary(link, namespace).change(Origin(source, ""), everything, ranges)

    def remove_link(self, link: Link, others: Sequence[Link]) -> list[Persist]:
        """Forget a neighbour, and tell the others that its ranges are gone; return what to persist."""
        changes: list[Persist] = []
        for namespace in self.namespaces(link):
            self.apply(link, namespace, empty_plan(self.spaces), others)
            changes += self.take_records(link, namespace)
        for by_link in (self._link_options, self._asked, self._ranges, self._told):
            del by_link[link]
        return changes

    # Outwards

    def add(self, link: Link, origin: Origin, subscription: Subscription) -> None:
        """Tell a neighbour of a subscription, as ranges."""
        ranges = tuple(space.ranges_of(subscription) for space in self.spaces)
        self._summary(link, subscription.namespace).put(origin, ranges)

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
        """Return the origins that a neighbour is sent as ranges; ranges that are passed on have no key."""
        return {origin for summary in self._told[link].values() for origin in summary.origins() if origin.key}

    # Inwards

    def read(self, plan: bytes) -> Any:
        """Read what a neighbour says about its ranges; ModelError when `apply` could not take it."""
        from tamis.index.mics.link import version_of
        from tamis.index.mics.plan import RangePlan

        found = RangePlan.from_bytes(plan)
        if found.version == version_of(self.spaces) and len(found.parts) == len(self.spaces):
            for space, part in zip(self.spaces, found.parts, strict=True):
                last = max((int(runs[-1, 1]) for runs in (part.added, part.removed) if len(runs)), default=0)
                if last >= space.n_keys:
                    raise ModelError(f"range up to key {last} is beyond the last key {space.n_keys - 1} of its space")
        return found

    def apply(self, source: Link, namespace: str, plan: Any, others: Iterable[Link]) -> None:
        """Take over what a neighbour says, and tell the others."""
        receiver = _receiver_in(self._asked[source], namespace, self.spaces)
        was_lost, asked = receiver.is_lost, namespace in self._ranges[source]
        deltas = receiver.apply(plan)
        self._ranges[source].pop(namespace, None)
        if not receiver.is_empty:
            self._ranges[source][namespace] = receiver
        saved = changed_blocks(receiver, deltas, source, namespace)
        unsaved = self._unsaved.setdefault((source, namespace), [])
        unsaved += saved
        if (was_lost, asked) != (receiver.is_lost, not receiver.is_empty):
            unsaved.append(_head(self.spaces, receiver, source, namespace))
        if was_lost or receiver.is_lost:
            deltas = _between_everything(self.spaces, receiver, was_lost=was_lost)
        ranges = None if receiver.is_empty else partial(_all_of, self.spaces, receiver)
        for link in others:
            self._summary(link, namespace).change(Origin(source, ""), deltas, ranges)

    def namespaces(self, source: Link) -> list[str]:
        """Return the namespaces in which a neighbour asks for ranges."""
        return sorted(self._ranges[source])

    def take_records(self, source: Link, namespace: str) -> list[Persist]:
        """Return what to persist of a neighbour's ranges in a namespace since the last call."""
        return self._unsaved.pop((source, namespace), [])

    def ranges(self, source: Link) -> Iterator[tuple[str, Ranges]]:
        """Yield what a neighbour asked for, by namespace; everything for a receiver that is lost."""
        asking = sorted(self._ranges[source].items(), key=itemgetter(0))
        return ((namespace, _all_of(self.spaces, receiver)) for namespace, receiver in asking)

    def told(self, link: Link) -> Iterator[tuple[str, Ranges]]:
        """Yield what a neighbour was told, by namespace."""
        return ((namespace, summary.ranges()) for namespace, summary in sorted(self._told[link].items()))

    def wanting(self, event: Event, namespace: str, spared: Set[Link]) -> Iterator[Link]:
        """Yield the neighbours with a range around an event; those spared are not asked. Keys are computed once."""
        keys: list[Runs] | None = None
        for link, ranges in self._ranges.items():
            if namespace in ranges and link not in spared:
                keys = [space.ranges_of_event(event) for space in self.spaces] if keys is None else keys
                if self._asked[link][namespace].matches_keys(keys):
                    yield link

    def are_asked(self, namespace: str) -> bool:
        """Whether a neighbour asks for ranges in a namespace."""
        return any(namespace in ranges for ranges in self._ranges.values())

    def wanted_of(self, link: Link, namespace: str, events: EventTable) -> npt.NDArray[np.bool_]:
        """Say for each event of a table whether a neighbour has a range around it."""
        if namespace not in self._ranges[link]:
            return np.zeros(len(events), np.bool_)
        if self._keyed is None or self._keyed[0]() is not events:  # another link may have asked about the same table
            self._keyed = weakref.ref(events), [space.keys_of_table(events) for space in self.spaces]
        return self._asked[link][namespace].matches_keys_of_table(self._keyed[1], len(events))

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every table is the union of what lies in it."""
        for summaries in self._told.values():
            for summary in summaries.values():
                summary.check_invariants()

    def _summary(self, link: Link, namespace: str) -> CellSummary:
        told = self._told[link]
        if namespace not in told:
            told[namespace] = CellSummary(self.spaces, self._link_options[link])
        return told[namespace]


def empty_plan(spaces: Spaces) -> RangePlan:
    """Return the plan of a neighbour that asks for nothing."""
    return _plan(spaces, None, None, is_full=True)


def _receiver_in(asked: dict[str, RangeReceiver], namespace: str, spaces: Spaces) -> RangeReceiver:
    """Return the receiver of a namespace; one that is missing is made."""
    from tamis.index.mics.link import RangeReceiver

    if namespace not in asked:
        asked[namespace] = RangeReceiver(spaces)
    return asked[namespace]


def common_cells(options: Iterable[CellOptions | None], usual: CellOptions = USUAL_CELLS) -> CellOptions:
    """Return the options of all links that have any, which must agree on the cells; the ``usual`` ones if none has."""
    found = [one for one in options if one is not None]
    if len({one.grid for one in found}) > 1:
        raise ModelError("links speak of different cells; give their policies the same axes, groups, bits and spaces")
    return found[0] if found else usual


def _head(spaces: Spaces, receiver: RangeReceiver, source: Link, namespace: str) -> Persist:
    """Return the head of a neighbour's ranges: it says which cells the blocks are made of."""
    if receiver.is_empty:
        return records.RANGES.drop(source, namespace)
    everything = _all_of(spaces, receiver) if receiver.is_lost else None
    plan = _plan(spaces, everything, None, is_full=True)
    return records.RANGES.put(source, namespace, value=_written(spaces, plan))


def _all_of(spaces: Spaces, receiver: RangeReceiver) -> Ranges:
    """Return what a neighbour asks for: everything when its cells are others than ours."""
    return tuple(space.everything for space in spaces) if receiver.is_lost else receiver.ranges()


def _between_everything(spaces: Spaces, receiver: RangeReceiver, *, was_lost: bool) -> tuple[RangeDelta, ...]:
    """Return the change from what was known to everything, or back."""
    from tamis.curves.runs import NO_RUNS, difference
    from tamis.index.mics.plan import RangeDelta

    pairs = zip(spaces, receiver.ranges(), strict=True)
    rest = [difference(space.everything, ranges) for space, ranges in pairs]
    if was_lost == receiver.is_lost:
        return tuple(RangeDelta(NO_RUNS, NO_RUNS) for _ in rest)
    return tuple(RangeDelta(NO_RUNS, one) if was_lost else RangeDelta(one, NO_RUNS) for one in rest)


def _plan(
    spaces: Spaces, added: Sequence[Runs] | None, removed: Sequence[Runs] | None, *, is_full: bool = False
) -> RangePlan:
    from tamis.curves.runs import NO_RUNS
    from tamis.index.mics.link import version_of
    from tamis.index.mics.plan import RangeDelta, RangePlan

    nothing = [NO_RUNS] * len(spaces)
    deltas = (RangeDelta(*pair) for pair in zip(added or nothing, removed or nothing, strict=True))
    return RangePlan(version_of(spaces), tuple(deltas), is_full)


def _written(spaces: Spaces, plan: RangePlan) -> bytes:
    try:
        return plan.to_bytes()
    except LimitError:  # more ranges than a message holds: ask for everything
        everything = [space.everything for space in spaces]
        return _plan(spaces, everything, None, is_full=True).to_bytes()
