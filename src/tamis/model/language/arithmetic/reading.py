"""Reading expressions: the alternatives of the grammar for arithmetic, and the conditions that are made of operands."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import cast

from tamis.model.language import limits
from tamis.model.language.lexer import TURNED, Piece
from tamis.model.language.literals import MeaningError
from tamis.model.language.nodes import (
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
    Property,
    Span,
)

__all__ = [
    "ArithmeticReader",
    "attribute_of",
    "condition_of",
    "expression_of",
    "is_literal",
    "n_operations",
    "operators_of",
]


def is_literal(expression: Expression) -> bool:
    """Whether an expression is a value that stands in the text."""
    return isinstance(expression, bool | int | float | Fraction | str | Instant)


def n_operations(expression: Expression) -> int:
    """Return how many operators, calls and arguments an expression has; walks without recursion."""
    count, waiting = 0, [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Arithmetic):
            count += 1
            waiting += (part.left, part.right)
        elif isinstance(part, Call):
            count += 1 + len(part.args)
            waiting += part.args
    return count


def operators_of(node: Calculated) -> Iterator[str]:
    """Yield the operators of arithmetic in a condition."""
    waiting = list(node.operands)
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Arithmetic):
            yield expression.op
            waiting += (expression.left, expression.right)
        elif isinstance(expression, Call):
            waiting += expression.args


def condition_of(op: str, operands: tuple[Expression, ...], span: Span | None, negated: bool = False) -> Node:
    """Return a condition on operands: of an attribute and literals if it is that, else `Calculated`.

    ``op`` is as in `Calculated`.

    >>> condition_of("<", (100, Property("price")), None)
    Compare(attribute='price', op='>', value=100, span=None)
    """
    first, *others = operands
    if isinstance(first, Property) and all(map(is_literal, others)):
        values = cast("list[Literal]", others)
        if op == "NULL":
            return IsNull(first.name, negated, span)
        if op == "BETWEEN":
            return Between(first.name, values[0], values[1], negated, span)
        return (
            IsIn(first.name, tuple(values), negated, span) if op == "IN" else Compare(first.name, op, values[0], span)
        )
    if op in TURNED or op in ("=", "<>"):
        second = others[0]
        if isinstance(second, Property) and is_literal(first):
            return Compare(second.name, TURNED.get(op, op), cast("Literal", first), span)
    for operand in operands:
        limits.OPERATIONS.check(n_operations(operand))
    return Calculated(op, operands, negated, span)


def expression_of(piece: Piece) -> Expression:
    """Return the expression of a piece: a name is an attribute."""
    if piece.type == "NAME":
        return Property(piece.value)
    if piece.type == "bare":
        compared: Compare | Calculated = piece.value
        return Property(compared.attribute) if isinstance(compared, Compare) else compared.operands[0]
    if piece.type == "operand":
        raise MeaningError("a condition is true or false, and not a number to calculate with", piece.start)
    value: Expression = piece.value
    return value


def attribute_of(piece: Piece, operator: str) -> str:
    """Return the name of an attribute, or refuse an operator that takes no other expression."""
    if piece.type != "NAME":
        raise MeaningError(f"{operator} asks about an attribute, not about an expression or a value", piece.start)
    name: str = piece.value
    return name


class ArithmeticReader:
    """The alternatives of the grammar for values and their comparisons. See `parse._Builder`."""

    def arithmetic(self, pieces: list[Piece]) -> Piece:
        """Read two operands and the operator between them."""
        left, operator, right = pieces
        node = Arithmetic(operator.value, expression_of(left), expression_of(right))
        return _expression(node, left, right)

    def negative(self, pieces: list[Piece]) -> Piece:
        """Read ``-operand``, which is ``-1 * operand``."""
        sign, operand = pieces
        return _expression(Arithmetic("*", -1, expression_of(operand)), sign, operand)

    def parenthesis(self, pieces: list[Piece]) -> Piece:
        """Read an expression in parentheses."""
        opened, inner, closed = pieces
        limits.DEPTH.check(inner.depth + 1)
        return Piece("expression", expression_of(inner), opened.start, closed.end, inner.depth + 1)

    def call(self, pieces: list[Piece]) -> Piece:
        """Read ``function(arguments)``."""
        function, arguments = pieces[0], pieces[2:-1:2]
        args = tuple(expression_of(piece) for piece in arguments)
        depth = max((piece.depth for piece in arguments), default=0) + 1
        limits.DEPTH.check(depth)
        return Piece("expression", Call(function.value, args), function.start, pieces[-1].end, depth)

    def bare_call(self, pieces: list[Piece]) -> Piece:
        """Read a function that is a condition: its result is true."""
        (call,) = pieces
        node = condition_of("=", (call.value, True), (call.start, call.end))
        return Piece("bare", node, call.start, call.end, call.depth)

    def comparison(self, pieces: list[Piece]) -> Piece:
        """Read ``value operator value``."""
        left, operator, right = pieces
        return _condition(operator.value, [left, right], left, right)

    def between(self, pieces: list[Piece]) -> Piece:
        """Read ``value [NOT] BETWEEN value AND value``."""
        value, low, high = pieces[0], pieces[-3], pieces[-1]
        return _condition("BETWEEN", [value, low, high], value, high, len(pieces) == 6)

    def is_in(self, pieces: list[Piece]) -> Piece:
        """Read ``value [NOT] IN (values)``."""
        value, values = pieces[0], pieces[-1]
        span, negated = (value.start, values.end), len(pieces) == 3
        node = condition_of("IN", (expression_of(value), *values.value), span, negated)
        return Piece("operand", node, *span, value.depth)

    def is_null(self, pieces: list[Piece]) -> Piece:
        """Read ``value IS [NOT] NULL``."""
        return _condition("NULL", pieces[:1], pieces[0], pieces[-1], len(pieces) == 4)


def _expression(node: Expression, first: Piece, last: Piece) -> Piece:
    return Piece("expression", node, first.start, last.end, max(first.depth, last.depth))


def _condition(op: str, operands: list[Piece], first: Piece, last: Piece, negated: bool = False) -> Piece:
    node = condition_of(op, tuple(map(expression_of, operands)), (first.start, last.end), negated)
    return Piece("operand", node, first.start, last.end, max(piece.depth for piece in operands))
