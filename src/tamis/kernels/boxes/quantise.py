"""From float64 to int16 codes, monotone, the same map for bounds and for event values.

Each axis has *knots*, sorted values found in the bounds: all distinct ones when they are few
(categories, integers, prices in cents), else quantiles. A value gets a *level*: every knot has a level of
its own, and the gap between two knots is divided evenly. With quantiles for knots the levels follow the
data, so a skewed axis needs no logarithm.

=================  ==============  =============================================================
code               meaning         why
=================  ==============  =============================================================
``2 * level``      event value     even, at least 2
``2 * level``      bound, no knot  may tie with an event value: float64 decides
``2 * level - 1``  lo on a knot    odd: just below the knot's event code, so ``lo = x`` is not a tie
``2 * level + 1``  hi on a knot    odd: just above it
``MISSING`` -1     event value     absent; fits ``FREE`` and nothing else
``FREE`` -2        lo              the axis is not constrained at all
``PRESENT`` 0      lo              any value, but there must be one
``OPEN`` 32766     hi              no upper bound
=================  ==============  =============================================================

So one comparison of codes per side decides: ``lo < x < hi`` is yes, ``lo > x`` or ``x > hi`` is no, and
equality of codes is a tie. ``hi - x`` and ``x - lo`` stay inside int16 (``OPEN`` is 32766 for that).

The map is monotone because each step is: comparing with knots, subtracting, multiplying by a positive
slope, truncating. A gap too small or too large for a finite slope has one level, hence ties, hence
float64. Bounds are closed. ``lo = -inf, hi = +inf`` leaves an axis free; the finite ``ANY_VALUE`` as
``lo`` with ``hi = +inf`` accepts every value but demands one (event values are finite).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel
from tamis.kernels.emit import float64_at, int16_at

__all__ = [
    "ANY_VALUE",
    "FREE",
    "MISSING",
    "N_AXIS_CELLS",
    "N_AXIS_FIELDS",
    "OPEN",
    "PRESENT",
    "Quantiser",
    "code_of",
    "code_sides",
    "code_values",
    "train_quantiser",
]

MISSING: Final = -1
FREE: Final = -2
PRESENT: Final = 0
OPEN: Final = 32766

#: The lowest finite number as ``lo``: the attribute must be present, any value will do.
ANY_VALUE: Final = -np.finfo(np.float64).max

#: Levels of an axis; the largest code stays below 32,000.
_N_LEVELS: Final = 15_990
#: With at most this many distinct bounds each one is a knot.
_MOST_KNOTS: Final = 4_000
#: With more, this many quantiles are.
_N_QUANTILES: Final = 256
#: Cells of the table that brackets the search for a knot.
_N_CELLS: Final = 1_024
#: Numbers per axis in ``Quantiser.cells``.
N_AXIS_CELLS: Final = _N_CELLS + 2
#: Numbers per axis in ``Quantiser.axes``: first knot, knots, levels per knot, origin, cells per unit.
N_AXIS_FIELDS: Final = 5


class Quantiser(NamedTuple):
    """The maps of all axes as flat arrays, so that they can be memory-mapped.

    Attributes
    ----------
    knots, slopes
        float64; the knots of all axes one after the other, and the levels per unit after each knot.
    cells
        int16[n_axes * (1_024 + 2)]; how many knots lie before each cell of an even grid.
    axes
        float64[n_axes, 5]; see ``N_AXIS_FIELDS``. An axis without knots was never constrained.
    """

    knots: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    cells: npt.NDArray[np.int16]
    axes: npt.NDArray[np.float64]

    def find_problem(self) -> str | None:
        """Return what a kernel could not live with, as the end of a sentence; None: nothing.

        The arrays have their types and finite numbers; a look-up must stay inside knots and cells, and a code
        inside int16.
        """
        first, n_knots, step, _, scale = self.axes.T
        used = n_knots != 0
        is_whole = (first == np.floor(first)) & (n_knots == np.floor(n_knots)) & (first >= 0) & (n_knots >= 0)
        if not (is_whole & (n_knots <= _MOST_KNOTS) & (n_knots <= self.knots.size - first) & (scale >= 0)).all():
            return "names knots that do not exist"
        if (step[used] != _N_LEVELS // n_knots[used]).any() or step[~used].any():
            return "has an axis whose levels do not fit its knots"
        cells = self.cells.reshape(len(self.axes), N_AXIS_CELLS)
        if (cells < 0).any() or (cells > n_knots[:, None]).any():
            return "has a cell that names knots of another axis"
        return None

    def has_axes(self, axes: npt.NDArray[np.integer]) -> bool:
        """Return whether every one of ``axes`` was seen in training."""
        if axes.size == 0:
            return True
        return bool(axes.max() < self.axes.shape[0] and (self.axes[axes, 1] > 0).all())

    def addresses(self) -> npt.NDArray[np.int64]:
        """Return the table a kernel takes: four addresses and the number of axes."""
        return np.array([a.ctypes.data for a in self] + [self.axes.shape[0]], np.int64)


def train_quantiser(n_axes: int, axis: npt.NDArray[np.int16], ends: npt.NDArray[np.float64]) -> Quantiser:
    """Choose the knots of every axis from a sample of bounds.

    Parameters
    ----------
    n_axes
        Axes of the space; those that ``axis`` does not name get no knots.
    axis, ends
        int16[m] and float64[m, 2]: one constrained side pair per entry.
    """
    order = np.argsort(axis, kind="stable")
    limits = np.searchsorted(axis[order], np.arange(n_axes + 1))
    knots: list[npt.NDArray[np.float64]] = []
    slopes: list[npt.NDArray[np.float64]] = []
    cells = np.zeros((n_axes, N_AXIS_CELLS), np.int16)
    fields = np.zeros((n_axes, N_AXIS_FIELDS))
    first = 0
    for k in range(n_axes):
        if limits[k] == limits[k + 1]:
            continue
        chosen = _choose_knots(ends[order[limits[k] : limits[k + 1]]].ravel())
        knots.append(chosen)
        slopes.append(_slopes(chosen))
        scale = _fill_cells(chosen, cells[k])
        fields[k] = first, chosen.size, _N_LEVELS // chosen.size, chosen[0], scale
        first += chosen.size
    zero = [np.zeros(1)]
    return Quantiser(np.concatenate(knots or zero), np.concatenate(slopes or zero), cells.ravel(), fields)


def _choose_knots(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return all distinct finite values if they are few, else quantiles; never an empty array."""
    values = np.sort(values[np.isfinite(values) & (values != ANY_VALUE)])
    if values.size == 0:
        return np.zeros(1)
    distinct = values[np.concatenate(([True], values[1:] != values[:-1]))]
    if distinct.size > _MOST_KNOTS:
        distinct = np.unique(values[np.linspace(0, values.size - 1, _N_QUANTILES).astype(np.int64)])
    return distinct + 0.0  # -0.0 becomes 0.0


