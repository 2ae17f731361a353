"""Link policies: how few filters a link may carry. Each changes traffic and table sizes, none changes deliveries."""

from __future__ import annotations

from tamis.routing.policies.cells import CellOptions
from tamis.routing.policies.options import OPTIONS, Option
from tamis.routing.policies.policy import POLICIES, Policy, find_policy, options_of

__all__ = ["OPTIONS", "POLICIES", "CellOptions", "Option", "Policy", "find_policy", "options_of"]
