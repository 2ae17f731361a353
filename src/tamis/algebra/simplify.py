"""Simplifying: the same events with fewer words.

Three rules, applied until nothing changes:

1. a filter that can never hold is dropped;
2. inside a filter, a constraint that the others imply is dropped (and LIKE patterns beside a list of
   strings leave the strings that fit);
3. a filter that lies in the union of the others is dropped.

Between them, filters that differ in one attribute only are joined when their union on that attribute can
be written as one constraint. Equal filters cover each other, so the rules work one filter after the other
and never compare a filter with itself: one of equals stays. The result is in a canonical order, and so
equal subscriptions written differently often become equal objects; `equivalent` is the exact question.

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
from tamis.algebra.proofs.facts import UNCONSTRAINED, Condition, Facts, negation
from tamis.algebra.proofs.pieces import pieces_of
from tamis.algebra.sources import Source, as_subscription
from tamis.model.derived.spatial_functions import ALL_RELATIONS
from tamis.model.language.normalise import filter_of
from tamis.model.schema import Schema
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Clock,
    Constraint,
    Cosine,
    Filter,
    Geometric,
    Like,
    Predicate,
    Some,
    Spatial,
    Subscription,
    Values,
)
from tamis.model.value_set import PRESENT, ValueSet

__all__ = ["join_filters", "simplify", "simplify_filters", "simplify_regions"]

#: Pieces that one filter's rule 3 may cost, of `MAX_PIECES` for all; simplifying is done at subscribe time.
RULE_3_PIECES = 1_000

#: Work up to which a subscription is simplified when it comes, about 10 ms: each pair of conditions on regions costs
#: `WORK_OF_PAIR` and as much as both regions have vertices.
MOST_WORK, WORK_OF_PAIR = 40_000, 80

#: Pairs of filters that cost one piece to compare, where it takes more than a glance.
PAIRS_PER_PIECE = 8


def simplify(a: Source, schema: Schema | None = None) -> Subscription:
    """Return a subscription that matches exactly the same events, with as few filters as could be found.

    Id, text, namespace, expiry and metadata stay; no filters at all: nothing can match.

    >>> [len(simplify(text).filters) for text in ("x < 1 OR x < 2", "x < 1 AND x > 2", "x < 1 OR x >= 1")]
    [1, 0, 1]
    >>> simplify("x < 1 OR x >= 1").filters == simplify("x IS NOT NULL").filters
    True
    """
    found = as_subscription(a, schema)
    return replace(found, filters=simplify_filters(found.filters))


def simplify_filters(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Return filters with the same union: rules 1 to 3, joined where possible, in canonical order."""
    current = _ordered(one for filter in filters if (one := _simplified(filter)) is not None)
    budget = Budget(MAX_PIECES)
    while True:
        following = _ordered(_without_covered(_joined(current, budget), budget))
        if following == current:
            return tuple(current)
        current = following


