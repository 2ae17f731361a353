"""An immutable packed segment: a few flat arrays, and alive bits that only ever go from one to zero.

All arrays can be written to files and opened again read-only, memory-mapped (:meth:`Segment.to_arrays`,
:meth:`Segment.from_arrays`); only the alive bits are private to the process. Kernels see a segment as one
row of the directory; the row holds addresses, so a segment owns its arrays as long as it lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.arrays import line_aligned
from tamis.index.packed.boxes.bitmaps import BITMAP_ARRAYS, bitmap_arrays, check_bitmaps
from tamis.index.packed.boxes.coding import Coding
from tamis.index.packed.boxes.grouping import pair_arrays
from tamis.index.packed.boxes.slots import Slots
from tamis.index.saved_arrays import MOST_ROWS, Ascending, Below, Declared, Intervals, Offsets, SavedArrays, Size
from tamis.kernels import directory as at
from tamis.kernels.boxes.pairs_build import GROUP_WIDTH, N_FILTERED, NO_COLUMN, find_bad_group
from tamis.kernels.boxes.sparse import Boxes, take_boxes
from tamis.kernels.boxes.tree import dense_codes, fill_blocks, find_loose_lane, levels_of, order_boxes
from tamis.kernels.vector_ir import LANES

__all__ = ["LAYOUTS", "Segment", "all_alive", "columns_of", "padded"]

#: The layouts of segments.
LAYOUTS: Final = (at.TREE, at.PAIRS, at.BITMAPS)
_LAYOUT_NAMES: Final = {at.TREE: "tree", at.PAIRS: "pairs", at.BITMAPS: "bitmaps"}

#: What every segment has, and what each layout has besides. ``lanes`` are the slots in whole blocks.
_META: Final = {"meta": Declared(np.int64, (2,))}
_BOXES: Final = {
    "rows": Declared(np.int32, ("lanes",), Below("rows")),
    "alive": Declared(np.uint8, ("lane_bytes",)),
    "first": Declared(np.uint32, (Size("slots", plus=1),), Offsets("sides")),
    "axis": Declared(np.int16, ("sides",), Below("axes")),
    "ends": Declared(np.float64, ("sides", 2), Intervals()),
}
_LAYOUT: Final = {
    at.TREE: {
        "column_axes": Declared(np.int32, ("columns",), Ascending("axes")),
        "blocks": Declared(np.int16, ("codes",)),
        "levels": Declared(np.int64, ("levels",)),
    },
    at.PAIRS: {
        "column_axes": Declared(np.int32, ("columns",), Ascending("axes")),
        "groups": Declared(np.int64, ("groups", GROUP_WIDTH)),
        "cells": Declared(np.uint32, (Size("cells", plus=1),), Offsets("blocks")),
        "corners": Declared(np.uint8, (Size("blocks", times=128),)),
        "axes": Declared(np.uint8, (Size("blocks", times=32),), Below(NO_COLUMN + 1)),
        "members": Declared(np.int32, (Size("blocks", times=16),), Below("slots", complement=True)),
    },
    at.BITMAPS: BITMAP_ARRAYS,
}
#: Columns of the directory, and the arrays whose addresses stand there, by layout.
_ADDRESSES: Final = {
    at.TREE: {at.BLOCKS: "blocks", at.LEVELS: "levels"},
    at.PAIRS: {
        at.GROUPS: "groups",
        at.CELLS: "cells",
        at.CORNERS: "corners",
        at.LANE_AXES: "axes",
        at.MEMBERS: "members",
    },
    at.BITMAPS: {
        at.BUCKETS: "buckets",
        at.NODES: "nodes",
        at.FIRST_TABLE: "first_table",
        at.TABLE_COLUMNS: "table_columns",
        at.TABLES: "tables",
        at.BOX_CODES: "codes",
    },
}


def padded(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Copy rows to an array of whole blocks, with one slot to spare: kernels read sixteen at a time."""
    result = np.zeros((rows.size // LANES + 1) * LANES, np.int32)
    result[: rows.size] = rows
    return result


def all_alive(n_slots: int) -> npt.NDArray[np.uint8]:
    """Return the bits of ``n_slots`` living slots, padded with zeros as :func:`padded` does."""
    bits = np.zeros((n_slots // LANES + 1) * (LANES // 8), np.uint8)
    bits[: n_slots // 8] = 255
    if n_slots % 8:
        bits[n_slots // 8] = (1 << n_slots % 8) - 1
    return bits


def columns_of(boxes: Boxes) -> npt.NDArray[np.int32]:
    """Return the axes that some box constrains, ascending; axis 0 if there is none."""
    used = np.flatnonzero(np.bincount(boxes.axis)) if boxes.axis.size else np.zeros(1, np.int64)
    return used.astype(np.int32)


def corners_of(boxes: Boxes, codes: npt.NDArray[np.int16], columns: npt.NDArray[np.int32]) -> npt.NDArray[np.int16]:
    """Return int16[n, 2 * columns]: the lo and hi code of every column, free where a box is silent."""
    corners = np.empty((boxes.first.size - 1, 2 * columns.size), np.int16)
    column = np.zeros(int(columns[-1]) + 1, np.int32)
    column[columns] = np.arange(columns.size)
    dense_codes(boxes.first, boxes.axis, codes, column, corners)
    return corners


def tree_arrays(
    corners: npt.NDArray[np.int16], columns: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[Any]]]:
    """Return the slot order of boxes, given by the codes of their corners, and the arrays of their tree."""
    order = order_boxes(corners)
    levels = levels_of(len(corners))
    blocks = line_aligned(int(levels[-1]) * 2 * LANES * columns.size, np.int16)
    fill_blocks(corners, order, levels, blocks)
    return order.astype(np.int64), {"column_axes": columns, "blocks": blocks, "levels": levels}


class Segment(Slots):
    """n boxes with their rows, in slot order.

    Attributes
    ----------
    arrays
        The flat arrays by name; never written after the segment is built.
    coding
        How the codes in the arrays came about.
    row
        int64[WIDTH]; this segment's row of a directory.
    costs
        Nanoseconds per event by layout, estimated when the layout was chosen; empty where none were compared.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], alive: npt.NDArray[np.uint8], coding: Coding) -> None:
        super().__init__(int(arrays["meta"][0]), alive)
        self.arrays = dict(arrays)
        self.coding = coding
        self.layout = int(arrays["meta"][1])
        self.row = self._directory_row()
        self.costs: dict[str, float] = {}

    @classmethod
    def build(cls, boxes: Boxes, rows: npt.NDArray[np.int32], coding: Coding, layout: int) -> Segment:
        """Pack boxes in one of `LAYOUTS`. Cost: about a second for a million boxes, three for bitmaps."""
        columns, codes, n = columns_of(boxes), coding.codes_of(boxes), rows.size
        if layout == at.PAIRS:
            order, special = pair_arrays(boxes, codes)
        else:
            pack = tree_arrays if layout == at.TREE else bitmap_arrays
            order, special = pack(corners_of(boxes, codes, columns), columns)
        sorted_boxes = Boxes(np.zeros(n + 1, np.uint32), np.empty_like(boxes.axis), np.empty_like(boxes.ends))
        take_boxes(boxes, order, sorted_boxes, 0)
        arrays = {
            "meta": np.array([n, layout], np.int64),
            "rows": padded(rows[order]),
            **sorted_boxes._asdict(),
            **special,
        }
        return cls(arrays, all_alive(n), coding)

    def _directory_row(self) -> npt.NDArray[np.int64]:
        """Write addresses and counts in the order of :mod:`tamis.kernels.directory`."""
        row = np.zeros(at.WIDTH, np.int64)
        address = {name: array.ctypes.data for name, array in self.arrays.items()}
        row[at.FIRST], row[at.AXIS], row[at.ENDS] = address["first"], address["axis"], address["ends"]
        row[at.ROWS], row[at.ALIVE] = address["rows"], self.alive.ctypes.data
        row[at.N_SLOTS], row[at.LAYOUT] = self.n_slots, self.layout
        row[at.QUANTISER : at.QUANTISER + 5] = self.coding.table
        row[at.COLUMN_AXES], row[at.N_COLUMNS] = address["column_axes"], self.arrays["column_axes"].size
        for column, name in _ADDRESSES[self.layout].items():
            row[column] = address[name]
        if self.layout == at.TREE:
            row[at.HEIGHT] = self.arrays["levels"].size - 2
            row[at.LEAVES] = address["blocks"] + int(self.arrays["levels"][-2]) * 64 * row[at.N_COLUMNS]
        elif self.layout == at.PAIRS:
            row[at.N_GROUPS] = self.arrays["groups"].shape[0]
        else:
            row[at.N_NODES] = self.arrays["nodes"].shape[0]
        return row

    @property
    def boxes(self) -> Boxes:
        """The boxes in slot order, dead ones too."""
        return Boxes(self.arrays["first"], self.arrays["axis"], self.arrays["ends"])

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The row of each slot."""
        return self.arrays["rows"][: self.n_slots]

    @property
    def layout_name(self) -> str:
        """The name of the layout, for statistics."""
        return _LAYOUT_NAMES[self.layout]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, the alive bits included."""
        return sum(array.nbytes for array in self.arrays.values()) + self.alive.nbytes

    def statistics(self) -> dict[str, Any]:
        """Describe the segment: layout, rows, dead slots, bytes, and what its layout was compared with."""
        return {
            "layout": self.layout_name,
            "rows": self.n_live,
            "dead": self.n_dead,
            "bytes": self.n_bytes,
            "costs": {name: round(cost) if cost < 1e15 else None for name, cost in self.costs.items()},
        }

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array by name, to be written to files; the coding is saved by the index."""
        return {**self.arrays, "alive": self.alive}

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, coding: Coding, n_axes: int, n_rows: int) -> Segment:
        """Open a segment on arrays as :meth:`to_arrays` gave them, checked; they may be read-only."""
        n, layout = _read_meta(arrays)
        lanes = (n // LANES + 1) * LANES
        declared = _META | _BOXES | _LAYOUT[layout]
        kept, sizes = arrays.take(declared, slots=n, lanes=lanes, lane_bytes=lanes // 8, axes=n_axes, rows=n_rows)
        alive = np.array(kept.pop("alive"))
        if (alive & ~all_alive(n)).any():
            arrays.refuse("alive", f"has a bit beyond the last of {n} slots")
        _CHECKS[layout](arrays, sizes)
        segment = cls(kept, alive, coding)
        segment.count_dead(n - segment.find_live().size)
        return segment


def _read_meta(arrays: SavedArrays) -> tuple[int, int]:
    """Return how many slots a saved segment has, and its layout."""
    n, layout = (int(number) for number in arrays.take(_META)[0]["meta"])
    if layout not in _LAYOUT or not 0 < n <= MOST_ROWS:
        arrays.refuse("meta", f"speaks of {n} slots in the layout {layout}; there are layouts {sorted(_LAYOUT)}")
    return n, layout


def _check_tree(arrays: SavedArrays, sizes: Mapping[str, int]) -> None:
    """Refuse a tree whose walk would leave its blocks: the levels follow from the slots, and no lane leads beyond."""
    levels, columns = levels_of(sizes["slots"]), sizes["columns"]
    if not columns:
        arrays.refuse("column_axes", "is empty")
    if not np.array_equal(arrays["levels"], levels):
        arrays.refuse("levels", f"is not {levels.tolist()}, the levels of a tree of {sizes['slots']} slots")
    if sizes["codes"] != 32 * columns * levels[-1]:
        arrays.refuse("blocks", f"has {sizes['codes']} codes; {levels[-1]} blocks of {columns} columns have 32 each")
    block = find_loose_lane(arrays["blocks"], levels, columns)
    if block >= 0:
        arrays.refuse("blocks", f"leads from block {block} to one that does not exist")


def _check_pairs(arrays: SavedArrays, sizes: Mapping[str, int]) -> None:
    """Refuse grids with a group whose axes or cells do not exist."""
    if sizes["columns"] > N_FILTERED:
        arrays.refuse("column_axes", f"has {sizes['columns']} columns; lanes can name {N_FILTERED}")
    group = find_bad_group(arrays["groups"], sizes["axes"], sizes["cells"], sizes["slots"])
    if group >= 0:
        arrays.refuse("groups", f"has axes, cells or slots that do not exist in group {group}")


_CHECKS: Final = {at.TREE: _check_tree, at.PAIRS: _check_pairs, at.BITMAPS: check_bitmaps}
