"""The part of a routing table that is ranges of cells: what MICS links send and receive.

On such a link a neighbour is sent no filters, only which keys of a Hilbert curve are wanted, and how that set
changes: added ranges, then removed ranges, in one step (erratum M.3.5). A broker that received ranges passes ranges on,
because it has no filters for them. It passes them on every link, whatever the link's policy does with filters.

Cells round outwards, so a link gets too many keys, never too few. They are never used to withhold a filter (erratum
M.3.7), and the last broker matches exactly (M.3.8). A neighbour whose cells differ from ours is forwarded all events
until it has sent its table again (promise R10); the receivers of `tamis.index.mics` ensure that.

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

__all__ = ["USUAL_CELLS", "CellSummary", "CellTables", "common_cells", "empty_plan", "is_sent"]

#: The cells of a network without a policy that says otherwise.
USUAL_CELLS = CellOptions()


class CellSummary:
    """The ranges sent to one neighbour in one namespace: the union of the ranges of its members, in each space."""

    def __init__(self, spaces: Spaces, options: CellOptions | None = None) -> None:
        from tamis.index.mics.table import RangeTable  # late: it loads numba

        self.spaces = spaces
        self._options = options or USUAL_CELLS
        self._tables = [RangeTable(space.n_keys, self._options.gap) for space in spaces]
        #: Changes since the gaps were chosen, and how many there may be before they are chosen again.
        self._n_changes, self._due = 0, 1
        #: ``{origin: ranges}`` of subscriptions; with those of `_passed` exactly the contents of the tables.
        self._ranges: dict[Origin, Ranges] = {}
        #: ``{origin: function that returns its ranges}`` of neighbours whose ranges are passed on.
        self._passed: dict[Origin, Callable[[], Ranges]] = {}
        #: The change that the neighbour must be sent; None: nothing.
        self._plan: RangePlan | None = None

    def put(self, origin: Origin, ranges: Ranges) -> None:
        """Add the ranges of an origin; they replace its earlier ones."""
        gained = [table.add(runs) for table, runs in zip(self._tables, ranges, strict=True)]
        replaced = self._ranges.get(origin)
        self._ranges[origin] = ranges
        self._note(gained, self._removed(replaced))

    def drop(self, origin: Origin) -> None:
        """Forget the ranges of an origin."""
        self._note(None, self._removed(self._ranges.pop(origin)))

    def change(self, origin: Origin, deltas: Sequence[RangeDelta], ranges: Callable[[], Ranges] | None) -> None:
        """Apply a change to the ranges that an origin passes on; ``ranges`` returns all of them, None: none are left.

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
        """Return the change for the neighbour since the last call; None: there is none."""
        plan, self._plan = self._plan, None
        return None if plan is None or plan.is_empty else _written(self.spaces, plan)

    def snapshot(self) -> bytes:
        """Return everything the neighbour must hold."""
        return _written(self.spaces, _plan(self.spaces, self.ranges(), None, is_full=True))

    def ranges(self) -> Ranges:
        """Return the union in each space."""
        return tuple(table.ranges() for table in self._tables)

    def origins(self) -> Set[Origin]:
        """Return the origins of the ranges."""
        return self._ranges.keys() | self._passed.keys()

    def holds(self, origin: Origin) -> bool:
        """Whether the ranges of a subscription are among them."""
        return origin in self._ranges

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
        return [table.remove(runs) for table, runs in zip(self._tables, ranges, strict=True)]

    def _note(self, gained: Sequence[Runs] | None, lost: Sequence[Runs] | None) -> None:
        plan = _plan(self.spaces, gained, lost)
        self._plan = plan if self._plan is None else self._plan.then(plan)
        self._n_changes += 1
        if (self._options.false_positives or self._options.max_ranges) and self._n_changes >= self._due:
            self._fit_gaps()

    def _fit_gaps(self) -> None:
        """Choose the gaps from the current ranges; the next time after as many changes as a quarter of the members."""
        self._n_changes, self._due = 0, max(1, len(self.origins()) // 4)
        fitted = [table.fit_gap(self._options.false_positives, self._options.max_ranges) for table in self._tables]
        plan = _plan(self.spaces, [gained for gained, _ in fitted], [lost for _, lost in fitted])
        self._plan = plan if self._plan is None else self._plan.then(plan)


class CellTables:
    """The ranges that neighbours want, and those that each of them is sent.

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
        #: ``{neighbour: {namespace: receiver}}``: the ranges that each neighbour wants.
        self._receivers: dict[Link, dict[str, RangeReceiver]] = {link: {} for link in options}
        #: The receivers that are not empty.
        self._ranges: dict[Link, dict[str, RangeReceiver]] = {link: {} for link in options}
        #: Changes of a neighbour's ranges in a namespace that are not on disk yet.
        self._unsaved: dict[tuple[Link, str], list[Persist]] = {}
        #: ``{neighbour: {namespace: summary}}``: the ranges that each neighbour is sent.
        self._summaries: dict[Link, dict[str, CellSummary]] = {link: {} for link in options}

    @property
    def spaces(self) -> Spaces:
        """The content spaces that this broker uses."""
        if not self._made:
            self._made = self._options.spaces_of(self._schema)
        return self._made

    def add_link(self, link: Link, options: CellOptions | None, *, is_sent_ranges: bool) -> None:
        """Add a neighbour; with ``is_sent_ranges`` it is sent the ranges of the others."""
        common = common_cells([*self._link_options.values(), options], self._options)
        if common.grid != self._options.grid and self._made:
            raise ModelError("the cells of this link differ from those that the broker uses; restart it with the link")
        self._options, self._link_options[link] = common, options
        self._receivers[link], self._ranges[link], self._summaries[link] = {}, {}, {}
        for source, receivers in self._ranges.items() if is_sent_ranges else ():
            for namespace, receiver in receivers.items():
                additions = _plan(self.spaces, _all_of(self.spaces, receiver), None).parts
                ranges = partial(_all_of, self.spaces, receiver)
                self._summary(link, namespace).change(Origin(source, ""), additions, ranges)

    def remove_link(self, link: Link, others: Sequence[Link]) -> list[Persist]:
        """Forget a neighbour, and remove its ranges from what the others are sent; return what to persist."""
        changes: list[Persist] = []
        for namespace in self.namespaces(link):
            self.apply(link, namespace, empty_plan(self.spaces), others)
            changes += self.take_records(link, namespace)
        for by_link in (self._link_options, self._receivers, self._ranges, self._summaries):
            del by_link[link]
        return changes

    # Outwards

    def add(self, link: Link, origin: Origin, subscription: Subscription) -> None:
        """Add a subscription, as ranges, to those that a neighbour is sent."""
        ranges = tuple(space.ranges_of(subscription) for space in self.spaces)
        self._summary(link, subscription.namespace).put(origin, ranges)

    def remove(self, link: Link, origin: Origin, namespace: str) -> None:
        """Remove the ranges of a subscription from those that a neighbour is sent."""
        self._summary(link, namespace).drop(origin)

    def take_plans(self, link: Link) -> list[tuple[str, bytes]]:
        """Return the changes for a neighbour since the last call, by namespace."""
        plans = [(namespace, summary.take_plan()) for namespace, summary in self._summaries[link].items()]
        return [(namespace, plan) for namespace, plan in plans if plan is not None]

    def snapshots(self, link: Link) -> list[tuple[str, bytes]]:
        """Return everything a neighbour must hold, by namespace."""
        return [(name, summary.snapshot()) for name, summary in self._summaries[link].items() if summary.origins()]

    def origins(self, link: Link) -> set[Origin]:
        """Return the origins that a neighbour is sent as ranges; ranges that are passed on have no key."""
        return {origin for summary in self._summaries[link].values() for origin in summary.origins() if origin.key}

    # Inwards

    def read(self, plan: bytes) -> Any:
        """Return a plan of a neighbour's ranges; raise ModelError if `apply` could not take it."""
        from tamis.index.mics.link import version_of
        from tamis.index.mics.plan import RangePlan

        range_plan = RangePlan.from_bytes(plan)
        if range_plan.version == version_of(self.spaces) and len(range_plan.parts) == len(self.spaces):
            for space, part in zip(self.spaces, range_plan.parts, strict=True):
                last_key = max((int(runs[-1, 1]) for runs in (part.added, part.removed) if len(runs)), default=0)
                if last_key >= space.n_keys:
                    raise ModelError(
                        f"range up to key {last_key} is beyond the last key {space.n_keys - 1} of its space"
                    )
        return range_plan

    def apply(self, source: Link, namespace: str, plan: Any, others: Iterable[Link]) -> None:
        """Apply a plan of a neighbour, and pass the change on to the others."""
        receiver = _receiver_in(self._receivers[source], namespace, self.spaces)
        was_lost, had_ranges = receiver.is_lost, namespace in self._ranges[source]
        deltas = receiver.apply(plan)
        self._ranges[source].pop(namespace, None)
        if not receiver.is_empty:
            self._ranges[source][namespace] = receiver
        saved = changed_blocks(receiver, deltas, source, namespace)
        unsaved = self._unsaved.setdefault((source, namespace), [])
        unsaved += saved
        if (was_lost, had_ranges) != (receiver.is_lost, not receiver.is_empty):
            unsaved.append(_head(self.spaces, receiver, source, namespace))
        if was_lost or receiver.is_lost:
            deltas = _between_everything(self.spaces, receiver, was_lost=was_lost)
        ranges = None if receiver.is_empty else partial(_all_of, self.spaces, receiver)
        for link in others:
            self._summary(link, namespace).change(Origin(source, ""), deltas, ranges)

    def namespaces(self, source: Link) -> list[str]:
        """Return the namespaces in which a neighbour wants ranges."""
        return sorted(self._ranges[source])

    def take_records(self, source: Link, namespace: str) -> list[Persist]:
        """Return what to persist of a neighbour's ranges in a namespace since the last call."""
        return self._unsaved.pop((source, namespace), [])

    def ranges(self, source: Link) -> Iterator[tuple[str, Ranges]]:
        """Yield the ranges that a neighbour wants, by namespace; all keys for a receiver that is lost."""
        asking = sorted(self._ranges[source].items(), key=itemgetter(0))
        return ((namespace, _all_of(self.spaces, receiver)) for namespace, receiver in asking)

    def sent_ranges(self, link: Link) -> Iterator[tuple[str, Ranges]]:
        """Yield the ranges that a neighbour is sent, by namespace."""
        return ((namespace, summary.ranges()) for namespace, summary in sorted(self._summaries[link].items()))

    def wanting(self, event: Event, namespace: str, spared: Set[Link]) -> Iterator[Link]:
        """Yield the neighbours with a range around an event, except those ``spared``. Keys are computed once."""
        keys: list[Runs] | None = None
        for link, ranges in self._ranges.items():
            if namespace in ranges and link not in spared:
                keys = [space.ranges_of_event(event) for space in self.spaces] if keys is None else keys
                if self._receivers[link][namespace].matches_keys(keys):
                    yield link

    def are_wanted(self, namespace: str) -> bool:
        """Whether any neighbour wants ranges in a namespace."""
        return any(namespace in ranges for ranges in self._ranges.values())

    def wanted_of(self, link: Link, namespace: str, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether a neighbour has a range around it."""
        if namespace not in self._ranges[link]:
            return np.zeros(len(events), np.bool_)
        if self._keyed is None or self._keyed[0]() is not events:  # another link may have asked about the same table
            self._keyed = weakref.ref(events), [space.keys_of_table(events) for space in self.spaces]
        return self._receivers[link][namespace].matches_keys_of_table(self._keyed[1], len(events))

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every table is the union of its ranges."""
        for summaries in self._summaries.values():
            for summary in summaries.values():
                summary.check_invariants()

    def _summary(self, link: Link, namespace: str) -> CellSummary:
        summaries = self._summaries[link]
        if namespace not in summaries:
            summaries[namespace] = CellSummary(self.spaces, self._link_options[link])
        return summaries[namespace]


def empty_plan(spaces: Spaces) -> RangePlan:
    """Return the plan of a neighbour that wants nothing."""
    return _plan(spaces, None, None, is_full=True)


def _receiver_in(receivers: dict[str, RangeReceiver], namespace: str, spaces: Spaces) -> RangeReceiver:
    """Return the receiver of a namespace; created on first use."""
    from tamis.index.mics.link import RangeReceiver

    if namespace not in receivers:
        receivers[namespace] = RangeReceiver(spaces)
    return receivers[namespace]


def common_cells(options: Iterable[CellOptions | None], usual: CellOptions = USUAL_CELLS) -> CellOptions:
    """Return the options of all links that have any, which must agree on the cells; the ``usual`` ones if none has."""
    configured = [option for option in options if option is not None]
    if len({option.grid for option in configured}) > 1:
        raise ModelError("links speak of different cells; give their policies the same axes, groups, bits and spaces")
    return configured[0] if configured else usual


def _head(spaces: Spaces, receiver: RangeReceiver, source: Link, namespace: str) -> Persist:
    """Return the head record of a neighbour's ranges: it says which cells the blocks refer to."""
    if receiver.is_empty:
        return records.RANGES.drop(source, namespace)
    everything = _all_of(spaces, receiver) if receiver.is_lost else None
    plan = _plan(spaces, everything, None, is_full=True)
    return records.RANGES.put(source, namespace, value=_written(spaces, plan))


def _all_of(spaces: Spaces, receiver: RangeReceiver) -> Ranges:
    """Return the ranges that a neighbour wants: all keys if its cells differ from ours."""
    return tuple(space.everything for space in spaces) if receiver.is_lost else receiver.ranges()


def _between_everything(spaces: Spaces, receiver: RangeReceiver, *, was_lost: bool) -> tuple[RangeDelta, ...]:
    """Return the change from the known ranges to all keys, or back."""
    from tamis.curves.runs import NO_RUNS, difference
    from tamis.index.mics.plan import RangeDelta

    pairs = zip(spaces, receiver.ranges(), strict=True)
    complements = [difference(space.everything, ranges) for space, ranges in pairs]
    if was_lost == receiver.is_lost:
        return tuple(RangeDelta(NO_RUNS, NO_RUNS) for _ in complements)
    return tuple(
        RangeDelta(NO_RUNS, complement) if was_lost else RangeDelta(complement, NO_RUNS) for complement in complements
    )


def _plan(
    spaces: Spaces, added: Sequence[Runs] | None, removed: Sequence[Runs] | None, *, is_full: bool = False
) -> RangePlan:
    from tamis.curves.runs import NO_RUNS
    from tamis.index.mics.link import version_of
    from tamis.index.mics.plan import RangeDelta, RangePlan

    no_runs = [NO_RUNS] * len(spaces)
    deltas = (RangeDelta(*pair) for pair in zip(added or no_runs, removed or no_runs, strict=True))
    return RangePlan(version_of(spaces), tuple(deltas), is_full)


def _written(spaces: Spaces, plan: RangePlan) -> bytes:
    try:
        return plan.to_bytes()
    except LimitError:  # more ranges than a message holds: ask for everything
        everything = [space.everything for space in spaces]
        return _plan(spaces, everything, None, is_full=True).to_bytes()


def is_sent(tables: CellTables, link: Link, origin: Origin, namespace: str) -> bool:
    """Whether a neighbour is sent the ranges of a subscription."""
    summary = tables._summaries[link].get(namespace)
    return summary is not None and summary.holds(origin)
