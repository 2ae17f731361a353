"""A packed store as named arrays, and back: what a snapshot of an engine writes to files and maps again.

The names are the parts of the store, each with a prefix (``plain.``, ``special.``, ``entries.``, ``deciders.``,
``balls.``), beside ``loose`` int32[n, 2] (row and filter, filter -1 for a row that never matches) and ``special``
int64[1], the number of special rows. The axes are plain values, not arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.index.packed.axes import Axes, AxesState
from tamis.index.packed.balls import PackedBalls
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.deciders.combined import Deciders, arrays_under
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.store import PackedStore
from tamis.index.protocols import Lookup

__all__ = ["open_store", "save_store"]

Arrays = Mapping[str, npt.NDArray[Any]]


def save_store(store: PackedStore) -> tuple[AxesState, dict[str, npt.NDArray[Any]]]:
    """Return what `open_store` opens: the axes, and named arrays. For the writer only: it flushes deltas."""
    parts: dict[str, Arrays] = {
        "plain": store.plain.to_arrays(),
        "special": store.special.to_arrays(),
        "entries": store.entries.to_arrays(),
        "deciders": store.deciders.to_arrays(),
        "balls": store.balls.to_arrays(),
    }
    arrays = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    loose = [(row, i) for row, filters in sorted(store.loose.items()) for i in (filters or (-1,))]
    arrays["loose"] = np.array(loose, np.int32).reshape(len(loose), 2)
    arrays["special"] = np.array([store.n_special], np.int64)
    return store.axes.to_state(), arrays


def open_store(lookup: Lookup, axes: AxesState, arrays: Arrays) -> PackedStore:
    """Open a store on arrays that may be read-only and mapped; they stay in use."""
    loose: dict[int, tuple[int, ...]] = {}
    for row, i in arrays["loose"].tolist():
        loose[row] = (*loose.get(row, ()), i) if i >= 0 else ()
    return PackedStore(
        Deciders.from_arrays(lookup, arrays_under(arrays, "deciders.")),
        Axes.from_state(axes),
        BoxIndex.from_arrays(arrays_under(arrays, "plain.")),
        BoxIndex.from_arrays(arrays_under(arrays, "special.")),
        Entries.from_arrays(arrays_under(arrays, "entries.")),
        PackedBalls.from_arrays(arrays_under(arrays, "balls.")),
        int(arrays["special"][0]),
        loose,
    )
