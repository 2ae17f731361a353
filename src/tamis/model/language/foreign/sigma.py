"""Sigma detection rules as the syntax tree of a subscription; pySigma reads them.

What a rule means here:

* Text ignores case unless a value is ``cased``; a regular expression minds case unless it has the flag ``i``.
* A field is text, whatever a logger writes: ``EventID: 4688`` is ``CASEI(EventID) = CASEI('4688')``, which holds for
  the number and for the string. A file of fields may say that one is a number or a boolean.
* Sigma knows true and false only: a condition on a field that an event lacks is false, and its negation true. The
  language has a third value for that, so a negated condition is written ``field NOT LIKE x OR field IS NULL``.
* A value without a field (a keyword) is looked for in all strings of the event, the attribute `ALL_STRINGS`.
* ``null`` says that the event lacks the field; ``*`` alone, that it has it.

What has no equivalent is refused by name, never left out: a rule that fires more or less often is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import MissingExtraError, ModelError, SubscriptionError, shorten
from tamis.model.language.foreign.sigma_documents import check_document, opened_expression
from tamis.model.language.foreign.sigma_fields import Fields
from tamis.model.language.foreign.sigma_networks import network_expression
from tamis.model.language.foreign.sigma_numbers import number_expression
from tamis.model.language.foreign.sigma_problems import problem_of
from tamis.model.language.nodes import (
    And,
    Arithmetic,
    Calculated,
    Call,
    Compare,
    Constant,
    IsIn,
    IsLike,
    IsNull,
    Node,
    Not,
    Or,
    Property,
    TextTest,
)
from tamis.model.text.folding import Fold, escape_like, fold_text
from tamis.model.types.value_text import text_of

if TYPE_CHECKING:
    from sigma.rule import SigmaRule
    from sigma.types import SigmaFieldReference, SigmaString, SigmaType

__all__ = ["read_sigma_rule", "sigma_node"]

_OPERATORS: Final = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


def read_sigma_rule(document: Any) -> SigmaRule:
    """Return the rule of a YAML document that was read, or raise `ModelError` that says why it is none."""
    try:
        from sigma.rule import SigmaRule
    except ImportError:
        raise MissingExtraError("reading Sigma rules", "sigma") from None
    checked = check_document(document)
    try:
        return SigmaRule.from_dict(checked)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:  # SigmaError is a ValueError
        raise ModelError(f"not a valid Sigma rule: {problem_of(checked['detection'], error)}") from None


def sigma_node(rule: SigmaRule, fields: Fields) -> Node:
    """Return the syntax tree of a rule; `SubscriptionError` names what has no equivalent."""
    return _Reader(fields).node(_condition(rule), negated=False)


def _condition(rule: SigmaRule) -> Any:
    """Return the parsed condition of a rule; one of several conditions is enough."""
    from sigma.conditions import ConditionOR
    from sigma.exceptions import SigmaError

    try:
        parsed = [condition.parsed for condition in rule.detection.parsed_condition]
    except SigmaError as error:
        selections = ", ".join(map(str, rule.detection.detections))
        raise ModelError(f"the condition cannot be read: {error} (selections: {selections})") from None
    except RecursionError:
        raise ModelError("the condition nests too deeply") from None
    return parsed[0] if len(parsed) == 1 else ConditionOR(parsed)


def _expanded(value: SigmaType, fields: Fields) -> Iterator[SigmaType]:
    """Yield the values that one stands for, placeholders filled in: any of them may hold."""
    from sigma import types

    if isinstance(value, types.SigmaExpansion):
        for part in value.values:
            yield from _expanded(part, fields)
    elif isinstance(value, types.SigmaString):
        yield from _filled(value, fields)
    elif isinstance(value, types.SigmaRegularExpression) and value.regexp.contains_placeholder():
        for text in _filled(value.regexp, fields, is_regex=True):
            yield types.SigmaRegularExpression(str(text), value.flags)
    else:
        yield value


def _filled(value: SigmaString, fields: Fields, *, is_regex: bool = False) -> list[SigmaString]:
    """Return a value with each combination of what its placeholders stand for."""
    from sigma.exceptions import SigmaError
    from sigma.types import Placeholder, SigmaString

    def values_of(placeholder: Placeholder) -> Iterator[str | SigmaString]:
        for text in fields.values_of(placeholder.name):
            yield re.escape(text) if is_regex else SigmaString(text)

    try:
        return value.replace_placeholders(values_of)
    except SigmaError as error:
        raise SubscriptionError(str(error), None, str(value)) from None


@dataclass(frozen=True, slots=True)
class _Lacks:
    """That none of some conditions holds for an attribute, or the event lacks it."""

    attribute: str
    tests: tuple[Node, ...]


class _Reader:
    """Turns conditions of pySigma into nodes, with NOT pushed down to the values."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def node(self, item: Any, *, negated: bool) -> Node:
        """Return the node of a condition or, ``negated``, of its negation."""
        return _as_node(self._read(item, negated))

    def _read(self, item: Any, negated: bool) -> Node | _Lacks:
        from sigma import conditions, types

        if isinstance(item, conditions.ConditionNOT):
            return self._read(item.args[0], not negated)
        if isinstance(item, conditions.ConditionAND | conditions.ConditionOR):
            join = _all_of if isinstance(item, conditions.ConditionAND) != negated else _any_of
            return join([self._read(part, negated) for part in item.args])
        if isinstance(item, conditions.ConditionFieldEqualsValueExpression):
            if isinstance(item.value, types.SigmaFieldReference):
                return self._reference(item.field, item.value, negated)
            return self._test(item.value, self._fields.attributes(item.field), self._fields.kind(item.field), negated)
        if isinstance(item, conditions.ConditionValueExpression):
            return self._test(item.value, self._fields.keywords, "string", negated, is_keyword=True)
        raise SubscriptionError(f"a condition of kind {type(item).__name__} has no equivalent")

    def _test(
        self, value: SigmaType, attributes: Sequence[str], kind: str, negated: bool, is_keyword: bool = False
    ) -> Node | _Lacks:
        tests = [
            (attribute, _keyword(attribute, part) if is_keyword else _value(attribute, part, kind))
            for attribute in attributes
            for part in _expanded(value, self._fields)
        ]
        if not negated:
            return _any_of([test for _, test in tests])
        return _all_of([_negation(attribute, test) for attribute, test in tests])

    def _reference(self, name: str, value: SigmaFieldReference, negated: bool) -> Node | _Lacks:
        """Return that two fields have the same value, or that one is a part of the other; case counts."""
        fields, test = self._fields, _TEXT_TESTS[value.starts_with, value.ends_with]
        kind, other_kind = fields.kind(name), fields.kind(value.field)
        if kind != other_kind or kind == "boolean" or (test and kind == "number"):
            raise _unfit(
                f"fieldref compares two strings or two numbers, not {kind} and {other_kind}", name, value.field
            )
        join = _all_of if negated else _any_of
        return join(
            [
                _compared_attributes(attribute, other, kind, test, negated)
                for attribute in fields.attributes(name)
                for other in fields.attributes(value.field)
            ]
        )


