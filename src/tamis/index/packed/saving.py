"""Converts a packed store to named arrays and back; a snapshot of an engine writes them to files and maps them.

The names are the parts of the store, each with a prefix (``plain.``, ``special.``, ``entries.``, ``deciders.``,
``texts.``, ``balls.``, ``trees.``), beside ``loose`` int32[n, 2] (row and filter, filter -1 for a row that never
matches) and ``special`` int64[1], the number of rows that are special or never match. The axes are plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError
from tamis.index.packed.axes import SIDES, AttributePart, Axes, AxesState
from tamis.index.packed.balls import PackedBalls
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.deciders.combined import Deciders
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.store import PackedStore
from tamis.index.packed.texts.text_index import TextIndex
from tamis.index.packed.trees import PackedTrees
from tamis.index.protocols import Lookup, SavedRows
from tamis.index.saved_arrays import MOST_ROWS, Below, Declared, SavedArrays
from tamis.model.schema import Schema
from tamis.model.types import Vector

__all__ = ["filters_needed", "open_store", "save_store"]

Arrays = Mapping[str, npt.NDArray[Any]]

#: Rows and filters that have no box, and the number of special rows.
_OWN: Final = {
    "loose": Declared(np.int32, ("loose", 2), Below(MOST_ROWS, least=-1)),
    "special": Declared(np.int64, (1,), Below(MOST_ROWS)),
}


def save_store(store: PackedStore) -> tuple[AxesState, dict[str, npt.NDArray[Any]]]:
    """Return the axes and named arrays for `open_store`. For the writer only: it flushes deltas."""
    parts: dict[str, Arrays] = {
        "plain": store.plain.to_arrays(),
        "special": store.special.to_arrays(),
        "texts": store.texts.to_arrays(),
        "entries": store.entries.to_arrays(),
        "deciders": store.deciders.to_arrays(),
        "balls": store.balls.to_arrays(),
        "trees": store.trees.to_arrays(),
    }
    arrays = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    loose = [(row, i) for row, filters in sorted(store.loose.items()) for i in filters]
    loose += [(row, -1) for row in sorted(store.never)]
    arrays["loose"] = np.array(loose, np.int32).reshape(len(loose), 2)
    arrays["special"] = np.array([store.n_special + len(store.never)], np.int64)
    return store.axes.to_state(), arrays


def open_store(lookup: Lookup, axes: AxesState, arrays: Arrays, rows: SavedRows | None = None) -> PackedStore:
    """Open a store on arrays that may be read-only and mapped; they stay in use.

    Every array is checked; with ``rows``, also that the store contains exactly the living rows.
    """
    saved, n_rows = SavedArrays.of(arrays), MOST_ROWS if rows is None else len(rows.living)
    own, _ = saved.take(_OWN)
    loose, never = _loose_and_never(own["loose"])
    entries = Entries.from_arrays(saved.under("entries."), n_rows)
    special = BoxIndex.from_arrays(saved.under("special."), len(entries))
    store = PackedStore(
        Deciders.from_arrays(lookup, saved.under("deciders."), len(entries), special.n_axes),
        Axes.from_state(axes),
        BoxIndex.from_arrays(saved.under("plain."), n_rows),
        special,
        TextIndex.from_arrays(saved.under("texts."), len(entries), special.n_axes),
        entries,
        PackedBalls.from_arrays(saved.under("balls."), n_rows),
        int(own["special"][0]) - len(never),
        loose,
        never,
        PackedTrees.from_arrays(saved.under("trees."), n_rows, special.n_axes),
    )
    _check_axes(store, saved)
    if rows is not None:
        _check_types(store, rows.schema, saved)
        _check_places(store, rows, saved)
    return store


def _loose_and_never(saved: npt.NDArray[Any]) -> tuple[dict[int, tuple[int, ...]], set[int]]:
    """Return the numbers of filters by row, and the rows that have none."""
    loose: dict[int, tuple[int, ...]] = {}
    for row, i in saved[saved[:, 1] >= 0].tolist():
        loose[row] = (*loose.get(row, ()), i)
    return loose, set(saved[saved[:, 1] < 0, 0].tolist())


def _check_types(store: PackedStore, schema: Schema, arrays: SavedArrays) -> None:
    """Refuse axes and balls of attributes whose values in events are of another type."""
    unfit = store.axes.find_unfit(schema)
    if unfit is not None:
        raise ModelError(f"the attribute {unfit!r} has an axis that its type cannot have")
    for name, balls in (("balls", store.balls.dimensions()), ("deciders.balls", store.deciders.ball_dimensions)):
        for attribute, dimension in balls:
            if schema.get(attribute, Vector(dimension)) != Vector(dimension):
                arrays.refuse_all(f"{name}: {attribute!r} is not a vector of {dimension} dimensions")


def _check_axes(store: PackedStore, arrays: SavedArrays) -> None:
    """Refuse boxes on axes that are not described, and tests of regions on axes that are none of regions."""
    n_axes = max(1, len(store.axes))
    for name, index in (("plain", store.plain), ("special", store.special), ("trees.hulls", store.trees.hulls)):
        if index.n_axes != store.plain.n_axes or index.n_axes > n_axes:
            arrays.refuse(f"{name}.index", f"speaks of {index.n_axes} axes; {n_axes} are described")
    of_regions = {number for number, axis in store.axes if axis.part in SIDES}
    if not store.deciders.region_axes <= of_regions:
        arrays.refuse("deciders.regions.axis", "names an axis that is not one of regions")


def _check_places(store: PackedStore, rows: SavedRows, arrays: SavedArrays) -> None:
    """Refuse a store in which a living row is missing or stored twice, or a dead row is stored."""
    plain, balls, entry_rows = store.plain.rows(), store.balls.rows(), store.entries.row[: len(store.entries)]
    loose, never = np.array(sorted(store.loose), np.int64), np.array(sorted(store.never), np.int64)
    if not all(0 <= row < len(rows.living) for part in (loose, never) for row in part[[0, -1][: len(part)]]):
        arrays.refuse("loose", f"names a row outside 0 to {len(rows.living) - 1}")
    special = np.zeros(len(rows.living), np.bool_)
    live_entries = np.concatenate((store.special.rows(), store.texts.numbers()))
    if len(np.unique(live_entries)) < len(live_entries):
        arrays.refuse_all("its arrays keep a box of a subscription twice")
    special[entry_rows[live_entries]] = True
    if special[entry_rows].sum() != live_entries.size:
        arrays.refuse_all("its arrays keep some boxes of a subscription and lack others")
    special[loose] = True
    counts = special.astype(np.uint8)
    for others in (plain, never, store.trees.rows()):
        counts[others] += 1
    np.add.at(counts, balls, np.uint8(1))
    if not np.array_equal(counts, rows.living):
        row = int(np.flatnonzero(counts != rows.living)[0])
        arrays.refuse_all(f"its arrays hold row {row} {counts[row]} times, not {rows.living[row]:d}")
    if store.n_special != np.count_nonzero(special):
        arrays.refuse("special", f"says {store.n_special}, but {np.count_nonzero(special)} rows are special")
    no_number = np.array([axis.part is not AttributePart.NUMBER for _, axis in store.axes] or [True])
    special[store.trees.rows()] = special[never] = True
    textless = special & ~rows.written
    textless[_rows_with_sides_on(store.plain, no_number)] |= ~rows.written[_rows_with_sides_on(store.plain, no_number)]
    if (textless & rows.living).any():
        row = int(np.flatnonzero(textless & rows.living)[0])
        arrays.refuse_all(f"its arrays do not say all of row {row}, whose filter is not stored")


def _rows_with_sides_on(index: BoxIndex, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Return the rows of an index, dead ones too, with a side on an axis where ``chosen[axis]``; some come twice."""
    rows = [np.zeros(0, np.int32)]
    for part in index.snapshot.parts if chosen.any() else ():
        first, axis, _ = part.boxes
        slots = np.repeat(np.arange(first.size - 1), np.diff(first))
        rows.append(part.rows[slots[chosen[axis[: slots.size]]]])
    return np.concatenate(rows)


def filters_needed(store: PackedStore, n_rows: int) -> npt.NDArray[np.int32]:
    """Return how many filters the subscription of each row must at least have: int32[n_rows]."""
    entries, needed = store.entries, np.zeros(n_rows, np.int32)
    np.maximum.at(needed, entries.row[: len(entries)], entries.filter[: len(entries)].astype(np.int32) + 1)
    for row, filters in store.loose.items():
        needed[row] = max(needed[row], max(filters, default=-1) + 1)
    return needed
