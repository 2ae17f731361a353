"""Siena fast forwarding: count, per filter, the constraints that an event satisfies."""

from __future__ import annotations

from tamis.index.counting.constraint_index import ConstraintIndex, ScanIndex
from tamis.index.counting.matcher import CountingMatcher, Interface
from tamis.index.counting.table import DEFAULT_INDEXES
from tamis.index.counting.value_sets import ValueSetIndex

__all__ = ["DEFAULT_INDEXES", "ConstraintIndex", "CountingMatcher", "Interface", "ScanIndex", "ValueSetIndex"]
