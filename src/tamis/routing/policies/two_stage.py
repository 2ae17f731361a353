"""A two-stage table: cells reject most events at once, exact filters decide about the rest.

The filters of a neighbour are indexed by the ranges of cells they lie in. An event whose cell is in none of them is
rejected by one look-up; otherwise only the filters over its cell are tested, exactly. So the result is exact, and the
cells are local to this broker: they are made from the filters that the neighbour sent, nothing about them is sent, and
they use the attributes that best separate *these* filters.

Cells propose and never withhold a filter (erratum M.3.7): exact covering decides what is announced further.

Implements: [mics] section 5, Subscription Indexing, as the table of a link.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import InvariantError
from tamis.index.mics.matcher import MicsMatcher
from tamis.model.schema import Event
from tamis.model.tables import EventTable
from tamis.routing.core.counters import Counters
from tamis.routing.policies.cells import CellOptions

__all__ = ["TwoStageTable"]


class TwoStageTable(MicsMatcher):
    """The filters of one neighbour in one namespace; ``counters`` count the work of each stage."""

    def __init__(self, options: CellOptions, counters: Counters) -> None:
        super().__init__(n_axes=options.n_axes, n_groups=options.n_groups)
        self._counters = counters

    def matches_any(self, event: Event) -> bool:
        """Whether a filter matches."""
        return self._is_confirmed(event, self.candidates(event).tolist())

    def matches_any_of(self, events: EventTable) -> npt.NDArray[np.bool_]:
        """Return for each event of a table whether a filter matches; the cells of all are looked up at once."""
        bad, proposed = events.bad, self.candidates_of_table(events)
        verdicts = [
            i not in bad and self._is_confirmed(events.event(i), rows.tolist()) for i, rows in enumerate(proposed)
        ]
        return np.array(verdicts, np.bool_)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the cells hold the filters."""
        if len(self._groups.ranges) != len(self):
            raise InvariantError(f"{len(self._groups.ranges)} filters lie in cells, {len(self)} are held")

    def _is_confirmed(self, event: Event, proposed: list[int]) -> bool:
        is_match, n_tested = False, 0
        for row in proposed:
            n_tested += 1
            if matches_subscription(event, self._subscriptions[row]):
                is_match = True
                break
        self._counters.count_stages(held=len(self), proposed=len(proposed), tested=n_tested)
        return is_match
