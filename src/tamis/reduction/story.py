"""Why each subscription is gone, told about what is left in the end.

While a set is reduced, an item may be removed for another that is itself removed later. The story keeps
the removals in order and, at the end, tells each reason anew about items that remain: a removal for a
covered item becomes one for its coverer, one for a subsumed item becomes one for that item's union, and
one for an item that was merged becomes one for the merge. All of that follows from covering being
transitive, so every reason stays a proof.
"""

from __future__ import annotations

from collections.abc import Iterable

from tamis.model.subscription import Subscription, SubscriptionId, id_order
from tamis.reduction.report import Reduction

__all__ = ["Story"]

_Ids = tuple[SubscriptionId, ...]


class Story:
    """The removals of one reduction, in order."""

    def __init__(self) -> None:
        self._impossible: list[SubscriptionId] = []
        self._removals: list[tuple[str, SubscriptionId, _Ids]] = []
        self._remaining: list[tuple[_Ids, Subscription]] = []

    def impossible(self, id: SubscriptionId) -> None:
        """Note that a subscription can never match."""
        self._impossible.append(id)

    def remove(self, reason: str, id: SubscriptionId, by: _Ids) -> None:
        """Note that a subscription is "equivalent" to, "covered" or "subsumed" by others, still there."""
        self._removals.append((reason, id, by))

    def keep(self, remaining: Iterable[tuple[_Ids, Subscription]]) -> None:
        """Note what remains, each with the ids it stands for."""
        self._remaining += remaining

    def reduction(self, before: int) -> Reduction:
        """Return the result, told about what remains."""
        told = self._told()
        remaining = sorted((pair for pair in self._remaining), key=lambda pair: id_order(pair[0][0]))
        by_reason: dict[str, dict[SubscriptionId, _Ids]] = {"equivalent": {}, "covered": {}, "subsumed": {}}
        for id in sorted((id for _, id, _ in self._removals), key=id_order):
            reason, by = told[id]
            by_reason[reason][id] = by
        return Reduction(
            before=before,
            kept=tuple(one.id for ids, one in remaining if len(ids) == 1),
            covered={id: by for id, (by,) in by_reason["covered"].items()},
            equivalent={id: by for id, (by,) in by_reason["equivalent"].items()},
            subsumed=by_reason["subsumed"],
            merged={one.id: ids for ids, one in remaining if len(ids) > 1},
            impossible=tuple(self._impossible),
            subscriptions=tuple(one for _, one in remaining),
        )

    def _told(self) -> dict[SubscriptionId, tuple[str, _Ids]]:
        """Return per id its final reason; those that remain are "equivalent" to themselves."""
        told: dict[SubscriptionId, tuple[str, _Ids]] = {}
        for ids, one in self._remaining:
            for id in ids:
                told[id] = ("equivalent" if len(ids) == 1 else "covered", (one.id,))
        for reason, id, by in reversed(self._removals):  # what an item was removed for went later, or not at all
            told[id] = _combined(reason, [told[other] for other in by])
        return told


def _combined(reason: str, targets: list[tuple[str, _Ids]]) -> tuple[str, _Ids]:
    """Return the weakest of the reasons, and what remains of those an item was removed for."""
    by = tuple(sorted({id for _, ids in targets for id in ids}, key=id_order))
    if len(by) > 1:
        return "subsumed", by
    return ("equivalent" if reason == "equivalent" and targets[0][0] == "equivalent" else "covered"), by
