"""Covering: whether every event that matches b matches a.

Each filter of b must lie in the *union* of the filters of a: `pieces` subtracts the filters of a from it, and
nothing may remain. An event is built from a remaining piece and checked against both subscriptions before it
is returned: a "no" has a witness or is marked unknown. A "yes" is always proved (promise R6: withholding a
subscription that is not covered loses events).

Exact both ways: conjunctions and disjunctions of ranges, sets, prefixes, booleans, moments and NULL tests,
LIKE patterns of ordinary size, one ball or one region per attribute, all within a `Budget`. See
docs/algebra.md for what stays unknown.

Implements: [zcurve] section 1.1, subscription covering; [crtree] section 4.2 rule 3.
Deviation: containment of match sets is not strict (equal subscriptions cover each other), although
[zcurve] prints the strict symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.algebra.evaluate import matches
from tamis.algebra.proofs.pieces import MAX_PIECES, Budget, Piece, Subtraction, lies_in, pieces_of
from tamis.algebra.proofs.trees import filter_covers
from tamis.algebra.proofs.witness import canonical, event_for, published
from tamis.algebra.sources import Source, as_subscriptions
from tamis.model.derived.formulas import is_formula
from tamis.model.schema import COMPUTED, Event, Schema
from tamis.model.subscription import Filter, Some
from tamis.model.types import AttributeType

__all__ = [
    "Covering",
    "Prover",
    "compare",
    "covers",
    "equivalent",
    "find_cover",
    "find_cover_of_pieces",
    "find_cover_within",
    "find_difference",
    "is_covered",
]

#: Pieces that a proof by the structure of a tree may cost, of those that one question has.
TREE_PIECES = 2_000

#: Leftover pieces that are tried for a witness before the difference is called unknown; each condition of one
#: costs ``TRY_PIECES`` pieces.
MAX_TRIES, TRY_PIECES = 50, 4

_NO = "an event matches the second subscription and not the first"


@dataclass(frozen=True, slots=True)
class Covering:
    """The answer of `covers`; true when ``yes``.

    ``witness`` is an event that matches the second subscription and not the first, in the form in which it would be
    published; ``unknown`` means that neither a proof nor a witness was found, and that "no" is only the safe answer;
    ``reason`` is a sentence for users.
    """

    yes: bool
    reason: str
    witness: dict[str, Any] | None = field(default=None, compare=False)
    unknown: bool = False

    def __bool__(self) -> bool:
        return self.yes


def covers(a: Source, b: Source, schema: Schema | None = None) -> Covering:
    """Whether every event that matches ``b`` matches ``a``, with a proof or a witness.

    ``a`` and ``b`` are CQL2 text, CQL2-JSON or compiled subscriptions; without a schema their literals
    give the types. Namespaces and expiry are ignored.

    Examples
    --------
    >>> covers("price < 100", "price < 50 AND symbol = 'IBM'").yes
    True
    >>> covers("price < 100 OR price >= 100", "TRUE").witness
    {}
    >>> covers("price <= 50", "price BETWEEN 10 AND 51").witness
    {'price': 50.5}
    """
    [first, second], used_schema = as_subscriptions([("a", a), ("b", b)], schema)
    return compare(first.filters, second.filters, used_schema)


def equivalent(a: Source, b: Source, schema: Schema | None = None) -> bool:
    """Whether ``a`` and ``b`` are proved to match the same events.

    >>> equivalent("NOT (x < 1 OR y = 2)", "x >= 1 AND y <> 2"), equivalent("x < 1", "x <= 1")
    (True, False)
    """
    [first, second], _ = as_subscriptions([("a", a), ("b", b)], schema)
    return is_covered(first.filters, second.filters) and is_covered(second.filters, first.filters)


def is_covered(inner: Sequence[Filter], outer: Sequence[Filter], pieces: int = MAX_PIECES) -> bool:
    """Whether the union of ``inner`` is proved to lie in the union of ``outer``; does not search for a witness."""
    return find_cover(inner, outer, pieces) is not None


class Prover:
    """Proves covers for the candidates of one question within one budget; without budget left, the answer is "no".

    Without ``pieces`` each proof has its own `MAX_PIECES`, and there may be any number of them.

    >>> from tamis.model.language.compiler import compile_text
    >>> wide, narrow = compile_text("x < 9").filters, compile_text("x < 5").filters
    >>> prover = Prover(2)
    >>> [prover.is_covered(narrow, wide) for _ in range(4)], prover.is_exhausted
    ([True, True, False, False], True)
    """

    def __init__(self, pieces: int | None = None) -> None:
        self._budget = None if pieces is None else Budget(pieces)

    @property
    def is_exhausted(self) -> bool:
        """Whether the budget is spent, so that every further answer is "no"."""
        return self._budget is not None and self._budget.left <= 0

    def is_covered(self, inner: Sequence[Filter], outer: Sequence[Filter]) -> bool:
        """Whether the union of ``inner`` is proved to lie in the union of ``outer``."""
        if self._budget is None:
            return is_covered(inner, outer)
        if self.is_exhausted:
            return False
        share = self._budget.share(MAX_PIECES)
        granted = share.left
        proof = find_cover_within(inner, outer, share)
        self._budget.spend(max(1, granted - max(share.left, 0)))  # a proof costs something, so their number is bounded
        return proof is not None


def find_cover(inner: Sequence[Filter], outer: Sequence[Filter], pieces: int = MAX_PIECES) -> frozenset[int] | None:
    """Return positions in ``outer`` whose union covers ``inner``; None when no proof was found."""
    return find_cover_within(inner, outer, Budget(pieces))


def find_cover_within(inner: Sequence[Filter], outer: Sequence[Filter], budget: Budget) -> frozenset[int] | None:
    """Return positions in ``outer`` whose union covers ``inner``; with the budget exhausted, None decides nothing."""
    positions = {filter: position for position, filter in enumerate(outer)}
    used = {positions[filter] for filter in inner if filter in positions}
    left = [filter for filter in inner if filter not in positions]
    if any(filter.rest is not None for filter in (*left, *outer)):
        left = [filter for filter in left if not _take_tree(filter, outer, used, budget)]
    rest = (piece for filter in left for piece in pieces_of(filter, budget))
    needed = find_cover_of_pieces(rest, outer, budget)
    return None if needed is None else needed | used


def _take_tree(inner: Filter, outer: Sequence[Filter], used: set[int], budget: Budget) -> bool:
    """Whether the structure of a filter proves that a single outer filter covers it; adds its position."""
    share = budget.share(TREE_PIECES)
    granted = share.left
    position = next((i for i, filter in enumerate(outer) if filter_covers(filter, inner, share)), None)
    budget.spend(granted - max(share.left, 0))
    if position is not None:
        used.add(position)
    return position is not None


def find_cover_of_pieces(inner: Iterable[Piece], outer: Sequence[Filter], budget: Budget) -> frozenset[int] | None:
    """Return positions in ``outer`` whose union covers all pieces; None when no proof was found."""
    if len(outer) == 1 and outer[0].rest is None:  # the usual case: no need to say what is left
        proved = all(lies_in(piece, outer[0], budget) for piece in inner) and not budget.exhausted
        return frozenset({0}) if proved else None
    subtraction = Subtraction(outer, budget, proof=True)
    for piece in inner:
        if next(subtraction.leftovers(piece), None) is not None:
            return None
    return None if budget.exhausted else frozenset(subtraction.used)


def compare(
    outer: Sequence[Filter], inner: Sequence[Filter], kinds: Mapping[str, AttributeType], pieces: int = MAX_PIECES
) -> Covering:
    """Return whether ``outer`` covers ``inner``, with a witness when it does not."""
    subtraction, outer_set = Subtraction(outer, Budget(pieces)), set(outer)
    open_attributes: set[str] = set()
    has_trees = any(filter.rest is not None for filter in (*outer, *inner))
    tried = 0
    for filter in inner:
        if filter in outer_set or (has_trees and _take_tree(filter, outer, set(), subtraction.budget)):
            continue
        for piece in pieces_of(filter, subtraction.budget):
            for left in subtraction.leftovers(piece):
                event = event_for(left, kinds)
                if event is not None and _differs(canonical(event), filter, outer):
                    return Covering(False, _NO, published(event, kinds))
                open_attributes.update(_open_names(left))
                subtraction.budget.spend(TRY_PIECES * sum(len(facts.conditions) for facts in left.values()))
                tried += 1
                if tried == MAX_TRIES:
                    return _unknown(subtraction, open_attributes)
    if subtraction.budget.exhausted:
        return _guessed(outer, inner, kinds) or _unknown(subtraction, open_attributes)
    if tried:
        return _unknown(subtraction, open_attributes)
    return Covering(True, "every event that matches the second subscription matches the first")


def find_difference(
    outer: Sequence[Filter], inner: Sequence[Filter], kinds: Mapping[str, AttributeType], pieces: int = MAX_PIECES
) -> Event | None:
    """Return a canonical event that matches ``inner`` and not ``outer``; None when none was found.

    >>> from tamis.model.language.compiler import compile_text
    >>> find_difference(compile_text("x < 5").filters, compile_text("x < 9").filters, {})
    {'x': 5}
    """
    subtraction, tried = Subtraction(outer, Budget(pieces)), 0
    for filter in inner:
        for piece in pieces_of(filter, subtraction.budget):
            for left in subtraction.leftovers(piece):
                event = event_for(left, kinds)
                if event is not None and _differs(canonical(event), filter, outer):
                    return canonical(event)
                tried += 1
                if tried == MAX_TRIES:
                    return None
    return None


def _guessed(outer: Sequence[Filter], inner: Sequence[Filter], kinds: Mapping[str, AttributeType]) -> Covering | None:
    """Return a "no" if an event built from one inner filter happens to be a witness; used for large questions."""
    for filter in inner[:MAX_TRIES]:
        piece = next(pieces_of(filter, Budget(MAX_TRIES)), None)
        event = None if piece is None else event_for(piece, kinds)
        if event is not None and _differs(canonical(event), filter, outer):
            return Covering(False, _NO, published(event, kinds))
    return None


def _open_names(left: Piece) -> set[str]:
    """Return the attributes with conditions other than a set of values."""
    names = {key.attribute for key in left if isinstance(key, Some)}
    for name, facts in left.items():
        if isinstance(name, str) and (facts.conditions or is_formula(name)):
            names.add(name.removeprefix(COMPUTED))
    return names


def _differs(event: Event, inner: Filter, outer: Sequence[Filter]) -> bool:
    return matches(event, inner) and not any(matches(event, filter) for filter in outer)


def _unknown(subtraction: Subtraction, attributes: set[str]) -> Covering:
    if subtraction.budget.exhausted:
        reason = "unknown: the question falls into too many pieces; it counts as not covered"
    else:
        names = ", ".join(sorted(attributes)) or "some attribute"
        reason = f"unknown: neither a proof nor an event that differs was found for {names}; it counts as not covered"
    return Covering(False, reason, unknown=True)
