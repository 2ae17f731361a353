"""Textbook matching of boxes, for comparison: every box, every axis, float64."""

from __future__ import annotations

import numpy as np


def naive_match(lo, hi, low, high):
    """Return the rows of the boxes that meet the event ``[low, high]``; NaN (missing) fits free axes only."""
    matching = []
    for row in range(len(lo)):
        for k in range(len(low)):
            free = lo[row, k] == -np.inf and hi[row, k] == np.inf
            if not free and not (lo[row, k] <= high[k] and hi[row, k] >= low[k]):
                break
        else:
            matching.append(row)
    return matching


def fast_match(lo, hi, low, high):
    """As :func:`naive_match`, by whole columns, for many boxes."""
    with np.errstate(invalid="ignore"):
        fits = ((lo <= high) & (hi >= low)) | (np.isneginf(lo) & np.isposinf(hi))
    return np.flatnonzero(fits.all(axis=1)).tolist()


def nasty_values(rng, size):
    """Values that collide: few integers, their float neighbours, zeros of both signs, subnormal, huge."""
    base = rng.integers(-4, 5, size).astype(float)
    kind = rng.integers(0, 14, size)
    choices = [
        np.nextafter(base, np.inf),
        np.nextafter(base, -np.inf),
        np.full(size, -0.0),
        np.full(size, 5e-324),
        1.7e308 * np.sign(base),
        base * 1e-300,
        rng.normal(0, 2, size),
        base * 2.0**53 + 1,
    ]
    return np.select([kind == i for i in range(len(choices))], choices, base)


def nasty_boxes(rng, n, d, free=0.3):
    """Boxes over :func:`nasty_values`: some sides equal, open, free or bounded by the extreme floats."""
    a, b = nasty_values(rng, (n, d)), nasty_values(rng, (n, d))
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    hi = np.where(rng.random((n, d)) < 0.2, lo, hi)
    lo[rng.random((n, d)) < 0.15] = -np.inf
    hi[rng.random((n, d)) < 0.15] = np.inf
    lo[rng.random((n, d)) < 0.05] = -np.finfo(float).max
    hi[rng.random((n, d)) < 0.05] = np.finfo(float).max
    whole = rng.random((n, d)) < free
    lo[whole], hi[whole] = -np.inf, np.inf
    return lo, hi


def nasty_events(rng, lo, hi, n, missing=0.2):
    """Events on and beside the bounds of these boxes: points, narrow and wide intervals, missing values."""
    d = lo.shape[1]
    pick = rng.integers(0, len(lo), (n, d))
    on = np.take_along_axis(np.where(rng.random(lo.shape) < 0.5, lo, hi), pick, 0)
    low = np.where((rng.random((n, d)) < 0.5) & np.isfinite(on), on, nasty_values(rng, (n, d)))
    kind = rng.integers(0, 5, (n, 1))
    with np.errstate(over="ignore"):
        above = np.minimum(np.nextafter(low, np.inf), np.finfo(float).max)
    high = np.where(kind == 0, above, np.where(kind == 1, low + rng.random((n, d)) * 3, low))
    removed = rng.random((n, d)) < missing
    low[removed] = high[removed] = np.nan
    return low, high
