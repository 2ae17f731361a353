"""Finds covers by cells: ranges of keys give candidates, proofs on raw values decide.

A subscription that covers another lies over all of its cells, so it owns the keys of the lowest and of the highest
cell of the other's box. The owners of both keys are candidates, and `tamis.algebra.covers` decides about each.

Implements: [mics] section 5, Subscription Indexing as the first phase of covering.
Deviation: cells propose and never decide: two boxes in the same cells may differ (erratum M.3.7).
"""

from __future__ import annotations

import numpy as np

from tamis.algebra.covers import Prover
from tamis.curves.cells import DEFAULT_BITS
from tamis.index.mics.groups import RangeGroups
from tamis.index.mics.projection import DEFAULT_AXES, group_axes
from tamis.index.mics.space import ContentSpace
from tamis.index.protocols import Guarantee, IndexStatistics, OneByOne, Rows
from tamis.model.subscription import Subscription

__all__ = ["CellCovering"]

#: Spaces are learned again when the number of subscriptions has grown by this factor.
_GROWTH = 4


class CellCovering(OneByOne):
    """Finds covers among the subscriptions that share cells with a question; the cells are learned from what is held.

    Guarantee: SOUND. A condition that has no cells of its own, as LIKE, takes the cells of its hull, and a cover whose
    hull is smaller is overlooked. Cost: two look-ups for each group of axes, and a proof for each candidate. When not
    to use it: "exact" proposes fewer candidates; this index shows how good cells alone are.

    >>> from tamis.model.language.compiler import compile_text
    >>> index = CellCovering()
    >>> index.add(3, compile_text("x BETWEEN 0 AND 10"))
    >>> index.find_cover(compile_text("x BETWEEN 4 AND 5")), index.find_cover(compile_text("x > 4"))
    (3, None)
    """

    kind = "cells"
    guarantee = Guarantee.SOUND

    def __init__(
        self, *, n_axes: int = DEFAULT_AXES, n_groups: int = 1, bits: int | None = None, pieces: int | None = None
    ) -> None:
        self._n_axes, self._n_groups, self._bits, self._pieces = n_axes, n_groups, bits or DEFAULT_BITS, pieces
        self._subscriptions: dict[int, Subscription] = {}
        #: Rows that can never match, and have no cells.
        self._never: set[int] = set()
        self._groups = RangeGroups([ContentSpace([])])
        self._learn_at = 1
        self._counts = {"searches": 0, "hits": 0, "verified": 0, "learned": 0}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        if row in self._subscriptions:
            raise KeyError(f"row {row} is taken")
        self._subscriptions[row] = subscription
        if not subscription.filters:
            self._never.add(row)
        if len(self._subscriptions) >= self._learn_at:
            self._learn()
        else:
            self._groups.add(row, subscription)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        del self._subscriptions[row]
        self._never.discard(row)
        self._groups.remove(row)

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the smallest row among the candidates that covers the given subscription; None: none was found."""
        self._counts["searches"] += 1
        candidates = self._groups.possible_covers(subscription) if subscription.filters else sorted(self._subscriptions)
        prover = Prover(self._pieces)
        for row in candidates:
            self._counts["verified"] += 1
            if prover.is_covered(subscription.filters, self._subscriptions[row].filters):
                self._counts["hits"] += 1
                return row
        return None

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription is proved to cover, ascending."""
        prover = Prover(self._pieces)
        candidates = self._groups.meeting(subscription)
        rows = [
            row
            for row in sorted({*candidates, *self._never})
            if prover.is_covered(self._subscriptions[row].filters, subscription.filters)
        ]
        return np.array(rows, np.int32)

    def statistics(self) -> IndexStatistics:
        """Return the contents, and the number of proved candidates."""
        axes = ", ".join(axis.attribute for space in self._groups.spaces for axis, _ in space.axes)
        return IndexStatistics(self.kind, len(self), {"axes": axes, "bits": self._bits, **self._counts})

    def _learn(self) -> None:
        held = self._subscriptions
        self._groups = RangeGroups(group_axes(list(held.values()), self._n_groups, self._n_axes, self._bits))
        for row, subscription in held.items():
            self._groups.add(row, subscription)
        self._learn_at = _GROWTH * len(held)
        self._counts["learned"] += 1