#: How fields are compared with modifiers startswith, endswith and both, which is contains.
_TEXT_TESTS: Final = {
    (False, False): None,
    (True, False): "STARTSWITH",
    (False, True): "ENDSWITH",
    (True, True): "CONTAINS",
}


def _compared_attributes(a: str, b: str, kind: str, test: str | None, negated: bool) -> Node:
    """Return that two attributes have the same value or, ``negated``, that they have not, or one is missing.

    ``test`` is the function that holds for two texts instead of equality.

    An attribute is learned from what is asked of it, and equality does not tell its type: `_is_text`, or a difference,
    does.
    """
    op, names = "<>" if negated else "=", (Property(a), Property(b))
    if kind == "number":
        compared: Node = Calculated(op, (Arithmetic("-", *names), 0))
    else:
        sides = names if test is None else (Call(test, names), True)
        compared = And((Calculated(op, sides), _is_text(a), _is_text(b)))
    return Or((compared, IsNull(a), IsNull(b))) if negated else compared


def _negation(attribute: str, test: Node) -> Node | _Lacks:
    if isinstance(test, IsNull):
        return IsNull(attribute, negated=not test.negated)
    if isinstance(test, Constant):
        return Constant(not test.value)
    return _Lacks(attribute, (test,))


def _value(attribute: str, value: SigmaType, kind: str) -> Node:
    """Return that an attribute has a value."""
    from sigma import types

    for of_kind, read in _READERS.items():
        if type(value) is getattr(types, of_kind):
            return read(attribute, value, kind)
    raise _no_equivalent(attribute, value)


