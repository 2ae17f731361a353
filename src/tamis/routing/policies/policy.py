"""The policies by name: what users choose from and the tests run over. A new one joins by one line.

A policy that needs an index is there when the registry of covering indexes has it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tamis.errors import ModelError
from tamis.index.protocols import CoveringIndex
from tamis.index.registry import COVERING_INDEXES, CoveringOptions
from tamis.model.subscription import Subscription
from tamis.routing.core.summary import Strategy
from tamis.routing.policies.cells import CellOptions
from tamis.routing.policies.covering import PIECES, Covering
from tamis.routing.policies.identity import Every, Identity
from tamis.routing.policies.merging import Merging
from tamis.routing.policies.subsumption import Subsumption

__all__ = ["POLICIES", "Policy", "find_policy"]


@dataclass(frozen=True)
class Policy:
    """How a link is used: ``make`` gives the strategy of a link; a policy that ``floods`` needs none.

    ``exact``: no event is forwarded to a broker behind which nobody asked for it. ``cells``: the link is told ranges of
    cells and no filters (`tamis.routing.policies.cell_tables`). ``stages``: what the neighbour announces is kept in
    two stages, cells before exact filters (`tamis.routing.policies.two_stage`).
    """

    name: str
    summary: str
    make: Callable[[], Strategy]
    exact: bool = True
    floods: bool = False
    cells: CellOptions | None = None
    stages: CellOptions | None = None

    def fitted_to(self, subscriptions: Sequence[Subscription]) -> Policy:
        """Return the policy with cells that suit a sample of subscriptions; one without cells as it is."""
        return self if self.cells is None else replace(self, cells=self.cells.fitted_to(subscriptions))


#: Up to this number of groups are asked one by one, which is quicker.
FEW = 32


def _exact() -> CoveringIndex:
    """Return the index that finds exact covers, under the budget of a link."""
    return COVERING_INDEXES["exact"](CoveringOptions(pieces=PIECES))


def _zcurve() -> CoveringIndex:
    """Return the index on the Z curve, under the budget of a link; it learns its scales from what is announced."""
    return COVERING_INDEXES["zcurve"](CoveringOptions(pieces=PIECES))


_ALL = (
    Policy("flood", "every event goes everywhere", Identity, exact=False, floods=True),
    Policy("every", "every subscription is announced", Every),
    Policy("identity", "equal filters are announced once", Identity),
    Policy("covering", "what an announced filter covers is not announced", lambda: Covering(_exact, FEW)),
    Policy("zcurve", "covers found on the Z curve, some overlooked", lambda: Covering(_zcurve)),
    Policy(
        "projection", "covers of balls found by random projections", lambda: Covering(COVERING_INDEXES["projection"])
    ),
    Policy("subsumption", "what several filters cover together is not announced", lambda: Subsumption(_exact, FEW)),
    Policy("merging", "filters that differ on one attribute become one", lambda: Merging(_exact, FEW)),
    Policy("gap", "merging that fills gaps of up to half a range", lambda: Merging(_exact, FEW, gap=0.5), exact=False),
    Policy("mics", "ranges of cells on a Hilbert curve", Identity, exact=False, cells=CellOptions()),
    Policy("mics-gap", "ranges of cells, merged over small gaps", Identity, exact=False, cells=CellOptions(gap=16)),
    Policy("mics-groups", "ranges on two curves", Identity, exact=False, cells=CellOptions(n_axes=2, n_groups=2)),
    Policy(
        "two-stage",
        "covering; cells reject before filters are asked",
        lambda: Covering(_exact, FEW),
        stages=CellOptions(),
    ),
)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in _ALL}


def find_policy(policy: str | Policy) -> Policy:
    """Return the policy of a name; an unknown name is refused with a hint."""
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        near = difflib.get_close_matches(policy, POLICIES, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ModelError(f"there is no policy {policy!r}{hint}; there are {', '.join(POLICIES)}")
    return POLICIES[policy]
