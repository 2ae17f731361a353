"""Values for attributes such that computed values are as they should be: the search for witnesses of expressions.

What is known of computed values is taken for independent of what is known of their attributes. So a proof that uses
both is right, and a piece may hold no event at all. An event is built by choosing a value for the expression and
solving for one attribute, in which the expression is linear or nearly so; the caller checks the event.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from tamis.algebra.proofs.facts import Facts
from tamis.model.derived.formulas import Formula, canonical, formula_of
from tamis.model.derived.functions import COMPARE
from tamis.model.language.nodes import Call
from tamis.model.types import AttributeType, Decimal, Number
from tamis.model.value_set import PRESENT
from tamis.model.values import Value

__all__ = ["solve_formula"]

#: Values of an expression that are tried.
_TARGETS = 40
#: Values of attributes that are tried where an expression is not linear.
_TRIED = tuple(
    Fraction(sign * one, 2) for one in (0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 50, 200, 2000) for sign in (1, -1)
)


def solve_formula(
    name: str, facts: Facts, event: dict[str, Any], known: Mapping[str, Facts], kinds: Mapping[str, AttributeType]
) -> bool:
    """Add values to an event so that a computed value fits; whether some were found.

    ``known`` is what is known of the attributes; those in the event stay, unless one has to be solved for.
    """
    formula = formula_of(name)
    if isinstance(formula.expression, Call):
        return _try_samples(formula, facts, event, known, kinds)
    free = [one for one in formula.attributes if one not in event]
    for solved in [*free, *(one for one in formula.attributes if one in event)]:
        trial = {**dict.fromkeys((one for one in free if one != solved), 1), **event}
        for value in itertools.islice(_solutions(formula, facts, trial, solved), _TARGETS):
            if isinstance(kinds.get(solved), Decimal) and not isinstance(value, int):
                continue  # a decimal is a whole number of its last digits
            trial[solved] = value
            fits = all(_fits(trial[one], known.get(one)) for one in formula.attributes)
            if fits and _value(formula, trial) in facts.allowed:
                event.update({one: trial[one] for one in formula.attributes})
                return True
    return False


def _value(formula: Formula, event: Mapping[str, Any]) -> Value | None:
    return canonical(formula.evaluate(event))


def _fits(value: Any, facts: Facts | None) -> bool:
    return facts is None or (not facts.conditions and (not facts.allowed.cuts or value in facts.allowed))


def _solutions(formula: Formula, facts: Facts, event: dict[str, Any], solved: str) -> Iterator[Value]:
    """Yield values of one attribute for which an expression may lie in a set, the others being given."""
    at = [formula.evaluate({**event, solved: x}) for x in (1, 2, 3)]
    if None not in at and at[1] - at[0] == at[2] - at[1] != 0:
        slope = Fraction(at[1] - at[0])
        for target in itertools.islice(Number().samples(facts.allowed), _TARGETS):
            value = canonical(1 + (Fraction(target) - Fraction(at[0])) / slope)
            if isinstance(value, int | float):
                yield value
    for x in _TRIED:
        value = canonical(x)
        if value is not None:
            yield value


def _try_samples(
    formula: Formula,
    facts: Facts,
    event: dict[str, Any],
    known: Mapping[str, Facts],
    kinds: Mapping[str, AttributeType],
) -> bool:
    """Try some values of each attribute of a function, those of its type that are usual."""
    choices: list[list[Any]] = []
    for attribute in formula.attributes:
        if attribute in event:
            choices.append([event[attribute]])
            continue
        kind = kinds.get(attribute, Number())
        allowed = known[attribute].allowed if attribute in known else PRESENT
        choices.append([value for value in itertools.islice(kind.samples(allowed), 4) if not isinstance(value, bool)])
    if isinstance(formula.expression, Call) and formula.expression.name == COMPARE:
        values = list(dict.fromkeys(value for some in choices for value in some))
        choices = [values if len(some) > 1 or i else some for i, some in enumerate(choices)]
    for combination in itertools.islice(itertools.product(*choices), _TARGETS):
        trial = {**event, **dict(zip(formula.attributes, combination, strict=True))}
        if _value(formula, trial) in facts.allowed:
            event.update(trial)
            return True
    return False
