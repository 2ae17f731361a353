"""Merging: filters that differ on one attribute become one filter.

A *perfect* merge matches what its parts match. With a ``gap`` a merge may also fill the space between ranges of
numbers, up to that share of the whole range: fewer filters, and some events that nobody asked for on the link. The edge
delivers exactly, so that nobody gets them.

Implements: [mics] section 3.6, perfect and imperfect merging.
Deviation: on filters, by attribute; the paper joins ranges of cells, see the policy "mics".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from numbers import Real

from tamis.index.protocols import CoveringIndex
from tamis.model.subscription import Constraint, Filter, Spatial, Subscription, Values
from tamis.model.value_set import ANYTHING, Cut, ValueSet
from tamis.routing.core.summary import Growth
from tamis.routing.policies.covering import Covering

__all__ = ["Merging", "join_filters"]

#: Ends of ranges in a merged condition; a longer list of values costs more than it saves.
MAX_CUTS = 64

#: Which constraint is left out, its attribute, and the others.
AllButOne = tuple[int, str, tuple[Constraint, ...]]


class Merging(Covering):
    """A home is a group that covers; a new group absorbs those it can be merged with."""

    def __init__(self, make_index: Callable[[], CoveringIndex], few: int = 0, gap: float = 0.0) -> None:
        super().__init__(make_index, few)
        self._gap = gap
        #: ``{all but one constraint: keys}`` of the groups: only what agrees on them can be merged.
        self._alike: dict[AllButOne, dict[str, None]] = {}

    def opened(self, content: Subscription) -> None:
        """Take note of a new group."""
        super().opened(content)
        for place in _all_but_one(content):
            self._alike.setdefault(place, {})[str(content.id)] = None

    def closed(self, content: Subscription) -> None:
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
                joined = join_filters(content.filters[0], self._contents[key].filters[0], self._gap)
                if joined is not None:
                    return key, joined
        return None


def _all_but_one(content: Subscription) -> Iterator[AllButOne]:
    """Yield the places of a filter among those that it may be merged with, one for each condition on values."""
    if len(content.filters) == 1 and content.filters[0].rest is None:
        constraints = content.filters[0].constraints
        for i, one in enumerate(constraints):
            if isinstance(one, Values):
                yield i, one.attribute, (*constraints[:i], *constraints[i + 1 :])


def join_filters(a: Filter, b: Filter, gap: float = 0.0) -> Filter | None:
    """Return one filter that matches what ``a`` or ``b`` match, and beyond that only what fills a gap.

    They must agree on all constraints but one, which says for one attribute which values it may have.

    >>> from tamis.model.language.compiler import compile_text
    >>> a, b = (
    ...     compile_text(text).filters[0] for text in ("y = 1 AND x BETWEEN 0 AND 4", "y = 1 AND x BETWEEN 5 AND 9")
    ... )
    >>> join_filters(a, b, gap=0.2) == compile_text("y = 1 AND x BETWEEN 0 AND 9").filters[0]
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
    allowed = _filled(one.allowed | other.allowed, gap)
    if len(allowed.cuts) > MAX_CUTS:
        return None
    joined: Sequence[Constraint] = () if allowed == ANYTHING else (Values(one.attribute, allowed),)
    return Filter((*a.constraints[: differ[0]], *joined, *a.constraints[differ[0] + 1 :]))


def _filled(allowed: ValueSet, gap: float) -> ValueSet:
    """Return one range in place of several when the space between them is small; unbounded ones stay apart."""
    parts = list(allowed.intervals())
    if len(parts) < 2 or not gap:
        return allowed
    start, stop = parts[0][0], parts[-1][1]
    whole = _length(start, stop)
    filled = sum(_length(start, stop) or 0.0 for start, stop in parts)
    if whole is None or not 0 <= whole - filled <= gap * whole:
        return allowed
    return ValueSet.from_intervals([(start, stop)], missing=allowed.missing)


def _length(start: Cut | None, stop: Cut | None) -> float | None:
    """Return the length of a range of numbers; None when it is open or no number."""
    if start is None or stop is None or not isinstance(start[0], Real) or not isinstance(stop[0], Real):
        return None
    return float(stop[0]) - float(start[0])


def _named(filter: Filter, namespace: str) -> Subscription:
    """Return a merged filter under a key that is a function of what it says, whoever merged it from whatever."""
    said = "|".join([namespace, *(_said(constraint) for constraint in filter.constraints)])
    digest = hashlib.blake2b(said.encode(), digest_size=12).hexdigest()
    return Subscription(f"+{digest}", (filter,), None, namespace)


def _said(constraint: Constraint) -> str:
    if isinstance(constraint, Spatial):  # the repr of a polygon is cut when it is long
        return f"{constraint.attribute} {sorted(constraint.relations)} {constraint.region.wkb_hex}"
    return repr(constraint)
