"""The table by which kernels find their arrays: one int64 row per segment, these are its columns.

A row holds addresses and counts only. Python writes it once per segment (:mod:`tamis.index.packed.boxes.segment`)
and keeps the arrays alive as long as anyone may read the row. The first three columns are the address
table that :func:`tamis.kernels.boxes.sparse.holds` expects.
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []

#: Addresses of the three arrays of :class:`tamis.kernels.boxes.sparse.Boxes`.
FIRST: Final = 0
AXIS: Final = 1
ENDS: Final = 2
#: Address of rows int32[slots + padding] and of the alive bits (one per slot, little end first).
ROWS: Final = 3
ALIVE: Final = 4
#: Slots in use.
N_SLOTS: Final = 5
#: How the segment is laid out: one of the numbers below.
LAYOUT: Final = 6
#: Five columns: the address table of :class:`tamis.kernels.boxes.quantise.Quantiser`.
QUANTISER: Final = 7
#: Axis of each column: address of int32[columns], and how many.
COLUMN_AXES: Final = 12
N_COLUMNS: Final = 13
#: Tree: address of the blocks, address of int64[height + 2] (first block of each level), height,
#: address of the leaf blocks.
BLOCKS: Final = 14
LEVELS: Final = 15
HEIGHT: Final = 16
LEAVES: Final = 17
#: Pair grids: address of the groups int64[groups, GROUP_WIDTH] and how many; addresses of the first block of each
#: cell (uint32) and of the arrays of :class:`tamis.kernels.boxes.pairs_build.CellArrays`. Their columns are the axes
#: that lanes may name.
GROUPS: Final = 18
N_GROUPS: Final = 19
CELLS: Final = 20
CORNERS: Final = 21
LANE_AXES: Final = 22
MEMBERS: Final = 23
#: Bitmaps (:mod:`tamis.kernels.bitmaps`): addresses of the buckets of codes uint8[columns, N_STEPS]; of the nodes, and
#: how many; of the first table of each leaf (uint32), the column of each table (uint8) and the tables; and of the codes
#: of each box, int16[2, columns].
BUCKETS: Final = 24
NODES: Final = 25
N_NODES: Final = 26
FIRST_TABLE: Final = 27
TABLE_COLUMNS: Final = 28
TABLES: Final = 29
BOX_CODES: Final = 30
WIDTH: Final = 31

#: Unordered blocks (the delta): every block is scanned.
FLAT: Final = 0
#: The packed tree.
TREE: Final = 1
#: Grids over pairs of axes, for boxes that constrain few of many axes.
PAIRS: Final = 2
#: Bitmaps, for boxes that constrain many axes in wide ranges.
BITMAPS: Final = 3
