"""Writing expressions, as CQL2 text and as CQL2-JSON; both read back as the same expression."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tamis.errors import SubscriptionError
from tamis.model.derived.functions import COMPARE, DECIMAL, RELATIONS
from tamis.model.language import limits
from tamis.model.language.arithmetic.reading import condition_of, n_operations
from tamis.model.language.lexer import is_plain_name
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import (
    And,
    Arithmetic,
    Between,
    Calculated,
    Call,
    Compare,
    Expression,
    Instant,
    IsIn,
    IsNull,
    Literal,
    Node,
    Or,
    Property,
)
from tamis.model.values import INT64_MIN, UINT64_MAX

__all__ = [
    "calculated_json",
    "calculated_text",
    "expression_text",
    "literal_json",
    "literal_text",
    "name_text",
    "quoted",
    "with_expression",
    "written_form",
]

#: How tightly operators bind; ``^`` takes no operator on either side without parentheses.
_TIGHTNESS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "div": 2, "^": 3}
#: The relation of time that a comparison of two moments is. One that allows equality compares half-open intervals.
_RELATIONS_OF_TIME = {"<": "t_before", ">": "t_after", "=": "t_equals", "<=": "t_intersects", ">=": "t_intersects"}
#: Integers are written in digits of 53 bits, and powers of two up to 2**1000 as float64.
_LIMB_BITS, _LIMB, _LARGEST_POWER = 53, 2**53, 1_000


def name_text(name: str) -> str:
    """Return the name of an attribute, in double quotes where it needs them."""
    return name if is_plain_name(name) else '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    """Return a string in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def literal_text(value: Literal) -> str:
    """Return a literal; ``repr`` of a float has the shortest digits that read back as it.

    >>> literal_text(0.1), literal_text(Fraction(-1, 3))
    ('0.1', '(-1 / 3)')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Instant):
        return f"TIMESTAMP('{instant_text(value)}')"
    if isinstance(value, Fraction):
        return f"({expression_text(_division(value))})"
    if isinstance(value, float) and not math.isfinite(value):
        raise SubscriptionError("NaN and infinity cannot be written", value=value)
    return repr(float(value)) if isinstance(value, float) else repr(int(value))


def _division(value: Fraction) -> Arithmetic:
    """Return a division of literals that is exactly a fraction; `LimitError` when it cannot be read again."""
    division = Arithmetic("/", _integer(value.numerator), _integer(value.denominator))
    limits.OPERATIONS.check(n_operations(division))
    return division


def _integer(value: int) -> Expression:
    """Return literals that give an integer of any size, each of which is exact: a sum of multiples of powers of two."""
    if INT64_MIN <= value <= UINT64_MAX:
        return value
    total: Expression | None = None
    sign, rest, shift = (1 if value > 0 else -1), abs(value), 0
    while rest:
        rest, digit = divmod(rest, _LIMB)
        if digit:
            part: Expression = sign * digit
            for power in range(0, shift, _LARGEST_POWER):
                part = Arithmetic("*", part, 2.0 ** min(shift - power, _LARGEST_POWER))
            total = part if total is None else Arithmetic("+", total, part)
        shift += _LIMB_BITS
    assert total is not None
    return total


def expression_text(expression: Expression) -> str:
    """Return an expression with parentheses only where it needs them.

    >>> expression_text(Arithmetic("*", Arithmetic("+", Property("a"), 1), Property("b c")))
    '(a + 1) * "b c"'
    """
    if isinstance(expression, Property):
        return name_text(expression.name)
    if isinstance(expression, Call):
        return f"{expression.name}({', '.join(map(expression_text, expression.args))})"
    if not isinstance(expression, Arithmetic):
        return literal_text(expression)
    own = _TIGHTNESS[expression.op]
    left = _operand(expression.left, own + (expression.op == "^"))
    return f"{left} {expression.op} {_operand(expression.right, own + 1)}"


def _operand(expression: Expression, least: int) -> str:
    text = expression_text(expression)
    return f"({text})" if isinstance(expression, Arithmetic) and _TIGHTNESS[expression.op] < least else text


def calculated_text(node: Calculated) -> str:
    """Return a condition on expressions."""
    if node.is_time:
        sides = (
            f"INTERVAL({', '.join(map(_end_text, side))})" if len(side) > 1 else _end_text(*side)
            for side in _times(node)
        )
        return f"{_RELATIONS_OF_TIME[node.op].upper()}({', '.join(sides)})"
    first, *others = map(expression_text, node.operands)
    negation = "NOT " if node.negated else ""
    if node.op == "NULL":
        return f"{first} IS {negation}NULL"
    if node.op == "BETWEEN":
        return f"{first} {negation}BETWEEN {others[0]} AND {others[1]}"
    return f"{first} {negation}IN ({', '.join(others)})" if node.op == "IN" else f"{first} {node.op} {others[0]}"


def _times(node: Calculated) -> list[tuple[Expression | None, ...]]:
    """Return the two moments of a relation of time, or intervals of which one end has no bound: None.

    >>> _times(Calculated("<=", (Property("a"), Property("b"))))
    [(Property(name='a'), None), (None, Property(name='b'))]
    """
    first, second = node.operands
    if node.op == "<=":
        return [(first, None), (None, second)]
    return [(None, first), (second, None)] if node.op == ">=" else [(first,), (second,)]


def _end_text(end: Expression | None) -> str:
    return "'..'" if end is None else expression_text(end)


def _end_json(end: Expression | None) -> object:
    return ".." if end is None else _expression_json(end)


def literal_json(value: Literal) -> object:
    """Return a literal as CQL2-JSON has it."""
    if isinstance(value, Fraction):
        return _expression_json(_division(value))
    return {"timestamp": instant_text(value)} if isinstance(value, Instant) else value


def _expression_json(expression: Expression) -> object:
    if isinstance(expression, Property):
        return {"property": expression.name}
    if isinstance(expression, Call):
        op = RELATIONS.get(expression.name, expression.name)
        return {"op": op, "args": [*map(_expression_json, expression.args)]}
    if isinstance(expression, Arithmetic):
        return {"op": expression.op, "args": [_expression_json(expression.left), _expression_json(expression.right)]}
    return literal_json(expression)


def calculated_json(node: Calculated) -> dict[str, Any]:
    """Return a condition on expressions as CQL2-JSON has it."""
    if node.is_time:
        sides = [[*map(_end_json, side)] for side in _times(node)]
        args = [{"interval": side} if len(side) > 1 else side[0] for side in sides]
        return {"op": _RELATIONS_OF_TIME[node.op], "args": args}
    first, *others = map(_expression_json, node.operands)
    args = [first, others] if node.op == "IN" else [first, *others]
    written = {"op": {"NULL": "isNull", "BETWEEN": "between", "IN": "in"}.get(node.op, node.op), "args": args}
    return {"op": "not", "args": [written]} if node.negated else written


def written_form(expression: Expression) -> Expression:
    """Return the expression of a computed value as a user would write it: a decimal is an attribute like any other."""
    if isinstance(expression, Call):
        if expression.name == DECIMAL:
            return expression.args[0]
        return Call(expression.name, tuple(map(written_form, expression.args)))
    if isinstance(expression, Arithmetic):
        return Arithmetic(expression.op, written_form(expression.left), written_form(expression.right))
    return expression


def with_expression(node: Node, expression: Expression) -> Node:
    """Return conditions on one name as conditions on an expression; `COMPARE` with 0 becomes a comparison."""
    if isinstance(node, And | Or):
        return type(node)(tuple(with_expression(part, expression) for part in node.parts))
    if isinstance(node, Compare):
        is_order = isinstance(expression, Call) and expression.name == COMPARE and node.value == 0
        sides = expression.args if is_order and isinstance(expression, Call) else (expression, node.value)
        return condition_of(node.op, tuple(sides), None)
    if isinstance(node, Between):
        return condition_of("BETWEEN", (expression, node.lo, node.hi), None, node.negated)
    if isinstance(node, IsIn):
        return condition_of("IN", (expression, *node.values), None, node.negated)
    return condition_of("NULL", (expression,), None, node.negated) if isinstance(node, IsNull) else node
