"""The spatial paper: relations by sampling, the CR-tree, the simplifier; synthetic and real regions.

The paper's three GIS data sets are lost. In their place stand the counties of the United States and the provinces
around a week of earthquakes, which come with tamis. The counting matcher and its CR-tree are the product's, and ask
the exact relation; Algorithm 1 as printed is measured on its own.
"""

from __future__ import annotations

from typing import Final

from tamis_lab.regions import crtree, density, precision, real, simplifier

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (
    density.EXPERIMENT,
    crtree.EXPERIMENT,
    simplifier.EXPERIMENT,
    precision.EXPERIMENT,
    real.EXPERIMENT,
)
