"""Subsumption: what several announced filters cover together is not announced.

The proof is exact and under a budget; where the budget ends the subscription is announced (RELIABILITY S19). When one
of the filters of a proof goes, whatever it helped to withhold is looked at again (RELIABILITY R9); the summary's books
see to that.

Implements: [mics] section 3.7, subsumption.
Deviation: exact on raw values; the paper's ranges of cells are exact for the cells only.
"""

from __future__ import annotations

from tamis.model.subscription import Subscription
from tamis.reduction.subsume import find_union
from tamis.routing.policies.covering import Covering

__all__ = ["Subsumption"]

#: Pieces that one question may fall into; such a proof takes a few milliseconds at most.
BUDGET = 500
#: Groups that share an attribute with the question; with more of them the question is not asked.
MAX_GROUPS = 100


class Subsumption(Covering):
    """A home is one group that covers, or several that do so together."""

    def find_homes(self, subscription: Subscription) -> tuple[str, ...] | None:
        """Return groups whose union covers, one if one is enough."""
        found = super().find_homes(subscription)
        if found is not None:
            return found
        asked = {name for filter in subscription.filters for name in filter.attributes}
        near = [(key, one) for key, one in self._contents.items() if _speaks_only_of(one, asked)]
        if not 2 <= len(near) <= MAX_GROUPS:
            return None
        union = find_union(subscription.filters, near, BUDGET)
        return None if union is None else tuple(map(str, union))


def _speaks_only_of(content: Subscription, asked: set[str]) -> bool:
    """Whether a filter of the group asks for nothing else: only such a filter can help to cover."""
    return any(asked.issuperset(filter.attributes) for filter in content.filters)
