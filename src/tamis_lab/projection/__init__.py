"""The random projection paper: how often projections call a ball covered that is not, and what finding one costs.

The measure is the paper's, as far as its numbers allow: false coverings among all ordered pairs that do not cover.
The product verifies every candidate exactly, so none of these errors reaches an answer; they are work, not mistakes.
"""

from __future__ import annotations

from typing import Final

from tamis_lab.projection import cubes, error, index, single

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (error.EXPERIMENT, single.EXPERIMENT, cubes.EXPERIMENT, index.EXPERIMENT)
