"""Simplifies a subscription: fewer filters and constraints that match the same events.

Three rules, applied until nothing changes:

1. a filter that can never hold is dropped;
2. inside a filter, a constraint that the others imply is dropped (and a list of strings keeps
   only those that match the LIKE patterns beside it);
3. a filter that lies in the union of the others is dropped.

Between the rules, filters that differ in only one attribute are joined if their union on that attribute can
be written as one constraint. Equal filters cover each other, so the rules process one filter at a time and
never compare a filter with itself: one of several equal filters stays. The result is in a canonical order, so
equal subscriptions written differently often become equal objects; `equivalent` decides exactly.

Implements: [crtree] section 4.2, rules 1 to 3.
Deviation: sequential with a tie-break; applied to all filters at once, as printed, rule 3 drops both of
two equal filters and loses messages (erratum S.3.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import shapely

from tamis.algebra.covers import find_cover_of_pieces
from tamis.algebra.proofs import patterns, regions
from tamis.algebra.proofs.budget import MAX_PIECES, Budget
from tamis.algebra.proofs.facts import UNCONSTRAINED, Facts, negation
from tamis.algebra.proofs.pieces import pieces_of
from tamis.algebra.sources import Source, as_subscription
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.language.normalise import constraint_key, filter_of
from tamis.model.schema import Schema
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Condition,
    Constraint,
    Cosine,
    Filter,
    Like,
    Predicate,
    Some,
    Spatial,
    Subscription,
    Values,
)
from tamis.model.value_set import PRESENT, ValueSet

__all__ = ["join_filters", "simplify", "simplify_filters", "simplify_regions"]

#: Pieces that rule 3 may spend on one filter, of `MAX_PIECES` for all; a client that subscribes waits for it.
RULE_3_PIECES = 1_000

#: The most work for which a new subscription is simplified, about 10 ms: each pair of conditions on regions costs
#: `WORK_OF_PAIR` plus the number of vertices of both regions.
MOST_WORK, WORK_OF_PAIR = 40_000, 80

#: Pairs of filters that are compared at the cost of one piece; pairs that obviously differ cost nothing.
PAIRS_PER_PIECE = 8


def simplify(a: Source, schema: Schema | None = None) -> Subscription:
    """Return a subscription that matches exactly the same events, with as few filters as could be found.

    Id, text, namespace, expiry and metadata stay. A subscription that can never match has no filters afterwards.

    >>> [len(simplify(text).filters) for text in ("x < 1 OR x < 2", "x < 1 AND x > 2", "x < 1 OR x >= 1")]
    [1, 0, 1]
    >>> simplify("x < 1 OR x >= 1").filters == simplify("x IS NOT NULL").filters
    True
    """
    subscription = as_subscription(a, schema)
    return replace(subscription, filters=simplify_filters(subscription.filters))


def simplify_filters(filters: Iterable[Filter], pieces: int = MAX_PIECES) -> tuple[Filter, ...]:
    """Return filters with the same union: rules 1 to 3, joined where possible, in canonical order.

    ``pieces`` limits the cost of all proofs; what it does not suffice for stays as it is.
    """
    budget = Budget(pieces)
    current = _ordered(simplified for filter in filters if (simplified := _simplified(filter, budget)) is not None)
    while True:
        following = _ordered(_without_covered(_joined(current, budget), budget))
        if following == current:
            return tuple(current)
        current = following


def simplify_regions(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """Return filters with the same union, simplified if they have several regions; otherwise unchanged.

    Relations are slow to match and fast to simplify, so this is done for every subscription; it keeps its text.
    Simplifying many regions, or large ones, would take longer than it saves.
    """
    polygons = [
        constraint.region for filter in filters for constraint in filter.constraints if isinstance(constraint, Spatial)
    ]
    n = len(polygons)
    if n < 2 or n * n * WORK_OF_PAIR > 2 * MOST_WORK:
        return filters
    vertices = int(shapely.get_num_coordinates(polygons).sum())
    work = n * (n - 1) // 2 * WORK_OF_PAIR + (n - 1) * vertices
    return simplify_filters(filters) if work <= MOST_WORK else filters


def join_filters(a: Filter, b: Filter) -> Filter | None:
    """Return one filter that is the union of two filters that differ in at most one attribute; None if there is none.

    For sets that are products over the attributes nothing else is possible: a union of two is again a
    product only if one contains the other or they differ in a single factor.
    """
    if a == b:
        return a
    if a.rest is not None or b.rest is not None:
        return None
    a_facts, b_facts = _by_attribute(a), _by_attribute(b)
    name = _only_difference(a_facts, b_facts)
    return None if name is None else _joined_on(name, a_facts, b_facts, Budget())


# Rules 1 and 2: inside one filter.


def _simplified(filter: Filter, budget: Budget) -> Filter | None:
    """Return the filter without redundant constraints; None when it can never hold."""
    share = budget.share(RULE_3_PIECES)
    before = share.left
    is_impossible = next(pieces_of(filter, share), None) is None and not share.exhausted
    budget.spend(before - max(share.left, 0))
    if is_impossible:
        return None
    if filter.rest is not None:
        return filter
    return _filter_of({name: _essential(facts, budget) for name, facts in _by_attribute(filter).items()})


def _essential(facts: Facts, budget: Budget) -> Facts:
    """Return the same facts without the conditions that others imply."""
    conditions = _joined_regions(facts.conditions)
    listed = (
        patterns.finite_strings(facts.allowed) if any(isinstance(condition, Like) for condition in conditions) else None
    )
    if listed is not None:
        likes = tuple(condition for condition in conditions if isinstance(condition, Like))
        unfit = [text for text in listed if patterns.search_strings(_only(text), likes).text is None]
        return Facts(facts.allowed - ValueSet.any_of([_only(text) for text in unfit]))
    essential = list(conditions)
    for condition in conditions:  # one at a time: of two that imply each other, the second stays
        others = tuple(other for other in essential if other is not condition)
        alone = Facts(facts.allowed & PRESENT, others)
        if alone.implies(condition, budget):
            essential.remove(condition)
    return Facts(facts.allowed & PRESENT if conditions else facts.allowed, tuple(essential))


def _joined_regions(conditions: Sequence[Condition]) -> list[Condition]:
    """Join the conditions on each region to one, and let every ring start at the same corner."""
    spatial = regions.joined_by_region([condition for condition in conditions if isinstance(condition, Spatial)])
    others = [condition for condition in conditions if not isinstance(condition, Spatial)]
    return [*(replace(condition, region=condition.region.normalize()) for condition in spatial), *others]


def _only(text: str) -> ValueSet:
    return ValueSet.between((text, 0) if text else None, (f"{text}\0", 0))


# Joining and rule 3: between filters.


def _joined(filters: Sequence[Filter], budget: Budget) -> list[Filter]:
    """Join filters that differ in one attribute, pair by pair, until there is no such pair or no budget left."""
    done: list[tuple[Filter, dict[str, Facts]]] = []
    waiting = [(filter, _by_attribute(filter)) for filter in reversed(filters)]
    pairs = 0
    while waiting:
        filter, facts = waiting.pop()
        for position, (other, other_facts) in enumerate(done):
            name = None if filter.rest or other.rest or budget.exhausted else _only_difference(other_facts, facts)
            if name is None:
                continue
            pairs += 1
            budget.spend(pairs % PAIRS_PER_PIECE == 0)
            union = _joined_on(name, other_facts, facts, budget)
            if union is not None:
                del done[position]
                waiting.append((union, _by_attribute(union)))
                break
        else:
            done.append((filter, facts))
    return [filter for filter, _ in done]


def _only_difference(a: dict[str, Facts], b: dict[str, Facts]) -> str | None:
    """Return the only attribute in which two filters differ; None if there are several or joining cannot succeed."""
    different = None
    for name in a.keys() | b.keys():
        a_facts, b_facts = a.get(name, UNCONSTRAINED), b.get(name, UNCONSTRAINED)
        if a_facts is b_facts or a_facts == b_facts:
            continue
        if different is not None or (
            a_facts.regions and b_facts.regions and a_facts.regions.keys().isdisjoint(b_facts.regions)
        ):
            return None  # rule 3 decides whether one region covers the other
        different = name
    return different


def _joined_on(name: str, a: dict[str, Facts], b: dict[str, Facts], budget: Budget) -> Filter | None:
    union = _union(a.get(name, UNCONSTRAINED), b.get(name, UNCONSTRAINED), name, budget)
    return None if union is None else _filter_of({**a, name: union})


def _without_covered(filters: Sequence[Filter], budget: Budget) -> list[Filter]:
    """Drop each filter that lies in the union of the remaining ones (rule 3), beginning with the last."""
    remaining = list(filters)
    for filter in reversed(filters):
        others = [other for other in remaining if other is not filter]
        share = budget.share(RULE_3_PIECES)
        before = share.left
        if others and before and find_cover_of_pieces(pieces_of(filter, share), others, share) is not None:
            remaining = others
        budget.spend(before - max(share.left, 0))
    return remaining


def _union(a: Facts, b: Facts, name: str, budget: Budget) -> Facts | None:
    """Return the union of two facts; None if it cannot be written as one."""
    if a.conditions == b.conditions:
        return Facts(a.allowed | b.allowed, a.conditions)
    if _implies_all(a, b, name, budget):
        return b
    if _implies_all(b, a, name, budget):
        return a
    if len(a.conditions) == len(b.conditions) == 1 and a.allowed == b.allowed:
        return _union_of_conditions(a.conditions[0], b.conditions[0], a.allowed)
    return None


def _implies_all(a: Facts, b: Facts, name: str, budget: Budget) -> bool:
    return a.implies(Values(name, b.allowed), budget) and all(
        a.implies(condition, budget) for condition in b.conditions
    )


def _union_of_conditions(a: Condition, b: Condition, allowed: ValueSet) -> Facts | None:
    if a == negation(b) and not isinstance(a, Cosine):
        return Facts(allowed)
    if isinstance(a, Spatial) and isinstance(b, Spatial) and regions.same_region(a.region, b.region):
        relations = a.relations | b.relations
        full = relations == ALL_RELATIONS
        return Facts(allowed, () if full else (replace(a, relations=relations),))
    return None


# Between filters and facts, and the canonical order.


def _by_attribute(filter: Filter) -> dict[str, Facts]:
    facts: dict[str, Facts] = {}
    for constraint in filter.constraints:
        facts[constraint.attribute] = facts.get(constraint.attribute, Facts()).and_also(constraint)
    return facts


def _filter_of(facts: dict[str, Facts]) -> Filter | None:
    constraints: list[Constraint] = []
    for name, attribute_facts in facts.items():
        constraints += (Values(name, attribute_facts.allowed), *attribute_facts.conditions)
    return filter_of(constraints)


def _ordered(filters: Iterable[Filter]) -> list[Filter]:
    return sorted(dict.fromkeys(filters), key=_filter_key)


def _filter_key(filter: Filter) -> tuple[object, ...]:
    constraints = tuple(constraint_key(constraint) for constraint in filter.constraints)
    return (len(constraints), constraints, () if filter.rest is None else _predicate_key(filter.rest))


def _predicate_key(predicate: Predicate) -> tuple[object, ...]:
    if isinstance(predicate, Some):
        return ("Some", (predicate.attribute, predicate.negated, _predicate_key(predicate.condition)))
    if not isinstance(predicate, AllOf | AnyOf):
        return ("", constraint_key(predicate))
    return (type(predicate).__name__, tuple(_predicate_key(part) for part in predicate.parts))
