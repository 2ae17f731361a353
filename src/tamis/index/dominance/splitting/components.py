"""Splits a subscription into components: conjunctions with one interval, or the missing value, per attribute.

``name IN ('a', 'b') AND x < 5 OR y = 1`` has three of them. A component without patterns is *connected*: what lies in a
union of others that do not touch each other lies in one of them. So a component is looked up by itself, as one box, and
a subscription covers another if each component of the other lies in one of its own. The converse holds unless some of
the coverer's filters touch (`are_linked`); those few are compared as wholes.

Implements: [mics] section 3.7, subsumption, as far as one filter suffices for each alternative.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tamis.algebra.proofs.geometries import implied_relations
from tamis.algebra.proofs.patterns import FEW_STEPS, search_strings
from tamis.algebra.proofs.pieces import Budget, pieces_of
from tamis.algebra.proofs.regions import complement, joined_by_region, regions_conflict
from tamis.index.dominance.outline import AxisName, Side, ball_sides, side_of
from tamis.index.packed.axes import string_key
from tamis.model.subscription import Ball, Clock, Constraint, Cosine, Filter, Geometric, Like, Spatial, Values
from tamis.model.value_set import MISSING, ValueSet
from tamis.model.value_set import PRESENT as ANY_PRESENT

__all__ = ["Component", "Decomposition", "are_linked", "decompose"]

#: Components of one subscription; one that falls into more is compared as a whole.
MOST: Final = 1_024
#: Filters of one subscription whose pairs are looked at; more of them count as linked.
MOST_FILTERS: Final = 16
#: Pieces that are tried to see whether a filter can hold at all.
_PIECES: Final = 1_000


class Component(NamedTuple):
    """One conjunction as a box.

    Attributes
    ----------
    filter
        The constraints.
    sides
        The box around what it matches. A missing value is the side (1, 1) at "?"; a pattern has its hull at "~" and
        the key of ``witnesses`` at "w".
    texts
        The strings that are equated, by attribute.
    witnesses
        For each attribute with patterns a string that satisfies them.
    regions, balls
        The conditions on regions, those on one region joined, what ``hard`` ones imply among them; and on vectors.
    exact_numbers, exact_strings
        Whether each end of ``sides`` is the end that was meant.
    """

    filter: Filter
    sides: dict[AxisName, Side]
    texts: dict[str, str]
    witnesses: dict[str, str]
    regions: tuple[Spatial, ...]
    balls: tuple[Ball, ...]
    exact_numbers: bool
    exact_strings: bool
    #: Conditions that only a proof compares.
    hard: tuple[Constraint, ...] = ()

    @property
    def is_box(self) -> bool:
        """Whether the component is its box and nothing less, end by end."""
        conditions = self.witnesses or self.regions or self.balls or self.hard
        return self.exact_numbers and self.exact_strings and not conditions


class Decomposition(NamedTuple):
    """The components of a subscription; if not ``whole``, only one that lies in it, and None if there is none."""

    components: list[Component]
    whole: bool


def decompose(filters: Sequence[Filter]) -> Decomposition:
    """Return the components of a disjunction of filters; none: it can never match.

    >>> from tamis.model.language.compiler import compile_text
    >>> [one.sides for one in decompose(compile_text("x IN (1, 5) AND y IS NULL").filters).components]
    [{('x', ''): (1.0, 1.0), ('y', '?'): (1.0, 1.0)}, {('x', ''): (5.0, 5.0), ('y', '?'): (1.0, 1.0)}]
    """
    components: list[Component] = []
    for filter in filters:
        if filter.rest is not None or _count(filter) > MOST:
            return Decomposition(_first_component(filters), whole=False)
        for choice in _choices(filter):
            component = _component(choice)
            if component is _UNDECIDED:
                return Decomposition(_first_component(filters), whole=False)
            if component is not None:
                components.append(component)
        if len(components) > MOST:
            return Decomposition(components[:1], whole=False)
    return Decomposition(components, whole=True)


def _first_component(filters: Sequence[Filter]) -> list[Component]:
    """Return a component that lies in the filters, if one is found within a small budget."""
    budget = Budget(_PIECES)
    for filter in filters:
        for piece in pieces_of(filter, budget):
            constraints: list[Constraint] = []
            names = [name for name in piece if isinstance(name, str)]
            if len(names) < len(piece):  # a condition on some element: no set of values says it
                continue
            for name in names:
                facts = piece[name]
                if facts.allowed != ANY_PRESENT or not facts.conditions:
                    constraints.append(Values(name, facts.allowed))
                constraints += facts.conditions
            component = _component(next(_choices(Filter(tuple(constraints)))))
            if component is not None and component is not _UNDECIDED:
                return [component]
    return []


def _count(filter: Filter) -> int:
    sets = (constraint.allowed for constraint in filter.constraints if isinstance(constraint, Values))
    return math.prod((len(allowed.cuts) + 1 + allowed.from_below) // 2 + allowed.missing for allowed in sets)


def _choices(filter: Filter) -> Iterator[Filter]:
    """Yield the conjunctions that are left when each attribute has chosen one of its intervals."""
    if all(
        not isinstance(constraint, Values) or _is_one_interval(constraint.allowed) for constraint in filter.constraints
    ):
        yield filter
        return
    options: list[list[Constraint]] = [
        [Values(constraint.attribute, part) for part in _parts(constraint.allowed)]
        if isinstance(constraint, Values)
        else [constraint]
        for constraint in filter.constraints
    ]
    for chosen in itertools.product(*options):
        yield Filter(chosen)


def _is_one_interval(values: ValueSet) -> bool:
    if values.missing:
        return not values.has_values
    return len(values.cuts) < 2 or (len(values.cuts) == 2 and not values.from_below)


def _parts(values: ValueSet) -> Iterator[ValueSet]:
    if not values.cuts and values.from_below:
        yield ANY_PRESENT
    else:
        yield from (ValueSet.between(start, stop) for start, stop in values.intervals())
    if values.missing:
        yield MISSING


def _component(filter: Filter) -> Component | None:
    """Return a conjunction as a component; None if it can never hold; `_UNDECIDED` if that is too hard to decide."""
    sides: dict[AxisName, Side] = {}
    texts: dict[str, str] = {}
    exact_numbers = exact_strings = True
    others: dict[str, list[Constraint]] = {}
    for constraint in filter.constraints:
        name = constraint.attribute
        if not isinstance(constraint, Values):
            others.setdefault(name, []).append(constraint)
        elif constraint.allowed == MISSING:
            sides[name, "?"] = (1.0, 1.0)
        else:
            side, sure = side_of(constraint.allowed, texts, name)
            sides[name, ""] = side
            if constraint.allowed.cuts and isinstance(constraint.allowed.cuts[0][0], str):
                exact_strings &= sure
            else:
                exact_numbers &= sure
            if name in texts:
                sides[name, "="] = (0.0, 0.0)
    component = Component(filter, sides, texts, {}, (), (), exact_numbers, exact_strings)
    if not others:
        return component
    region = _only_region(others)
    return _with_conditions(component, others) if region is None else _with_region(component, region)


_UNDECIDED: Final = Component(Filter(), {}, {}, {}, (), (), False, False)


def _with_conditions(component: Component, others: dict[str, list[Constraint]]) -> Component | None:
    """Return a component with its patterns, regions and balls."""
    regions: list[Spatial] = []
    balls: list[Ball] = []
    for name, conditions in others.items():
        if (name, "?") in component.sides:
            return None
        likes = tuple(condition for condition in conditions if isinstance(condition, Like))
        if likes:
            search = search_strings(component.filter.allowed(name) & ANY_PRESENT, likes, FEW_STEPS)
            if search.text is None:
                return None if search.proved else _UNDECIDED
            component.witnesses[name] = search.text
            component.texts.pop(name, None)
            component.sides.pop((name, "="), None)
            component.sides[name, "~"] = component.sides.pop((name, ""), PRESENT_SIDE)
            component.sides[name, "w"] = (string_key(search.text),) * 2
        else:
            component.sides.setdefault((name, ""), PRESENT_SIDE)
        spatial = _spatial(conditions)
        regions += joined_by_region(spatial) if len(spatial) > 1 else spatial
        balls += (condition for condition in conditions if isinstance(condition, Ball))
    component.sides.update(_cube(balls))
    if not all(region.relations for region in regions) or (len(regions) + len(balls) > 1 and _is_impossible(component)):
        return None
    hard = tuple(
        condition
        for conditions_of in others.values()
        for condition in conditions_of
        if isinstance(condition, Geometric | Cosine | Clock)
    )
    return component._replace(regions=tuple(regions), balls=tuple(balls), hard=hard)


def _only_region(others: dict[str, list[Constraint]]) -> Spatial | None:
    """Return the condition on a region that is the only condition, if there is one."""
    if len(others) != 1:
        return None
    [conditions] = others.values()
    return conditions[0] if len(conditions) == 1 and isinstance(conditions[0], Spatial) else None


def _with_region(component: Component, region: Spatial) -> Component | None:
    """Return a component with a single condition, on a region, as most that have one; see `_with_conditions`."""
    if not region.relations or (region.attribute, "?") in component.sides:
        return None
    component.sides.setdefault((region.attribute, ""), PRESENT_SIDE)
    return component._replace(regions=(region,))


def _spatial(conditions: Iterable[Constraint]) -> list[Spatial]:
    """Return the conditions on regions, and what those on other geometry imply about regions."""
    implied = (implied_relations(condition) for condition in conditions if isinstance(condition, Spatial | Geometric))
    return [condition for condition in implied if condition is not None]


PRESENT_SIDE: Final[Side] = side_of(ANY_PRESENT, {}, "")[0]


def _cube(balls: Iterable[Ball]) -> Iterator[tuple[AxisName, Side]]:
    """Yield the sides around the first ball on each attribute."""
    first: dict[str, Ball] = {}
    for ball in balls:
        if not ball.negated:
            first.setdefault(ball.attribute, ball)
    for ball in first.values():
        yield from ball_sides(ball, 1)


def _is_impossible(component: Component) -> bool:
    budget = Budget(_PIECES)
    return next(pieces_of(component.filter, budget), None) is None and not budget.exhausted


def are_linked(filters: Sequence[Filter]) -> bool:
    """Whether several filters might cover a component together that none of them covers alone.

    For that two of them must meet on all attributes but one, and on that one touch or overlap with neither inside the
    other: walk inside the component from a place that only one of them holds to the place where it ends.

    >>> from tamis.model.language.compiler import compile_text
    >>> [
    ...     are_linked(compile_text(f"x < 1 AND y < 1 OR {rest}").filters)
    ...     for rest in ("x > 2 AND y < 2", "x BETWEEN 0 AND 2 AND y < 2")
    ... ]
    [False, True]
    """
    if len(filters) < 2:
        return False
    if len(filters) > MOST_FILTERS or any(filter.rest is not None for filter in filters):
        return True
    sorted_out = [_by_attribute(filter) for filter in filters]
    return any(_touch(a, b) for a, b in itertools.combinations(sorted_out, 2))


_ByAttribute = dict[str, tuple[ValueSet | None, list[Constraint]]]


def _by_attribute(filter: Filter) -> _ByAttribute:
    by_attribute: _ByAttribute = {}
    for constraint in filter.constraints:
        values, conditions = by_attribute.get(constraint.attribute, (None, []))
        if isinstance(constraint, Values):
            by_attribute[constraint.attribute] = constraint.allowed, conditions
        else:
            by_attribute[constraint.attribute] = values, [*conditions, constraint]
    return by_attribute


def _touch(a: _ByAttribute, b: _ByAttribute) -> bool:
    shared = a.keys() & b.keys()
    apart = [name for name in shared if _are_apart(a[name], b[name])]
    if len(apart) > 1:
        return False
    return any(_extend(a[name], b[name]) for name in (apart or shared))


def _are_apart(a: tuple[ValueSet | None, list[Constraint]], b: tuple[ValueSet | None, list[Constraint]]) -> bool:
    """Whether no value, nor the missing value, is in both; conditions are ignored."""
    first = a[0] if a[0] is not None else ANY_PRESENT
    second = b[0] if b[0] is not None else ANY_PRESENT
    return not first & second


def _extend(a: tuple[ValueSet | None, list[Constraint]], b: tuple[ValueSet | None, list[Constraint]]) -> bool:
    """Whether two filters continue each other along one attribute, neither inside the other."""
    conditions = [*a[1], *b[1]]
    if any(isinstance(condition, Like) for condition in conditions):
        return True
    if a[1] and b[1]:
        if len(conditions) > 2:
            return True
        first, second = conditions
        if isinstance(first, Ball) and isinstance(second, Ball):
            return first.negated or second.negated
        if isinstance(first, Spatial) and isinstance(second, Spatial):
            return regions_conflict(complement(first), complement(second))
        return True
    first_set = a[0] if a[0] is not None else ANY_PRESENT
    second_set = b[0] if b[0] is not None else ANY_PRESENT
    if first_set.missing or second_set.missing:
        return True
    if first_set <= second_set or second_set <= first_set:
        return False
    return len((first_set | second_set).cuts) < len(first_set.cuts) + len(second_set.cuts)
