"""Chooses the layout of a segment by the cost of each layout per event, estimated on a sample of events.

A tree or pair grids, as `grouping` says, are what bitmaps are compared with. If those of some of the boxes cost an
event more than bitmaps possibly could, all boxes are laid out as bitmaps; if these cost more, also the other way, and
the cheaper layout stays. Bitmaps of many boxes take most of the time of a build, so those of some boxes are made first:
their costs are projected, and if the other layout costs less than that, no more bitmaps are made. Costs are counts
times measured nanoseconds, not measured times: the same boxes and events always get the same layout.

The events of the sample are recent ones if there were enough of them; otherwise they are made up, each value from a
range of some box, because most events are about what subscribers ask for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tamis.index.packed.boxes.bitmaps import MOST_COLUMNS, least_bytes
from tamis.index.packed.boxes.coding import Coding
from tamis.index.packed.boxes.grouping import is_sparse
from tamis.index.packed.boxes.segment import LAYOUTS, Segment, columns_of
from tamis.kernels import directory as at
from tamis.kernels.bitmaps.build import CODE_SHIFT, MISSING_ROW
from tamis.kernels.bitmaps.match import make_bitmap_scratch, make_events, match_bitmaps
from tamis.kernels.boxes import pairs_build as build
from tamis.kernels.boxes.pairs import SURVIVORS, PairOutput
from tamis.kernels.boxes.quantise import MISSING
from tamis.kernels.boxes.sparse import Boxes, take_boxes
from tamis.kernels.vector_ir import HAS_PERMUTE

__all__ = ["MOST_BYTES", "RecentEvents", "build_segment"]

_Codes: TypeAlias = npt.NDArray[np.int16]
_FloatArray: TypeAlias = npt.NDArray[np.float64]

#: The most bytes per box of a segment with bitmaps, bounds included.
MOST_BYTES: Final = 400
#: Fewer boxes than this are not worth two layouts: bitmaps gain little there.
_LEAST_BOXES: Final = 2_048
#: The cost of a tree or grids of this many boxes is a lower bound for more; statistics mark it with ``_LEAST``.
_JUDGED: Final = 32_768
_LEAST: Final = "at least"
#: The costs of bitmaps are projected for this many boxes and more, and marked so in statistics.
_MANY: Final = 4 * _JUDGED
_PROJECTED: Final = "bitmaps, projected"
#: Events of the sample; recent ones count if there are a quarter as many.
_SAMPLE: Final = 64
#: Hulls of leaf blocks that are compared with the sample, sixteen at a time.
_HULLS: Final = 256
#: Matches of the sample beyond which writing them is most of the work in any layout.
_MOST_MATCHES: Final = 1 << 20

#: Nanoseconds: a block of a tree and each of its columns; a group of pair grids and a block of a cell; an event
#: that meets bitmaps, a leaf of them, each of its tables, and a box that is compared.
_TREE_BLOCK, _TREE_COLUMN = 4.0, 1.2
_GROUP, _CELL_BLOCK = (6.0, 5.0) if HAS_PERMUTE else (20.0, 20.0)
_CODED, _LEAF, _TABLE, _COMPARED = 900.0, 8.0, 0.9, 20.0
#: Below this cost per event no bitmaps are tried: they could gain little, and take more memory.
_CHEAP: Final = 1_000.0


class RecentEvents:
    """The last events that an index matched. Threads may share it: a deque's ``append`` is atomic."""

    def __init__(self) -> None:
        self._points: deque[_FloatArray | Sequence[float]] = deque(maxlen=_SAMPLE)

    def note(self, point: _FloatArray | Sequence[float]) -> None:
        """Record the d values of an event; the caller must not change them afterwards."""
        self._points.append(point)

    def note_some(self, points: _FloatArray) -> None:
        """Record copies of some of many events float64[n, d]."""
        step = max(1, len(points) // _SAMPLE)
        self._points.extend(points[::step][:_SAMPLE].copy())

    def sample(self, n_axes: int) -> _FloatArray:
        """Return the events as float64[n, n_axes], NaN on axes that came later; none if they are too few."""
        points = list(self._points)
        if 4 * len(points) < _SAMPLE:
            return np.empty((0, n_axes))
        sample = np.full((len(points), n_axes), np.nan)
        for i, point in enumerate(points):
            sample[i, : len(point)] = point[:n_axes]
        return sample


def build_segment(
    boxes: Boxes,
    rows: npt.NDArray[np.int32],
    coding: Coding,
    layouts: Collection[int] = LAYOUTS,
    recent: RecentEvents | None = None,
) -> Segment:
    """Pack boxes in the cheapest of ``layouts``. Cost: a second for a million boxes, three to five for bitmaps."""
    columns = columns_of(boxes)
    sparse = at.PAIRS in layouts and is_sparse(boxes, columns.size)
    layout = at.PAIRS if sparse else at.TREE if at.TREE in layouts else at.BITMAPS
    if layout == at.BITMAPS or at.BITMAPS not in layouts or not _may_have_bitmaps(boxes, columns.size):
        return Segment.build(boxes, rows, coding, layout)
    sample = _sample_codes(boxes, coding, columns, recent)
    least = _least_cost(boxes, coding, sample, layout)
    first = _judged(boxes, rows, coding, layout, sample) if least < _CHEAP else None
    if first is not None and first.costs[first.layout_name] < _CHEAP:
        return first
    projected = _projected_cost(boxes, coding, sample) if rows.size >= _MANY else 0.0
    if least <= projected:
        first = first or _judged(boxes, rows, coding, layout, sample)
        if first.costs[first.layout_name] <= projected:
            first.costs[_PROJECTED] = projected
            return first
    bitmaps = _judged(boxes, rows, coding, at.BITMAPS, sample)
    cost = bitmaps.costs[bitmaps.layout_name] if bitmaps.n_bytes <= MOST_BYTES * rows.size else math.inf
    if first is None and cost < least:
        bitmaps.costs[_LEAST] = least
        return bitmaps
    first = first or _judged(boxes, rows, coding, layout, sample)
    chosen = first if first.costs[first.layout_name] <= cost else bitmaps
    chosen.costs = first.costs | bitmaps.costs
    return chosen


def _judged(boxes: Boxes, rows: npt.NDArray[np.int32], coding: Coding, layout: int, sample: _Codes) -> Segment:
    """Return a segment with its estimated costs."""
    segment = Segment.build(boxes, rows, coding, layout)
    segment.costs[segment.layout_name] = _cost(segment, sample)
    return segment


def _may_have_bitmaps(boxes: Boxes, n_columns: int) -> bool:
    """Whether there are boxes enough, and their bitmaps could keep inside `MOST_BYTES`."""
    n = boxes.first.size - 1
    sides = boxes.axis.size / n
    bytes_per_box = 18.0 * sides + 8.125 + least_bytes(n_columns, sides)
    return n >= _LEAST_BOXES and n_columns <= MOST_COLUMNS and bytes_per_box <= MOST_BYTES


def _least_cost(boxes: Boxes, coding: Coding, sample: _Codes, layout: int) -> float:
    """Return what a tree or grids of some of the boxes would cost: those of all the boxes cost more."""
    return _cost(*_segment_of_some(boxes, coding, sample, layout, _JUDGED))


def _projected_cost(boxes: Boxes, coding: Coding, sample: _Codes) -> float:
    """Return what bitmaps of all the boxes would cost, judged by those of a few boxes and of four times as many.

    The boxes that are compared grow with the number of boxes. The leaves that are visited grow by some power of it,
    the same one or, when leaves can be told apart less and less, a larger one.
    """
    few, many = (
        _work_of_bitmaps(*_segment_of_some(boxes, coding, sample, at.BITMAPS, n)) for n in (_JUDGED // 4, _JUDGED)
    )
    if few is None or many is None:
        return 0.0
    growth = (boxes.first.size - 1) / many.n_boxes
    power = math.log(max(1.0, many.visits / max(few.visits, 1e-9))) / math.log(many.n_boxes / few.n_boxes)
    return many._replace(visits=many.visits * growth**power, compared=many.compared * growth).cost()


def _segment_of_some(boxes: Boxes, coding: Coding, sample: _Codes, layout: int, most: int) -> tuple[Segment, _Codes]:
    """Return a segment of up to ``most`` of the boxes, and the sample on the axes that these constrain."""
    n = boxes.first.size - 1
    slots = np.arange(0, n, -(-n // most))
    n_sides = int((boxes.first[slots + 1].astype(np.int64) - boxes.first[slots]).sum())
    chosen = Boxes(np.zeros(slots.size + 1, np.uint32), np.empty(n_sides, np.int16), np.empty((n_sides, 2)))
    take_boxes(boxes, slots, chosen, 0)
    columns, own = columns_of(boxes), columns_of(chosen)
    rows = np.zeros(slots.size, np.int32)
    return Segment.build(chosen, rows, coding, layout), sample[:, np.isin(columns, own)]


# ---- the sample


def _sample_codes(boxes: Boxes, coding: Coding, columns: npt.NDArray[np.int32], recent: RecentEvents | None) -> _Codes:
    """Return the codes int16[events, columns] of recent events, or of made-up ones."""
    points = recent.sample(int(columns[-1]) + 1)[:, columns] if recent is not None else np.empty((0, columns.size))
    if not len(points):
        points = _made_up(boxes, columns)
    is_used = ~np.isnan(points) & np.isin(columns, boxes.axis)
    values = points[is_used]
    axis = np.broadcast_to(columns.astype(np.int16), points.shape)[is_used]
    ends = np.stack((values, values), axis=1)
    codes = np.full(points.shape, MISSING, np.int16)
    codes[is_used] = coding.codes_of(Boxes(np.zeros(1, np.uint32), np.ascontiguousarray(axis), ends))[:, 1] & -2
    return codes


def _made_up(boxes: Boxes, columns: npt.NDArray[np.int32]) -> _FloatArray:
    """Return events float64[_SAMPLE, columns], each value from the range of some box; a one-sided one gives its end."""
    rng = np.random.default_rng(0)
    points = np.full((_SAMPLE, columns.size), np.nan)
    chosen = rng.integers(0, max(1, boxes.axis.size), 1 << 16) if boxes.axis.size > 1 << 16 else slice(None)
    axis, ends = boxes.axis[chosen], boxes.ends[chosen]
    for k, column in enumerate(columns.tolist()):
        own = ends[axis == column]
        own = own[np.isfinite(own).any(axis=1)]
        if len(own):
            low, high = own[rng.integers(0, len(own), _SAMPLE)].T
            low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
            share = rng.random(_SAMPLE)
            points[:, k] = low * (1.0 - share) + high * share
    points[~np.isfinite(points)] = np.nan
    return points


# ---- costs


def _cost(segment: Segment, sample: _Codes) -> float:
    """Return the nanoseconds that an event of the sample takes; its columns are the axes that the boxes constrain."""
    costs = {at.TREE: _cost_of_tree, at.PAIRS: _cost_of_pairs, at.BITMAPS: _cost_of_bitmaps}
    return costs[segment.layout](segment, sample)


def _cost_of_tree(segment: Segment, sample: _Codes) -> float:
    """Return the nanoseconds per event: how many leaf blocks have a hull that the events lie in."""
    levels, columns = segment.arrays["levels"], sample.shape[1]
    hulls = segment.arrays["blocks"].reshape(-1, columns, 2, 16)[levels[-3] : levels[-2]]
    hulls = hulls[:: max(1, len(hulls) // _HULLS)]
    inside = np.ones((len(sample), len(hulls), 16), np.bool_)
    for k in range(columns):
        codes = sample[:, k, None, None]
        inside &= (hulls[:, k, 0] <= codes) & (codes <= hulls[:, k, 1])
    return float(inside.mean() * (levels[-1] - levels[-2]) * (_TREE_BLOCK + _TREE_COLUMN * columns))


def _cost_of_pairs(segment: Segment, sample: _Codes) -> float:
    """Return the nanoseconds per event: its cell in each group, and the blocks of those cells."""
    groups, cells, columns = (
        segment.arrays["groups"],
        segment.arrays["cells"].astype(np.int64),
        columns_of(segment.boxes),
    )
    by_axis = np.full((len(sample), int(columns[-1]) + 2), MISSING, np.int64)
    by_axis[:, columns] = sample
    by_axis[:, -1] = 0  # the axis that a group does not have
    first, second = (by_axis[:, np.where(axis == build.NO_AXIS, -1, axis)] for axis in groups[:, :2].T)
    u, v = first >> groups[:, build.SHIFT_0], second >> groups[:, build.SHIFT_1]
    visited = (first >= 0) & (second >= 0)
    cell = np.where(visited, groups[:, build.FIRST_CELL] + (u << groups[:, build.BITS_1]) + v, 0)
    blocks = np.where(visited, cells[cell + 1] - cells[cell], 0).sum(axis=1).mean()
    return float(_GROUP * len(groups) + _CELL_BLOCK * blocks)


def _cost_of_bitmaps(segment: Segment, sample: _Codes) -> float:
    """Return the nanoseconds per event: the leaves it visits, and the boxes that are compared with it there."""
    work = _work_of_bitmaps(segment, sample)
    return math.inf if work is None else work.cost()


class _BitmapWork(NamedTuple):
    """How many boxes there are, and per event the leaves visited, the tables of each, and the boxes compared."""

    n_boxes: int
    visits: float
    tables: float
    compared: float

    def cost(self) -> float:
        """Return the nanoseconds per event."""
        return _CODED + self.visits * (_LEAF + _TABLE * self.tables) + self.compared * _COMPARED


def _work_of_bitmaps(segment: Segment, sample: _Codes) -> _BitmapWork | None:
    """Return what an event of the sample takes; None if writing the matches is most of it."""
    n, columns = sample.shape
    events, scratch = make_events(n, columns), make_bitmap_scratch(n)
    events.codes[:, :, :columns] = sample
    buckets = segment.arrays["buckets"][np.arange(columns), np.maximum(sample, 0) >> CODE_SHIFT]
    events.buckets[:] = np.where(sample < 0, np.uint8(MISSING_ROW), buckets)
    events.by_column[:] = events.buckets[0].T
    nothing = np.full((n, int(segment.arrays["column_axes"][-1]) + 1), np.nan)
    output = PairOutput(np.empty((2, SURVIVORS), np.int32), *np.empty((2, _MOST_MATCHES), np.int32))
    if match_bitmaps(segment.row, events, (nothing, nothing), scratch, output) < 0:
        return None
    visits, compared = (scratch.counts / n).tolist()
    tables = segment.arrays["tables"].shape[0] / (segment.arrays["first_table"].size - 1)
    return _BitmapWork(segment.n_slots, visits, tables, compared)
