"""The meaning of conditions on expressions: sets of values of attributes, or of values computed from attributes.

Two numbers are compared by their difference: all terms go to one side and the constant to the other, where it becomes
the end of a range. If one attribute is left, the condition is an ordinary one on it. Values of other types are
compared by `COMPARE`, which is -1, 0 or 1.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from tamis.errors import shorten
from tamis.model.derived.formulas import formula_name, formula_of
from tamis.model.derived.functions import COMPARE, DECIMAL, RELATIONS, find_function
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language.arithmetic.linear import Sum, as_literal, calculated
from tamis.model.language.arithmetic.reading import condition_of, is_literal
from tamis.model.language.arithmetic.sets import FALSE, RANGES, TRUE, joined, values_in
from tamis.model.language.arithmetic.writing import expression_text, literal_text, quoted
from tamis.model.language.lexer import TURNED
from tamis.model.language.nodes import Arithmetic, Calculated, Call, Expression, Instant, Literal, Node, Property
from tamis.model.schema import Schema
from tamis.model.subscription import AllOf, AnyOf, Predicate, Values
from tamis.model.types import (
    AttributeType,
    Boolean,
    Date,
    Decimal,
    Many,
    Mixed,
    Number,
    Region,
    ScalarType,
    String,
    Timestamp,
    type_of_value,
)
from tamis.model.value_set import MISSING, PRESENT
from tamis.model.values import UnfitError

__all__ = ["UnknownAttributeError", "bind_calculated", "learned_types"]

_TRUTH = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_LARGEST = int(1.7976931348623157e308)


class UnknownAttributeError(UnfitError):
    """An expression has an attribute that the schema does not know; a string in double quotes is read as one."""

    def __init__(self, problem: str, text: str | None) -> None:
        super().__init__(problem)
        #: The name that was probably meant as a string.
        self.text = text


def bind_calculated(
    schema: Schema, leaf: Calculated, negated: bool, bind_plain: Callable[[Node], Predicate]
) -> Predicate:
    """Return the predicate of a condition on expressions; ``bind_plain`` binds conditions on an attribute and literals.

    Raises `UnfitError` when types do not fit.
    """
    binder = _ExpressionBinder(schema, bind_plain)
    if leaf.is_time:
        _check_times(schema, leaf)
    negated = negated != leaf.negated
    first, *others = leaf.operands
    if leaf.op == "NULL":
        return binder.is_null(first, negated)
    if leaf.op == "BETWEEN":
        ends = [(">=", others[0]), ("<=", others[1])]
    else:
        ends = [("=" if leaf.op == "IN" else leaf.op, other) for other in others]
    parts = [binder.comparison(first, _OPPOSITE[op] if negated else op, other) for op, other in ends]
    return joined(AnyOf if (leaf.op == "IN") != negated else AllOf, parts)


class _ExpressionBinder:
    """Binds comparisons of two expressions."""

    def __init__(self, schema: Schema, bind_plain: Callable[[Node], Predicate]) -> None:
        self._schema = schema
        self._bind_plain = bind_plain

    def comparison(self, left: Expression, op: str, right: Expression) -> Predicate:
        """Return the predicate of ``left op right``."""
        plain = condition_of(op, (left, right), None)
        if not isinstance(plain, Calculated):
            return self._bind_plain(plain)
        if isinstance(right, Call) and not isinstance(left, Call) and is_literal(left):
            return self.comparison(right, TURNED.get(op, op), left)
        if (
            isinstance(left, Call)
            and left.name == COMPARE
            and len(left.args) == 2
            and right == 0
            and right is not False
        ):
            return self.comparison(left.args[0], op, left.args[1])
        text = right if op in ("=", "<>") and isinstance(right, Property) and not self._is_number(left) else None
        kinds = [self._kind(side, text) for side in (left, right)]
        if op not in ("=", "<>") and any(isinstance(kind, Mixed) for kind in kinds):
            raise UnfitError("values of several types have no order; compare them with =, <>, IN or A_*")
        if all(kind is None or isinstance(kind, Number | Decimal) for kind in kinds):
            decimals = all(isinstance(self._schema.get(operand), Decimal) for operand in _operands(left, right))
            return self._numbers(self._sum(left, decimals), op, self._sum(right, decimals))
        if is_literal(left) and is_literal(right) and kinds[0] == kinds[1]:
            return TRUE if _TRUTH[op](*(_constant(side) for side in (left, right))) else FALSE
        if isinstance(left, Call) and is_literal(right):
            assert isinstance(kinds[0], ScalarType)
            call = self._call(left)
            return values_in(_named(call), RANGES[op](kinds[0], kinds[0].from_literal(_literal(right))), negated=False)
        return self._order(left, right, kinds, op)

    def _is_number(self, side: Expression) -> bool:
        """Whether a side is known to be a number, so that no string can be meant on the other."""
        kind = self._schema.get(side.name) if isinstance(side, Property) else None
        return isinstance(kind, Number | Decimal) or isinstance(side, Arithmetic)

    def is_null(self, expression: Expression, negated: bool) -> Predicate:
        """Return the condition that an expression has no value or, negated, that it has one."""
        if is_literal(expression):
            return TRUE if negated else FALSE
        kind = self._kind(expression)
        if kind is not None and not isinstance(kind, Number | Decimal):
            term = expression if isinstance(expression, Property) else self._call(_as_call(expression))
            return Values(_named(term), PRESENT if negated else MISSING)
        total = self._sum(expression)
        parts: list[Predicate] = [Values(_named(term), PRESENT if negated else MISSING) for term in total.cancelled]
        if not total.is_constant:
            form = Sum({term: c for term, c in total.terms.items() if c}).scaled().expression
            parts.append(Values(_named(form), PRESENT if negated else MISSING))
        return joined(AllOf if negated else AnyOf, parts)

    def _numbers(self, left: Sum, op: str, right: Sum) -> Predicate:
        difference = left.plus(right, Fraction(-1))
        parts: list[Predicate] = [Values(_named(term), PRESENT) for term in difference.cancelled]
        if difference.is_constant:
            parts.append(TRUE if _TRUTH[op](difference.constant, 0) else FALSE)
            return joined(AllOf, parts)
        factor, form = Sum({term: c for term, c in difference.terms.items() if c}).scaled()
        bound = -difference.constant / factor
        parts.append(self._range(form, TURNED.get(op, op) if factor < 0 else op, bound))
        return joined(AllOf, parts)

    def _range(self, form: Expression, op: str, bound: Fraction) -> Predicate:
        """Return the condition that a sum stands in a relation to a number."""
        if isinstance(form, Call) and form.name == DECIMAL:
            attribute = form.args[0]
            assert isinstance(attribute, Property)
            kind = self._schema[attribute.name]
            units = bound * 10**kind.scale if isinstance(kind, Decimal) else Fraction(1, 2)
            if isinstance(kind, Decimal) and units.denominator == 1 and kind.first <= units <= kind.last:
                return values_in(attribute.name, RANGES[op](kind, units.numerator), negated=False)
        if abs(bound) > _LARGEST:  # every value is on one side of it
            return Values(_named(form), PRESENT) if _TRUTH[op](0, bound) else FALSE
        end = as_literal(bound)
        literal_text(end)  # `LimitError` for a fraction that could not be written, and so not be sent to a broker
        return values_in(_named(form), RANGES[op](Number(), end), negated=False)

    def _order(self, left: Expression, right: Expression, kinds: list[AttributeType | None], op: str) -> Predicate:
        """Return a comparison of two values of one type that are not numbers."""
        first, second = kinds
        if first is None or second is None or not first.agrees_with(second):
            words = [_words(side, kind) for side, kind in zip((left, right), kinds, strict=True)]
            problem = f"{words[0]} cannot be compared with {words[1]}"
            if isinstance(first, String) and isinstance(right, Property):  # perhaps meant as a string
                problem += f"; a string stands in single quotes: {quoted(right.name)}"
            elif any(isinstance(kind, Timestamp | Date) for kind in kinds):
                problem += "; a moment is written TIMESTAMP('2026-01-31T12:00:00Z'), a day DATE('2026-01-31')"
            elif isinstance(left, str):  # perhaps meant as an attribute
                problem += f'; an attribute is written without quotes, in JSON {{"property": {json.dumps(left)}}}'
            raise UnfitError(problem)
        sides = [side if isinstance(side, Property) else self._call(_as_call(side)) for side in (left, right)]
        if expression_text(sides[0]) > expression_text(sides[1]):
            sides, op = sides[::-1], TURNED.get(op, op)
        if sides[0] == sides[1]:
            return Values(_named(sides[0]), PRESENT) if _TRUTH[op](0, 0) else FALSE
        return values_in(_named(Call(COMPARE, tuple(sides))), RANGES[op](Number(), 0), negated=False)

    def _kind(self, side: Expression, text: Property | None = None) -> AttributeType | None:
        """Return the type of what an expression gives; None for a number that is a literal.

        ``text`` is an attribute that may be meant as a string: some write strings in double quotes.
        """
        if isinstance(side, Property):
            return self._attribute(side, text)
        if isinstance(side, Arithmetic):
            return Number()
        if isinstance(side, Call):
            function = find_function(side.name)
            if function is None and side.name in SPATIAL_FUNCTIONS:
                raise UnfitError(f"{side.name} compares an attribute with polygons; S_* compare two attributes, too")
            if function is None or side.name == DECIMAL:
                raise UnfitError(f"there is no function {side.name} in this process")
            return function.returns
        if isinstance(side, int | float | Fraction) and not isinstance(side, bool):
            return None
        return Boolean() if isinstance(side, bool) else type_of_value(side)

    def _attribute(self, side: Property, text: Property | None) -> ScalarType:
        kind = self._schema.get(side.name)
        if kind is None:
            hint = (
                ""
                if text is None
                else f"; if {shorten(text.name)} is a value, write it in single quotes: {quoted(text.name)}"
            )
            name = None if text is None else text.name
            raise UnknownAttributeError(f"unknown attribute {shorten(side.name)}{hint}", name)
        if not isinstance(kind, ScalarType):
            raise UnfitError(f"{side.name} is {kind.words}, which is not a single value to compare or calculate with")
        return kind

    def _sum(self, expression: Expression, decimals: bool = False) -> Sum:
        """Return the sum that a number is; beside ``decimals`` alone, a literal is the decimal that is written."""
        if isinstance(expression, Arithmetic):
            left, right = self._sum(expression.left, decimals), self._sum(expression.right, decimals)
            return calculated(expression.op, left, right)
        if isinstance(expression, Property | Call):
            kind = self._kind(expression)
            if not isinstance(kind, Number | Decimal):
                raise UnfitError(f"{_words(expression, kind)} is not a number to calculate with")
            if isinstance(kind, Decimal):
                return Sum({Call(DECIMAL, (expression, kind.scale)): Fraction(1)})
            term = self._call(expression) if isinstance(expression, Call) else expression
            return Sum({term: Fraction(1)})
        if isinstance(expression, int | float | Fraction) and not isinstance(expression, bool):
            return Sum({}, Fraction(repr(expression) if decimals and isinstance(expression, float) else expression))
        raise UnfitError(f"{shorten(expression)} is not a number to calculate with")

    def _call(self, call: Call) -> Call:
        """Return a call with its arguments in the form in which they are written; check their types."""
        function = find_function(call.name)
        assert function is not None
        if call.name in RELATIONS:
            return _relation(self._schema, call)
        if call.name == COMPARE and len(call.args) != 2:
            raise UnfitError(f"{COMPARE} takes 2 arguments, not {len(call.args)}")
        if function.takes is not None and len(function.takes) != len(call.args):
            raise UnfitError(f"{call.name} takes {len(function.takes)} arguments, not {len(call.args)}")
        kinds = [self._kind(arg) or Number() for arg in call.args]
        wanted = function.takes or (kinds[:1] * 2 if call.name == COMPARE else kinds)
        args = []
        for arg, kind, takes in zip(call.args, kinds, wanted, strict=True):
            if not (kind.agrees_with(takes) or (isinstance(kind, Decimal) and isinstance(takes, Number))):
                raise UnfitError(f"{call.name} takes {takes.words}, not {_words(arg, kind)}")
            args.append(self._argument(arg, kind))
        return Call(call.name, tuple(args))

    def _argument(self, arg: Expression, kind: AttributeType) -> Expression:
        if isinstance(kind, Number | Decimal):
            total = self._sum(arg)
            factor, form = total.scaled()
            return form if factor == 1 or total.is_constant else Arithmetic("*", as_literal(factor), form)
        return self._call(arg) if isinstance(arg, Call) else arg


def _relation(schema: Schema, call: Call) -> Call:
    """Return a relation of two attributes, the first by name in front; check that both are regions, or sets."""
    sides = [side for side in call.args if isinstance(side, Property)]
    if len(sides) != 2 or len(call.args) != 2:
        raise UnfitError(f"{call.name} compares two attributes, or an attribute with what stands in the text")
    kinds = [_kind_of(schema, side) for side in sides]
    wanted = Many if call.name.startswith("A_") else Region
    for side, kind in zip(sides, kinds, strict=True):
        if not isinstance(kind, wanted):
            needed = "several values: declare tamis.Many" if wanted is Many else "a region"
            raise UnfitError(f"{side.name} is {kind.words}, but {call.name} needs {needed}")
    first, second = kinds
    if isinstance(first, Region) and isinstance(second, Region) and first.geodetic != second.geodetic:
        raise UnfitError(f"only one of {sides[0].name} and {sides[1].name} is declared Region(geodetic=True)")
    if isinstance(first, Many) and not first.agrees_with(second):
        raise UnfitError(f"{_words(sides[0], first)} cannot be compared with {_words(sides[1], second)}")
    if sides[0].name <= sides[1].name:
        return call
    return Call(TURNED.get(call.name, call.name), (sides[1], sides[0]))


def _kind_of(schema: Schema, side: Property) -> AttributeType:
    kind = schema.get(side.name)
    if kind is None:
        raise UnknownAttributeError(f"unknown attribute {shorten(side.name)}: declare it in a schema", None)
    return kind


def _check_times(schema: Schema, leaf: Calculated) -> None:
    """Raise `UnfitError` unless both sides of a relation of time are moments, or both are days."""
    for side in leaf.operands:
        assert isinstance(side, Property)
        kind = _kind_of(schema, side)
        if not isinstance(kind, Timestamp | Date):
            raise UnfitError(f"{side.name} is {kind.words}, but the functions T_* need timestamps or dates")


def _operands(*expressions: Expression) -> Iterator[str]:
    """Yield the attributes of sums and products, and the functions as if they were attributes."""
    for expression in expressions:
        if isinstance(expression, Arithmetic):
            yield from _operands(expression.left, expression.right)
        elif isinstance(expression, Property | Call):
            yield expression.name


def _named(form: Expression) -> str:
    """Return the name under which a value stands in filters: an attribute's own, or that of a computed value."""
    if isinstance(form, Property):
        return form.name
    name = formula_name(expression_text(form))
    formula_of(name)  # raises `LimitError` if the form is larger than an expression may be
    return name


