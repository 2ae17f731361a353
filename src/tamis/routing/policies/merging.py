"""Merging: filters that differ on one attribute become one filter.

A *perfect* merge matches what its parts match. With a ``gap`` a merge may also fill the space between ranges of
numbers, up to that share of the whole range: fewer filters, and some unwanted events on the link. With
``false_positives`` it fills up to that share of where values are expected, which is from the least to the greatest end
that was announced. The smallest gaps are filled first. The edge delivers exactly, so unwanted events reach no client.

Implements: [mics] section 3.6, perfect and imperfect merging.
Deviation: on filters, by attribute; the paper joins ranges of cells, see the policy "mics".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from itertools import pairwise
from numbers import Real

from tamis.index.dominance.batches import Questions
from tamis.index.protocols import CoveringIndex
from tamis.model.subscription import Constraint, Filter, Geometric, Spatial, Subscription, Values
from tamis.model.value_set import ANYTHING, Cut, ValueSet
from tamis.routing.core.summary import Growth, Wanted
from tamis.routing.policies.covering import PIECES, Covering

__all__ = ["Merging", "join_filters"]

#: Ends of ranges in a merged condition; a longer list of values costs more than it saves.
MAX_CUTS = 64

#: Whether gaps may be filled: the attribute, the length of the merged range, and that of its gaps.
Fill = Callable[[str, float, float], bool]

#: Which constraint is left out, its attribute, and the others.
AllButOne = tuple[int, str, tuple[Constraint, ...]]


class Merging(Covering):
    """A home is a group that covers; a new group absorbs those it can be merged with."""

    def __init__(
        self,
        make_index: Callable[[], CoveringIndex],
        few: int = 0,
        pieces: int = PIECES,
        gap: float = 0.0,
        false_positives: float = 0.0,
    ) -> None:
        super().__init__(make_index, few, pieces)
        self._gap, self._false_positives = gap, false_positives
        #: ``{attribute: (least, greatest)}`` of the finite ends that were announced: where its values are expected.
        self._extents: dict[str, tuple[float, float]] = {}
        #: ``{all but one constraint: keys}`` of the groups: only what agrees on them can be merged.
        self._alike: dict[AllButOne, dict[str, None]] = {}

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        super().opened(content)
        for place in _all_but_one(content):
            self._alike.setdefault(place, {})[str(content.id)] = None
        if self._false_positives:
            self._note_extents(content)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: each may change the groups that the next one meets."""

    def closed(self, content: Wanted) -> None:
        """Take note that a group has ended."""
        super().closed(content)
        for place in _all_but_one(content):
            self._alike[place].pop(str(content.id))
            if not self._alike[place]:
                del self._alike[place]

    def grow(self, subscription: Subscription) -> Growth:
        """Return the subscription merged with as many groups as will go, in place of them and of all it covers."""
        if len(subscription.filters) != 1:
            return super().grow(subscription)
        content, absorbed = subscription, dict[str, None]()
        while (found := self._find_partner(content, absorbed)) is not None:
            key, merged = found
            absorbed[key] = None
            content = _named(merged, subscription.namespace)
        if not absorbed:
            return super().grow(subscription)
        return Growth(content, tuple(absorbed), tuple(key for key in self.covered(content) if key not in absorbed))

    def _find_partner(self, content: Subscription, absorbed: Container[str]) -> tuple[str, Filter] | None:
        """Return the oldest group that a filter can be merged with, and the merge."""
        alike = {key for place in _all_but_one(content) for key in self._alike.get(place, ())}
        for key in sorted(alike, key=self._rows.__getitem__):
            if key not in absorbed:
                fill = self._fill if self._gap or self._false_positives else None
                joined = join_filters(content.filters[0], self._contents[key].filters[0], fill)
                if joined is not None:
                    return key, joined
        return None

    def _fill(self, attribute: str, whole: float, empty: float) -> bool:
        """Whether so much of a merged range may be empty: a share of it, or of where values are expected."""
        if not self._false_positives:
            return empty <= self._gap * whole
        least, greatest = self._extents.get(attribute, (0.0, 0.0))
        return empty <= self._false_positives * (greatest - least)

    def _note_extents(self, content: Subscription) -> None:
        for constraint in content.filters[0].constraints if len(content.filters) == 1 else ():
            cuts = constraint.allowed.cuts if isinstance(constraint, Values) else ()
            ends = [float(cut[0]) for cut in cuts if isinstance(cut[0], Real)]
            if ends:
                least, greatest = self._extents.get(constraint.attribute, (ends[0], ends[0]))
                self._extents[constraint.attribute] = min(least, ends[0]), max(greatest, ends[-1])


