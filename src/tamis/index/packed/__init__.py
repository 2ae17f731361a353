"""The default matcher's heart: packed box segments, a small delta, tombstones, merges. Boxes in, rows out."""

from __future__ import annotations

from tamis.index.packed.lsm import BoxIndex, MergePlan
from tamis.kernels.quantise import ANY_VALUE

__all__ = ["ANY_VALUE", "BoxIndex", "MergePlan"]