def _as_call(expression: Expression) -> Call:
    if not isinstance(expression, Call):
        raise UnfitError(f"{expression_text(expression)} is not an attribute or a function")
    return expression


def _literal(expression: Expression) -> Literal:
    assert not isinstance(expression, Property | Arithmetic | Call)
    return expression


def _constant(side: Expression) -> Any:
    """Return the value of a literal that is not a number."""
    return side.microseconds if isinstance(side, Instant) else side


def _words(side: Expression, kind: AttributeType | None) -> str:
    """Return the name of an operand for a message."""
    words = "a number" if kind is None else kind.words
    return f"{expression_text(side)} ({words})" if not isinstance(side, Arithmetic) else words


def learned_types(leaf: Calculated, schema: Schema) -> dict[str, AttributeType]:
    """Return the types of attributes that a condition on expressions shows and a schema does not know.

    Arithmetic shows numbers, and functions show what they take. Attributes that are compared by order have one type:
    that of the others, or a number when nothing else is known. Equality shows no type, because a name in double quotes
    is often meant to be a string.
    """
    if leaf.is_time:
        kind = next((schema[name] for name in leaf.attributes if name in schema), Timestamp())
        return dict.fromkeys((name for name in leaf.attributes if name not in schema), kind)
    types: dict[str, AttributeType] = {}
    sides: list[AttributeType] = []
    unknown: list[str] = []
    for operand in leaf.operands:
        if isinstance(operand, Property):
            known_type = schema.get(operand.name)
            if known_type is None:
                unknown.append(operand.name)
            else:
                sides.append(known_type)
        else:
            _learn_inside(operand, schema, types)
            shown = _shown(operand)
            sides += [] if shown is None else [shown]
    if sides or leaf.op in ("<", "<=", ">", ">=", "BETWEEN"):
        shares = not (leaf.op in ("=", "<>", "IN") and all(isinstance(operand, Property) for operand in leaf.operands))
        if shares:
            types = dict.fromkeys(unknown, sides[0] if sides else Number()) | types
    return types


def _learn_inside(expression: Expression, schema: Schema, types: dict[str, AttributeType]) -> None:
    if isinstance(expression, Arithmetic):
        for part in (expression.left, expression.right):
            if isinstance(part, Property) and part.name not in schema:
                types[part.name] = Number()
            _learn_inside(part, schema, types)
    elif isinstance(expression, Call):
        function = find_function(expression.name)
        takes = (function.takes if function else None) or ()
        for i, part in enumerate(expression.args):
            if isinstance(part, Property) and part.name not in schema and i < len(takes):
                types[part.name] = takes[i]
            _learn_inside(part, schema, types)


def _shown(expression: Expression) -> AttributeType | None:
    if isinstance(expression, Arithmetic):
        return Number()
    if isinstance(expression, Call):
        function = find_function(expression.name)
        return None if function is None else function.returns
    return type_of_value(expression) if not isinstance(expression, Property) else None
