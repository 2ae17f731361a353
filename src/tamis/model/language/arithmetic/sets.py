"""The sets of values that comparisons stand for, and predicates made of them."""

from __future__ import annotations

from collections.abc import Callable

from tamis.model.pattern import prefix_stop
from tamis.model.subscription import AllOf, AnyOf, Predicate, Values
from tamis.model.types import ScalarType
from tamis.model.value_set import EMPTY, ValueSet
from tamis.model.values import Value

__all__ = ["FALSE", "RANGES", "TRUE", "at_least", "at_most", "equal_to", "joined", "starting_with", "values_in"]

TRUE, FALSE = AllOf(()), AnyOf(())


def joined(join: type[AllOf] | type[AnyOf], parts: list[Predicate]) -> Predicate:
    """Join parts, taking in the parts of a part of the same kind."""
    predicates: list[Predicate] = []
    for part in parts:
        predicates.extend(part.parts if isinstance(part, AllOf | AnyOf) and type(part) is join else (part,))
    return predicates[0] if len(predicates) == 1 else join(tuple(predicates))


def values_in(attribute: str, allowed: ValueSet, negated: bool) -> Predicate:
    """Return the condition that a value lies in a set or, negated, that there is a value outside the set."""
    allowed = allowed.negated() if negated else allowed
    return Values(attribute, allowed) if allowed else FALSE


# A cut that is None lies beyond all values: as a lower end it leaves nothing above it ("> the greatest"),
# as an upper end nothing below it ("< the least"). ValueSet.between reads None as an open end instead.


def _below(kind: ScalarType, value: Value) -> ValueSet:
    cut = kind.before(value)
    return EMPTY if cut is None else ValueSet.between(None, cut)


def at_most(kind: ScalarType, value: Value) -> ValueSet:
    """Return the values up to one."""
    return ValueSet.between(None, kind.after(value))


def _above(kind: ScalarType, value: Value) -> ValueSet:
    cut = kind.after(value)
    return EMPTY if cut is None else ValueSet.between(cut, None)


def at_least(kind: ScalarType, value: Value) -> ValueSet:
    """Return the values from one on."""
    return ValueSet.between(kind.before(value), None)


def equal_to(kind: ScalarType, value: Value) -> ValueSet:
    """Return the set of one value."""
    return ValueSet.between(kind.before(value), kind.after(value))


def starting_with(kind: ScalarType, prefix: str) -> ValueSet:
    """Return the strings that begin with a prefix."""
    stop = prefix_stop(prefix)
    return ValueSet.between(kind.before(prefix), None if stop is None else (stop, 0))


#: The set of values that stand in a relation to one.
RANGES: dict[str, Callable[[ScalarType, Value], ValueSet]] = {
    "<": _below,
    "<=": at_most,
    ">": _above,
    ">=": at_least,
    "=": equal_to,
    "<>": lambda kind, value: equal_to(kind, value).negated(),
}
