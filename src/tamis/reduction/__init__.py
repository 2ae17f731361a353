"""Sets of subscriptions: subsume, merge, reduce. Links forward fewer subscriptions; deliveries stay the same."""

from __future__ import annotations

from tamis.reduction.merge import merge
from tamis.reduction.partition import Partition, cover_partition, reduce_partition, reduce_partitions
from tamis.reduction.reduce import reduce
from tamis.reduction.report import Reduction
from tamis.reduction.subsume import Subsumption, subsumed

__all__ = [
    "Partition",
    "Reduction",
    "Subsumption",
    "cover_partition",
    "merge",
    "reduce",
    "reduce_partition",
    "reduce_partitions",
    "subsumed",
]
