"""The policies by name: users choose from them and the tests run over all of them. A new policy is one more `_Kind`.

A policy is written as its name, or with options as ``name:option=value,option=value``
(`tamis.routing.policies.options` lists them all). Policies build on each other: subscriptions are simplified first, a
finder proposes covers and proofs decide (covering), and subsumption, merging or a two-stage table add to that.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tamis.curves.hilbert import MAX_BITS, MAX_DIMENSIONS
from tamis.errors import ModelError
from tamis.index.protocols import CoveringIndex
from tamis.index.registry import COVERING_INDEXES, CoveringOptions
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.routing.core.summary import Strategy
from tamis.routing.policies.cells import CellOptions
from tamis.routing.policies.covering import CoveringStrategy
from tamis.routing.policies.identity import EveryStrategy, IdentityStrategy
from tamis.routing.policies.merging import MergingStrategy
from tamis.routing.policies.options import (
    FINDER_OPTIONS,
    OPTIONS,
    Value,
    read_options,
    split_options,
    written_options,
)
from tamis.routing.policies.simplifying import Simplified
from tamis.routing.policies.subsumption import SubsumptionStrategy

__all__ = ["POLICIES", "Policy", "find_policy", "options_of"]


@dataclass(frozen=True)
class Policy:
    """How a link is used: ``make`` makes the strategy of a link; a policy that ``floods`` needs none.

    ``exact``: no event goes to a broker behind which no subscription matches. ``cells``: the link carries ranges of
    cells and no filters (`tamis.routing.policies.cell_tables`). ``stages``: the filters of the neighbour are matched in
    two stages, cells before exact filters (`tamis.routing.policies.two_stage`). ``options`` are those in effect.
    """

    name: str
    summary: str
    make: Callable[[], Strategy]
    exact: bool = True
    floods: bool = False
    cells: CellOptions | None = None
    stages: CellOptions | None = None
    options: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def fitted_to(self, subscriptions: Sequence[Subscription], events: Sequence[Event] = ()) -> Policy:
        """Return the policy with cells fitted to samples of subscriptions and events; itself if it has no cells."""
        return self if self.cells is None else replace(self, cells=self.cells.fitted_to(subscriptions, events))


#: Up to this number of groups a linear scan is quicker than an index.
FEW = 32

#: Options in effect, by name.
Options = Mapping[str, Value]


@dataclass(frozen=True)
class _Kind:
    """A policy without its options; ``preset`` are its own defaults, and ``finder`` is its fixed finder, if any."""

    name: str
    summary: str
    build: Callable[[Options], Policy]
    options: tuple[str, ...] = ()
    preset: Options = field(default_factory=dict)
    finder: str | None = None

    def allowed(self, chosen: Mapping[str, object]) -> tuple[str, ...]:
        """Return the names of the allowed options; those of a finder only if it is chosen."""
        finder = self.finder or str(chosen.get("finder", "exact"))
        has_finder = self.finder is not None or "finder" in self.options
        return tuple(dict.fromkeys([*self.options, *(FINDER_OPTIONS.get(finder, ()) if has_finder else ())]))

    def policy(self, chosen: Mapping[str, object]) -> Policy:
        """Return the policy with the chosen options."""
        names = self.allowed(chosen)
        read = read_options(self.name, names, chosen)
        defaults = {name: self.preset.get(name, OPTIONS[name].default) for name in names}
        changed = {name: value for name, value in read.items() if value != defaults[name]}
        values = defaults | read
        fixed = {"finder": self.finder} if self.finder else {}
        try:
            built = self.build(values | fixed)
            if chosen:
                built.make()  # an index may refuse options that do not go together
        except ModelError as error:
            raise ModelError(f"policy {self.name!r}: {error}") from None
        return replace(built, name=written_options(self.name, changed), summary=self.summary, options=values)


def _is_count(text: str) -> bool:
    """Whether a text is a small number in plain digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 3


def _finder(options: Options) -> Callable[[], CoveringIndex]:
    """Return the factory of the index that proposes covers."""
    name = str(options["finder"])
    axes = str(options.get("axes", "3")) if name == "cells" else "3"
    if not _is_count(axes) or not 1 <= int(axes) <= 8:
        raise ModelError(f"axes of a finder is a number from 1 to 8, not {axes!r}")
    chosen = CoveringOptions(
        epsilon=float(options.get("epsilon", 0.05)),
        k=int(options.get("bits", 0) or options.get("k", 0)) or None,
        seed=int(options.get("seed", 0)),
        curve=str(options.get("curve", "z")),
        probes=int(options.get("probes", 0)) or None,
        truncated=bool(options.get("truncated", False)),
        pieces=int(options["pieces"]),
        draw=str(options.get("draw", "orthonormal")),
        pick=str(options.get("pick", "largest")),
        axes=int(axes),
        groups=int(options.get("groups", 1)),
    )
    return partial(COVERING_INDEXES[name], chosen)


def _few(options: Options) -> int:
    return FEW if options["finder"] == "exact" else 0


def _filters(make: Callable[[], Strategy], options: Options, **fields: bool | CellOptions) -> Policy:
    """Return a policy that announces filters, simplified first if the option ``simplify`` is set."""
    make_strategy = (lambda: Simplified(make())) if options["simplify"] else make
    return Policy("", "", make_strategy, **fields)  # type: ignore[arg-type]  # the fields have these types


def _identity(options: Options) -> Policy:
    return _filters(IdentityStrategy, options)


