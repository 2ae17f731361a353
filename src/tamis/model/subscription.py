"""Subscription -> filters -> constraints (Siena's words).

A subscription is a predicate in disjunctive form: it matches an event when one of its *filters* does; a
filter is a conjunction of *constraints*, each on one attribute. A constraint holds or it does not: NOT
was pushed into the constraints when the text was read, so that a missing attribute fails a constraint
and its negation alike, as SQL's three-valued logic demands.

A predicate whose disjunctive form would be too large stays a tree: then there is one filter whose
constraints are its hull and whose ``rest`` is the whole tree. The hull is necessary, the rest decides.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import shapely

from tamis.model.text.folding import Fold
from tamis.model.value_set import ANYTHING, ValueSet

__all__ = [
    "DEFAULT_NAMESPACE",
    "EVERYTHING",
    "AllOf",
    "AnyOf",
    "Ball",
    "Clock",
    "Condition",
    "Constraint",
    "Cosine",
    "Filter",
    "Fold",
    "Geometric",
    "Like",
    "NamespacedId",
    "Predicate",
    "Relation",
    "Some",
    "Spatial",
    "Subscription",
    "SubscriptionId",
    "Values",
    "id_order",
]

#: What users call a subscription.
SubscriptionId = int | str
#: A subscription of one client: its namespace and its id.
NamespacedId = tuple[str, SubscriptionId]

DEFAULT_NAMESPACE = "default"


def id_order(id: SubscriptionId) -> tuple[bool, SubscriptionId]:
    """Sort ids: integers first, then strings by code point.

    >>> sorted(["b", 10, "a", 9], key=id_order)
    [9, 10, 'a', 'b']
    """
    return (isinstance(id, str), id)


class Relation(enum.StrEnum):
    """The eight relations of two regions, read "a REL b"; exactly one holds for every pair.

    The order is that of the codes 0..7 which `tamis.relations` returns.
    """

    DISJOINT = "disjoint"
    MEETS = "meets"
    OVERLAPS = "overlaps"
    EQUALS = "equals"
    INSIDE = "inside"
    CONTAINS = "contains"
    COVERS = "covers"
    COVERED_BY = "covered_by"


@dataclass(frozen=True, slots=True)
class Values:
    """The attribute's value, or its absence, belongs to a set: ranges, equality, IN, <>, prefix, NULL."""

    attribute: str
    allowed: ValueSet


@dataclass(frozen=True, slots=True)
class Like:
    """The string matches (or, negated, does not match) a pattern.

    The pattern is one of LIKE, neither exact nor a prefix unless ``fold`` is set, or a regular expression
    (``is_regex``). With ``fold`` the string is folded first, and the literal characters of a LIKE pattern are folded.
    """

    attribute: str
    pattern: str
    negated: bool = False
    fold: Fold = Fold.NONE
    is_regex: bool = False


@dataclass(frozen=True, slots=True)
class Spatial:
    """The event's geometry stands in one of these relations to ``region``, a simple polygon."""

    attribute: str
    relations: frozenset[Relation]
    region: shapely.Polygon


@dataclass(frozen=True, slots=True)
class Ball:
    """The event's vector lies within (or, negated, beyond) ``radius`` of ``center``, the rim included."""

    attribute: str
    center: tuple[float, ...]
    radius: float
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Geometric:
    """The event's geometry passes (or, negated, fails) a spatial function with any other geometry.

    ``function`` is S_INTERSECTS, S_WITHIN, S_CONTAINS, S_TOUCHES, S_OVERLAPS, S_CROSSES, S_EQUALS or one of the strict
    relations RCC_*; or S_DWITHIN, whose ``distance`` is in units of the coordinates, or in metres if they are degrees
    (``on_sphere``). A condition that `Spatial` can express is not a `Geometric`.
    """

    attribute: str
    function: str
    geometry: shapely.Geometry
    negated: bool = False
    distance: float = 0.0
    on_sphere: bool = False


@dataclass(frozen=True, slots=True)
class Cosine:
    """The cosine between the event's vector and ``direction`` is at least (or, negated, below) ``least``.

    A vector of zeros has no direction: it satisfies neither.
    """

    attribute: str
    direction: tuple[float, ...]
    least: float
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """The moment's local time belongs to a set: microseconds since Monday 00:00 by the clocks of a time zone."""

    attribute: str
    zone: str
    allowed: ValueSet


#: A constraint that is not a set of values.
Condition = Like | Spatial | Ball | Geometric | Cosine | Clock
Constraint = Values | Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """Some element of a repeated attribute satisfies ``condition``; negated: there is a value and no element does.

    The condition is on one element, under the name of the attribute. Two such conditions may be met by different
    elements, so they are never joined into one.
    """

    attribute: str
    condition: Predicate
    negated: bool = False


#: A predicate without NOT: negation is inside the constraints. ``AllOf(())`` is true, ``AnyOf(())`` false.
Predicate = Constraint | Some | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of constraints.

    ``constraints`` are ordered by attribute; at most one `Values` per attribute, never an empty one.
    ``rest``, if any, must hold as well (see the module's text); no constraints and no rest match everything.
    """

    constraints: tuple[Constraint, ...] = ()
    rest: Predicate | None = None

    def allowed(self, attribute: str) -> ValueSet:
        """Return the values this filter allows for an attribute, as far as `Values` say."""
        for constraint in self.constraints:
            if isinstance(constraint, Values) and constraint.attribute == attribute:
                return constraint.allowed
        return ANYTHING

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the constraints, ascending, each once."""
        return tuple(sorted({constraint.attribute for constraint in self.constraints}))


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stored predicate: its ``id`` and its ``filters``; without filters it never matches.

    ``text`` is the original text, if there is one; ``expires`` is in microseconds UTC.
    """

    id: SubscriptionId
    filters: tuple[Filter, ...]
    text: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    expires: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
