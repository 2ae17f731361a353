"""Merging: filters that differ on one attribute become one filter.

A *perfect* merge matches what its parts match. With a ``gap`` a merge may also fill the space between ranges of
numbers, up to that share of the whole range: fewer filters, and some unwanted events on the link. With
``false_positives`` it may fill up to that share of the range in which values are expected, which is from the least to
the greatest bound that was announced. The smallest gaps are filled first. The last broker matches exactly, so unwanted
events reach no client.

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
from tamis.routing.core.summary import NewGroup, Wanted
from tamis.routing.policies.covering import PIECES, CoveringStrategy

__all__ = ["MergingStrategy", "join_filters"]

#: Most ends of ranges in a merged condition; a longer list of values costs more than it saves.
MAX_CUTS = 64

#: Whether gaps may be filled: the attribute, the length of the merged range, and that of its gaps.
Fill = Callable[[str, float, float], bool]

#: The position of a constraint that is left out, its attribute, and the other constraints.
AllButOne = tuple[int, str, tuple[Constraint, ...]]


class MergingStrategy(CoveringStrategy):
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
        #: ``{attribute: (least, greatest)}`` of the announced finite bounds: values are expected between them.
        self._extents: dict[str, tuple[float, float]] = {}
        #: ``{all but one constraint: keys}`` of the groups: only filters that agree on them can be merged.
        self._alike: dict[AllButOne, dict[str, None]] = {}

    def opened(self, content: Subscription) -> None:
        """Note a new group."""
        super().opened(content)
        for agreement in _all_but_one(content):
            self._alike.setdefault(agreement, {})[str(content.id)] = None
        if self._false_positives:
            self._note_extents(content)

    def place(self, keys: Sequence[str], questions: Questions) -> None:
        """Return None: each subscription may change the groups for the next one."""

    def closed(self, content: Wanted) -> None:
        """Note that a group has ended."""
        super().closed(content)
        for agreement in _all_but_one(content):
            self._alike[agreement].pop(str(content.id))
            if not self._alike[agreement]:
                del self._alike[agreement]

    def grow(self, subscription: Subscription) -> NewGroup:
        """Return the subscription merged with as many groups as possible; it replaces them and all it covers."""
        if len(subscription.filters) != 1:
            return super().grow(subscription)
        content, absorbed = subscription, dict[str, None]()
        while (partner := self._find_partner(content, absorbed)) is not None:
            key, merged = partner
            absorbed[key] = None
            content = _named(merged, subscription.namespace)
        if not absorbed:
            return super().grow(subscription)
        return NewGroup(content, tuple(absorbed), tuple(key for key in self.covered(content) if key not in absorbed))

    def _find_partner(self, content: Subscription, absorbed: Container[str]) -> tuple[str, Filter] | None:
        """Return the oldest group that a filter can be merged with, and the merge."""
        alike = {key for agreement in _all_but_one(content) for key in self._alike.get(agreement, ())}
        for key in sorted(alike, key=self._rows.__getitem__):
            if key not in absorbed:
                fill = self._fill if self._gap or self._false_positives else None
                joined = join_filters(content.filters[0], self._contents[key].filters[0], fill)
                if joined is not None:
                    return key, joined
        return None

    def _fill(self, attribute: str, length: float, empty: float) -> bool:
        """Whether gaps of length ``empty`` may be filled: a share of the merged range, or of the expected values."""
        if not self._false_positives:
            return empty <= self._gap * length
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
    """Yield the keys under which a filter finds filters to merge with, one for each condition on values."""
    if len(content.filters) == 1 and content.filters[0].rest is None:
        constraints = content.filters[0].constraints
        for i, constraint in enumerate(constraints):
            if isinstance(constraint, Values):
                yield i, constraint.attribute, (*constraints[:i], *constraints[i + 1 :])


def join_filters(a: Filter, b: Filter, fill: Fill | None = None) -> Filter | None:
    """Return one filter that matches what ``a`` or ``b`` match, plus values in filled gaps; None if there is none.

    They must agree on all constraints but one, a set of values of one attribute. ``fill`` is called with the attribute,
    the length of the merged range and that of its gaps, and returns whether the gaps may be filled; None: never.

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
    differing = [i for i, pair in enumerate(zip(a.constraints, b.constraints, strict=True)) if pair[0] != pair[1]]
    if len(differing) != 1:
        return None
    first, second = a.constraints[differing[0]], b.constraints[differing[0]]
    if not (isinstance(first, Values) and isinstance(second, Values)) or first.attribute != second.attribute:
        return None
    allowed = _filled(first.allowed | second.allowed, None if fill is None else partial(fill, first.attribute))
    if len(allowed.cuts) > MAX_CUTS:
        return None
    joined: Sequence[Constraint] = () if allowed == ANYTHING else (Values(first.attribute, allowed),)
    return Filter((*a.constraints[: differing[0]], *joined, *a.constraints[differing[0] + 1 :]))


def _filled(allowed: ValueSet, fill: Callable[[float, float], bool] | None) -> ValueSet:
    """Return a set with the smallest gaps between its ranges filled, as many as allowed; unbounded sets unchanged."""
    parts = list(allowed.intervals())
    length = _length(parts[0][0], parts[-1][1]) if len(parts) > 1 else None
    if fill is None or length is None:
        return allowed
    gaps = [_length(lower[1], upper[0]) for lower, upper in pairwise(parts)]
    empty, closed = 0.0, set[int]()
    for gap in sorted(range(len(gaps)), key=lambda gap: gaps[gap] or 0.0):
        empty += gaps[gap] or 0.0
        if not fill(length, empty):
            break
        closed.add(gap)
    starts = [part[0] for gap, part in enumerate(parts) if gap - 1 not in closed]
    stops = [part[1] for gap, part in enumerate(parts) if gap not in closed]
    return ValueSet.from_intervals(list(zip(starts, stops, strict=True)), missing=allowed.missing)


def _length(start: Cut | None, stop: Cut | None) -> float | None:
    """Return the length of a range of numbers; None if an end is open or not a number."""
    if start is None or stop is None or not isinstance(start[0], Real) or not isinstance(stop[0], Real):
        return None
    return float(stop[0]) - float(start[0])


def _named(filter: Filter, namespace: str) -> Subscription:
    """Return a merged filter under a key that depends only on its contents, not on the parts it was merged from."""
    text = "|".join([namespace, *(_text_of(constraint) for constraint in filter.constraints)])
    digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return Subscription(f"+{digest}", (filter,), None, namespace)


def _text_of(constraint: Constraint) -> str:
    if isinstance(constraint, Spatial):  # the repr of a polygon is cut when it is long
        return f"{constraint.attribute} {sorted(constraint.relations)} {constraint.region.wkb_hex}"
    if isinstance(constraint, Geometric):
        words = (constraint.attribute, constraint.function, constraint.negated, constraint.distance)
        return f"{words} {constraint.geometry.wkb_hex}"
    return repr(constraint)
