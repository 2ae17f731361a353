"""Beyond the papers: the product's defaults beside their structures on one workload, and larger than anything runs."""

from __future__ import annotations

from typing import Final

from tamis_lab.beyond import internet, links, matchers, overlay

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (matchers.EXPERIMENT, links.EXPERIMENT, internet.EXPERIMENT, overlay.EXPERIMENT)
