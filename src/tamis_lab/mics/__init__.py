"""The MICS paper: subscriptions as ranges on the Hilbert curve, from conversion and traffic to learned cells.

Everything is measured on `RangeTable` and `SubscriptionIndex`, which the broker's ``mics`` policy and the matcher
``mics`` use. The linear structures the paper compares with are vectorised scans here; they are hard to beat at 1,000.
"""

from __future__ import annotations

from typing import Final

from tamis_lab.mics import cells, curves, projection, ranges, storage, times, traffic

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (
    ranges.EXPERIMENT,
    traffic.EXPERIMENT,
    times.EXPERIMENT,
    storage.EXPERIMENT,
    projection.EXPERIMENT,
    cells.EXPERIMENT,
    curves.EXPERIMENT,
)
