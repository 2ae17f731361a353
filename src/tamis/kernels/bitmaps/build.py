"""The arrays of a bitmap segment: buckets of codes, the tables of each leaf, and the codes of each box.

An int16 code (:mod:`tamis.kernels.boxes.quantise`) falls into one of 31 buckets per column, which hold about equally
many bounds; the map is monotone, so an event can meet a box only if its bucket is one that the box touches. Row 31 is
that of events without a value, which fit boxes that leave the column free. A leaf has a *table* of 32 rows for each
column that one of its boxes constrains: bit i of row b says that box i may contain values of bucket b.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.bitmaps.order import LEAF, START, STOP
from tamis.kernels.bitmaps.words import N_ROWS, N_WORDS, VECTOR
from tamis.kernels.boxes.quantise import FREE, OPEN, PRESENT
from tamis.kernels.compile import Int, hot_kernel

__all__ = [
    "CODE_SHIFT",
    "MISSING_ROW",
    "N_STEPS",
    "bucket_corners",
    "bucket_map",
    "fill_tables",
    "list_tables",
    "take_codes",
]

#: Codes are put into buckets in steps of ``2 ** CODE_SHIFT``; a column of the map has ``N_STEPS`` steps.
CODE_SHIFT: Final = 5
N_STEPS: Final = 1024
#: The row of events without a value.
MISSING_ROW: Final = N_ROWS - 1


def bucket_map(corners: npt.NDArray[np.int16]) -> npt.NDArray[np.uint8]:
    """Return the bucket of each step of codes, uint8[columns, N_STEPS], never falling along a column.

    ``corners`` int16[n, 2 * columns] are the lower and upper codes of boxes on each column.
    """
    columns = corners.shape[1] // 2
    buckets = np.zeros((columns, N_STEPS), np.uint8)
    for k in range(columns):
        low, high = corners[:, 2 * k], corners[:, 2 * k + 1]
        bounds = np.concatenate((low[low > PRESENT], high[high < OPEN]))
        n_bounds = np.bincount(bounds >> CODE_SHIFT, minlength=N_STEPS)
        n_below = np.cumsum(n_bounds) - n_bounds
        buckets[k] = n_below * MISSING_ROW // max(1, bounds.size)
    return np.minimum(buckets, MISSING_ROW - 1)


@hot_kernel
def bucket_corners(corners: npt.NDArray[np.int16], buckets: npt.NDArray[np.uint8], rows: npt.NDArray[np.uint8]) -> None:
    """Write the first and the last row that each box touches on each column, uint8[n, 2 * columns]."""
    for s in range(corners.shape[0]):
        for k in range(corners.shape[1] // 2):
            low, high = np.int64(corners[s, 2 * k]), np.int64(corners[s, 2 * k + 1])
            rows[s, 2 * k], rows[s, 2 * k + 1] = np.uint8(0), np.uint8(MISSING_ROW)
            if low != FREE:
                rows[s, 2 * k] = buckets[k, low >> CODE_SHIFT]
                rows[s, 2 * k + 1] = buckets[k, high >> CODE_SHIFT]


@hot_kernel
def list_tables(
    nodes: npt.NDArray[np.int32],
    order: npt.NDArray[np.int32],
    rows: npt.NDArray[np.uint8],
    first: npt.NDArray[np.uint32],
    columns: npt.NDArray[np.uint8],
) -> Int:
    """Write the columns that each leaf needs, one after the other, and where those of a leaf begin; return how many.

    ``columns`` uint8 has room for all columns of all leaves.
    """
    count = np.int64(0)
    for x in range(nodes.shape[0]):
        if nodes[x, LEAF] < 0:
            continue
        first[nodes[x, LEAF]] = count
        for k in range(rows.shape[1] // 2):
            for i in range(nodes[x, START], nodes[x, STOP]):
                if rows[order[i], 2 * k + 1] != MISSING_ROW or rows[order[i], 2 * k] != 0:
                    columns[count] = k
                    count += 1
                    break
    first[first.size - 1] = count
    return count


@hot_kernel
def fill_tables(
    nodes: npt.NDArray[np.int32],
    order: npt.NDArray[np.int32],
    rows: npt.NDArray[np.uint8],
    first: npt.NDArray[np.uint32],
    columns: npt.NDArray[np.uint8],
    bits: npt.NDArray[np.int64],
) -> None:
    """Set the bits of all tables, int64[tables, N_ROWS, N_WORDS] of zeros.

    A box flips its bit where its rows begin and where they have ended; a running XOR fills what lies between.
    """
    for x in range(nodes.shape[0]):
        leaf = np.int64(nodes[x, LEAF])
        if leaf < 0:
            continue
        for table in range(np.int64(first[leaf]), np.int64(first[leaf + 1])):
            k = np.int64(columns[table])
            for i in range(nodes[x, START], nodes[x, STOP]):
                position = i - nodes[x, START]
                bit = np.int64(1) << (position & 63)
                row_after = np.int64(rows[order[i], 2 * k + 1]) + 1
                bits[table, np.int64(rows[order[i], 2 * k]), position >> 6] ^= bit
                if row_after < N_ROWS:
                    bits[table, row_after, position >> 6] ^= bit
            for b in range(1, N_ROWS):
                for w in range(N_WORDS):
                    bits[table, b, w] ^= bits[table, b - 1, w]


@hot_kernel
def take_codes(corners: npt.NDArray[np.int16], order: npt.NDArray[np.int32], codes: npt.NDArray[np.int16]) -> None:
    """Write the codes of boxes in their order, all lower and then all upper ones of each; zeros follow the last."""
    columns = corners.shape[1] // 2
    for i in range(order.size):
        for k in range(columns):
            codes[2 * columns * i + k] = corners[order[i], 2 * k]
            codes[2 * columns * i + columns + k] = corners[order[i], 2 * k + 1]
    for i in range(codes.size - VECTOR, codes.size):
        codes[i] = 0
