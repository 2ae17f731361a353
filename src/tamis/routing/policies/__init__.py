"""Link policies: how the filters on a link are reduced. They change traffic and table sizes, never deliveries."""

from __future__ import annotations

from tamis.routing.policies.cells import CellOptions
from tamis.routing.policies.options import OPTIONS, Option
from tamis.routing.policies.policy import POLICIES, Policy, find_policy, options_of

__all__ = ["OPTIONS", "POLICIES", "CellOptions", "Option", "Policy", "find_policy", "options_of"]