def _slopes(knots: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the levels per unit after each knot; 0 where the gap is too small or too large."""
    slopes = np.zeros(knots.size)
    with np.errstate(over="ignore", divide="ignore"):
        slope = (_N_LEVELS // knots.size - 1) / np.diff(knots)
    slopes[:-1] = np.where(np.isfinite(slope), slope, 0.0)
    return slopes


def _fill_cells(knots: npt.NDArray[np.float64], cells: npt.NDArray[np.int16]) -> float:
    """Count the knots before each cell; return the cells per unit, 0 if there is no usable grid."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = float(_N_CELLS / (knots[-1] - knots[0]))
        if not np.isfinite(scale) or scale <= 0:
            return 0.0
        cell = np.minimum((knots - knots[0]) * scale, _N_CELLS).astype(np.int64)
    cells[1:] = np.cumsum(np.bincount(cell, minlength=_N_CELLS + 1))
    return scale


@inline_kernel
def code_of(quantiser: npt.NDArray[np.int64], axis: Int, value: float) -> Int:
    """Map a value of an axis that has knots to twice its level, plus 1 if it is exactly a knot."""
    fields = quantiser[3] + axis * 40
    first = np.int64(float64_at(fields, 0))
    n_knots = np.int64(float64_at(fields, 1))
    step = np.int64(float64_at(fields, 2))
    scale = float64_at(fields, 4)
    knots = quantiser[0] + first * 8
    low = np.int64(0)
    high = n_knots
    if scale > 0.0:
        cells = quantiser[2] + axis * 2052
        cell = np.int64(min(max((value - float64_at(fields, 3)) * scale, 0.0), 1024.0))
        low = np.int64(int16_at(cells, cell))
        high = np.int64(int16_at(cells, cell + 1))
    while low < high:
        middle = (low + high) >> 1
        if float64_at(knots, middle) <= value:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return np.int64(2)
    below = float64_at(knots, low - 1)
    if value == below:
        return 2 * (low * step + 1) + 1
    slope = float64_at(quantiser[1], first + low - 1)
    extra = np.int64(0)
    if slope > 0.0 and low < n_knots:
        extra = np.int64(min((value - below) * slope, step - 2.0))
    return 2 * (low * step + 2 + extra)


@hot_kernel
def code_sides(
    quantiser: npt.NDArray[np.int64],
    axis: npt.NDArray[np.int16],
    ends: npt.NDArray[np.float64],
    codes: npt.NDArray[np.int16],
) -> None:
    """Write the codes int16[m, 2] of the bounds ``ends`` float64[m, 2] of constrained axes."""
    for i in range(axis.size):
        codes[i, 0] = PRESENT
        codes[i, 1] = OPEN
        if ends[i, 0] > ANY_VALUE:
            code = code_of(quantiser, np.int64(axis[i]), ends[i, 0])
            codes[i, 0] = code - 2 * (code & 1)
        if ends[i, 1] < np.inf:
            codes[i, 1] = code_of(quantiser, np.int64(axis[i]), ends[i, 1])


@inline_kernel
def code_values(
    quantiser: npt.NDArray[np.int64], values: npt.NDArray[np.float64], codes: npt.NDArray[np.int16]
) -> None:
    """Write the codes int16[d] of the values float64[d] of one event; NaN is missing.

    Axes without knots get ``MISSING``: no box coded by this quantiser asks for them.
    """
    n_axes = min(quantiser[4], values.size)
    for k in range(values.size):
        value = values[k]
        code = np.int64(MISSING)
        if k < n_axes and not np.isnan(value) and float64_at(quantiser[3], 5 * k + 1) > 0.0:
            code = code_of(quantiser, k, value) & -2
        codes[k] = code
