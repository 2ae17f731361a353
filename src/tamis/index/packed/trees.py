"""Subscriptions that are one tree of conditions on values, for the packed matcher.

A nested predicate, or one with several ``<>``, would become many boxes, or one box that leaves the decision to raw
values. It stands here instead, once: as steps (`tamis.index.packed.texts.trees`) whose ends are shared with all other
trees, and as a *hull*, a box around all that it matches. A table of events goes through all trees in blocks of 512
events (`tamis.kernels.trees`), unless the hulls leave so few candidates that it costs less to decide those. One event
asks the hulls.

One thread writes. A reader takes `snapshot` and works on it to the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.arrays import Growing
from tamis.index.packed.axes import Axes
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.matching import Snapshot
from tamis.index.packed.boxes_of import MAX_BOXES, Sides, choices_of
from tamis.index.packed.texts.trees import SideStep, steps_of
from tamis.index.protocols import Rows
from tamis.index.saved_arrays import Ascending, Below, Declared, Flags, Offsets, SavedArrays, Size
from tamis.kernels.trees import ACCEPT, BLOCK, REJECT, TreeColumns, TreeEnds, decide_trees, match_trees
from tamis.model.language.normalise import hull
from tamis.model.subscription import AllOf, AnyOf, Filter, Predicate, Subscription, Values
from tamis.model.value_set import ValueSet

__all__ = ["HulledTree", "PackedTrees", "TreeSnapshot", "tree_of"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]

#: Boxes from which on a filter with a set that is open at both ends, as ``<>``, is a tree: such boxes find little.
_FEW_BOXES: Final = 4

#: Filters of a subscription that becomes one tree, and the steps of it.
_MOST_FILTERS: Final = 16
_MOST_STEPS: Final = 4_096

#: Intervals of a set that become steps.
_MOST_INTERVALS: Final = 256

#: Sample events for estimating how many candidates the hulls leave.
_SAMPLE: Final = 16

#: Candidates of hulls that cost as much as one tree for a block of events.
_CANDIDATES_PER_BLOCK: Final = 1.0

#: Bytes of an end in the dictionary that finds it.
_BYTES_OF_KEY: Final = 180


#: A condition, and the steps that follow if it holds and if it does not.
_SideStepOf = tuple[SideStep, int, int]


class HulledTree(NamedTuple):
    """The steps of a subscription, and the sides of a box around all that it matches."""

    sides: Sides
    steps: Sequence[_SideStepOf]


class TreeSnapshot(NamedTuple):
    """The state that a reader uses."""

    hulls: Snapshot
    columns: TreeColumns
    axis: npt.NDArray[np.int32]
    value: _Floats
    longest: int


def tree_of(subscription: Subscription, axes: Axes) -> HulledTree | None:
    """Return the tree of a subscription with conditions on values only that boxes represent badly; None for others."""
    filters = subscription.filters
    if not filters or len(filters) > _MOST_FILTERS or not _wants_steps(filters):
        return None
    parts = tuple(map(_predicate, filters))
    predicate = parts[0] if len(parts) == 1 else AnyOf(parts)
    tree = steps_of(predicate, lambda values: choices_of(values, axes, _MOST_INTERVALS))
    steps = [(condition, yes, no) for condition, yes, no in tree.steps if isinstance(condition, SideStep)]
    if not tree.is_all or not 0 < len(steps) <= _MOST_STEPS:
        return None
    around = hull(predicate)
    if not all(around.values()):
        return None
    sides = _sides(around, axes)
    return HulledTree(sides, _behind(sides, steps) or steps)


def _behind(sides: Sides, steps: Sequence[_SideStepOf]) -> list[_SideStepOf]:
    """Return the steps of a tree after those of its hull, which rule out most events; steps implied by it are dropped.

    A step that holds wherever the hull does is passed over. Steps that no other step leads to are left out, too.
    """
    lead = [SideStep(axis, low, high) for axis, (low, high) in sides.items()]
    target = {ACCEPT: ACCEPT, REJECT: REJECT}
    kept: list[tuple[int, _SideStepOf]] = []
    for number in range(len(steps) - 1, -1, -1):  # from the last to the first: steps lead forward
        condition, yes, no = steps[number]
        side = None if condition.negated else sides.get(condition.axis)
        if (side is not None and condition.low <= side[0] and side[1] <= condition.high) or target[yes] == target[no]:
            target[number] = target[yes]
        else:
            target[number] = number
            kept.append((number, (condition, target[yes], target[no])))
    return _numbered(lead, target[0], dict(reversed(kept)))


def _numbered(lead: Sequence[SideStep], start: int, steps: Mapping[int, _SideStepOf]) -> list[_SideStepOf]:
    """Return conditions that all must hold, then the steps that can be reached from ``start``, with new numbers."""
    reached = {start}
    for number, (_, yes, no) in steps.items():
        if number in reached:
            reached |= {yes, no}
    order = [number for number in steps if number in reached]
    number_of = {ACCEPT: ACCEPT, REJECT: REJECT} | {number: i for i, number in enumerate(order, len(lead))}
    ahead = [(side, i + 1 if i + 1 < len(lead) else number_of[start], REJECT) for i, side in enumerate(lead)]
    return ahead + [(steps[number][0], number_of[steps[number][1]], number_of[steps[number][2]]) for number in order]


def _sides(around: Mapping[str, ValueSet], axes: Axes) -> Sides:
    """Return the sides of a hull; several strings have none, for strings between them have no codes."""
    sides = Sides()
    for name, allowed in around.items():
        if not allowed.missing and not (len(allowed.cuts) > 2 and isinstance(allowed.cuts[0][0], str)):
            [[side]], _ = choices_of(Values(name, allowed), axes, 1)
            sides[side.axis] = side.low, side.high
    return sides


def _wants_steps(filters: Sequence[Filter]) -> bool:
    """Whether filters are about values alone, and boxes do not say them, or only many boxes do."""
    if all(map(_is_box, filters)) or not all(
        isinstance(condition, Values) for filter in filters for condition in _conditions(filter)
    ):
        return False
    n_boxes, are_open, is_lacking = [], False, False
    for filter in filters:
        sets = [constraint.allowed for constraint in filter.constraints if isinstance(constraint, Values)]
        lengths = [sum(1 for _ in allowed.intervals()) for allowed in sets]
        n_boxes.append(math.prod(lengths))
        is_lacking |= filter.rest is not None or any(allowed.missing for allowed in sets)
        are_open |= any(
            n > 1 and allowed.from_below and n * 2 == len(allowed.cuts) + 2
            for n, allowed in zip(lengths, sets, strict=True)
        )
    return is_lacking or max(n_boxes) > MAX_BOXES or (are_open and sum(n_boxes) > _FEW_BOXES)


def _is_box(filter: Filter) -> bool:
    """Whether a filter is one interval on each of its axes, or is not about values alone."""
    for constraint in filter.constraints:
        if not isinstance(constraint, Values):
            return True
        allowed = constraint.allowed
        if allowed.missing or len(allowed.cuts) > 2 - allowed.from_below:
            return False
    return filter.rest is None


def _conditions(predicate: Filter | Predicate) -> Iterator[object]:
    """Yield the conditions at the leaves of a filter or a tree."""
    if isinstance(predicate, Filter):
        yield from predicate.constraints
        predicate = AllOf(()) if predicate.rest is None else predicate.rest
    if isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from _conditions(part)
    else:
        yield predicate


def _predicate(filter: Filter) -> Predicate:
    """Return a filter as a tree, equalities first: they turn most events away."""
    constraints = sorted(filter.constraints, key=_is_range)
    return AllOf(tuple(constraints) if filter.rest is None else (*constraints, filter.rest))


def _is_range(constraint: object) -> bool:
    cuts = constraint.allowed.cuts if isinstance(constraint, Values) else ()
    return len(cuts) != 2 or cuts[0][0] != cuts[1][0]


class PackedTrees:
    """Trees by row; finds those that hold for events. EXACT for events that are points; else it proposes."""

    def __init__(self, columns: Mapping[str, _Array] | None = None, hulls: BoxIndex | None = None) -> None:
        own = columns or {name: np.zeros(int(name == "step_at"), form.dtype) for name, form in _ARRAYS.items()}
        self._columns = {name: Growing(own[name]) for name in _ARRAYS}
        self.hulls = BoxIndex(1) if hulls is None else hulls
        #: ``{(axis, value): number}`` of the ends; None until something is added to saved ones.
        self._numbers: dict[tuple[int, float], int] | None = None if columns else {}
        self._longest = int(np.diff(self["step_at"]).max(initial=0))
        self._sorted = _SortedEnds()
        self.publish()

    def __len__(self) -> int:
        return len(self.hulls)

    def __getitem__(self, name: str) -> _Array:
        return self._columns[name].values

    def add(self, rows: Sequence[int], trees: Sequence[HulledTree]) -> None:
        """Add trees under ascending rows above all others. `hulls` has all axes that they name."""
        steps = [step for tree in trees for step in tree.steps]
        numbers = self._ends([(step.axis, end) for step, _, _ in steps for end in (step.low, step.high)])
        columns, lower = self._columns, numbers[::2]
        columns["lower"].extend([~n if step.negated else n for n, (step, _, _) in zip(lower, steps, strict=True)])
        columns["upper"].extend(numbers[1::2])
        columns["yes"].extend([yes for _, yes, _ in steps])
        columns["no"].extend([no for _, _, no in steps])
        lengths = [len(tree.steps) for tree in trees]
        columns["step_at"].extend(columns["step_at"].values[-1] + np.cumsum(lengths, dtype=np.int64))
        columns["living"].extend([1] * len(trees))
        columns["row"].extend(rows)
        self._longest = max(self._longest, *lengths)
        self.hulls.add_boxes(*self._corners(trees), np.array(rows, np.int32))
        self.publish()

    def remove(self, row: int) -> bool:
        """Remove a row; False when it is not here."""
        rows = self["row"]
        position = int(np.searchsorted(rows, row))
        if position == len(rows) or rows[position] != row or not self["living"][position]:
            return False
        self._columns["living"].extend([])
        self["living"][position] = 0
        self.hulls.remove_one(row)
        self.publish()
        return True

    def match(self, low: _Floats, high: _Floats, snapshot: TreeSnapshot) -> Rows:
        """Return the rows of the trees that hold for one event, float64[axes], in any order."""
        rows = self.hulls.match_point(low, high, snapshot.hulls)
        return self._decided(low[None], high[None], np.zeros(len(rows), np.int64), rows, snapshot)[1]

    def pairs(self, low: _Floats, high: _Floats, snapshot: TreeSnapshot) -> tuple[Rows, Rows]:
        """Return event and row of each match, int32 each, in any order; events float64[n, axes]."""
        columns = snapshot.columns
        if not len(columns.row) or not len(low):
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        step = max(1, len(low) // _SAMPLE)
        sample = low[::step], high[::step]
        n_candidates = len(self.hulls.match_points(*sample, snapshot.hulls)[1]) / len(sample[0]) * len(low)
        if n_candidates > _CANDIDATES_PER_BLOCK * len(columns.row) * -(-len(low) // BLOCK):
            ends = self._sorted.of(snapshot.axis, snapshot.value)
            pairs: tuple[Rows, Rows] = match_trees(columns, ends, (low, high, low is high), snapshot.longest)
            return pairs
        starts, rows = self.hulls.match_points(low, high, snapshot.hulls)
        return self._decided(low, high, np.repeat(np.arange(len(low)), np.diff(starts)), rows, snapshot)

    def _decided(
        self, low: _Floats, high: _Floats, event: npt.NDArray[np.int64], rows: Rows, snapshot: TreeSnapshot
    ) -> tuple[Rows, Rows]:
        """Return the pairs of event and row whose tree holds, of those whose hull does.

        The hulls may name a row that was added after the snapshot, in the place of one that was removed: its tree is
        not in the columns, and a kernel must not look for it.
        """
        columns, none = snapshot.columns, np.zeros(0, np.int64)
        positions = np.searchsorted(columns.row, rows)
        is_known = np.zeros(len(rows), np.bool_)
        within = positions < len(columns.row)
        is_known[within] = columns.row[positions[within]] == rows[within]
        event, rows, positions = event[is_known], rows[is_known], positions[is_known]
        ends = TreeEnds(snapshot.axis, snapshot.value, none, none, np.zeros(0, np.int32))
        holds = decide_trees(columns, ends, low, high, (event, positions))
        return event[holds].astype(np.int32), rows[holds]

    def rows(self) -> Rows:
        """Return the rows, ascending."""
        return np.asarray(self["row"][self["living"] == 1])

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, and of what finds the ends."""
        columns = sum(column.values.nbytes for column in self._columns.values())
        return columns + int(self.hulls.statistics()["bytes"]) + _BYTES_OF_KEY * len(self._numbers or ())

    def to_arrays(self) -> dict[str, _Array]:
        """Return the columns and the hulls by name."""
        return {name: self[name] for name in _ARRAYS} | {
            f"hulls.{name}": array for name, array in self.hulls.to_arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_rows: int, n_axes: int) -> PackedTrees:
        """Open columns and hulls, checked, that may be read-only and mapped."""
        if not len(arrays):  # saved before there were trees
            trees = cls()
            trees.hulls.grow(n_axes)
            return trees
        columns, _ = arrays.take(_ARRAYS, rows=n_rows, axes=n_axes)
        _check_steps(arrays, columns)
        hulls = BoxIndex.from_arrays(arrays.under("hulls."), n_rows)
        if hulls.n_axes != n_axes or not np.array_equal(hulls.rows(), columns["row"][columns["living"] == 1]):
            arrays.refuse("row", "names other trees than those that have a hull")
        return cls(columns, hulls)

    def _ends(self, ends: Sequence[tuple[int, float]]) -> list[int]:
        """Return the numbers of ends; those that are new get one."""
        if self._numbers is None:
            pairs = zip(self["axis"].tolist(), self["value"].tolist(), strict=True)
            self._numbers = {end: number for number, end in enumerate(pairs)}
        numbers = self._numbers
        new = [end for end in dict.fromkeys(ends) if end not in numbers]
        numbers.update({end: number for number, end in enumerate(new, len(numbers))})
        self._columns["axis"].extend([axis for axis, _ in new])
        self._columns["value"].extend([value for _, value in new])
        return [numbers[end] for end in ends]

    def _corners(self, trees: Sequence[HulledTree]) -> tuple[_Floats, _Floats]:
        lo, hi = (np.full((len(trees), self.hulls.n_axes), side) for side in (-math.inf, math.inf))
        for i, tree in enumerate(trees):
            for axis, (low, high) in tree.sides.items():
                lo[i, axis], hi[i, axis] = low, high
        return lo, hi

    def publish(self) -> None:
        """Make the current columns and hulls visible to readers."""
        own = {name: np.require(self[name], requirements="W") for name in _ARRAYS}
        columns = TreeColumns(**{name: own[name] for name in TreeColumns._fields})
        #: What readers see now; never changed, only replaced.
        self.snapshot = TreeSnapshot(self.hulls.snapshot, columns, own["axis"], own["value"], self._longest)


