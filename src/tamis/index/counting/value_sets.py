"""Finds the value sets that contain a value: numbers, timestamps, booleans and strings, and presence of any type.

A `ValueSet` goes to one of three places:

* no cuts (``IS NULL``, ``IS NOT NULL``): only presence counts, so regions and vectors may come as values;
* single values only (``=``, ``IN``): a hash table from value to sets;
* the rest: its intervals. All cuts stand in one sorted list, and an interval is the pair of its ends' ranks in
  it. Ordered by start, the intervals around a value are those of a prefix that end behind the value: two
  binary searches and one comparison of an array. Ranks make that exact for every ordered type, large
  integers, decimals and strings included. The intervals of one set are disjoint, so none is found twice.

A set that contains the missing value is also noted as satisfied by absence.

Sorting again for each new set would be slow, so the newest few are tested one at a time until they are sorted in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.counting.constraint_index import Wanted
from tamis.index.protocols import Guarantee
from tamis.model.subscription import Constraint, Values
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import Value

__all__ = ["IntervalIndex", "PointIndex", "ValueSetIndex"]

#: Sets are sorted in when more than this many are new, and more than this part of all.
_RECENT, _RECENT_PART = 32, 16


class ValueSetIndex:
    """The `Values` constraints on one attribute, exact; an event costs two searches plus what it finds."""

    guarantee = Guarantee.EXACT
    evaluations = 0

    def __init__(self) -> None:
        self._points = PointIndex()
        self._intervals = IntervalIndex()
        #: ``{number: set}``, every set that is here.
        self._sets: dict[int, ValueSet] = {}
        #: Those without cuts that contain every value.
        self._present: dict[int, None] = {}
        #: Those that contain the missing value.
        self._absent: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def add(self, number: int, constraint: Constraint) -> None:
        """Add a constraint under a number that was never used."""
        assert isinstance(constraint, Values)
        self._sets[number] = allowed = constraint.allowed
        if allowed.missing:
            self._absent[number] = None
        if allowed.cuts:
            self._place(allowed).add(number, allowed)
        elif allowed.from_below:
            self._present[number] = None

    def remove(self, number: int, constraint: Constraint) -> None:
        """Remove an existing constraint."""
        allowed = self._sets.pop(number)
        if allowed.missing:
            del self._absent[number]
        if allowed.cuts:
            self._place(allowed).remove(number, allowed)
        elif allowed.from_below:
            del self._present[number]

    def satisfied(self, value: Value | None, wanted: Wanted | None = None) -> Iterable[int]:
        """Return the numbers of the sets that contain a value."""
        if value is None:
            return list(self._absent)
        return chain(list(self._present), self._points.around(value), self._intervals.around(value))

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every set stands where it belongs and nowhere else."""
        absent = {number for number, allowed in self._sets.items() if allowed.missing}
        present = {number for number, allowed in self._sets.items() if not allowed.cuts and allowed.from_below}
        if absent != self._absent.keys() or present != self._present.keys():
            raise InvariantError(f"{absent} and {present} expected, {self._absent} and {self._present} found")
        cut = {number for number, allowed in self._sets.items() if allowed.cuts}
        if cut != {*self._points, *self._intervals} or len(cut) != len(self._points) + len(self._intervals):
            raise InvariantError(f"{len(cut)} sets, {len(self._points)} of points, {len(self._intervals)} of intervals")
        self._points.check_invariants()
        self._intervals.check_invariants()

    def _place(self, allowed: ValueSet) -> PointIndex | IntervalIndex:
        return self._points if _points_of(allowed) is not None else self._intervals


