"""Whether other boxes together contain a box: exact subtraction, one piece after the other.

A *piece* is a part of the box that has not been subtracted yet. Its lower corner is looked up in the tree: if no
other box contains it, the corner is a witness and the answer is no. Otherwise a box that contains it is subtracted;
it reaches below the piece on every axis, so the parts above its upper ends remain, at most one per axis. A part begins
just above an end, so a lower side may be open; an upper one never is.

Numbers are dense: between two neighbouring float64 there are others, so an open side is not empty.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.dominance import Question, Walk, code_question
from tamis.kernels.boxes.fit import fit_event
from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.directory import BLOCKS, HEIGHT, LEAVES, LEVELS, N_COLUMNS, ROWS
from tamis.kernels.emit import int32_at, int64_at, lowest_bit

__all__ = ["Pieces", "find_unions"]

#: Boxes around a corner that are compared; where thousands are, one of the first cuts nearly as little as the best.
_ENOUGH: Final = 32


class Pieces(NamedTuple):
    """A stack of pieces: ``lo``, ``hi`` float64[room, d] (NaN where free), ``open`` bool[room, d] of lower sides."""

    lo: npt.NDArray[np.float64]
    hi: npt.NDArray[np.float64]
    open: npt.NDArray[np.bool_]


@inline_kernel
def _cuts(boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], row: Int, pieces: Pieces, at: Int) -> Int:
    """Return how many upper ends of a box cut a piece whose lower corner it contains; -1 if it does not contain it."""
    cuts = np.int64(0)
    for k in range(pieces.lo.shape[1]):
        lo, hi = boxes[0][row, k], boxes[1][row, k]
        start = pieces.lo[at, k]
        if np.isnan(start):
            if lo != -np.inf or hi != np.inf:
                return np.int64(-1)
            continue
        if not (lo <= start) or hi < start or (hi == start and pieces.open[at, k]):
            return np.int64(-1)
        cuts += hi < pieces.hi[at, k]
    return cuts


@inline_kernel
def _best_of_block(
    segment: npt.NDArray[np.int64],
    event: Question,
    block: Int,
    boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    alive: npt.NDArray[np.bool_],
    piece: tuple[Pieces, Int],
    best: tuple[Int, Int, Int],
) -> tuple[Int, Int, Int]:
    """Return ``(cuts, row, compared)`` of the box in one leaf block that cuts least, or ``best``."""
    columns = segment[N_COLUMNS]
    mask = fit_event(segment[LEAVES] + 64 * columns * block, columns, event) & 0xFFFF
    while mask != 0:
        row = np.int64(int32_at(segment[ROWS], 16 * block + lowest_bit(mask)))
        mask &= mask - 1
        if alive[row]:
            cuts = _cuts(boxes, row, piece[0], piece[1])
            if cuts >= 0:
                better = cuts < best[0] or (cuts == best[0] and row < best[1])
                best = (cuts, row, best[2] + 1) if better else (best[0], best[1], best[2] + 1)
    return best


@inline_kernel
def _best_cutter(
    segment: npt.NDArray[np.int64],
    boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    alive: npt.NDArray[np.bool_],
    piece: tuple[Pieces, Int],
    walk: Walk,
) -> tuple[Int, Int, Int]:
    """Return ``(cuts, row, compared)`` of the living box around the lower corner of a piece that cuts it least."""
    corner = piece[0].lo[piece[1]]
    code_question(segment, corner, corner, walk.codes, True)
    event = Question(walk.codes[2], walk.codes[3], corner, corner)
    best = (np.int64(1 << 40), np.int64(1 << 40), np.int64(0))
    walk.stack[0] = 0
    depth = 1
    while depth > 0 and best[0] > 0 and best[2] < _ENOUGH:
        depth -= 1
        level, node = walk.stack[depth] >> 40, walk.stack[depth] & 0xFFFFFFFFFF
        address = segment[BLOCKS] + (int64_at(segment[LEVELS], level) + node) * 64 * segment[N_COLUMNS]
        mask = fit_event(address, segment[N_COLUMNS], event) & 0xFFFF
        while mask != 0:
            child = 16 * node + lowest_bit(mask)
            mask &= mask - 1
            if level == segment[HEIGHT] - 1:
                best = _best_of_block(segment, event, child, boxes, alive, piece, best)
            else:
                walk.stack[depth] = ((level + 1) << 40) | child
                depth += 1
    return best


@inline_kernel
def _take_away(
    boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], row: Int, pieces: Pieces, top: Int
) -> Int:
    """Replace the top piece by its parts outside a box; return the new height of the stack."""
    d = pieces.lo.shape[1]
    work = pieces.lo.shape[0] - 1
    for k in range(d):
        pieces.lo[work, k] = pieces.lo[top, k]
        pieces.hi[work, k] = pieces.hi[top, k]
        pieces.open[work, k] = pieces.open[top, k]
    for k in range(d):
        end = boxes[1][row, k]
        if not end < pieces.hi[work, k]:
            continue
        for j in range(d):
            pieces.lo[top, j] = pieces.lo[work, j]
            pieces.hi[top, j] = pieces.hi[work, j]
            pieces.open[top, j] = pieces.open[work, j]
        pieces.lo[top, k] = end
        pieces.open[top, k] = True
        pieces.hi[work, k] = end
        top += 1
    return top


@hot_kernel
def find_unions(
    segment: npt.NDArray[np.int64],
    boxes: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    order: npt.NDArray[np.int32],
    alive: npt.NDArray[np.bool_],
    pieces: Pieces,
    used: npt.NDArray[np.int32],
    walk: Walk,
) -> None:
    """Drop the boxes that the living others contain together, one after the other in ``order``.

    Parameters
    ----------
    segment, boxes
        The directory row of a tree, and its boxes ``lo``, ``hi`` float64[n, d] by row.
    alive
        bool[n]; set to False for a box that is dropped, which helps no other from then on.
    pieces
        Room for ``budget * d + 2`` pieces; the last one is scratch.
    used
        int32[len(order), budget], -1 at first: the rows that were taken away from each box that is dropped.
    """
    budget = used.shape[1]
    for i in range(order.size):
        current = np.int64(order[i])
        alive[current] = False
        for k in range(pieces.lo.shape[1]):
            free = boxes[0][current, k] == -np.inf and boxes[1][current, k] == np.inf
            pieces.lo[0, k] = np.nan if free else boxes[0][current, k]
            pieces.hi[0, k] = np.nan if free else boxes[1][current, k]
            pieces.open[0, k] = False
        top, steps = np.int64(1), 0
        while top > 0 and steps < budget:
            cuts, row, _ = _best_cutter(segment, boxes, alive, (pieces, top - 1), walk)
            if cuts > 1 << 32:
                break
            used[i, steps] = row
            steps += 1
            top = _take_away(boxes, row, pieces, top - 1)
        if top > 0:
            alive[current] = True
            for j in range(steps):
                used[i, j] = -1