class _SortedEnds:
    """The ends in order, sorted on first use and cached until there are more."""

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._ends = TreeEnds(np.zeros(0, np.int32), np.zeros(0), none, none, np.zeros(0, np.int32))

    def of(self, axis: npt.NDArray[np.int32], value: _Floats) -> TreeEnds:
        """Return the ends of these axes and values."""
        ends = self._ends
        if len(ends.axis) != len(axis):
            order = np.lexsort((value, axis)).astype(np.int64)
            starts = np.flatnonzero(np.diff(axis[order], prepend=-1))
            rank = np.empty(len(axis), np.int32)
            rank[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(axis))))
            ends = self._ends = TreeEnds(axis, value, order, np.append(starts, len(axis)), rank)
        return ends


def _check_steps(arrays: SavedArrays, columns: Mapping[str, _Array]) -> None:
    """Refuse steps with which a kernel would not terminate or would read outside its arrays."""
    lengths = np.diff(columns["step_at"])
    if lengths.size and not 0 < lengths.min() <= lengths.max() <= _MOST_STEPS:
        arrays.refuse("step_at", f"holds a tree that has not 1 to {_MOST_STEPS} steps")
    own = np.arange(len(columns["lower"])) - np.repeat(columns["step_at"][:-1], lengths)
    for name in ("yes", "no"):
        target = columns[name]
        forward = (target > own) & (target < np.repeat(lengths, lengths))
        if not (forward | (target == ACCEPT) | (target == REJECT)).all():
            arrays.refuse(name, "has a step that does not lead forward")
    lower = np.where(columns["lower"] < 0, ~columns["lower"], columns["lower"])
    if not np.array_equal(columns["axis"][lower], columns["axis"][columns["upper"]]):
        arrays.refuse("lower", "has a step between ends of two axes")
    if np.isnan(columns["value"]).any():
        arrays.refuse("value", "holds an end that is not a number")


_ARRAYS: Final = {
    "row": Declared(np.int32, ("trees",), Ascending("rows")),
    "living": Declared(np.uint8, ("trees",), Flags()),
    "step_at": Declared(np.int64, (Size("trees", plus=1),), Offsets("steps")),
    "lower": Declared(np.int32, ("steps",), Below("ends", complement=True)),
    "upper": Declared(np.int32, ("steps",), Below("ends")),
    "yes": Declared(np.int16, ("steps",)),
    "no": Declared(np.int16, ("steps",)),
    "axis": Declared(np.int32, ("ends",), Below("axes")),
    "value": Declared(np.float64, ("ends",)),
}
