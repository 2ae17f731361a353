"""Sets of values of one attribute, which represent ranges, sets, prefixes and NULL.

A *cut* is a position between values: ``(v, 0)`` just before v, ``(v, 1)`` just after it. A `ValueSet` is a
strictly increasing tuple of cuts at which membership flips, whether the part below the first cut
belongs to it, and whether a *missing* value does. Every scalar constraint is such a set::

    price < 100              ............)            missing: no
    price BETWEEN 1 AND 2       [....]                missing: no
    price <> 5               ......)(.......          missing: no
    price IS NULL                                     missing: yes
    (no constraint)          ...............          missing: yes

so union, intersection and complement are one sweep over cuts, and subset and emptiness are exact.
That holds because each type brings its cuts into one form (`AttributeType.before`, ``after``): numbers
are dense, so both sides of a value are real places; timestamps and strings have a successor, so "just
after v" is written "just before the successor of v", and a gap that holds no value has no cuts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

__all__ = ["ANYTHING", "EMPTY", "MISSING", "PRESENT", "Cut", "ValueSet"]

#: A position between values: (value, 0) is just before it, (value, 1) just after it.
Cut = tuple[Any, int]


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values of one attribute, possibly with the missing value in it.

    Parameters
    ----------
    cuts
        Strictly increasing; membership flips at each.
    from_below
        Whether values below the first cut belong to the set.
    missing
        Whether an event without the attribute belongs to the set.

    Examples
    --------
    >>> low = ValueSet.between(None, (100, 0))
    >>> 99.5 in low, 100 in low, None in low
    (True, False, False)
    >>> (low | low.complement()) == ANYTHING
    True
    """

    cuts: tuple[Cut, ...] = ()
    from_below: bool = False
    missing: bool = False

    @classmethod
    def between(cls, start: Cut | None, stop: Cut | None) -> ValueSet:
        """Return the values between two cuts; None is an open end."""
        if start is not None and stop is not None and not start < stop:
            return EMPTY
        ends = (start, stop)
        return cls(tuple(cut for cut in ends if cut is not None), from_below=start is None)

    @classmethod
    def from_intervals(cls, intervals: Iterable[tuple[Cut | None, Cut | None]], *, missing: bool = False) -> ValueSet:
        """Return the union of intervals given by their cuts (None is an open end), in O(n log n)."""
        from_below = False
        bottom: Cut | None = None  # where the part that comes from below ends; None: not at all
        pieces: list[tuple[Cut, Cut | None]] = []
        for start, stop in intervals:
            if start is not None:
                if stop is None or start < stop:
                    pieces.append((start, stop))
            elif stop is None:
                return cls(from_below=True, missing=missing)
            else:
                from_below, bottom = True, stop if bottom is None else max(bottom, stop)
        pieces.sort(key=itemgetter(0))
        return cls(_joined(pieces, bottom), from_below, missing)

    @classmethod
    def any_of(cls, sets: Sequence[ValueSet]) -> ValueSet:
        """Return the union of many sets in O(n log n); pairwise unions would take O(n^2)."""
        missing = any(value_set.missing for value_set in sets)
        return cls.from_intervals((pair for value_set in sets for pair in value_set.intervals()), missing=missing)

    @classmethod
    def all_of(cls, sets: Sequence[ValueSet]) -> ValueSet:
        """Return the intersection of many sets in O(n log n)."""
        return cls.any_of([value_set.complement() for value_set in sets]).complement()

    def __contains__(self, value: object) -> bool:
        if value is None:
            return self.missing
        return bool((bisect_right(self.cuts, (value, 0)) & 1) ^ self.from_below)

    def __bool__(self) -> bool:
        return bool(self.cuts) or self.from_below or self.missing

    def __and__(self, other: ValueSet) -> ValueSet:
        return _sweep(self, other, lambda a, b: a and b)

    def __or__(self, other: ValueSet) -> ValueSet:
        return _sweep(self, other, lambda a, b: a or b)

    def __sub__(self, other: ValueSet) -> ValueSet:
        return _sweep(self, other, lambda a, b: a and not b)

    def __le__(self, other: ValueSet) -> bool:
        return not (self - other)

    def complement(self) -> ValueSet:
        """Return everything that is not in the set, the missing value included."""
        return ValueSet(self.cuts, not self.from_below, not self.missing)

    def negated(self) -> ValueSet:
        """Return the *values* that are not in the set: SQL's NOT, for which missing stays unknown."""
        return ValueSet(self.cuts, not self.from_below, missing=False)

    @property
    def has_values(self) -> bool:
        """Whether some value belongs to the set."""
        return bool(self.cuts) or self.from_below

    def intervals(self) -> Iterator[tuple[Cut | None, Cut | None]]:
        """Yield the maximal intervals as (start, stop) cuts, ascending; None is an open end."""
        ends: list[Cut | None] = [*self.cuts]
        if self.from_below:
            ends.insert(0, None)
        if len(ends) % 2:
            ends.append(None)
        yield from zip(ends[::2], ends[1::2], strict=True)


def _joined(pieces: list[tuple[Cut, Cut | None]], bottom: Cut | None) -> tuple[Cut, ...]:
    """Return the cuts of a union of intervals ordered by start; ``bottom`` ends the part from below."""
    cuts: list[Cut] = [] if bottom is None else [bottom]
    for start, stop in pieces:
        touches = bool(cuts) and start <= cuts[-1]
        if stop is None:  # everything above belongs to the union: no later cut matters
            return tuple(cuts[:-1]) if touches else (*cuts, start)
        if not touches:
            cuts += (start, stop)
        elif stop > cuts[-1]:
            cuts[-1] = stop
    return tuple(cuts)


def _sweep(a: ValueSet, b: ValueSet, keep: Callable[[bool, bool], bool]) -> ValueSet:
    """Walk the cuts of both sets in order and note where ``keep`` of the two memberships flips."""
    in_a, in_b = a.from_below, b.from_below
    from_below = inside = keep(in_a, in_b)
    cuts: list[Cut] = []
    i = j = 0
    while i < len(a.cuts) or j < len(b.cuts):
        take_a = j == len(b.cuts) or (i < len(a.cuts) and a.cuts[i] <= b.cuts[j])
        take_b = i == len(a.cuts) or (j < len(b.cuts) and b.cuts[j] <= a.cuts[i])
        cut = a.cuts[i] if take_a else b.cuts[j]
        if take_a:
            in_a, i = not in_a, i + 1
        if take_b:
            in_b, j = not in_b, j + 1
        if keep(in_a, in_b) != inside:
            inside = not inside
            cuts.append(cut)
    return ValueSet(tuple(cuts), from_below, keep(a.missing, b.missing))


EMPTY = ValueSet()
#: Every value, but not a missing one: ``IS NOT NULL``.
PRESENT = ValueSet(from_below=True)
#: No value: ``IS NULL``.
MISSING = ValueSet(missing=True)
#: No constraint at all.
ANYTHING = ValueSet(from_below=True, missing=True)
