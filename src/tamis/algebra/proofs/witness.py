"""Builds events that show a difference: one value per attribute, chosen from the facts about it.

A "no" should come with an example: `event_for` turns a remaining piece into an event, and the caller checks it
against the filters themselves. Values are chosen to be easy to read: round numbers away from the ends of a
range, short strings. Numbers are dense: between two neighbouring float64 numbers there is still a decimal. A value
is preferred to a missing one, which would explain less.

Events of `event_for` are canonical, but for long decimals, which are kept as decimals; `canonical` gives the form that
`matches` takes, `published` the form that a user could publish.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tamis.algebra.proofs import balls, geometries, patterns, regions
from tamis.algebra.proofs.facts import Facts
from tamis.algebra.proofs.formulas import solve_formula
from tamis.algebra.proofs.pieces import Piece
from tamis.errors import LimitError
from tamis.model.derived.clocks import moment_for
from tamis.model.derived.formulas import is_formula
from tamis.model.subscription import Ball, Clock, Cosine, Geometric, Like, Some, Spatial, Values
from tamis.model.types import AttributeType, Many, Number, ScalarType, Timestamp, type_of_value
from tamis.model.value_set import ValueSet
from tamis.model.values import UnfitError, Value

__all__ = ["canonical", "event_for", "published", "value_for"]

#: Values that are tried.
_CANDIDATES = 1_000


def event_for(piece: Piece, kinds: Mapping[str, AttributeType]) -> dict[str, Any] | None:
    """Return an event in a piece; None when no value was found for some attribute.

    >>> event_for({"price": Facts(ValueSet.between((99, 1), (100.5, 0)))}, {"price": Number()})
    {'price': 100}
    """
    event: dict[str, Any] = {}
    repeated = {key.attribute for key in piece if isinstance(key, Some)}
    plain_facts = {name: facts for name, facts in piece.items() if isinstance(name, str) and not is_formula(name)}
    for name, facts in plain_facts.items():
        value = _elements(name, piece, kinds.get(name)) if name in repeated else value_for(facts, kinds.get(name))
        if value is not None:
            event[name] = value
        elif not facts.allowed.missing:
            return None
    for key, facts in piece.items():
        is_open = isinstance(key, str) and is_formula(key) and not facts.allowed.missing
        if is_open and not solve_formula(str(key), facts, event, plain_facts, kinds):
            return None
    return event


def value_for(facts: Facts, kind: AttributeType | None) -> Any:
    """Return a value that fits, or None when none was found (or only a missing one fits)."""
    if facts.conditions:
        return _conditioned(facts)
    if not facts.allowed.has_values:
        return None
    long: Decimal | None = None  # a number of few digits is better, if one fits
    for value in itertools.islice(_scalars(facts.allowed, kind), _CANDIDATES):
        try:
            fit = _fitted(value, kind)
        except (UnfitError, LimitError):
            continue
        if facts.allowed.cuts and fit not in facts.allowed:
            continue
        if not isinstance(fit, Fraction):
            return fit
        long = value if long is None else long
    return long


def _fitted(value: Any, kind: AttributeType | None) -> Value:
    """Return a sample in the form of an event's value, or raise `UnfitError`."""
    if kind is None:
        return Number().canonical(value) if isinstance(value, Decimal) else value
    return kind.canonical(kind.to_json(value))


def _elements(name: str, piece: Piece, kind: AttributeType | None) -> tuple[Any, ...]:
    """Return an element for each condition that some element must satisfy, where one was found."""
    wanted = [key.condition for key, facts in piece.items() if isinstance(key, Some) and True in facts.allowed]
    element = None if kind is None else kind.element
    sets = (
        constraint.allowed for constraint in wanted if isinstance(constraint, Values) and constraint.attribute == name
    )
    values = (value_for(Facts(allowed), element) for allowed in sets)
    return tuple(dict.fromkeys(value for value in values if value is not None))


def canonical(event: Mapping[str, Any]) -> dict[str, Value]:
    """Return an event of `event_for` in the form that `matches` takes."""
    return {name: Number().canonical(value) if isinstance(value, Decimal) else value for name, value in event.items()}


def published(event: Mapping[str, Any], kinds: Mapping[str, AttributeType]) -> dict[str, Any]:
    """Return an event of `event_for` in the form that users publish: decimals, days and addresses as text or numbers.

    >>> from tamis.model.types import Decimal as Cents, Ip
    >>> published({"amount": 201, "ip": 167772161, "x": 0.5}, {"amount": Cents(scale=2), "ip": Ip(), "x": Number()})
    {'amount': 2.01, 'ip': '10.0.0.1', 'x': 0.5}
    """
    return {name: _published(value, kinds.get(name)) for name, value in event.items()}


def _published(value: Any, kind: AttributeType | None) -> Any:
    has_own_form = isinstance(kind, ScalarType | Many) and not isinstance(value, Decimal)
    return kind.to_json(value) if has_own_form and kind is not None else value


def _conditioned(facts: Facts) -> Value | None:
    if any(isinstance(condition, Geometric) for condition in facts.conditions):
        return geometries.geometry_for(facts.conditions)
    clocks = [condition for condition in facts.conditions if isinstance(condition, Clock)]
    if clocks:
        return moment_for(facts.allowed, clocks)
    if any(isinstance(condition, Cosine) for condition in facts.conditions):
        return geometries.vector_for(facts.conditions)
    some_balls = [condition for condition in facts.conditions if isinstance(condition, Ball)]
    if some_balls:
        return balls.point_in(some_balls)
    some_regions = [condition for condition in facts.conditions if isinstance(condition, Spatial)]
    if some_regions:
        return regions.shape_in(some_regions)
    likes = tuple(condition for condition in facts.conditions if isinstance(condition, Like))
    return patterns.search_strings(facts.allowed, likes).text


def _scalars(allowed: ValueSet, kind: AttributeType | None) -> Iterator[Any]:
    """Yield values to try, the best first; if the type is unknown, the set shows which types may fit."""
    if kind is not None:
        return kind.samples(allowed)
    shown = type_of_value(allowed.cuts[0][0]) if allowed.cuts else None
    if shown is None or not isinstance(shown, Number):
        return (shown or Number()).samples(allowed)
    return itertools.chain(Timestamp().samples(allowed), shown.samples(allowed))  # an integer is both
