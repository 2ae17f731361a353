"""Decides whether boxes are grouped by pairs of axes instead of packed into a tree, and by which pairs.

A tree holds every axis of the segment in every block; with four constraints on twenty axes most of that is
free space, and its hulls become free too. Pair grids (:mod:`tamis.kernels.boxes.pairs`) read only the two
narrowest axes of a box first. Their price is one visit per group and event, so pairs with few boxes are
folded into the group of the narrower axis alone.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes import pairs_build as build
from tamis.kernels.boxes.quantise import FREE
from tamis.kernels.boxes.sparse import Boxes

__all__ = ["file_boxes", "is_sparse", "pair_arrays"]

_IntArray: TypeAlias = npt.NDArray[np.int64]

#: Up to this many axes a tree is better whatever the boxes look like.
_FEW_AXES: Final = 6
#: A pair with fewer boxes costs more to visit than it saves.
_FOLD: Final = 200


def is_sparse(boxes: Boxes, n_columns: int) -> bool:
    """Return whether pair grids suit these boxes: many axes, of which a box constrains less than half on average."""
    return n_columns > _FEW_AXES and 2 * boxes.axis.size < n_columns * (boxes.first.size - 1)


def pair_arrays(
    boxes: Boxes, codes: npt.NDArray[np.int16]
) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[Any]]]:
    """Return the slot order of the boxes and the arrays of their grids."""
    order, records, groups = file_boxes(boxes, codes)
    columns = _choose_columns(records)
    cells, arrays = _make_cells(groups, records, columns)
    return order, {"groups": groups, "column_axes": columns, "cells": cells, **arrays._asdict()}


def file_boxes(
    boxes: Boxes, codes: npt.NDArray[np.int16]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.int64]]:
    """Choose the group of every box; return the slot order, the records in that order, and the groups."""
    n = boxes.first.size - 1
    records = np.zeros((n, 16), np.int16)
    below = np.empty((int(boxes.axis.max(initial=0)) + 1, build.N_BUCKETS + 1), np.int32)
    build.count_bounds(boxes.axis, codes, below)
    build.write_records(boxes.first, boxes.axis, codes, below, records)
    first = boxes.first.astype(np.int64)
    counts = first[1:] - first[:-1]
    number, axes = _number_groups(records, counts)
    keys = np.empty(n, np.uint16)
    build.zorder_keys(records, axes[number, 1] != build.NO_AXIS, keys)
    order = _sort_by(number, keys)
    records = np.take(records, order, axis=0)
    return order, records, _make_groups(records, axes, np.bincount(number, minlength=len(axes)))


def _choose_columns(records: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """Return the axes that lanes may name: those constrained most often besides the narrowest."""
    is_bounded = records[:, 6:11:2] != FREE
    often = np.bincount(records[:, 1:4][is_bounded], minlength=1)
    chosen = np.argsort(-often, kind="stable")[: build.N_FILTERED]
    return np.sort(chosen[often[chosen] > 0]).astype(np.int32)


def _number_groups(records: npt.NDArray[np.int16], counts: _IntArray) -> tuple[_IntArray, _IntArray]:
    """Return the group number of each box and the two axes int64[groups, 2] of each group."""
    width = int(records[:, :2].max(initial=0)) + 2
    first = np.where(counts > 0, records[:, 0].astype(np.int64), build.NO_AXIS)
    second = np.where(counts > 1, records[:, 1].astype(np.int64), build.NO_AXIS)
    pair = np.where(second != build.NO_AXIS, np.minimum(first, second) * width + np.maximum(first, second), 0)
    number, _, often = _count_values(pair)
    folded = (second == build.NO_AXIS) | (often[number] < _FOLD)
    number, names, _ = _count_values(np.where(folded, width * width + first + 1, pair))
    single = names >= width * width
    axes = np.stack((names // width, names % width), 1)
    axes[single, 0], axes[single, 1] = names[single] - width * width - 1, build.NO_AXIS
    return number, axes


def _count_values(values: _IntArray) -> tuple[_IntArray, _IntArray, _IntArray]:
    """Return the rank of each value among the distinct ones, the distinct ones, and how often each occurs."""
    if values.max(initial=0) > 1 << 22:
        distinct, rank, often = np.unique(values, return_inverse=True, return_counts=True)
        return rank.astype(np.int64), distinct, often.astype(np.int64)
    table = np.bincount(values)  # a million: 19 ms, np.unique 330 ms
    distinct = np.flatnonzero(table)
    rank_of = np.zeros(table.size, np.int64)
    rank_of[distinct] = np.arange(distinct.size)
    return rank_of[values], distinct, table[distinct]


def _sort_by(number: _IntArray, keys: npt.NDArray[np.uint16]) -> _IntArray:
    """Return the order by group number, then key; a stable sort of uint16 is a radix sort."""
    order = np.argsort(keys, kind="stable")
    small = number.astype(np.uint16) if number.max(initial=0) < 1 << 16 else number
    return order[np.argsort(small[order], kind="stable")]


def _make_groups(
    records: npt.NDArray[np.int16], axes: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Choose a grid for each group; return int64[groups, GROUP_WIDTH]."""
    groups = np.zeros((len(axes), build.GROUP_WIDTH), np.int64)
    start = cell = 0
    for group, (axis_0, axis_1), size in zip(groups, axes.tolist(), sizes.tolist(), strict=True):
        b0, b1 = (0, 0)
        if axis_0 != build.NO_AXIS:
            b0, b1 = build.choose_grid(records, start, start + size, axis_1 != build.NO_AXIS)
        group[:] = axis_0, axis_1, 15 - b0, 15 - b1, b1, cell, start, size
        start, cell = start + size, cell + (1 << (b0 + b1))
    return groups


def _make_cells(
    groups: npt.NDArray[np.int64], records: npt.NDArray[np.int16], columns: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint32], build.CellArrays]:
    """List in each cell the boxes that touch it; return the first block of each cell, and the blocks.

    Lanes without a box have lower codes of 255 and upper codes of 0, which no event meets.
    """
    last = groups[-1]
    n_cells = int(last[build.FIRST_CELL] + (1 << (30 - last[build.SHIFT_0] - last[build.SHIFT_1])))
    cells = np.empty(n_cells + 1, np.uint32)
    build.count_cells(groups, records, cells)
    n_blocks = int(cells[-1])
    corners = np.zeros((n_blocks, 2, 64), np.uint8)
    corners[:, 0] = 255
    axes = np.full(n_blocks * 32, build.NO_COLUMN, np.uint8)
    arrays = build.CellArrays(corners.reshape(-1), axes, np.zeros(n_blocks * 16, np.int32))
    column = np.full(int(records[:, :4].max(initial=0)) + 1, build.NO_COLUMN, np.int16)
    column[columns] = np.arange(columns.size)
    build.fill_cells(groups, records, cells, np.zeros(n_cells, np.int32), column, arrays)
    return cells, arrays
