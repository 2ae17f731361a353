"""Searches witnesses with expressions: values of attributes for which a computed value lies in a wanted set.

Facts about computed values are treated as independent of facts about their attributes. So a proof that uses both is
correct, but a piece may contain no event at all. An event is built by choosing a value for the expression and solving
for one attribute, in which the expression is linear or nearly so; the caller checks the event.
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
    Fraction(sign * numerator, 2)
    for numerator in (0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 50, 200, 2000)
    for sign in (1, -1)
)


def solve_formula(
    name: str,
    facts: Facts,
    event: dict[str, Any],
    facts_by_name: Mapping[str, Facts],
    kinds: Mapping[str, AttributeType],
) -> bool:
    """Add values to an event so that a computed value fits; return whether such values were found.

    ``facts_by_name`` has the facts about the attributes; values in the event stay, unless an attribute is solved for.
    """
    formula = formula_of(name)
    if isinstance(formula.expression, Call):
        return _try_samples(formula, facts, event, facts_by_name, kinds)
    free = [attribute for attribute in formula.attributes if attribute not in event]
    for solved in [*free, *(attribute for attribute in formula.attributes if attribute in event)]:
        trial = {**dict.fromkeys((attribute for attribute in free if attribute != solved), 1), **event}
        for value in itertools.islice(_solutions(formula, facts, trial, solved), _TARGETS):
            if isinstance(kinds.get(solved), Decimal) and not isinstance(value, int):
                continue  # a decimal is a whole number of its last digits
            trial[solved] = value
            fits = all(_fits(trial[attribute], facts_by_name.get(attribute)) for attribute in formula.attributes)
            if fits and _value(formula, trial) in facts.allowed:
                event.update({attribute: trial[attribute] for attribute in formula.attributes})
                return True
    return False


def _value(formula: Formula, event: Mapping[str, Any]) -> Value | None:
    return canonical(formula.evaluate(event))


def _fits(value: Any, facts: Facts | None) -> bool:
    return facts is None or (not facts.conditions and (not facts.allowed.cuts or value in facts.allowed))


def _solutions(formula: Formula, facts: Facts, event: dict[str, Any], solved: str) -> Iterator[Value]:
    """Yield values of one attribute for which an expression may lie in a set, for fixed values of the others."""
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
    facts_by_name: Mapping[str, Facts],
    kinds: Mapping[str, AttributeType],
) -> bool:
    """Try common values of each type for the arguments of a function."""
    choices: list[list[Any]] = []
    for attribute in formula.attributes:
        if attribute in event:
            choices.append([event[attribute]])
            continue
        kind = kinds.get(attribute, Number())
        allowed = facts_by_name[attribute].allowed if attribute in facts_by_name else PRESENT
        choices.append([value for value in itertools.islice(kind.samples(allowed), 4) if not isinstance(value, bool)])
    if isinstance(formula.expression, Call) and formula.expression.name == COMPARE:
        values = list(dict.fromkeys(value for candidates in choices for value in candidates))
        choices = [values if len(candidates) > 1 or i else candidates for i, candidates in enumerate(choices)]
    for combination in itertools.islice(itertools.product(*choices), _TARGETS):
        trial = {**event, **dict(zip(formula.attributes, combination, strict=True))}
        if _value(formula, trial) in facts.allowed:
            event.update(trial)
            return True
    return False
