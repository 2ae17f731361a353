"""Maps values to cells: the universe of the curve has ``2**k`` cells in each dimension.

The map of an attribute never reverses the order of values, so a box that covers another covers it in cells.
The converse does not hold: two ends in one cell compare equal, which is why every hit is verified
(erratum Z.3.10). A number with a domain is divided evenly; what lies outside goes to the first or last cell. Without a
domain the ends of the subscriptions themselves divide it: about as many of them are in each cell (`learned_scale`).
Before anything is learned the order of float64 numbers is divided: sign, exponent and first digits.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.schema import Schema

__all__ = ["Domain", "LearnedScale", "cell_of", "cells_of", "domain_of", "is_open", "learned_scale"]


@dataclass(frozen=True, slots=True)
class LearnedScale:
    """Ends of cells, strictly ascending; what lies between two of them shares a cell."""

    ends: tuple[float, ...]


#: An even range, ends that were learned, or nothing.
Domain = tuple[float, float] | LearnedScale | None


def learned_scale(values: npt.NDArray[np.float64], k: int) -> LearnedScale | None:
    """Return a scale of at most ``2**k`` cells that hold about as many of some values each; None without values.

    >>> learned_scale(np.array([5.0, 1.0, 1.0, 9.0, 100.0]), 2)
    LearnedScale(ends=(1.0, 5.0, 9.0))
    """
    if not values.size:
        return None
    ordered = np.sort(values)
    ranks = np.arange(1, 2**k) * len(ordered) // 2**k
    return LearnedScale(tuple(np.unique(ordered[ranks]).tolist()))


def domain_of(schema: Schema, attribute: str) -> Domain:
    """Return the even range of an attribute's keys; None when it has none.

    >>> from tamis.model.types import Number
    >>> domain_of(Schema({"x": Number(0, 10), "y": Number()}), "x"), domain_of(Schema({"y": Number()}), "y")
    ((0.0, 10.0), None)
    """
    kind = schema.get(attribute)
    return None if kind is None else kind.domain


def cell_of(value: float, domain: Domain, k: int, *, last: bool = False) -> int:
    """Return the cell of a key, 0 to ``2**k - 1``; where a key has several cells, the first or the ``last`` of them.

    A learned scale with few ends gives all values between two ends the same cells.

    >>> [cell_of(value, (0.0, 8.0), 3) for value in (-1.0, 0.0, 0.9, 7.5, 8.0)]
    [0, 0, 0, 7, 7]
    >>> cell_of(-2.0, None, 8) < cell_of(0.0, None, 8) < cell_of(2.0, None, 8)
    True
    >>> scale = LearnedScale((0.0, 10.0))
    >>> [(cell_of(value, scale, 3), cell_of(value, scale, 3, last=True)) for value in (-1.0, 4.0, 10.0)]
    [(0, 1), (2, 4), (5, 7)]
    """
    if isinstance(domain, LearnedScale):
        rank = bisect_right(domain.ends, value) + last
        return rank * (1 << k) // (len(domain.ends) + 1) - last
    if domain is not None:
        share = (value - domain[0]) / (domain[1] - domain[0])
        return int(min(max(share, 0.0) * 2**k, 2**k - 1)) if share < 1 else 2**k - 1
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    ordered = bits + 2**63 if bits >= 0 else -1 - (bits & 2**63 - 1) + 2**63
    return int(ordered >> 64 - k)


def cells_of(values: npt.NDArray[np.float64], domain: Domain, k: int, *, last: bool = False) -> npt.NDArray[np.int64]:
    """Return `cell_of` each value."""
    if isinstance(domain, LearnedScale):
        ranks = np.searchsorted(np.array(domain.ends), values, side="right").astype(np.int64) + last
        spread: npt.NDArray[np.int64] = ranks * 2**k // (len(domain.ends) + 1) - last
        return spread
    if domain is not None:
        share = (values - domain[0]) / (domain[1] - domain[0])
        with np.errstate(invalid="ignore"):
            cells: npt.NDArray[np.int64] = np.minimum(np.clip(share, 0.0, 1.0) * 2**k, 2**k - 1).astype(np.int64)
        return cells
    return np.array([cell_of(value, None, k) for value in values.tolist()], np.int64)


def is_open(side: tuple[float, float], end: int) -> bool:
    """Whether the lower (0) or upper (1) end of a side bounds nothing."""
    return bool(side[0] <= ANY_VALUE) if end == 0 else side[1] == math.inf
