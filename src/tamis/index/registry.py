"""The structures by name, for users to choose from and for contract tests; a new one needs one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tamis.errors import ModelError
from tamis.index.counting import CountingMatcher
from tamis.index.linear_scan import LinearCovering, LinearMatcher
from tamis.index.mics.matcher import MicsMatcher
from tamis.index.packed.matcher import PackedMatcher
from tamis.index.protocols import CoveringIndex, EventMatcher, Lookup
from tamis.model.schema import Schema

__all__ = ["COVERING_INDEXES", "COVERING_OPTIONS", "DEFAULT_COVERING", "DEFAULT_MATCHER", "MATCHERS", "CoveringOptions"]

MATCHERS: dict[str, Callable[[Lookup], EventMatcher]] = {
    "packed": PackedMatcher,
    "linear": lambda lookup: LinearMatcher(),
    "counting": lambda lookup: CountingMatcher(),
    "mics": lambda lookup: MicsMatcher(),
}
DEFAULT_MATCHER = "packed"


@dataclass(frozen=True, slots=True)
class CoveringOptions:
    """The options of all covering indexes; each index reads those that concern it.

    ``schema`` names the attributes and their domains, ``epsilon`` is the share of the search space that may be
    left out, ``k`` the bits of a curve's or cell grid's side or the vectors of a projection, ``seed`` draws those, as
    ``draw`` says; ``pick`` is the cover that a projection reports; ``curve`` is "z", "hilbert" or "gray", ``probes``
    the cubes after which a search on it ends, and ``truncated`` has it search the rectangle of Lemma 3.1. ``axes``
    and ``groups`` are those of cells. ``pieces`` bounds the proofs of one question to all but "projection"
    (`tamis.algebra.proofs.budget`); what is beyond it counts as not covered.
    """

    schema: Schema = field(default_factory=Schema)
    epsilon: float = 0.05
    k: int | None = None
    seed: int = 0
    curve: str = "z"
    probes: int | None = None
    truncated: bool = False
    pieces: int | None = None
    draw: str = "orthonormal"
    pick: str = "smallest"
    axes: int = 3
    groups: int = 1


_AS_IT_COMES = CoveringOptions()


class _Maker(Protocol):
    def __call__(self, options: CoveringOptions = ...) -> CoveringIndex: ...


def _exact(options: CoveringOptions = _AS_IT_COMES) -> CoveringIndex:
    from tamis.index.dominance.index import DominanceIndex  # late: it loads numba

    return DominanceIndex(options.pieces)


def _zcurve(options: CoveringOptions = _AS_IT_COMES) -> CoveringIndex:
    from tamis.index.zcurve.index import CURVES, ZCurveIndex

    curve = CURVES.get(options.curve)
    if curve is None:
        raise ModelError(f"unknown curve {options.curve!r}; choose from {', '.join(sorted(CURVES))}")
    return ZCurveIndex(
        options.schema,
        epsilon=options.epsilon,
        k=options.k,
        curve=curve,
        probes=options.probes,
        truncated=options.truncated,
        pieces=options.pieces,
    )


def _projection(options: CoveringOptions = _AS_IT_COMES) -> CoveringIndex:
    from tamis.index.projection import ProjectionIndex  # late: it loads numba

    return ProjectionIndex(options.k, options.seed, kind=options.draw, pick=options.pick)


def _cells(options: CoveringOptions = _AS_IT_COMES) -> CoveringIndex:
    from tamis.index.mics.covering import CellCovering

    return CellCovering(n_axes=options.axes, n_groups=options.groups, bits=options.k, pieces=options.pieces)


def _linear(options: CoveringOptions = _AS_IT_COMES) -> CoveringIndex:
    return LinearCovering(options.pieces)


COVERING_INDEXES: dict[str, _Maker] = {
    "exact": _exact,
    "zcurve": _zcurve,
    "projection": _projection,
    "cells": _cells,
    "linear": _linear,
}
DEFAULT_COVERING = "exact"

#: The options that each covering index reads, of those that users give.
COVERING_OPTIONS: dict[str, tuple[str, ...]] = {
    "exact": (),
    "zcurve": ("epsilon", "k", "curve", "probes", "truncated"),
    "projection": ("k", "seed", "draw", "pick"),
    "cells": ("k", "axes", "groups"),
    "linear": (),
}