def _unfit(problem: str, attribute: str, value: object = None) -> SubscriptionError:
    shown = "" if value is None else f": {shorten(value)}"
    return SubscriptionError(f"attribute {attribute!r}: {problem}{shown}", attribute, value)


def _no_equivalent(attribute: str, value: SigmaType) -> SubscriptionError:
    from sigma import types

    reasons = {
        types.SigmaTimestampPart: "a part of a timestamp (minute, hour, day, ...) cannot be compared",
        types.SigmaNull: "a selection, or a value without a field, is empty",
        types.SigmaQueryExpression: "a query in the language of another system has no equivalent",
    }
    return _unfit(reasons.get(type(value), f"{type(value).__name__} has no equivalent"), attribute)


def _keyword(attribute: str, value: SigmaType) -> Node:
    """Return that a text holds a value somewhere."""
    from sigma import types

    if isinstance(value, types.SigmaRegularExpression):
        return _regex(attribute, value, "string")
    if isinstance(value, types.SigmaNumber):
        return _like(attribute, f"%{escape_like(text_of(value.number))}%", Fold.CASE)
    if isinstance(value, types.SigmaString):
        fold = Fold.NONE if isinstance(value, types.SigmaCasedString) else Fold.CASE
        return _like(attribute, f"%{_pattern(value)}%", fold)
    raise _no_equivalent(attribute, value)


def _text(attribute: str, value: Any, kind: str) -> Node:
    return _string(attribute, value, kind, Fold.CASE)


def _cased(attribute: str, value: Any, kind: str) -> Node:
    return _string(attribute, value, kind, Fold.NONE)


def _string(attribute: str, value: SigmaString, kind: str, fold: Fold) -> Node:
    if value.contains_special():
        if _is_any(value):
            return IsNull(attribute, negated=True)
        pattern = _pattern(value)
        if kind != "string":
            raise _unfit(f"a pattern of text is compared with a {kind}", attribute, pattern)
        return _like(attribute, pattern, fold)
    text = _plain(value)
    if kind == "number":
        number = _as_number(text)
        if number is None:
            raise _unfit("text is compared with a number", attribute, text)
        return Compare(attribute, "=", number)
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise _unfit("text is compared with a boolean", attribute, text)
        return Compare(attribute, "=", text.lower() == "true")
    return _equal(attribute, text, fold)


def _number(attribute: str, value: Any, kind: str) -> Node:
    if kind == "boolean":
        raise _unfit("a number is compared with a boolean", attribute, value.number)
    return (
        Compare(attribute, "=", value.number)
        if kind == "number"
        else _equal(attribute, text_of(value.number), Fold.CASE)
    )


def _boolean(attribute: str, value: Any, kind: str) -> Node:
    if kind == "number":
        raise _unfit("true or false is compared with a number", attribute, value.boolean)
    if kind == "boolean":
        return Compare(attribute, "=", value.boolean)
    return _equal(attribute, str(value.boolean), Fold.CASE)


def _compared(attribute: str, value: Any, kind: str) -> Node:
    op, number = _OPERATORS[value.op.name], value.number.number
    if kind == "number":
        return Compare(attribute, op, number)
    if kind == "boolean":
        raise _unfit(f"{value.op.name.lower()} compares numbers, and the field is a boolean", attribute)
    return TextTest(attribute, "MATCHES", (number_expression(op, text_of(number)),))


def _regex(attribute: str, value: Any, kind: str) -> Node:
    if kind != "string":
        raise _unfit(f"a regular expression is compared with a {kind}", attribute)
    flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
    return TextTest(attribute, "MATCHES", ((f"(?{flags})" if flags else "") + opened_expression(str(value.regexp)),))


def _network(attribute: str, value: Any, kind: str) -> Node:
    return TextTest(attribute, "MATCHES", (network_expression(value.network),))


_READERS: Final[dict[str, Callable[[str, Any, str], Node]]] = {
    "SigmaString": _text,
    "SigmaCasedString": _cased,
    "SigmaNumber": _number,
    "SigmaBool": _boolean,
    "SigmaNull": lambda attribute, value, kind: IsNull(attribute),
    "SigmaExists": lambda attribute, value, kind: IsNull(attribute, negated=bool(value.exists)),
    "SigmaCompareExpression": _compared,
    "SigmaRegularExpression": _regex,
    "SigmaCIDRExpression": _network,
}


def _equal(attribute: str, text: str, fold: Fold) -> Node:
    if not fold:
        return And((Compare(attribute, "=", text), _is_text(attribute)))
    return TextTest(attribute, "=", (fold_text(text, fold),), fold)


