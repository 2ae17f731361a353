"""The distributed R-tree paper: who receives what he did not ask for, and how many neighbours a peer has.

Trees are built by the product's peers, which join one by one and split, promote and hand over by messages; only the
mail between them is handed over at once (`tamis_lab.peers.express`). False positives need no events: a peer receives
what its topmost MBR contains, so their share is a volume (erratum D.3.4); sampled events stand beside it.
"""

from __future__ import annotations

from typing import Final

from tamis_lab.drtree import containment, degrees, delivery, dimensions, distributions, equal_hits, overlays, sizes

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final = (
    sizes.EXPERIMENT,
    distributions.EXPERIMENT,
    dimensions.EXPERIMENT,
    equal_hits.EXPERIMENT,
    degrees.EXPERIMENT,
    containment.EXPERIMENT,
    delivery.EXPERIMENT,
    overlays.EXPERIMENT,
)
