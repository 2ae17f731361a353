"""EventBridge event patterns: rules that were written as JSON, as the syntax tree of a subscription.

A pattern is an object in the shape of the event. A leaf is a list of what its attribute may be: values, or tests such
as ``{"prefix": "a"}`` and ``{"numeric": [">", 0, "<=", 5]}``. Attributes of nested objects get names with dots. What
has no equivalent (an IP network, a comparison that ignores case) is refused by name, never left out: a rule that
matches more or less than before is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tamis.errors import LimitError, SubscriptionError
from tamis.model.language.nodes import And, Compare, Constant, IsIn, IsLike, IsNull, Literal, Node, Not, Or
from tamis.model.types.paths import MAX_DEPTH

__all__ = ["read_event_pattern"]

_COMPARISONS: Final = {"<", "<=", "=", ">", ">="}


def read_event_pattern(pattern: Mapping[str, Any]) -> Node:
    """Return the syntax tree of an event pattern; `SubscriptionError` names what has no equivalent.

    >>> from tamis.model.language.format import format_node
    >>> format_node(read_event_pattern({"source": ["aws.ec2"], "detail": {"cpu": [{"numeric": [">", 0, "<=", 5]}]}}))
    "source = 'aws.ec2' AND detail.cpu > 0 AND detail.cpu <= 5"
    """
    _check_depth(pattern)
    return _joined(And, list(_conditions(pattern, "")))


def _check_depth(pattern: Any) -> None:
    """Raise `LimitError` when objects and lists are nested too deeply."""
    level = [pattern]
    for _ in range(MAX_DEPTH + 1):
        inner = [value for value in level if isinstance(value, Mapping | list)]
        level = [child for value in inner for child in (value.values() if isinstance(value, Mapping) else value)]
        if not level:
            return
    raise LimitError("levels of an event pattern", MAX_DEPTH + 1, MAX_DEPTH)


def _conditions(pattern: Any, prefix: str) -> Iterator[Node]:
    if not isinstance(pattern, Mapping) or not pattern:
        raise SubscriptionError("an event pattern is an object with at least one attribute", prefix or None, pattern)
    for name, tests in pattern.items():
        if name == "$or":
            yield _alternatives(tests, prefix)
        elif isinstance(tests, Mapping):
            yield from _conditions(tests, f"{prefix}{name}.")
        elif isinstance(tests, list) and tests:
            yield _any_of(f"{prefix}{name}", tests)
        else:
            raise SubscriptionError("expected a list of what the attribute may be", f"{prefix}{name}", tests)


def _alternatives(patterns: Any, prefix: str) -> Node:
    if not isinstance(patterns, list) or not patterns:
        raise SubscriptionError("$or holds a list of patterns", prefix or None, patterns)
    return _joined(Or, [_joined(And, list(_conditions(pattern, prefix))) for pattern in patterns])


def _any_of(attribute: str, tests: list[Any]) -> Node:
    """Return that an attribute is one of the given values or passes one of the given tests."""
    parts: list[Node] = []
    values = [test for test in tests if not isinstance(test, Mapping) and test is not None]
    if values:
        parts.append(_is_one_of(attribute, values))
    if None in tests:
        parts.append(IsNull(attribute))
    parts += [_test(attribute, test) for test in tests if isinstance(test, Mapping)]
    return _joined(Or, parts)


def _is_one_of(attribute: str, values: list[Any]) -> Node:
    misfits = [value for value in values if not isinstance(value, str | int | float | bool)]
    if misfits:
        raise SubscriptionError("a value is a string, a number, true or false", attribute, misfits[0])
    return Compare(attribute, "=", values[0]) if len(values) == 1 else IsIn(attribute, tuple(values))


def _test(attribute: str, test: Mapping[str, Any]) -> Node:
    [(kind, operand), *more] = test.items() if test else [("", None)]
    if more or kind not in _TESTS:
        names = ", ".join(_TESTS)
        raise SubscriptionError(
            f"the test {kind!r} of an event pattern has no equivalent; known: {names}", attribute, test
        )
    return _TESTS[kind](attribute, operand)


def _exists(attribute: str, operand: Any) -> Node:
    if not isinstance(operand, bool):
        raise SubscriptionError("exists is true or false", attribute, operand)
    return IsNull(attribute, negated=operand)


def _numeric(attribute: str, operand: Any) -> Node:
    """Read ``[">", 0, "<=", 5]``."""
    if not isinstance(operand, list) or not operand or len(operand) % 2:
        raise SubscriptionError("numeric holds pairs of a comparison and a number", attribute, operand)
    pairs = list(zip(operand[::2], operand[1::2], strict=True))
    for op, value in pairs:
        if (
            not isinstance(op, str)
            or op not in _COMPARISONS
            or isinstance(value, bool)
            or not isinstance(value, int | float)
        ):
            raise SubscriptionError("numeric holds pairs of a comparison and a number", attribute, operand)
    return _joined(And, [Compare(attribute, op, value) for op, value in pairs])


def _like(make: Callable[[str], str]) -> Callable[[str, Any], Node]:
    def test(attribute: str, operand: Any) -> Node:
        if not isinstance(operand, str):
            raise SubscriptionError("expected a string (tests that ignore case have no equivalent)", attribute, operand)
        return IsLike(attribute, make(operand))

    return test


def _wildcard(text: str) -> str:
    """Return a LIKE pattern for one in which ``*`` stands for any text."""
    return "%".join(_literally(part) for part in text.split("*"))


def _literally(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _anything_but(attribute: str, operand: Any) -> Node:
    """Return that an attribute is there and is none of the values, or does not pass a test."""
    if isinstance(operand, Mapping):
        return And((IsNull(attribute, negated=True), Not(_test(attribute, operand))))
    values: list[Literal] = operand if isinstance(operand, list) else [operand]
    return Not(_is_one_of(attribute, values))


_TESTS: Final[dict[str, Callable[[str, Any], Node]]] = {
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _like(lambda text: f"{_literally(text)}%"),
    "suffix": _like(lambda text: f"%{_literally(text)}"),
    "wildcard": _like(_wildcard),
    "anything-but": _anything_but,
}


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    """Join parts with AND or OR; parts of the same kind are taken in."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    if not flat:
        return Constant(kind is And)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))
