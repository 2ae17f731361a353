"""Disjunctive form: a predicate becomes a few filters, or stays a tree behind its hull.

Filters that cannot hold are dropped on the way, and conditions on one attribute are joined into one set of
values before anything is multiplied out, so that a thousand-fold ``OR`` on one attribute stays one filter.
Work is counted: a predicate that would cost more than `BUDGET` steps or give more than `MAX_FILTERS`
filters is kept as it is, with the hull of its scalar conditions in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import shapely

from tamis.model.subscription import (
    EVERYTHING,
    AllOf,
    AnyOf,
    Ball,
    Clock,
    Constraint,
    Cosine,
    Filter,
    Geometric,
    Like,
    Predicate,
    Relation,
    Some,
    Spatial,
    Values,
)
from tamis.model.value_set import ANYTHING, EMPTY, PRESENT, ValueSet

__all__ = ["MAX_FILTERS", "conjoin", "constraint_key", "filter_of", "hull", "normalise"]

#: Filters of one subscription (promise S19); more stay a tree.
MAX_FILTERS = 256

#: Filters about values and patterns alone that multiplying out may give; more stay a tree, which a kernel decides.
MAX_PRODUCT = 16

#: Steps that normalising one predicate may cost: conjunctions of two small filters, about 20 us each.
BUDGET = 1_500

#: What two filters may weigh together for each step: heavy ones take longer to join, and all that is multiplied out has
#: to be written and read.
WEIGHT_OF_STEP = 64


class _TooLargeError(Exception):
    """The disjunctive form would be too large."""


def normalise(predicate: Predicate) -> tuple[Filter, ...]:
    """Return the filters whose disjunction the predicate is; none when it can never hold."""
    try:
        filters = _Normaliser().filters(predicate)
    except _TooLargeError:
        return _unexpanded(predicate)
    return tuple(filters)


def conjoin(a: Filter, b: Filter) -> Filter | None:
    """Return the filter that holds when both do; None when they plainly exclude each other."""
    rest: Predicate | None
    if a.rest is None or b.rest is None:
        rest = a.rest or b.rest
    else:
        parts = (*_conjuncts(a.rest), *_conjuncts(b.rest))
        rest = AllOf(tuple(sorted(dict.fromkeys(parts), key=repr)) if _only_somes(parts) else parts)
        rest = rest.parts[0] if len(rest.parts) == 1 else rest
    return filter_of((*a.constraints, *b.constraints), rest)


def filter_of(constraints: Iterable[Constraint], rest: Predicate | None = None) -> Filter | None:
    """Return the canonical filter of a conjunction; None when it can never hold."""
    values: dict[str, ValueSet] = {}
    others: dict[object, Constraint] = {}
    for constraint in constraints:
        if isinstance(constraint, Values):
            before = values.get(constraint.attribute)
            values[constraint.attribute] = constraint.allowed if before is None else before & constraint.allowed
        else:
            _take(others, constraint)
    # Each pattern requires a value, and nothing else does.
    if not values and all(isinstance(constraint, Like) for constraint in others.values()):
        return Filter(tuple(sorted(others.values(), key=constraint_key)), rest)
    for constraint in others.values():  # a condition on a value needs the value
        if (isinstance(constraint, Spatial) and not constraint.relations) or (
            isinstance(constraint, Clock) and not constraint.allowed
        ):
            return None
        values[constraint.attribute] = values.get(constraint.attribute, PRESENT) & PRESENT
    if not all(values.values()):
        return None
    implied = {constraint.attribute for constraint in others.values()}
    value_constraints = [
        Values(name, allowed)
        for name, allowed in values.items()
        if allowed != ANYTHING and not (allowed == PRESENT and name in implied)
    ]
    ordered = (
        sorted([*value_constraints, *others.values()], key=constraint_key)
        if others
        else sorted(value_constraints, key=lambda v: v.attribute)
    )
    return Filter(tuple(ordered), rest)


def hull(predicate: Predicate) -> dict[str, ValueSet]:
    """Return, per attribute, a set outside which the predicate cannot hold."""
    if isinstance(predicate, Values):
        return {predicate.attribute: predicate.allowed}
    if not isinstance(predicate, AllOf | AnyOf):
        return {predicate.attribute: PRESENT}
    hulls = [hull(part) for part in predicate.parts]
    if isinstance(predicate, AllOf):
        names = sorted({name for sets in hulls for name in sets})
        return {name: ValueSet.all_of([sets[name] for sets in hulls if name in sets]) for name in names}
    if not hulls:
        return {"": EMPTY}
    shared = sorted(set(hulls[0]).intersection(*hulls[1:]))
    return {name: ValueSet.any_of([sets[name] for sets in hulls]) for name in shared}


def _unexpanded(predicate: Predicate) -> tuple[Filter, ...]:
    around: Mapping[str, ValueSet] = hull(predicate)
    if isinstance(predicate, AllOf):  # the hull says what its plain parts say, and is written once
        parts = tuple(part for part in predicate.parts if not isinstance(part, Values))
        predicate = AllOf(parts) if len(parts) != 1 else parts[0]
    filter = filter_of((Values(name, allowed) for name, allowed in around.items()), predicate)
    return () if filter is None else (filter,)


class _Normaliser:
    """Builds disjunctive forms and counts what they cost."""

    def __init__(self) -> None:
        self.spent = 0

    def filters(self, predicate: Predicate) -> list[Filter]:
        if isinstance(predicate, AllOf):
            return self._all_of(predicate)
        if isinstance(predicate, AnyOf):
            return self._any_of(predicate)
        if isinstance(predicate, Some):
            return [_of_some(predicate)]
        filter = filter_of((predicate,))
        return [] if filter is None else [filter]

    def _all_of(self, predicate: AllOf) -> list[Filter]:
        plain = _joined(predicate, ValueSet.all_of)
        first = filter_of(plain)
        if first is None:
            return []
        product = [first]
        if elements := _ordered_somes(predicate):  # all at once: there may be thousands
            present = (Values(condition.attribute, PRESENT) for condition in elements)
            rest = AllOf(tuple(elements)) if len(elements) > 1 else elements[0]
            both = filter_of((*first.constraints, *present), rest)
            product = [] if both is None else [both]
        for part in predicate.parts:
            if isinstance(part, AnyOf):
                product = self._multiply(product, self.filters(part))
        return product

    def _any_of(self, predicate: AnyOf) -> list[Filter]:
        union: dict[Filter, None] = {}
        for joined in _joined(predicate, ValueSet.any_of):
            filter = filter_of((joined,))
            if filter is not None:
                union[filter] = None
        union.update({_of_some(condition): None for condition in _ordered_somes(predicate)})
        for part in predicate.parts:
            if isinstance(part, AllOf):
                union.update(dict.fromkeys(self.filters(part)))
                if len(union) > 2 * MAX_FILTERS:  # joining takes plain ones away, but seldom half
                    self._checked(union)
        return self._checked(union)

    def _multiply(self, left: list[Filter], right: list[Filter]) -> list[Filter]:
        union: dict[Filter, None] = {}
        weights = [_weight(b) for b in right]
        for a in left:
            weight = _weight(a)
            for b, other in zip(right, weights, strict=True):
                self._spend(1 + _shared_cuts(a, b) // 32 + (weight + other) // WEIGHT_OF_STEP)
                product = conjoin(a, b)
                if product is not None:
                    union[product] = None
        if len(left) > 1 and len(union) > MAX_PRODUCT and all(map(_is_for_kernels, union)):
            raise _TooLargeError
        return self._checked(union)

    def _checked(self, union: dict[Filter, None]) -> list[Filter]:
        filters = _join_plain(union)
        if EVERYTHING in filters:
            return [EVERYTHING]
        if len(filters) > MAX_FILTERS:
            raise _TooLargeError
        return filters

    def _spend(self, steps: int) -> None:
        self.spent += steps
        if self.spent > BUDGET:
            raise _TooLargeError


def _of_some(condition: Some) -> Filter:
    """Return the filter of a condition on a repeated attribute: the attribute is present, and the condition decides."""
    return Filter((Values(condition.attribute, PRESENT),), condition)


def _ordered_somes(predicate: AllOf | AnyOf) -> list[Some]:
    return sorted({part for part in predicate.parts if isinstance(part, Some)}, key=repr)


def _conjuncts(rest: Predicate) -> tuple[Predicate, ...]:
    return rest.parts if isinstance(rest, AllOf) else (rest,)


def _only_somes(parts: Iterable[Predicate]) -> bool:
    return all(isinstance(part, Some) for part in parts)


def _joined(predicate: AllOf | AnyOf, join: Callable[[list[ValueSet]], ValueSet]) -> list[Constraint]:
    """Return the constraints among the parts, those on the values of one attribute joined into one."""
    sets: dict[str, list[ValueSet]] = {}
    result: list[Constraint] = []
    for part in predicate.parts:
        if isinstance(part, Values):
            sets.setdefault(part.attribute, []).append(part.allowed)
        elif not isinstance(part, AllOf | AnyOf | Some):
            result.append(part)
    for name, sets_of_name in sets.items():
        result.append(Values(name, sets_of_name[0] if len(sets_of_name) == 1 else join(sets_of_name)))
    return result


def _join_plain(filters: Iterable[Filter]) -> list[Filter]:
    """Join the filters that only say which values one attribute may have: ``x = 1 OR x = 2`` is one filter."""
    sets: dict[str, list[ValueSet]] = {}
    others: list[Filter] = []
    for filter in filters:
        first = filter.constraints[0] if len(filter.constraints) == 1 and filter.rest is None else None
        if isinstance(first, Values):
            sets.setdefault(first.attribute, []).append(first.allowed)
        else:
            others.append(filter)
    joined = (filter_of((Values(name, ValueSet.any_of(sets_of_name)),)) for name, sets_of_name in sorted(sets.items()))
    return [*(filter for filter in joined if filter is not None), *others]


def _is_for_kernels(filter: Filter) -> bool:
    """Whether a filter is about text, or about values alone."""
    is_plain = filter.rest is None and all(isinstance(constraint, Values) for constraint in filter.constraints)
    return is_plain or any(isinstance(constraint, Like) for constraint in filter.constraints)


def _weight(filter: Filter) -> int:
    """Return what it takes to copy, compare and hash a filter, and to write and read it: about 0.3 us each."""
    rest = 0 if filter.rest is None else 40 * len(_conjuncts(filter.rest))
    return rest + sum(map(_weight_of, filter.constraints))


def _weight_of(constraint: Constraint) -> int:
    text = 6 + len(constraint.attribute) // 16
    if isinstance(constraint, Values):
        return text + len(constraint.allowed.cuts) // 8
    if isinstance(constraint, Spatial):
        return text + 50 + 2 * int(shapely.get_num_coordinates(constraint.region))
    if isinstance(constraint, Geometric):
        return text + 50 + 2 * int(shapely.get_num_coordinates(constraint.geometry))
    if isinstance(constraint, Ball):
        return text + len(constraint.center) // 8
    if isinstance(constraint, Cosine):
        return text + len(constraint.direction) // 8
    return text + (len(constraint.pattern) // 16 if isinstance(constraint, Like) else 0)


def _shared_cuts(a: Filter, b: Filter) -> int:
    """Return how many cuts a conjunction has to walk: those of attributes both filters constrain."""
    if len(a.constraints) + len(b.constraints) == 0:
        return 0
    sizes = {
        constraint.attribute: len(constraint.allowed.cuts)
        for constraint in a.constraints
        if isinstance(constraint, Values)
    }
    return sum(
        sizes[constraint.attribute] + len(constraint.allowed.cuts)
        for constraint in b.constraints
        if isinstance(constraint, Values) and constraint.attribute in sizes
    )


def _take(others: dict[object, Constraint], constraint: Constraint) -> None:
    """Add a constraint once; two on the same region become one with the relations both allow."""
    if isinstance(constraint, Spatial):
        key: object = (constraint.attribute, constraint.region)
        previous = others.get(key)
        both: frozenset[Relation] = constraint.relations
        if isinstance(previous, Spatial):
            both &= previous.relations
        others[key] = Spatial(constraint.attribute, both, constraint.region)
    elif isinstance(constraint, Clock):
        key = (constraint.attribute, constraint.zone)
        previous = others.get(key)
        others[key] = Clock(*key, constraint.allowed & previous.allowed) if isinstance(previous, Clock) else constraint
    else:
        others[constraint] = constraint


def constraint_key(constraint: Constraint) -> tuple[object, ...]:
    """Return a sort key that does not depend on how a constraint was written."""
    if isinstance(constraint, Values):
        allowed = constraint.allowed
        return (constraint.attribute, 0, allowed.missing, allowed.from_below, allowed.cuts)
    if isinstance(constraint, Like):
        return (constraint.attribute, 1, constraint.pattern, constraint.negated, constraint.fold, constraint.is_regex)
    if isinstance(constraint, Spatial):
        return (constraint.attribute, 2, constraint.region.wkb, sorted(constraint.relations))
    if isinstance(constraint, Geometric):
        return (
            constraint.attribute,
            4,
            constraint.function,
            constraint.geometry.wkb,
            constraint.distance,
            constraint.negated,
        )
    if isinstance(constraint, Clock):
        return (constraint.attribute, 6, constraint.zone, constraint.allowed.from_below, constraint.allowed.cuts)
    if isinstance(constraint, Cosine):
        return (constraint.attribute, 5, constraint.direction, constraint.least, constraint.negated)
    return (constraint.attribute, 3, constraint.center, constraint.radius, constraint.negated)