def _all_but_one(content: Wanted) -> Iterator[AllButOne]:
    """Yield the places of a filter among those that it may be merged with, one for each condition on values."""
    if len(content.filters) == 1 and content.filters[0].rest is None:
        constraints = content.filters[0].constraints
        for i, one in enumerate(constraints):
            if isinstance(one, Values):
                yield i, one.attribute, (*constraints[:i], *constraints[i + 1 :])


def join_filters(a: Filter, b: Filter, fill: Fill | None = None) -> Filter | None:
    """Return one filter that matches what ``a`` or ``b`` match, and beyond that only what fills a gap.

    They must agree on all constraints but one, which says for one attribute which values it may have. ``fill`` says of
    an attribute, the length of the merged range and that of its gaps whether the gaps may be filled; None: never.

    >>> from tamis.model.language.compiler import compile_text
    >>> a, b = (
    ...     compile_text(text).filters[0] for text in ("y = 1 AND x BETWEEN 0 AND 4", "y = 1 AND x BETWEEN 5 AND 9")
    ... )
    >>> whole = compile_text("y = 1 AND x BETWEEN 0 AND 9").filters[0]
    >>> join_filters(a, b, lambda attribute, length, empty: empty <= 0.2 * length) == whole
    True
    """
    if a.rest is not None or b.rest is not None or len(a.constraints) != len(b.constraints):
        return None
    differ = [place for place, pair in enumerate(zip(a.constraints, b.constraints, strict=True)) if pair[0] != pair[1]]
    if len(differ) != 1:
        return None
    one, other = a.constraints[differ[0]], b.constraints[differ[0]]
    if not (isinstance(one, Values) and isinstance(other, Values)) or one.attribute != other.attribute:
        return None
    allowed = _filled(one.allowed | other.allowed, None if fill is None else partial(fill, one.attribute))
    if len(allowed.cuts) > MAX_CUTS:
        return None
    joined: Sequence[Constraint] = () if allowed == ANYTHING else (Values(one.attribute, allowed),)
    return Filter((*a.constraints[: differ[0]], *joined, *a.constraints[differ[0] + 1 :]))


def _filled(allowed: ValueSet, fill: Callable[[float, float], bool] | None) -> ValueSet:
    """Return a set with the smallest gaps between its ranges filled, as many as may be; unbounded ones stay apart."""
    parts = list(allowed.intervals())
    whole = _length(parts[0][0], parts[-1][1]) if len(parts) > 1 else None
    if fill is None or whole is None:
        return allowed
    gaps = [_length(before[1], after[0]) for before, after in pairwise(parts)]
    empty, closed = 0.0, set[int]()
    for place in sorted(range(len(gaps)), key=lambda place: gaps[place] or 0.0):
        empty += gaps[place] or 0.0
        if not fill(whole, empty):
            break
        closed.add(place)
    starts = [part[0] for place, part in enumerate(parts) if place - 1 not in closed]
    stops = [part[1] for place, part in enumerate(parts) if place not in closed]
    return ValueSet.from_intervals(list(zip(starts, stops, strict=True)), missing=allowed.missing)


def _length(start: Cut | None, stop: Cut | None) -> float | None:
    """Return the length of a range of numbers; None when it is open or no number."""
    if start is None or stop is None or not isinstance(start[0], Real) or not isinstance(stop[0], Real):
        return None
    return float(stop[0]) - float(start[0])


def _named(filter: Filter, namespace: str) -> Subscription:
    """Return a merged filter under a key that depends only on its contents, not on the parts it was merged from."""
    said = "|".join([namespace, *(_said(constraint) for constraint in filter.constraints)])
    digest = hashlib.blake2b(said.encode(), digest_size=12).hexdigest()
    return Subscription(f"+{digest}", (filter,), None, namespace)


def _said(constraint: Constraint) -> str:
    if isinstance(constraint, Spatial):  # the repr of a polygon is cut when it is long
        return f"{constraint.attribute} {sorted(constraint.relations)} {constraint.region.wkb_hex}"
    if isinstance(constraint, Geometric):
        words = (constraint.attribute, constraint.function, constraint.negated, constraint.distance)
        return f"{words} {constraint.geometry.wkb_hex}"
    return repr(constraint)
