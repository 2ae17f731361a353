"""The structures by name: what users choose from and contract tests run over. A new one joins by one line."""

from __future__ import annotations

from collections.abc import Callable

from tamis.index.counting import CountingMatcher
from tamis.index.linear_scan import LinearCovering, LinearMatcher
from tamis.index.mics.matcher import MicsMatcher
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import CoveringIndex, Lookup, Matcher

__all__ = ["COVERING_INDEXES", "DEFAULT_MATCHER", "MATCHERS"]

MATCHERS: dict[str, Callable[[Lookup], Matcher]] = {
    "packed": PackedMatcher,
    "linear": lambda lookup: LinearMatcher(),
    "counting": lambda lookup: CountingMatcher(),
    "mics": lambda lookup: MicsMatcher(),
}
DEFAULT_MATCHER = "packed"


def _projection() -> CoveringIndex:
    from tamis.index.projection import ProjectionIndex  # late: it loads numba

    return ProjectionIndex()


COVERING_INDEXES: dict[str, Callable[[], CoveringIndex]] = {
    "linear": LinearCovering,
    "projection": _projection,
}
