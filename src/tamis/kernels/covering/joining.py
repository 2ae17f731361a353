"""Which subscriptions have something around every component of a question.

The tree proposes stored components for each component of a question. A subscription covers the question if it is
proposed for all of them: it is marked with the number of the last component it was proposed for, without a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.polygons.region_tests import NO, YES

__all__ = ["Marks", "join_components"]

_NOBODY = 2_147_483_647


class Marks(NamedTuple):
    """int64[stored components] each, zeros: the last component that a subscription was proposed for, and surely is."""

    seen: npt.NDArray[np.int64]
    sure: npt.NDArray[np.int64]


@inline_kernel
def _mark(
    proposed: tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]],
    own: tuple[Int, Int],
    first: bool,
    at: Int,
    marks: Marks,
) -> None:
    """Mark what is proposed for component ``at``, if it was marked for the one before."""
    heads, verdicts = proposed
    for k in range(own[0], own[1]):
        head = heads[k]
        if verdicts[k] == NO:
            continue
        if first or marks.seen[head] == at:
            marks.seen[head] = at + 1
        if verdicts[k] == YES and (first or marks.sure[head] == at):
            marks.sure[head] = at + 1


@hot_kernel
def join_components(
    components: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    proposed: tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]],
    row_of: npt.NDArray[np.int32],
    marks: Marks,
    best: npt.NDArray[np.int32],
    undecided: npt.NDArray[np.int32],
) -> Int:
    """Write for each question the least row that surely covers it; return how many others may.

    Parameters
    ----------
    components
        int64[questions + 1]: the first component of each question.
    offsets, proposed
        CSR of stored components by component in question: the first component of each one's subscription, and whether
        it is around that component.
    row_of
        The row of each stored component.
    best
        int32[questions], the results; 2^31 - 1 where there is none.
    undecided
        int32[2, pairs]: question and row of those that may cover and have a lower row.
    """
    count = 0
    for question in range(best.size):
        first, end = components[question], components[question + 1]
        for at in range(first, end):
            _mark(proposed, (offsets[at], offsets[at + 1]), at == first, at, marks)
        least = np.int64(_NOBODY)
        for k in range(offsets[end - 1], offsets[end]):
            head = proposed[0][k]
            if marks.sure[head] == end:
                least = min(least, np.int64(row_of[head]))
        best[question] = least
        for k in range(offsets[end - 1], offsets[end]):
            head = proposed[0][k]
            if marks.seen[head] == end and marks.sure[head] != end and row_of[head] < least:
                marks.seen[head] = 0  # it may be proposed again
                undecided[0, count] = question
                undecided[1, count] = row_of[head]
                count += 1
    return count
