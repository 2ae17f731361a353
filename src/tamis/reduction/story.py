"""Records why each subscription is removed, and restates the reasons in terms of those that remain.

While a set is reduced, an item may be removed for another that is itself removed later. The story keeps
the removals in order and, at the end, restates each reason in terms of items that remain: a removal for a
covered item becomes one for its coverer, one for a subsumed item becomes one for that item's union, and
one for an item that was merged becomes one for the merge. All of that follows from covering being
transitive, so every reason stays a proof.

Items are places of the input; a merged subscription is identified by a negative number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from tamis.model.subscription import Subscription, SubscriptionId, id_order
from tamis.reduction.input import Input
from tamis.reduction.report import Reduction

__all__ = ["ReductionStory", "Remaining"]

_Places = tuple[int, ...]


class Remaining(Sequence[Subscription]):
    """The subscriptions that remain; those of a table are created on access."""

    def __init__(
        self, subscriptions: Sequence[Subscription], merged: Sequence[Subscription], items: Sequence[int]
    ) -> None:
        self._subscriptions, self._merged, self._items = subscriptions, merged, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Subscription: ...
    @overload
    def __getitem__(self, at: slice) -> list[Subscription]: ...
    def __getitem__(self, at: int | slice) -> Subscription | list[Subscription]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        item = self._items[at]
        return self._subscriptions[item] if item >= 0 else self._merged[-1 - item]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]


def _sorted(ids: tuple[SubscriptionId, ...]) -> tuple[SubscriptionId, ...]:
    return tuple(sorted(ids, key=id_order))


def _same(a: object, b: object) -> bool:
    return a == b


class ReductionStory:
    """The removals of one reduction, in order."""

    def __init__(self) -> None:
        self._impossible: list[int] = []
        self._undecided: list[int] = []
        self._removals: list[tuple[str, int, _Places]] = []
        self._kept: list[int] = []
        self._merges: list[tuple[_Places, Subscription]] = []

    def impossible(self, place: int) -> None:
        """Record that a subscription can never match."""
        self._impossible.append(place)

    def undecided(self, places: Iterable[int]) -> None:
        """Record places that remain because the proof about them exceeded its budget."""
        self._undecided += places

    def remove(self, reason: str, place: int, by: _Places) -> None:
        """Record that a subscription is "equivalent" to, "covered" or "subsumed" by others that are not removed yet."""
        self._removals.append((reason, place, by))

    def keep(self, places: Iterable[int]) -> None:
        """Record the places that remain unchanged."""
        self._kept += places

    def merge(self, places: _Places, merged: Subscription) -> None:
        """Record that a new subscription replaces several."""
        self._merges.append((places, merged))

    def reduction(self, input: Input, subscriptions: Sequence[Subscription]) -> Reduction:
        """Return the result with reasons that remain; ``subscriptions`` are the simplified input."""
        outcomes, names = self._outcomes(), input.names
        new = self._new_names(set(names)) if self._merges else []
        name_of = {-1 - i: name for i, name in enumerate(new)}
        by_reason: dict[str, dict[SubscriptionId, tuple[SubscriptionId, ...]]]
        by_reason = {"equivalent": {}, "covered": {}, "subsumed": {}}
        are_places = names == range(len(names)) and not new  # a table without ids: places are the ids
        for place in sorted(outcomes):
            reason, by = outcomes[place]
            shown = by if are_places else tuple([names[target] if target >= 0 else name_of[target] for target in by])
            by_reason[reason][names[place]] = shown
        first = {-1 - i: places[0] for i, (places, _) in enumerate(self._merges)}
        items = sorted(self._kept)
        if first:
            items = sorted([*items, *first], key=lambda item: first.get(item, item))
        return Reduction(
            before=len(input),
            kept=tuple([names[item] for item in items if item >= 0]),
            covered={id: by for id, (by,) in by_reason["covered"].items()},
            equivalent={id: by for id, (by,) in by_reason["equivalent"].items()},
            subsumed={id: _sorted(by) for id, by in by_reason["subsumed"].items()} if first else by_reason["subsumed"],
            merged={name_of[item]: tuple(names[p] for p in self._merges[-1 - item][0]) for item in items if item < 0},
            impossible=tuple(names[place] for place in sorted(self._impossible)),
            undecided=tuple(names[place] for place in sorted(self._undecided)),
            subscriptions=Remaining(subscriptions, [subscription for _, subscription in self._merges], items),
        )

    def _new_names(self, taken: set[SubscriptionId]) -> list[SubscriptionId]:
        """Return the names of merges in the report: their ids, with a namespace in front where two share an id."""
        names: list[SubscriptionId] = []
        for _, subscription in self._merges:
            name: SubscriptionId = subscription.id
            while name in taken:
                name = f"{subscription.namespace}/{subscription.id}" if name == subscription.id else f"{name}'"
            taken.add(name)
            names.append(name)
        return names

    def _outcomes(self) -> dict[int, tuple[str, _Places]]:
        """Return the final reason for each removed place."""
        merged = {place: -1 - i for i, (places, _) in enumerate(self._merges) for place in places}
        outcomes: dict[int, tuple[str, _Places]] = {}
        # The cause of a removal was itself removed later, or not at all.
        for reason, place, by in reversed(self._removals):
            outcomes[place] = _combined(reason, [_target(target, outcomes, merged) for target in by])
        return outcomes


def _target(place: int, outcomes: dict[int, tuple[str, _Places]], merged: dict[int, int]) -> tuple[str, _Places]:
    """Return the remaining places that replace a place, and the rule."""
    if place in outcomes:
        return outcomes[place]
    return ("covered", (merged[place],)) if place in merged else ("equivalent", (place,))


def _combined(reason: str, targets: list[tuple[str, _Places]]) -> tuple[str, _Places]:
    """Return the weakest of the reasons, and all remaining places that they name."""
    by = targets[0][1] if len(targets) == 1 else tuple(sorted({place for _, places in targets for place in places}))
    if len(by) > 1:
        return "subsumed", by
    return ("equivalent" if reason == "equivalent" and targets[0][0] == "equivalent" else "covered"), by
