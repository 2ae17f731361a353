"""The arrays of a bitmap segment: how they are made of boxes, and what those from a file must be.

See :mod:`tamis.kernels.bitmaps`. Of a million boxes with ten of twenty axes each, a box takes 90 bytes of bitmaps and
80 of codes beside its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.arrays import line_aligned
from tamis.index.saved_arrays import Ascending, Below, Declared, Offsets, SavedArrays, Size
from tamis.kernels.bitmaps import order as node
from tamis.kernels.bitmaps.build import (
    MISSING_ROW,
    N_STEPS,
    bucket_corners,
    bucket_map,
    fill_tables,
    list_tables,
    take_codes,
)
from tamis.kernels.bitmaps.words import N_ROWS, N_WORDS, VECTOR

__all__ = ["BITMAP_ARRAYS", "MOST_COLUMNS", "bitmap_arrays", "check_bitmaps", "least_bytes"]

#: A column is a uint8 in the arrays.
MOST_COLUMNS: Final = 255

BITMAP_ARRAYS: Final = {
    "column_axes": Declared(np.int32, ("columns",), Ascending("axes")),
    "buckets": Declared(np.uint8, ("columns", N_STEPS), Below(MISSING_ROW)),
    "nodes": Declared(np.int32, ("nodes", node.NODE_WIDTH)),
    "first_table": Declared(np.uint32, (Size("leaves", plus=1),), Offsets("tables")),
    "table_columns": Declared(np.uint8, ("tables",), Below("columns")),
    "tables": Declared(np.int64, ("tables", N_ROWS, N_WORDS)),
    "codes": Declared(np.int16, ("codes",)),
}


def bitmap_arrays(
    corners: npt.NDArray[np.int16], columns: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[Any]]]:
    """Return the slot order of boxes, given by the codes of their corners, and the arrays of their bitmaps."""
    buckets = bucket_map(corners)
    rows = np.empty(corners.shape, np.uint8)
    bucket_corners(corners, buckets, rows)
    order, nodes = node.order_by_tree(rows)
    n_leaves = int(nodes[:, node.LEAF].max()) + 1
    first, table_columns = np.zeros(n_leaves + 1, np.uint32), np.empty(n_leaves * columns.size, np.uint8)
    n_tables = list_tables(nodes, order, rows, first, table_columns)
    table_columns = table_columns[:n_tables].copy()
    tables = line_aligned(n_tables * N_ROWS * N_WORDS, np.int64).reshape(n_tables, N_ROWS, N_WORDS)
    tables[:] = 0
    fill_tables(nodes, order, rows, first, table_columns, tables)
    codes = np.empty(corners.size + VECTOR, np.int16)
    take_codes(corners, order, codes)
    return order.astype(np.int64), {
        "column_axes": columns,
        "buckets": buckets,
        "nodes": nodes,
        "first_table": first,
        "table_columns": table_columns,
        "tables": tables,
        "codes": codes,
    }


def least_bytes(n_columns: int, sides: float) -> float:
    """Return the least bytes that a box with this many sides takes in bitmaps and codes, when all leaves are full."""
    return 4.0 * n_columns + N_ROWS / 8 * sides


def check_bitmaps(arrays: SavedArrays, sizes: Mapping[str, int]) -> None:
    """Refuse nodes by which a walk would leave its arrays, or whose leaves do not hold each slot once.

    Bits beyond the boxes of a leaf are harmless: kernels ignore them.
    """
    columns, slots = sizes["columns"], sizes["slots"]
    if not 0 < columns <= MOST_COLUMNS:
        arrays.refuse("column_axes", f"has {columns} columns; bitmaps have 1 to {MOST_COLUMNS}")
    if sizes["codes"] != 2 * columns * slots + VECTOR:
        arrays.refuse("codes", f"has {sizes['codes']} codes; {slots} boxes of {columns} columns do not")
    nodes = arrays["nodes"].astype(np.int64)
    if not len(nodes) or nodes[0, node.COLUMN] != -1 or nodes[0, node.DEPTH] != 0:
        arrays.refuse("nodes", "does not begin with a root")
    below, depth, leaf = nodes[1:, node.COLUMN], nodes[:, node.DEPTH], nodes[:, node.LEAF]
    if below.size and not 0 <= below.min() <= below.max() < columns:
        arrays.refuse("nodes", f"names a column outside 0 to {columns - 1}")
    if (depth[1:] < 1).any() or (np.diff(depth) > 1).any() or depth.max() >= node.MOST_DEPTH:
        arrays.refuse("nodes", "has a node without a parent, or too deep")
    skip = nodes[:, node.SKIP]
    if (skip <= np.arange(len(nodes))).any() or skip.max() > len(nodes):
        arrays.refuse("nodes", "leads back, or beyond the last node")
    leaves = nodes[leaf >= 0]
    if leaf.min() < -1 or not np.array_equal(leaves[:, node.LEAF], np.arange(sizes["leaves"])):
        arrays.refuse("nodes", f"does not number its {sizes['leaves']} leaves")
    start, stop = leaves[:, node.START], leaves[:, node.STOP]
    size = stop - start
    if not len(leaves) or start[0] != 0 or stop[-1] != slots or (start[1:] != stop[:-1]).any():
        arrays.refuse("nodes", f"has leaves that do not hold each of {slots} slots once")
    if size.min() < 0 or size.max() > node.LEAF_SIZE:
        arrays.refuse("nodes", f"has a leaf of more than {node.LEAF_SIZE} boxes")