def simplify_regions(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """Return filters with the same union, simplified if they compare regions with each other; else as they are.

    Relations are costly to match and quick to simplify, so this is done to every subscription; it keeps its text.
    Many regions, or large ones, would take longer than they save.
    """
    found = [one.region for filter in filters for one in filter.constraints if isinstance(one, Spatial)]
    n = len(found)
    if n < 2 or n * n * WORK_OF_PAIR > 2 * MOST_WORK:
        return filters
    vertices = int(shapely.get_num_coordinates(found).sum())
    work = n * (n - 1) // 2 * WORK_OF_PAIR + (n - 1) * vertices
    return simplify_filters(filters) if work <= MOST_WORK else filters


def join_filters(a: Filter, b: Filter) -> Filter | None:
    """Return the one filter that is the union of two which differ in one attribute at most, if there is one.

    For sets that are products over the attributes nothing else is possible: a union of two is again a
    product only if one contains the other or they differ in a single factor.
    """
    if a == b:
        return a
    if a.rest is not None or b.rest is not None:
        return None
    mine, yours = _by_attribute(a), _by_attribute(b)
    name = _only_difference(mine, yours)
    return None if name is None else _joined_on(name, mine, yours, Budget())


# Rules 1 and 2: inside one filter.


def _simplified(filter: Filter) -> Filter | None:
    """Return the filter without redundant constraints; None when it can never hold."""
    budget = Budget(RULE_3_PIECES)
    if next(pieces_of(filter, budget), None) is None and not budget.exhausted:
        return None
    if filter.rest is not None:
        return filter
    return _filter_of({name: _essential(facts) for name, facts in _by_attribute(filter).items()})


def _essential(facts: Facts) -> Facts:
    """Return the same facts with what the others imply left out."""
    conditions = _joined_regions(facts.conditions)
    listed = patterns.finite_strings(facts.allowed) if any(isinstance(one, Like) for one in conditions) else None
    if listed is not None:
        likes = tuple(one for one in conditions if isinstance(one, Like))
        unfit = [text for text in listed if patterns.search_strings(_only(text), likes).found is None]
        return Facts(facts.allowed - ValueSet.any_of([_only(text) for text in unfit]))
    kept = list(conditions)
    for one in conditions:  # one after the other: of two that imply each other the second stays
        others = tuple(other for other in kept if other is not one)
        alone = Facts(facts.allowed & PRESENT, others)
        if alone.implies(one):
            kept.remove(one)
    return Facts(facts.allowed & PRESENT if conditions else facts.allowed, tuple(kept))


def _joined_regions(conditions: Sequence[Condition]) -> list[Condition]:
    """Make conditions on one region one condition, and write every ring from the same corner on."""
    some = regions.joined_by_region([one for one in conditions if isinstance(one, Spatial)])
    others = [one for one in conditions if not isinstance(one, Spatial)]
    return [*(replace(one, region=one.region.normalize()) for one in some), *others]


def _only(text: str) -> ValueSet:
    return ValueSet.between((text, 0) if text else None, (f"{text}\0", 0))


# Joining and rule 3: between filters.


def _joined(filters: Sequence[Filter], budget: Budget) -> list[Filter]:
    """Join filters that differ in one attribute, pair after pair, until no pair or no budget is left."""
    done: list[tuple[Filter, dict[str, Facts]]] = []
    waiting = [(one, _by_attribute(one)) for one in reversed(filters)]
    pairs = 0
    while waiting:
        one, mine = waiting.pop()
        for place, (other, yours) in enumerate(done):
            name = None if one.rest or other.rest or budget.exhausted else _only_difference(yours, mine)
            if name is None:
                continue
            pairs += 1
            budget.spend(pairs % PAIRS_PER_PIECE == 0)
            union = _joined_on(name, yours, mine, budget)
            if union is not None:
                del done[place]
                waiting.append((union, _by_attribute(union)))
                break
        else:
            done.append((one, mine))
    return [one for one, _ in done]


def _only_difference(a: dict[str, Facts], b: dict[str, Facts]) -> str | None:
    """Return the one attribute in which two filters differ; None if there are more, or nothing to hope for."""
    found = None
    for name in a.keys() | b.keys():
        mine, yours = a.get(name, UNCONSTRAINED), b.get(name, UNCONSTRAINED)
        if mine is yours or mine == yours:
            continue
        if found is not None or (mine.regions and yours.regions and mine.regions.keys().isdisjoint(yours.regions)):
            return None  # whether one region covers the other is for rule 3 to see
        found = name
    return found


def _joined_on(name: str, a: dict[str, Facts], b: dict[str, Facts], budget: Budget) -> Filter | None:
    union = _union(a.get(name, UNCONSTRAINED), b.get(name, UNCONSTRAINED), name, budget)
    return None if union is None else _filter_of({**a, name: union})


def _without_covered(filters: Sequence[Filter], budget: Budget) -> list[Filter]:
    """Drop each filter that lies in the union of those still there (rule 3), the last one first."""
    kept = list(filters)
    for one in reversed(filters):
        others = [other for other in kept if other is not one]
        share = budget.share(RULE_3_PIECES)
        before = share.left
        if others and before and find_cover_of_pieces(pieces_of(one, share), others, share) is not None:
            kept = others
        budget.spend(before - max(share.left, 0))
    return kept


def _union(a: Facts, b: Facts, name: str, budget: Budget) -> Facts | None:
    """Return facts that hold iff one of two does; None when they cannot be written as one."""
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
    return a.implies(Values(name, b.allowed), budget) and all(a.implies(one, budget) for one in b.conditions)


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
    found: dict[str, Facts] = {}
    for constraint in filter.constraints:
        found[constraint.attribute] = found.get(constraint.attribute, Facts()).and_also(constraint)
    return found


def _filter_of(facts: dict[str, Facts]) -> Filter | None:
    constraints: list[Constraint] = []
    for name, one in facts.items():
        constraints += (Values(name, one.allowed), *one.conditions)
    return filter_of(constraints)


def _ordered(filters: Iterable[Filter]) -> list[Filter]:
    return sorted(dict.fromkeys(filters), key=_filter_key)


def _filter_key(filter: Filter) -> tuple[object, ...]:
    constraints = tuple(_constraint_key(one) for one in filter.constraints)
    return (len(constraints), constraints, () if filter.rest is None else _predicate_key(filter.rest))


def _predicate_key(predicate: Predicate) -> tuple[object, ...]:
    if isinstance(predicate, Some):
        return ("Some", (predicate.attribute, predicate.negated, _predicate_key(predicate.condition)))
    if not isinstance(predicate, AllOf | AnyOf):
        return ("", _constraint_key(predicate))
    return (type(predicate).__name__, tuple(_predicate_key(part) for part in predicate.parts))


def _constraint_key(one: Constraint) -> tuple[object, ...]:
    """Order constraints whatever they were written like; values are compared on one attribute only."""
    if isinstance(one, Values):
        return (one.attribute, 0, one.allowed.missing, one.allowed.from_below, one.allowed.cuts)
    if isinstance(one, Like):
        return (one.attribute, 1, one.pattern, one.negated, one.fold, one.is_regex)
    if isinstance(one, Spatial):
        return (one.attribute, 2, one.region.wkb, sorted(one.relations))
    if isinstance(one, Geometric):
        return (one.attribute, 4, one.function, one.geometry.wkb, one.distance, one.negated)
    if isinstance(one, Clock):
        return (one.attribute, 6, one.zone, one.allowed.from_below, one.allowed.cuts)
    if isinstance(one, Cosine):
        return (one.attribute, 5, one.direction, one.least, one.negated)
    return (one.attribute, 3, one.center, one.radius, one.negated)