def _like(attribute: str, pattern: str, fold: Fold) -> Node:
    if not fold:
        return And((IsLike(attribute, pattern), _is_text(attribute)))
    return TextTest(attribute, "LIKE", (fold_text(pattern, fold),), fold)


def _is_text(attribute: str) -> Node:
    """Return a condition that every text meets: it says that the attribute is asked for its text, of whatever type."""
    return TextTest(attribute, "LIKE", ("%",), Fold.CASE)


def _pattern(value: SigmaString) -> str:
    """Return a value with wildcards as a LIKE pattern."""
    from sigma.types import SpecialChars

    wildcards: dict[object, str] = {SpecialChars.WILDCARD_MULTI: "%", SpecialChars.WILDCARD_SINGLE: "_"}
    parts = []
    for part in value.s:
        if isinstance(part, str):
            parts.append(escape_like(part))
        else:
            parts.append(wildcards[part])
    return "".join(parts)


def _plain(value: SigmaString) -> str:
    return "".join(str(part) for part in value.s)


def _is_any(value: SigmaString) -> bool:
    from sigma.types import SpecialChars

    return bool(value.s) and all(part is SpecialChars.WILDCARD_MULTI for part in value.s)


def _as_number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        return None


def _as_node(part: Node | _Lacks) -> Node:
    if not isinstance(part, _Lacks):
        return part
    unmet = [_negated(test) for test in _in_lists(part.tests)]
    return Or((unmet[0] if len(unmet) == 1 else And(tuple(unmet)), IsNull(part.attribute)))


def _negated(test: Node) -> Node:
    if isinstance(test, TextTest):
        return TextTest(test.attribute, test.op, test.operands, test.fold, not test.negated)
    if isinstance(test, IsLike):
        return IsLike(test.attribute, test.pattern, not test.negated)
    if isinstance(test, IsIn):
        return IsIn(test.attribute, test.values, not test.negated)
    if isinstance(test, Compare) and test.op == "=":
        return Compare(test.attribute, "<>", test.value)
    return Not(test)


def _all_of(parts: Sequence[Node | _Lacks]) -> Node | _Lacks:
    """Join parts with AND; what says of one attribute that conditions fail becomes one part."""
    lacking: dict[str, dict[Node, None]] = {}
    others: list[Node] = []
    for part in parts:
        if isinstance(part, _Lacks):
            lacking.setdefault(part.attribute, {}).update(dict.fromkeys(part.tests))
        else:
            others.append(part)
    joined = [_Lacks(attribute, tuple(tests)) for attribute, tests in lacking.items()]
    if len(joined) == 1 and not others:
        return joined[0]
    return _joined(And, [*others, *map(_as_node, joined)])


def _any_of(parts: Sequence[Node | _Lacks]) -> Node | _Lacks:
    return parts[0] if len(parts) == 1 else _joined(Or, list(_in_lists(map(_as_node, parts))))


def _joined(kind: type[And] | type[Or], parts: Iterable[Node]) -> Node:
    """Join parts with AND or OR; parts of the same kind are taken in, and none is written twice."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else [part]))
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))


def _in_lists(tests: Iterable[Node]) -> list[Node]:
    """Return alternatives with the equalities on one attribute joined into an IN."""
    folded: dict[tuple[str, Fold], list[str]] = {}
    plain: dict[str, list[Any]] = {}
    others: list[Node] = []
    for test in tests:
        if isinstance(test, TextTest) and test.op in ("=", "IN") and not test.negated:
            folded.setdefault((test.attribute, test.fold), []).extend(test.operands)
        elif isinstance(test, Compare) and test.op == "=" and not isinstance(test.value, bool):
            plain.setdefault(test.attribute, []).append(test.value)
        elif isinstance(test, IsIn) and not test.negated:
            plain.setdefault(test.attribute, []).extend(test.values)
        else:
            others.append(test)
    lists: list[Node] = []
    for (attribute, fold), texts in folded.items():
        operands = tuple(dict.fromkeys(texts))
        lists.append(TextTest(attribute, "=" if len(operands) == 1 else "IN", operands, fold))
    for attribute, values in plain.items():
        distinct = tuple(dict.fromkeys(values))
        lists.append(Compare(attribute, "=", distinct[0]) if len(distinct) == 1 else IsIn(attribute, distinct))
    return [*lists, *others]
