"""Benchmarks of tamis beside its peers: what ``tamis bench`` runs.

A package of its own (``tamis-bench``), which the product does not import. `matching`, `serving`, `network` and `spark`
measure what users run, `balls`, `covering`, `curves` and `regions` single structures. `workloads` draws boxes, balls
and regions from a seed; the laboratory uses them too.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.2.0"
