"""The coding of a segment's float64 ends as int16: a quantiser, and the amount of data it was trained on.

Segments share a coding where they can, because an event is coded once per coding. A coding that was
trained on other data stays correct (codes only tie more often), so it is replaced when a segment is
built that is much larger than its training data, or that has an axis it never saw.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.saved_arrays import Below, Declared, Finite, SavedArrays, Size
from tamis.kernels.boxes.quantise import N_AXIS_CELLS, N_AXIS_FIELDS, Quantiser, code_sides, train_quantiser
from tamis.kernels.boxes.sparse import Boxes, count_boxes, pack_boxes

__all__ = ["Coding", "boxes_from_dense"]

#: Boxes looked at to choose the knots.
_SAMPLE: Final = 100_000

_ARRAYS: Final = {
    "trained_on": Declared(np.int64, (1,), Below(2**62)),
    "knots": Declared(np.float64, ("knots",), Finite()),
    "slopes": Declared(np.float64, ("knots",), Finite(least=0.0)),
    "cells": Declared(np.int16, (Size("axes", times=N_AXIS_CELLS),)),
    "axes": Declared(np.float64, ("axes", N_AXIS_FIELDS), Finite()),
}


def boxes_from_dense(lo: npt.NDArray[np.float64], hi: npt.NDArray[np.float64]) -> Boxes:
    """Keep the constrained sides of dense closed boxes; a bad row raises ``ValueError`` that names it."""
    first = np.empty(lo.shape[0] + 1, np.uint32)
    bad = count_boxes(lo, hi, first)
    if bad >= 0:
        raise ValueError(f"box {bad} has a NaN end or lo > hi")
    boxes = Boxes(first, np.empty(first[-1], np.int16), np.empty((first[-1], 2), np.float64))
    pack_boxes(lo, hi, boxes.axis, boxes.ends)
    return boxes


def _spread_sample(n: int, step: int) -> npt.NDArray[np.int64]:
    """Return one of every ``step`` numbers below ``n``, drawn with a fixed seed.

    Every step-th number would be wrong: the alternatives of a subscription stand side by side, so each second box of
    a set of pairs is the same alternative, and the others would all get one code.
    """
    starts = np.arange(0, n, step, dtype=np.int64)
    drawn: npt.NDArray[np.int64] = starts + np.random.default_rng(0).integers(0, step, len(starts))
    return np.minimum(drawn, n - 1)


class Coding:
    """A quantiser with the address table that kernels read.

    Attributes
    ----------
    quantiser
        The maps themselves.
    table
        int64[5], what a directory row carries.
    trained_on
        Number of boxes from which the training sample was drawn.
    """

    def __init__(self, quantiser: Quantiser, trained_on: int) -> None:
        self.quantiser = quantiser
        self.table = quantiser.addresses()
        self.trained_on = trained_on

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the maps by name."""
        return {"trained_on": np.array([self.trained_on], np.int64), **self.quantiser._asdict()}

    @classmethod
    def from_arrays(cls, arrays: SavedArrays) -> Coding:
        """Open maps as `to_arrays` gave them, checked; they may be read-only."""
        kept, _ = arrays.take(_ARRAYS)
        trained_on = int(kept.pop("trained_on")[0])
        quantiser = Quantiser(**kept)
        problem = quantiser.find_problem()
        if problem is not None:
            arrays.refuse("axes", problem)
        return cls(quantiser, trained_on)

    @classmethod
    def train(cls, boxes: Boxes) -> Coding:
        """Choose knots from a sample of the boxes; the same boxes in the same order give the same map."""
        n = boxes.first.size - 1
        step = max(1, n // _SAMPLE)
        if step == 1:
            axis, ends = boxes.axis, boxes.ends
        else:
            chosen = _spread_sample(n, step)
            starts = boxes.first[chosen].astype(np.int64)
            counts = boxes.first[chosen + 1].astype(np.int64) - starts
            shift = np.repeat(starts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
            entries = shift + np.arange(counts.sum())
            axis, ends = boxes.axis[entries], boxes.ends[entries]
        used = np.bincount(boxes.axis) if boxes.axis.size else np.zeros(1, np.int64)
        missed = np.setdiff1d(np.flatnonzero(used), np.flatnonzero(np.bincount(axis, minlength=used.size)))
        if missed.size:  # rare axes that the sample passed over
            more = np.isin(boxes.axis, missed)
            axis, ends = np.concatenate((axis, boxes.axis[more])), np.concatenate((ends, boxes.ends[more]))
        return cls(train_quantiser(used.size, axis, ends), n)

    def suits(self, boxes: Boxes) -> bool:
        """Return whether these boxes can be coded well: all axes known, and not many times the training data."""
        used = np.flatnonzero(np.bincount(boxes.axis)) if boxes.axis.size else np.zeros(0, np.int64)
        return boxes.first.size - 1 <= 4 * self.trained_on and self.quantiser.has_axes(used)

    def codes_of(self, boxes: Boxes) -> npt.NDArray[np.int16]:
        """Return the codes int16[m, 2] of all entries."""
        codes = np.empty((boxes.axis.size, 2), np.int16)
        code_sides(self.table, boxes.axis, boxes.ends, codes)
        return codes
