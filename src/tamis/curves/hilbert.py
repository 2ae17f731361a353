"""The Hilbert curve, which visits every cell of a grid once and moves from each cell to a neighbour.

So cells that are close on the curve are close in space, and a box of cells consists of few ranges of keys: about
``S / (2 d)`` for a box of surface S in d dimensions, as the grid becomes finer.

Implements: [mics] sections 3.2 and 3.3: the function Hilbert, the ranges of a subscription.
Deviation: ranges are found by descending into cubes, in time proportional to the ranges and not to the cells.
Deviation: a box of very many ranges is coarsened outward (one 4-dimensional cube of side 128 has 2,097,152 of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tamis.curves.runs import Runs, coarsened
from tamis.errors import LimitError, ModelError

if TYPE_CHECKING:
    from tamis.kernels.curves.hilbert import HilbertTables

__all__ = ["MAX_BITS", "MAX_DIMENSIONS", "MAX_RANGES", "HilbertCurve", "hilbert_key"]

MAX_DIMENSIONS: Final = 8
#: Bits per side: 65,536 cells.
MAX_BITS: Final = 16
#: Ranges one box may have before it is coarsened (promise S18).
MAX_RANGES: Final = 4_096
#: Cubes may give this many times the requested number of ranges, before the smallest gaps are closed.
_FINER: Final = 16

IntArray = npt.NDArray[np.int64]


class HilbertCurve:
    """The curve through a grid of ``2**bits`` cells on each of ``dimensions`` sides.

    Examples
    --------
    >>> curve = HilbertCurve(dimensions=2, bits=3)
    >>> curve.keys([[0, 0], [0, 1], [7, 0]])
    array([ 0,  1, 63])
    >>> curve.cells([0, 1, 2, 3]).tolist()
    [[0, 0], [0, 1], [1, 1], [1, 0]]
    >>> curve.ranges([2, 2], [5, 3]).tolist()
    [[8, 11], [52, 55]]
    """

    def __init__(self, dimensions: int, bits: int) -> None:
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ModelError(f"a Hilbert curve has 1 to {MAX_DIMENSIONS} dimensions, not {dimensions}")
        if not 1 <= bits <= MAX_BITS:
            raise ModelError(f"a side of a Hilbert curve has 1 to {MAX_BITS} bits, not {bits}")
        from tamis.kernels.curves.hilbert import MAX_KEY_BITS  # late: importing tamis must not import numba

        self.dimensions = dimensions
        self.bits = bits
        self._tables = _make_tables(dimensions)
        #: Keys up to this many bits are int64; wider ones are Python's integers, and have no ranges.
        self._word_bits = MAX_KEY_BITS

    def __repr__(self) -> str:
        return f"HilbertCurve(dimensions={self.dimensions}, bits={self.bits})"

    @property
    def key_bits(self) -> int:
        """The number of bits of a key."""
        return self.dimensions * self.bits

    @property
    def n_keys(self) -> int:
        """The number of cells of the grid; keys are below it."""
        return 1 << self.key_bits

    def keys(self, cells: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the keys of cells [n, d]: int64[n], or Python's integers where 62 bits are too few.

        Implements: [mics] section 3.2, Hilbert: [0, 2^k - 1]^d -> [0, 2^(kd) - 1].
        """
        from tamis.kernels.curves.hilbert import hilbert_keys

        grid = self._checked(cells)
        states = np.zeros(len(grid), np.int32)
        words = []
        for top, bottom in self._words():
            words.append(np.empty(len(grid), np.int64))
            hilbert_keys(self._tables, grid, top, bottom, states, words[-1])
        if len(words) == 1:
            return words[0]
        shifts = [self.dimensions * bottom for _, bottom in self._words()]
        joined = [sum(part << shift for part, shift in zip(parts, shifts, strict=True)) for parts in _rows(words)]
        return np.array(joined, dtype=object)

    def cells(self, keys: Any) -> IntArray:
        """Return the cells int64[n, d] of keys; the inverse of `keys`."""
        from tamis.kernels.curves.hilbert import hilbert_cells

        checked_keys = np.asarray(keys, dtype=np.int64 if self.key_bits <= self._word_bits else object)
        if checked_keys.ndim != 1 or (
            checked_keys.size and not (checked_keys.min() >= 0 and checked_keys.max() < self.n_keys)
        ):
            raise ModelError(f"keys of {self!r} are integers from 0 to {self.n_keys - 1}")
        cells = np.zeros((len(checked_keys), self.dimensions), np.int64)
        states = np.zeros(len(checked_keys), np.int32)
        for top, bottom in self._words():
            mask = (1 << self.dimensions * (top - bottom)) - 1
            word = ((checked_keys >> self.dimensions * bottom) & mask).astype(np.int64)
            hilbert_cells(self._tables, word, top, bottom, states, cells)
        return cells

    def ranges(self, low: npt.ArrayLike, high: npt.ArrayLike, most: int = MAX_RANGES) -> Runs:
        """Return the ranges of keys, int64[m, 2], of the box with corners ``low`` and ``high``, both inside it.

        They are the fewest that are exactly the box, ascending. More than ``most`` (at most `MAX_RANGES`) are
        coarsened outward: cubes of 2, 4, 8... cells a side that the box meets are taken whole, then the smallest gaps
        are closed.

        Implements: [mics] section 3.3, Subscription Representation.
        """
        return self.ranges_of(np.array([[low, high]]), most)[1]

    def ranges_of(self, boxes: npt.ArrayLike, most: int = MAX_RANGES) -> tuple[IntArray, Runs]:
        """Return the ranges of boxes [n, 2, d]: those of box i are ``ranges[offsets[i]:offsets[i + 1]]``."""
        if self.key_bits > self._word_bits:
            raise LimitError(
                "bits of a key with ranges (take fewer attributes or bits)", self.key_bits, self._word_bits
            )
        if not 1 <= most <= MAX_RANGES:
            raise LimitError("ranges of a box", most, MAX_RANGES)
        corners = np.asarray(boxes)
        corners = self._checked(corners.reshape(-1, self.dimensions)).reshape(-1, 2, self.dimensions)
        if (corners[:, 0] > corners[:, 1]).any():
            raise ModelError("a box of cells must have its low corner at or below its high corner")
        # Cubes alone are coarse: take more of them, then close the smallest gaps between them.
        offsets, ranges = self._cubes(corners, max(min(_FINER * most, MAX_RANGES), 1 << self.dimensions))
        if (np.diff(offsets) <= most).all():
            return offsets, ranges
        parts = [coarsened(box_ranges, most) for box_ranges in np.split(ranges, offsets[1:-1])]
        return np.cumsum([0, *map(len, parts)]), np.concatenate(parts)

    def _cubes(self, corners: IntArray, most: int) -> tuple[IntArray, Runs]:
        """Return the ranges of boxes, coarsened to cubes where there are more than ``most``, which is 2**d or more."""
        from tamis.kernels.curves.hilbert import STACK_WIDTH, boxes_ranges

        stack = np.empty((self.bits + 1, STACK_WIDTH), np.int64)
        offsets = np.zeros(len(corners) + 1, np.int64)
        ranges = np.empty((most + 8 * len(corners), 2), np.int64)
        done = 0
        while True:
            done = boxes_ranges(self._tables.to_label, corners, done, self.bits, most, stack, offsets, ranges)
            if done == len(corners):
                return offsets, ranges[: offsets[-1]]
            ranges = np.concatenate([ranges, np.empty_like(ranges)])

    def _checked(self, cells: npt.ArrayLike) -> IntArray:
        checked = np.asarray(cells)
        if checked.ndim != 2 or checked.shape[1] != self.dimensions or checked.dtype.kind not in "iu":
            raise ModelError(
                f"cells of {self!r} are integers [n, {self.dimensions}], not {checked.dtype}{checked.shape}"
            )
        if checked.size and not (checked.min() >= 0 and checked.max() < 1 << self.bits):
            raise ModelError(f"cells of {self!r} are numbered from 0 to {(1 << self.bits) - 1}")
        return np.ascontiguousarray(checked, dtype=np.int64)

    def _words(self) -> list[tuple[int, int]]:
        """Return the (top, bottom) bits of each word of a key, the high one first."""
        levels = self._word_bits // self.dimensions
        bottoms = range((self.bits - 1) // levels * levels, -1, -levels)
        return [(min(bottom + levels, self.bits), bottom) for bottom in bottoms]


@lru_cache(maxsize=256)
def _curve(dimensions: int, bits: int) -> HilbertCurve:
    return HilbertCurve(dimensions, bits)


def hilbert_key(cube: Sequence[int], bits: int) -> int:
    """Return the key of a cell or cube on the Hilbert curve, as `tamis.curves.zcurve.CurveKey` wants it.

    The curve goes through a cube before it leaves it, and always starts the same way: so the key of a cube is the
    beginning of the keys of its cells, as on the Z curve.

    >>> hilbert_key((0, 1), 1), hilbert_key((0, 3), 2), hilbert_key((1, 6), 3) >> 2 == hilbert_key((0, 3), 2)
    (1, 5, True)
    """
    return int(_curve(len(cube), bits).keys([cube])[0]) if bits and len(cube) else 0


def _rows(words: list[IntArray]) -> list[tuple[int, ...]]:
    """Return the words of each key as Python's integers."""
    return list(zip(*(word.tolist() for word in words), strict=True))


@lru_cache
def _make_tables(d: int) -> HilbertTables:
    """Return the tables of the curve in d dimensions.

    A state is (entry corner e, direction r). The corners of a cube are visited in the order of the Gray code, turned
    by ``r + 1`` places and reflected by e; both move on by what the digit says (C. H. Hamilton's compact form).
    """
    from tamis.kernels.curves.hilbert import DIGIT_BITS, HilbertTables

    n = 1 << d
    digit = np.arange(n)
    before = np.where(digit > 0, (digit - 1) // 2 * 2, 0)
    entry = before ^ (before >> 1)
    odd = np.where(digit % 2 == 1, digit, digit - 1)  # the direction is the number of its trailing ones
    trailing_ones = np.array(
        [(int(number) ^ (int(number) + 1)).bit_length() - 1 if number > 0 else 0 for number in odd]
    )
    e, r, w = np.meshgrid(np.arange(n), np.arange(d), digit, indexing="ij")
    label = e ^ _rotated(w ^ (w >> 1), r + 1, d)
    following = (e ^ _rotated(entry[w], r + 1, d)) * d + (r + np.where(w > 0, trailing_ones[w] % d, 0) + 1) % d
    state = e * d + r
    to_digit, to_label = np.empty((n * d, n), np.int32), np.empty((n * d, n), np.int32)
    to_label[state, w] = (following * n << DIGIT_BITS) | label
    to_digit[state, label] = (following * n << DIGIT_BITS) | w
    return HilbertTables(to_digit.ravel(), to_label.ravel())


def _rotated(bits: npt.NDArray[Any], places: npt.NDArray[Any], d: int) -> npt.NDArray[Any]:
    """Rotate d bits to the left."""
    turn = places % d
    rotated: npt.NDArray[Any] = ((bits << turn) | (bits >> (d - turn))) & ((1 << d) - 1)
    return rotated
