"""Splits many subscriptions of one shape into components at once: their ends become columns.

Two subscriptions have the same *shape* if they have as many filters on the same attributes, and as many intervals on
each of them: ``name IN ('a', 'b') AND x < 5`` and ``name IN ('c', 'd') AND x < 7``. Then their components have the same
places, and only the ends differ. A subscription with something unusual (a pattern, a region, a range of strings, an
integer beyond 2^53) has no shape: `components.decompose` splits it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.outline import ANYWHERE, LOWEST, PRESENT, AxisName
from tamis.index.dominance.space import DominanceSpace
from tamis.index.packed.axes import string_key
from tamis.index.protocols import Filtered
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.subscription import Values

__all__ = ["Shaped", "group_by_shape", "shaped_corners"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]
_BoolArray = npt.NDArray[np.bool_]

#: Subscriptions of one shape that are worth arrays; fewer are split one by one.
_FEWEST: Final = 16
#: Components of one subscription; with more it is split by itself.
_MOST: Final = 64
#: Integers below are float64 values; the next one above reads as this one.
_EXACT: Final = 2.0**53
_LARGEST: Final = -float(ANY_VALUE)
_NUMBERS: Final = frozenset({float, int, bool})

#: For each constraint four fields: attribute, number of cuts, whether the set begins below the first, whether it holds
#: the missing value. None ends a filter.
_Shape = tuple[Any, ...]


class _Part(NamedTuple):
    """One interval of an attribute, by the numbers of its cuts, None for an open end; or the missing value."""

    attribute: str
    start: int | None
    stop: int | None
    is_missing: bool = False


class _Column(NamedTuple):
    """One cut of n subscriptions: values with the key of each, and whether the value itself is below the cut."""

    keys: _FloatArray
    is_after: _BoolArray
    texts: list[str] | None


class Shaped(NamedTuple):
    """Subscriptions of one shape.

    Attributes
    ----------
    positions
        int64[n]: where they stand among those that were given.
    components
        The intervals of each component, one for each attribute.
    columns
        The cuts of all constraints, in their order.
    """

    positions: _IntArray
    components: list[tuple[_Part, ...]]
    columns: list[_Column]

    @property
    def strings(self) -> set[str]:
        """The attributes that are compared with strings."""
        parts = itertools.chain.from_iterable(self.components)
        return {part.attribute for part in parts if part.start is not None and self.columns[part.start].texts}


def group_by_shape(subscriptions: Sequence[Filtered], positions: Sequence[int]) -> tuple[list[Shaped], list[int]]:
    """Return the subscriptions at some positions by their shapes, and the positions of those without one."""
    cuts_of: dict[_Shape, list[tuple[Any, ...]]] = {}
    members: dict[_Shape, list[int]] = {}
    others: list[int] = []
    for position in positions:
        shape, cuts = _shape_of(subscriptions[position])
        if shape is None:
            others.append(position)
        elif shape in members:
            members[shape].append(position)
            cuts_of[shape] += cuts
        else:
            members[shape] = [position]
            cuts_of[shape] = cuts
    groups: list[Shaped] = []
    for shape, own_positions in members.items():
        components = _components_of(shape) if len(own_positions) >= _FEWEST else []
        if not components:
            others += own_positions
            continue
        columns, is_usual = _columns_of(components, cuts_of[shape], len(own_positions))
        group = Shaped(np.array(own_positions), components, columns)
        others += group.positions[~is_usual].tolist()
        if is_usual.any():
            groups.append(group if is_usual.all() else _taken(group, np.flatnonzero(is_usual)))
    return groups, sorted(others)


def _shape_of(subscription: Filtered) -> tuple[_Shape | None, list[tuple[Any, ...]]]:
    shape: list[Any] = []
    cuts: list[tuple[Any, ...]] = []
    for filter in subscription.filters:
        if filter.rest is not None:
            return None, cuts
        for constraint in filter.constraints:
            if type(constraint) is not Values:
                return None, cuts
            allowed = constraint.allowed
            cuts.append(allowed.cuts)
            shape += constraint.attribute, len(allowed.cuts), allowed.from_below, allowed.missing
        shape.append(None)
    return tuple(shape), cuts


def _components_of(shape: _Shape) -> list[tuple[_Part, ...]]:
    """Return the components of a shape; none if they are many, or if an attribute allows nothing."""
    components: list[tuple[_Part, ...]] = []
    options: list[list[_Part]] = []
    n_cuts = 0
    fields = iter(shape)
    for attribute in fields:
        if attribute is None:
            if len(components) + math.prod(map(len, options)) > _MOST:
                return []
            components += itertools.product(*options)
            options = []
            continue
        end, from_below, missing = n_cuts + next(fields), next(fields), next(fields)
        options.append(list(_parts(attribute, range(n_cuts, end), from_below=from_below, missing=missing)))
        if not options[-1]:
            return []
        n_cuts = end
    return components


def _parts(attribute: str, cuts: Iterable[int], *, from_below: bool, missing: bool) -> Iterator[_Part]:
    ends: list[int | None] = [*cuts]
    if from_below:
        ends.insert(0, None)
    if len(ends) % 2:
        ends.append(None)
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        yield _Part(attribute, start, stop)
    if missing:
        yield _Part(attribute, None, None, is_missing=True)


def _columns_of(
    components: Sequence[tuple[_Part, ...]], cuts: Sequence[tuple[Any, ...]], n: int
) -> tuple[list[_Column], _BoolArray]:
    """Return the cuts of n subscriptions as columns, and which subscriptions are usual."""
    flat = list(itertools.chain.from_iterable(itertools.chain.from_iterable(cuts)))
    width = len(flat) // n
    is_usual = np.ones(n, np.bool_)
    columns: list[_Column] = []
    for at in range(0, width, 2):
        values, is_after = flat[at::width], np.array(flat[at + 1 :: width], np.bool_)
        kinds = set(map(type, values))
        if kinds == {str}:
            columns.append(_Column(_string_keys(values), is_after, values))
        else:
            keys = _number_keys(values) if kinds <= _NUMBERS else np.full(n, math.nan)
            is_usual &= ~np.isnan(keys)
            columns.append(_Column(keys, is_after, None))
    for part in set(itertools.chain.from_iterable(components)):
        is_usual &= _is_usual(part, columns)
    return columns, is_usual


def _number_keys(values: list[Any]) -> _FloatArray:
    """Return numbers as float64, NaN for integers that may not be that number."""
    try:
        keys = np.array(values, np.float64)
    except OverflowError:
        return np.full(len(values), math.nan)
    large = np.abs(keys) >= _EXACT
    if large.any():
        keys[large & np.array([type(value) is int for value in values])] = math.nan
    return keys


def _string_keys(texts: list[str]) -> _FloatArray:
    keys = {text: string_key(text) for text in set(texts)}
    return np.array([keys[text] for text in texts])


def _is_usual(part: _Part, columns: Sequence[_Column]) -> _BoolArray | bool:
    """Return which intervals are ranges of numbers, or just one string."""
    ends = [columns[end] for end in (part.start, part.stop) if end is not None]
    if all(end.texts is None for end in ends):
        return True
    if len(ends) < 2 or ends[0].texts is None or ends[1].texts is None:
        return False
    return np.array([stop == f"{start}\0" for start, stop in zip(ends[0].texts, ends[1].texts, strict=True)], np.bool_)


def _taken(group: Shaped, chosen: npt.NDArray[np.intp]) -> Shaped:
    numbers = chosen.tolist()
    columns = [
        _Column(keys[chosen], is_after[chosen], None if texts is None else [texts[i] for i in numbers])
        for keys, is_after, texts in group.columns
    ]
    return group._replace(positions=group.positions[chosen], columns=columns)


class _Sides(NamedTuple):
    """One interval of n subscriptions: its ends, and which of them are the ends that were meant."""

    lo: _FloatArray | float
    hi: _FloatArray | float
    is_exact: _BoolArray | bool


def shaped_corners(
    space: DominanceSpace, group: Shaped, *, strict: bool = False
) -> tuple[_FloatArray, _FloatArray, _BoolArray]:
    """Return the corners by which coverers of components are sought, and which components have exact ends.

    The corners are float64[n, components, axes], NaN where a component is free, as `DominanceSpace.asked_sides` has
    them. ``strict``: each end of a number is moved out by a step, so that ends which tie do not count.
    """
    shape = len(group.positions), len(group.components), len(space)
    lo, hi, is_exact = np.full(shape, math.nan), np.full(shape, math.nan), np.ones(shape[:2], np.bool_)
    lo[:, :, space.silent], hi[:, :, space.silent] = ANYWHERE
    for number, parts in enumerate(group.components):
        for part in parts:
            for place, sides in _sides_of(part, group, space, strict):
                axis = space.axis_of.get(place)
                if axis is not None:
                    lo[:, number, axis], hi[:, number, axis] = sides.lo, sides.hi
                is_exact[:, number] &= sides.is_exact
    return lo, hi, is_exact


def _sides_of(part: _Part, group: Shaped, space: DominanceSpace, strict: bool) -> Iterator[tuple[AxisName, _Sides]]:
    name = part.attribute
    if part.is_missing:
        yield (name, "?"), _Sides(1.0, 1.0, True)
        return
    texts = group.columns[part.start].texts if part.start is not None else None
    if texts is not None and part.start is not None:
        keys = group.columns[part.start].keys
        sides = _Sides(keys, keys, True)
        codes = {text: space.codes.get((name, text), -1.0) for text in set(texts)}
        column = np.array([codes[text] for text in texts])
        yield (name, "="), _Sides(column, column, True)
    else:
        sides = _number_sides(part, group.columns, strict)
    yield (name, ""), sides
    yield (name, "~"), sides


def _number_sides(part: _Part, columns: Sequence[_Column], strict: bool) -> _Sides:
    lo: _FloatArray | float = PRESENT[0]
    hi: _FloatArray | float = PRESENT[1]
    is_exact: _BoolArray | bool = True
    if part.start is not None:
        keys, is_after, _ = columns[part.start]
        is_exact = is_exact & ~is_after & (keys > LOWEST) & (keys < _LARGEST)
        lo = np.maximum(keys, LOWEST)
        lo = np.nextafter(lo, -math.inf) if strict else lo
    if part.stop is not None:
        keys, is_after, _ = columns[part.stop]
        is_exact = is_exact & is_after & (keys > LOWEST) & (keys < _LARGEST)
        hi = np.maximum(keys, LOWEST)
        hi = np.nextafter(hi, math.inf) if strict else hi
    return _Sides(lo, hi, is_exact)