def _covering(options: Options) -> Policy:
    finder, pieces = _finder(options), int(options["pieces"])
    return _filters(lambda: CoveringStrategy(finder, _few(options), pieces), options)


def _subsumption(options: Options) -> Policy:
    finder, few, pieces = _finder(options), _few(options), int(options["pieces"])
    limits = int(options["budget"]), int(options["near"])
    return _filters(lambda: SubsumptionStrategy(finder, few, pieces, *limits), options)


def _merging(options: Options) -> Policy:
    finder, few, pieces = _finder(options), _few(options), int(options["pieces"])
    gap, share = float(options.get("gap", 0.0)), float(options.get("false_positives", 0.0))
    return _filters(lambda: MergingStrategy(finder, few, pieces, gap, share), options, exact="gap" not in options)


def _cell_options(options: Options) -> CellOptions:
    """Return the cells that options ask for."""
    axes = str(options["axes"])
    names = () if _is_count(axes) else tuple(name.strip() for name in axes.split("+"))
    if not all(names):
        raise ModelError(f"axes is a number, or names joined with +, not {axes!r}")
    chosen = CellOptions(
        n_axes=len(names) if names else int(axes),
        n_groups=int(options["groups"]),
        names=names,
        gap=int(options.get("key_gap", 0)),
        false_positives=float(options.get("false_positives", 0.0)),
        max_ranges=int(options.get("ranges", 0)),
    )
    chosen = replace(chosen, bits=int(options["bits"])) if options.get("bits") else chosen
    if chosen.n_axes > MAX_DIMENSIONS or chosen.bits > MAX_BITS or chosen.n_axes * chosen.bits > 62:
        size = f"{chosen.n_axes} axes of {chosen.bits} bits"
        raise ModelError(f"a curve has up to {MAX_DIMENSIONS} axes, {MAX_BITS} bits on each and 62 in all, not {size}")
    return chosen


def _mics(options: Options) -> Policy:
    return Policy("", "", IdentityStrategy, exact=False, cells=_cell_options(options))


def _two_stage(options: Options) -> Policy:
    return replace(_covering(options), stages=_cell_options({**options, "bits": 0}))


_COVERING = ("simplify", "pieces", "finder")
_CELLS = ("axes", "groups", "bits", "key_gap", "false_positives", "ranges")

_KINDS = (
    _Kind(
        "flood",
        "every event goes everywhere",
        lambda options: Policy("", "", IdentityStrategy, exact=False, floods=True),
    ),
    _Kind("every", "every subscription is announced", lambda options: Policy("", "", EveryStrategy)),
    _Kind("identity", "equal filters are announced once", _identity, ("simplify",)),
    _Kind("covering", "what an announced filter covers is not announced", _covering, _COVERING),
    _Kind("zcurve", "covers found on the Z curve, some overlooked", _covering, ("simplify", "pieces"), finder="zcurve"),
    _Kind(
        "projection",
        "covers of balls found by random projections",
        _covering,
        ("simplify", "pieces"),
        finder="projection",
    ),
    _Kind(
        "subsumption",
        "what several filters cover together is not announced",
        _subsumption,
        (*_COVERING, "budget", "near"),
    ),
    _Kind("merging", "filters that differ on one attribute become one", _merging, _COVERING),
    _Kind(
        "gap",
        "merging that fills gaps, by default of up to half a range",
        _merging,
        (*_COVERING, "gap", "false_positives"),
    ),
    _Kind("mics", "ranges of cells on a Hilbert curve", _mics, _CELLS),
    _Kind("mics-gap", "ranges of cells, merged over small gaps", _mics, _CELLS, {"key_gap": 16}),
    _Kind("mics-groups", "ranges on two curves", _mics, _CELLS, {"axes": "2", "groups": 2}),
    _Kind("two-stage", "covering; cells reject before filters are asked", _two_stage, (*_COVERING, "axes", "groups")),
)

_BY_NAME = {kind.name: kind for kind in _KINDS}

POLICIES: dict[str, Policy] = {kind.name: kind.policy({}) for kind in _KINDS}


def find_policy(policy: str | Policy, options: Mapping[str, object] | None = None) -> Policy:
    """Return the policy of a name, with options in the same text or beside it.

    The error for an unknown name or option lists those that exist.

    >>> find_policy("zcurve:epsilon=0.1").name, find_policy("zcurve", {"epsilon": 0.1, "bits": 8}).name
    ('zcurve:epsilon=0.1', 'zcurve:epsilon=0.1,bits=8')
    """
    if isinstance(policy, Policy):
        return policy
    name, written = split_options(policy)
    chosen = {**written, **(options or {})}
    if name not in _BY_NAME:
        near = difflib.get_close_matches(name, _BY_NAME, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ModelError(f"unknown policy {name!r}{hint}; choose from {', '.join(_BY_NAME)}")
    return _BY_NAME[name].policy(chosen) if chosen else POLICIES[name]


def options_of(name: str) -> tuple[str, ...]:
    """Return the options of a policy, those of all finders that it may have included.

    >>> options_of("projection")
    ('simplify', 'pieces', 'k', 'seed', 'draw', 'pick')
    """
    kind = _BY_NAME[split_options(name)[0]]
    finders = [kind.finder] if kind.finder else list(FINDER_OPTIONS) if "finder" in kind.options else []
    return tuple(dict.fromkeys([*kind.options, *(option for finder in finders for option in FINDER_OPTIONS[finder])]))
