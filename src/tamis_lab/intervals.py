"""How sure a number is: bootstrap intervals over seeds, Wilson intervals of shares. All of them are 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

__all__ = ["Interval", "bootstrap", "exactly", "share_interval"]

#: Samples that a bootstrap draws: the ends of an interval move by less than a tenth of its width between seeds.
_SAMPLES: Final = 1_000
#: Standard deviations of a normal distribution within which 95 % lie.
_SIGMAS: Final = 1.96


class Interval(NamedTuple):
    """A value and the ends of its 95 % interval.

    >>> f"{Interval(0.1, 0.2, 0.3):.0%}", f"{exactly(4):.1f}"
    ('20% [10%, 30%]', '4.0')
    """

    low: float
    middle: float
    high: float

    def __format__(self, form: str) -> str:
        if self.low == self.middle == self.high:
            return format(self.middle, form)
        return f"{self.middle:{form}} [{self.low:{form}}, {self.high:{form}}]"


def exactly(value: float) -> Interval:
    """Return the interval of a number that is known exactly."""
    return Interval(value, value, value)


def bootstrap(values: Sequence[float], at_once: int = 1) -> Interval:
    """Return the mean of a sample and the bootstrap interval of the mean; the same for the same values.

    ``at_once`` is the number of intervals that a rule reads together: with 95 %, all of them hold their means.

    >>> bootstrap([3.0, 3.0, 3.0])
    Interval(low=3.0, middle=3.0, high=3.0)
    >>> one, of_many = bootstrap([1.0, 2.0, 3.0, 4.0]), bootstrap([1.0, 2.0, 3.0, 4.0], at_once=20)
    >>> of_many.low < one.low, one.high < of_many.high
    (True, True)
    """
    sample = np.asarray(values, np.float64)
    middle = float(sample.mean())
    if np.ptp(sample) == 0:
        return exactly(float(sample[0]))
    rows = np.random.default_rng(len(sample)).integers(0, len(sample), (_SAMPLES * at_once, len(sample)))
    outside = 0.025 / at_once
    low, high = np.quantile(sample[rows].mean(axis=1), (outside, 1 - outside))
    return Interval(float(low), middle, float(high))


def share_interval(hits: int, trials: int) -> Interval:
    """Return the share of hits and its Wilson interval, which is wide where hits are few or none.

    >>> f"{share_interval(0, 100):.1%}", f"{share_interval(50, 100):.0%}"
    ('0.0% [0.0%, 3.7%]', '50% [40%, 60%]')
    """
    share, square = hits / trials, _SIGMAS**2
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = _SIGMAS * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2)) / (1 + square / trials)
    return Interval(max(0.0, centre - half), share, min(1.0, centre + half))