class PointIndex:
    """Sets of single values, by hash."""

    def __init__(self) -> None:
        #: ``{value: sets that contain it}``, none empty.
        self._by_value: dict[object, dict[int, None]] = {}
        #: ``{number: the values of the set}``.
        self._values: dict[int, list[object]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def add(self, number: int, allowed: ValueSet) -> None:
        """Add a set of single values."""
        self._values[number] = values = _points_of(allowed) or []
        for value in values:
            self._by_value.setdefault(value, {})[number] = None

    def remove(self, number: int, allowed: ValueSet) -> None:
        """Remove an existing set."""
        for value in self._values.pop(number):
            sets = self._by_value[value]
            del sets[number]
            if not sets:
                del self._by_value[value]

    def around(self, value: Value) -> list[int]:
        """Return the sets that contain a value."""
        # An attribute that has single values is ordered, so its events' values can be hashed.
        return list(self._by_value.get(value, ())) if self._by_value else []

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless both directions say the same."""
        forward = sorted((number, value) for value, sets in self._by_value.items() for number in sets or (-1,))
        back = sorted((number, value) for number, values in self._values.items() for value in values)
        if forward != back:
            raise InvariantError(f"single values {forward} by value, {back} by set")


class _Ranked(NamedTuple):
    """Intervals ordered by start: from the cut ``starts[i]`` up to the cut ``stops[i]`` (ranks in ``cuts``)."""

    cuts: list[Cut]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def around(self, value: Value) -> list[int]:
        """Return the numbers of the intervals that contain a value."""
        rank = bisect_right(self.cuts, (value, 0)) - 1
        n = int(np.searchsorted(self.starts, rank, "right"))
        containing: list[int] = self.numbers[:n][self.stops[:n] > rank].tolist()
        return containing


class IntervalIndex:
    """Sets of intervals, by the ranks of their ends."""

    def __init__(self) -> None:
        #: ``{number: set}``, every set that is here.
        self._sets: dict[int, ValueSet] = {}
        #: What is sorted in, and the newer sets that are not. One field: a reader must not see a set in
        #: both or in neither. Removed sets stay sorted in until the next sorting.
        self._state: tuple[_Ranked, dict[int, ValueSet]] = (_ranked({}), {})
        self._n_removed = 0

    def __len__(self) -> int:
        return len(self._sets)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sets)

    def add(self, number: int, allowed: ValueSet) -> None:
        """Add a set."""
        self._sets[number] = allowed
        recent = self._state[1]
        recent[number] = allowed
        if len(recent) > max(_RECENT, len(self._sets) // _RECENT_PART):
            self._sort_in()

    def remove(self, number: int, allowed: ValueSet) -> None:
        """Remove an existing set."""
        del self._sets[number]
        if self._state[1].pop(number, None) is None:
            self._n_removed += 1
        if self._n_removed > len(self._sets):
            self._sort_in()

    def around(self, value: Value) -> list[int]:
        """Return the sets that contain a value."""
        ranked, recent = self._state
        containing = ranked.around(value) if ranked.cuts else []
        if self._n_removed:
            containing = [number for number in containing if number in self._sets]
        return containing + [number for number, allowed in list(recent.items()) if value in allowed]

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every set is either sorted in or new, and few are left over."""
        ranked, recent = self._state
        sorted_in = set(ranked.numbers.tolist())
        removed = sorted_in - self._sets.keys()
        if sorted_in - removed != self._sets.keys() - recent.keys() or not recent.keys() <= self._sets.keys():
            raise InvariantError(f"{len(self._sets)} sets, {len(sorted_in)} sorted in, {len(recent)} new")
        if len(removed) != self._n_removed or self._n_removed > len(self._sets):
            raise InvariantError(f"{self._n_removed} sets removed, {len(removed)} left over")

    def _sort_in(self) -> None:
        self._state = (_ranked(self._sets), {})
        self._n_removed = 0


def _ranked(sets: Mapping[int, ValueSet]) -> _Ranked:
    """Sort the intervals of sets; an open end is the rank before or behind all cuts."""
    cuts = sorted({cut for allowed in sets.values() for cut in allowed.cuts})
    rank = {cut: i for i, cut in enumerate(cuts)}
    ranked_intervals = [
        (-1 if start is None else rank[start], len(cuts) if stop is None else rank[stop], number)
        for number, allowed in sets.items()
        for start, stop in allowed.intervals()
    ]
    columns = np.array(sorted(ranked_intervals), np.int64).reshape(-1, 3)
    starts, stops, numbers = (np.ascontiguousarray(column) for column in columns.T)
    return _Ranked(cuts, starts, stops, numbers)


def _points_of(allowed: ValueSet) -> list[object] | None:
    """Return the values of a set of single values; None when the set holds an interval."""
    points = [_point(start, stop) for start, stop in allowed.intervals()]
    return None if None in points else points


def _point(start: Cut | None, stop: Cut | None) -> object | None:
    """Return the only value between two cuts; None when there are others or the cuts do not tell.

    A timestamp's interval of one microsecond looks like a number's of length one, and stays an interval.
    """
    if stop is None:
        return None
    value, side = stop
    if isinstance(value, str) and side == 0 and value.endswith("\0"):  # before the next string
        value = value[:-1]
        return value if start == (value, 0) or (start is None and not value) else None
    return value if start == (value, 0) else None
