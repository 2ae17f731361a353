"""The Z-curve paper: how many cubes a search looks up, what approximation saves, and what it misses.

The cost of a search is the cubes it looks up, and Lemma 3.4 counts them exactly at any size; times stand beside
the counts where an exhaustive search ends within a moment. "No hit": the searched region is empty, as in the paper.
"""

from __future__ import annotations

from typing import Final

from tamis_lab.zcurve import cubes, curves, network, plateau, recall, speedup

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (
    cubes.EXPERIMENT,
    speedup.EXPERIMENT,
    plateau.EXPERIMENT,
    recall.EXPERIMENT,
    network.EXPERIMENT,
    curves.EXPERIMENT,
)
