"""Evaluates the open conditions of entries for a whole table.

Most filters that a box cannot decide have one condition that it cannot say: a ``LIKE``, or geometry that kernels do not
compare, which GEOS is asked about for all events of a geometry at once. Many subscriptions share
the same few patterns, and the events of a table few different strings, so each pattern is held against each string
once. What a filter leaves open is worked out when it is first asked for, and a number is kept for it; the numbers
are not saved.
"""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.geometry.predicates import pass_all
from tamis.geometry.relations import relation_of
from tamis.index.packed.axes import Axes
from tamis.index.packed.boxes_of import open_constraints
from tamis.index.packed.deciders.entries import Entries
from tamis.index.protocols import Lookup
from tamis.model.subscription import Geometric, Like, Spatial
from tamis.model.tables import EventTable
from tamis.model.text.patterns import meets

__all__ = ["ASK", "OpenConditions"]

_IntArray = npt.NDArray[np.int64]

#: The conditions that are answered here.
_Answered = Like | Geometric | Spatial

#: The raw values must be evaluated; not computed yet.
ASK: Final = -1
_UNKNOWN: Final = -2


class OpenConditions:
    """Numbers of open conditions by entry. Readers may share it: a number is given out once and never changed."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._number_of = np.empty(0, np.int32)
        self._numbers: dict[tuple[_Answered, ...], int] = {}
        self._conditions: dict[int, tuple[_Answered, ...]] = {}
        self._next = count()

    def numbers(self, positions: npt.NDArray[np.int32], entries: Entries, axes: Axes) -> npt.NDArray[np.int32]:
        """Return for each position the number of the conditions that the box of its entry leaves open, or `ASK`."""
        number_of = self._number_of
        if len(number_of) < len(entries):
            number_of = np.concatenate((number_of, np.full(len(entries) - len(number_of), _UNKNOWN, np.int32)))
        numbers = number_of[positions]
        for entry in np.unique(positions[numbers == _UNKNOWN]).tolist():
            number_of[entry] = self._work_out(int(entries.row[entry]), int(entries.filter[entry]), axes)
        self._number_of = number_of
        return number_of[positions]

    def answers(self, numbers: npt.NDArray[np.int32], event: _IntArray, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each pair of a number, not `ASK`, and an event whether the event meets the open conditions."""
        answers = np.ones(len(numbers), bool)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=ASK))
        strings = _Strings(events)
        for pairs in np.split(order, starts[1:]) if len(order) else ():
            for condition in self._conditions[int(numbers[pairs[0]])]:
                pairs = pairs[answers[pairs]]
                answers[pairs] = (
                    strings.meet(condition, event[pairs])
                    if isinstance(condition, Like)
                    else _pass(condition, event[pairs], events)
                )
        return answers

    def _work_out(self, row: int, filter: int, axes: Axes) -> int:
        subscription = self._lookup(row)
        if subscription is None:
            return ASK  # removed meanwhile; the row never comes again
        constraints = open_constraints(subscription.filters[filter], axes)
        answered = tuple(
            constraint for constraint in constraints or () if isinstance(constraint, Like | Geometric | Spatial)
        )
        if constraints is None or len(answered) < len(constraints):
            return ASK
        number = self._numbers.setdefault(answered, next(self._next))
        self._conditions[number] = answered
        return number


def _pass(condition: Geometric | Spatial, event: _IntArray, events: EventTable) -> npt.NDArray[np.bool_]:
    """Return which events meet a condition on geometry; a missing value meets neither it nor its negation."""
    met = np.zeros(len(event), bool)
    column = events.columns.get(condition.attribute)
    if column is None:
        return met
    present = np.flatnonzero(column.present[event])
    values = column.values[event[present]]
    if isinstance(condition, Spatial):
        met[present] = [relation_of(value, condition.region) in condition.relations for value in values]
    else:
        met[present] = pass_all(values, condition) != condition.negated
    return met


class _Strings:
    """The strings of a table's columns, each different one known by a number."""

    def __init__(self, events: EventTable) -> None:
        self._events = events
        self._encoded: dict[str, tuple[list[str], _IntArray]] = {}

    def meet(self, like: Like, event: _IntArray) -> npt.NDArray[np.bool_]:
        """Return which events meet a pattern; a missing value meets neither it nor its negation."""
        column = self._events.columns.get(like.attribute)
        if column is None:
            return np.zeros(len(event), bool)
        if like.attribute not in self._encoded:
            codes = column.values.dictionary_encode()
            numbers = np.asarray(codes.indices.fill_null(0), np.int64)
            self._encoded[like.attribute] = codes.dictionary.to_pylist(), numbers
        texts, number = self._encoded[like.attribute]
        present = column.present[event]
        needed, inverse = np.unique(number[event[present]], return_inverse=True)
        fits = np.array([meets(like, texts[i]) for i in needed.tolist()], bool)
        met = np.zeros(len(event), bool)
        met[present] = fits[inverse]
        return met
