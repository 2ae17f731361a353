"""CQL2-JSON: the wire form of the language, read strictly and written canonically.

An operation is ``{"op": ..., "args": [...]}``, an attribute ``{"property": name}``, a moment
``{"timestamp": text}`` or ``{"date": text}``, a region GeoJSON or ``{"bbox": [...]}``; numbers, strings and
booleans are themselves. Whatever else a document holds is refused by name and place (``args[1].args[0]``),
never ignored: a filter that is half understood delivers the wrong events.

CQL2-JSON has no NOT BETWEEN, NOT IN, NOT LIKE, NOT MATCHES or IS NOT NULL of its own, but puts ``not`` around. A
``not`` directly around one of these is read as the negated condition. So `from_json` undoes `to_json`, but for
one thing: ``NOT (a IN (1))`` returns as ``a NOT IN (1)``, which means the same.

Limits are those of the text that says the same (see `limits`); recursion is bounded by them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.derived.functions import RELATIONS, find_function
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS, constant_relation
from tamis.model.geojson import to_geojson
from tamis.model.language import limits, literals
from tamis.model.language.arithmetic.reading import condition_of
from tamis.model.language.arithmetic.writing import calculated_json, literal_json
from tamis.model.language.functions.suggestions import unsupported
from tamis.model.language.json_values import (
    JSON_ARRAYS,
    JSON_CLOCKS,
    JSON_FOLDS,
    JSON_TEMPORAL,
    ValueReader,
    check_count,
    is_fold,
    is_property,
    kind_of,
    number_of,
    placed,
    wrong,
)
from tamis.model.language.lexer import TURNED
from tamis.model.language.literals import (
    ORDER_OF_FOLDED,
    MeaningError,
    Misreading,
    check_cosine,
    check_distance,
    fitting,
    unfolded,
)
from tamis.model.language.nodes import (
    And,
    ArrayTest,
    Between,
    Calculated,
    Call,
    ClockTest,
    Compare,
    Constant,
    CosineTest,
    DistanceTest,
    IsIn,
    IsLike,
    IsNull,
    NetworkTest,
    Node,
    Not,
    Or,
    Property,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.shapes import Operand
from tamis.model.text.folding import Fold, fold_text

__all__ = ["from_json", "from_json_text", "to_json"]

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_DEEPEST = limits.JSON_DEPTH.most // 2


def from_json_text(text: str) -> Node:
    """Return the syntax tree of a CQL2-JSON document that comes as text; see `from_json`."""
    limits.TOTAL.check(len(text))
    try:
        document = literals.strict_json(text)
    except Misreading as error:
        raise SubscriptionSyntaxError(text, error.position, error.expected) from None
    except MeaningError as error:
        raise SubscriptionError(error.problem, value=error.value) from None
    return from_json(document)


def from_json(document: object, *, is_written: bool = False) -> Node:
    """Return the syntax tree of a decoded CQL2-JSON document; one that a broker wrote (``is_written``) may be larger.

    Examples
    --------
    >>> from_json({"op": "<", "args": [{"property": "price"}, 100]})
    Compare(attribute='price', op='<', value=100, span=None)
    >>> from_json({"op": "not", "args": [{"op": "<", "args": [{"property": "price"}]}]})
    Traceback (most recent call last):
    tamis.errors.SubscriptionError: args[0]: < takes 2 arguments, not 1
    """
    node = _Reader(limits.WRITTEN_TIMES if is_written else 1).condition(document, "", 0)
    limits.check_nesting(node)
    if not is_written:
        limits.check_costs(node)
    return node


class _Reader(ValueReader):
    """Reads one document; ``path`` is the current position, ``level`` the depth in AND, OR and NOT."""

    def condition(self, document: object, path: str, level: int) -> Node:
        """Read a condition."""
        if isinstance(document, bool):
            self.budget.spend(limits.TEXT, limits.CONDITION_TEXT)
            return Constant(document)
        if isinstance(document, Mapping) and document.keys() == {"property"}:
            return Compare(self.attribute(document, path), "=", True)
        op, args = self._operation(document, path)
        if op in ("and", "or", "not"):
            return self._connective(op, args, path, level)
        if op in _COMPARISONS:
            return self._comparison(op, args, path)
        if op.upper() in SPATIAL_FUNCTIONS and op.islower():
            return self._spatial_test(op, args, path)
        if op in JSON_ARRAYS or op == "a_containedby":  # the latter as versions up to 0.9 wrote it
            return self._array_test(op, args, path)
        if op in JSON_TEMPORAL:
            check_count(op, args, 2, path)
            return self.temporal_test(JSON_TEMPORAL[op], args, path)
        if op in JSON_CLOCKS:
            return self.clock_test(op.upper(), args, path)
        read = _CONDITIONS.get(op)
        if read is None and op not in RELATIONS and find_function(op) is not None:
            return condition_of("=", (self.expression(document, path), True), None)
        if read is None:
            raise wrong(path, _unknown(op), op)
        return read(self, args, path)

    def _operation(self, document: object, path: str) -> tuple[str, Sequence[Any]]:
        if not isinstance(document, Mapping) or document.keys() != {"op", "args"}:
            raise wrong(path, f'expected {{"op": ..., "args": [...]}}, not {kind_of(document)}', document)
        op, args = document["op"], document["args"]
        if not isinstance(op, str):
            raise wrong(f"{path}op.", f"expected a string, not {kind_of(op)}", op)
        if not isinstance(args, list | tuple):
            raise wrong(f"{path}args.", f"expected a list, not {kind_of(args)}", args)
        return op, args

    def _connective(self, op: str, args: Sequence[Any], path: str, level: int) -> Node:
        if level >= _DEEPEST:
            limits.JSON_DEPTH.check(2 * level + 2)
        if op == "not":
            self.budget.spend(limits.TEXT, limits.NOT_TEXT)
            check_count(op, args, 1, path)
            part = self.condition(args[0], f"{path}args[0].", level + 1)
            if isinstance(part, Between | IsIn | IsLike | TextTest | IsNull | Calculated) and _can_negate(part):
                return dataclasses.replace(part, negated=True)
            return Not(part)
        if len(args) < 2:
            raise wrong(path, f"{op} takes 2 or more arguments, not {len(args)}", args)
        parts = tuple([self.condition(arg, f"{path}args[{at}].", level + 1) for at, arg in enumerate(args)])
        return And(parts) if op == "and" else Or(parts)

    def _comparison(self, op: str, args: Sequence[Any], path: str) -> Node:
        check_count(op, args, 2, path)
        left_path, right_path = f"{path}args[0].", f"{path}args[1]."
        if _is_folded_property(args[0]):
            return self._folded_comparison(op, args, path)
        if _is_folded_property(args[1]):
            return self._folded_comparison(TURNED.get(op, op), [args[1], args[0]], path)
        return condition_of(op, (self.expression(args[0], left_path), self.expression(args[1], right_path)), None)

    def _between(self, args: Sequence[Any], path: str) -> Node:
        check_count("between", args, 3, path)
        operands = tuple([self.expression(arg, f"{path}args[{at}].") for at, arg in enumerate(args)])
        return condition_of("BETWEEN", operands, None)

    def _is_in(self, args: Sequence[Any], path: str) -> Node:
        check_count("in", args, 2, path)
        listed, attribute, fold = args[1], "", Fold.NONE
        if _is_folded_property(args[0]):
            attribute, fold = self.folded_attribute(args[0], f"{path}args[0].")
        if not isinstance(listed, list | tuple):
            raise wrong(f"{path}args[1].", f"expected a list of values, not {kind_of(listed)}", listed)
        if not listed:
            raise wrong(f"{path}args[1].", "in needs at least one value", listed)
        self.budget.spend(limits.IN_VALUES, len(listed))
        list_path = f"{path}args[1]["
        if fold:
            texts = [self.listed(item, f"{list_path}{at}].") for at, item in enumerate(listed)]
            return TextTest(attribute, "IN", tuple([_operand(text, fold, f"{path}args[1].") for text in texts]), fold)
        values = [self.listed_expression(item, f"{list_path}{at}].") for at, item in enumerate(listed)]
        return condition_of("IN", (self.expression(args[0], f"{path}args[0]."), *values), None)

    def _is_like(self, args: Sequence[Any], path: str) -> Node:
        check_count("like", args, 2, path)
        (attribute, fold), pattern_path = self.folded_attribute(args[0], f"{path}args[0]."), f"{path}args[1]."
        pattern = self.string_operand(args[1], pattern_path, attribute)
        return (
            TextTest(attribute, "LIKE", (_operand(pattern, fold, pattern_path),), fold)
            if fold
            else IsLike(attribute, pattern)
        )

    def _is_ilike(self, args: Sequence[Any], path: str) -> Node:
        check_count("ilike", args, 2, path)
        attribute = self.attribute(args[0], f"{path}args[0].")
        pattern = self.string_operand(args[1], f"{path}args[1].", attribute)
        return TextTest(attribute, "LIKE", (fold_text(pattern, Fold.CASE),), Fold.CASE)

    def _is_match(self, args: Sequence[Any], path: str) -> Node:
        check_count("matches", args, 2, path)
        attribute, fold = self.folded_attribute(args[0], f"{path}args[0].")
        return TextTest(attribute, "MATCHES", (self.string_operand(args[1], f"{path}args[1].", attribute),), fold)

    def _folded_comparison(self, op: str, args: Sequence[Any], path: str) -> Node:
        attribute, fold = self.folded_attribute(args[0], f"{path}args[0].")
        if op not in ("=", "<>"):
            raise wrong(path, ORDER_OF_FOLDED, op, attribute)
        right_path = f"{path}args[1]."
        operand = _operand(self.literal(args[1], right_path), fold, right_path)
        return TextTest(attribute, "=", (operand,), fold, negated=op == "<>")

    def _is_null(self, args: Sequence[Any], path: str) -> Node:
        check_count("isNull", args, 1, path)
        return condition_of("NULL", (self.expression(args[0], f"{path}args[0]."),), None)

    def _spatial_test(self, op: str, args: Sequence[Any], path: str) -> Node:
        check_count(op, args, 2, path)
        function, left_path, right_path = op.upper(), f"{path}args[0].", f"{path}args[1]."
        if is_property(args[0]) and is_property(args[1]):
            return self._relation(function, args, path)
        if is_property(args[0]):
            return SpatialTest(function, self.attribute(args[0], left_path), self.geometry(args[1], right_path))
        geometry = self.geometry(args[0], left_path)
        if not is_property(args[1]):
            other = self.geometry(args[1], right_path)
            return Constant(placed(path, fitting, constant_relation, 0, function, geometry, other))
        return SpatialTest(TURNED.get(function, function), self.attribute(args[1], right_path), geometry)

    def _array_test(self, op: str, args: Sequence[Any], path: str) -> Node:
        check_count(op, args, 2, path)
        if is_property(args[0]) and is_property(args[1]):
            return self._relation(op.upper(), args, path)
        is_first = is_property(args[0])
        attribute = self.attribute(args[0 if is_first else 1], f"{path}args[{0 if is_first else 1}].")
        listed, list_path = args[1 if is_first else 0], f"{path}args[{1 if is_first else 0}]"
        if not isinstance(listed, list | tuple):
            raise wrong(f"{list_path}.", f"expected a list of values, not {kind_of(listed)}", listed, attribute)
        self.budget.spend(limits.IN_VALUES, len(listed))
        values = tuple([self.listed(item, f"{list_path}[{at}].") for at, item in enumerate(listed)])
        function = op.upper() if is_first else TURNED.get(op.upper(), op.upper())
        return ArrayTest(function, attribute, values)

    def _relation(self, function: str, args: Sequence[Any], path: str) -> Node:
        sides = (Property(self.attribute(arg, f"{path}args[{at}].")) for at, arg in enumerate(args))
        return condition_of("=", (Call(function, tuple(sides)), True), None)

    def _within_ball(self, args: Sequence[Any], path: str) -> Node:
        check_count("v_within", args, 3, path)
        attribute, coordinates = self.vector_of(args, path)
        radius = number_of(args[2], f"{path}args[2].")
        if radius < 0:
            raise wrong(f"{path}args[2].", "a radius must not be negative", radius, attribute)
        return WithinBall(attribute, coordinates, float(radius))

    def _network_test(self, args: Sequence[Any], path: str) -> Node:
        check_count("ip_within", args, 2, path)
        attribute = self.attribute(args[0], f"{path}args[0].")
        return NetworkTest(attribute, self.string_operand(args[1], f"{path}args[1].", attribute))

    def _cosine_test(self, args: Sequence[Any], path: str) -> Node:
        check_count("v_cosine", args, 3, path)
        attribute, direction = self.vector_of(args, path)
        least = number_of(args[2], f"{path}args[2].")
        placed(f"{path}args[2].", check_cosine, direction, least, 0)
        return CosineTest(attribute, direction, float(least))

    def _within_distance(self, args: Sequence[Any], path: str) -> Node:
        if len(args) != 4:
            check_count("s_dwithin", args, 3, path)
        at, other = (0, 1) if is_property(args[0]) else (1, 0)
        attribute = self.attribute(args[at], f"{path}args[{at}].")
        geometry = self.geometry(args[other], f"{path}args[{other}].")
        distance = number_of(args[2], f"{path}args[2].")
        unit = self.string_operand(args[3], f"{path}args[3].", attribute) if len(args) == 4 else None
        placed(f"{path}args[2].", check_distance, distance, unit, 0)
        return DistanceTest(attribute, geometry, float(distance), unit)


_CONDITIONS: dict[str, Callable[[_Reader, Sequence[Any], str], Node]] = {
    "between": _Reader._between,
    "in": _Reader._is_in,
    "like": _Reader._is_like,
    "ilike": _Reader._is_ilike,
    "matches": _Reader._is_match,
    "isNull": _Reader._is_null,
    "v_within": _Reader._within_ball,
    "v_cosine": _Reader._cosine_test,
    "ip_within": _Reader._network_test,
    "s_dwithin": _Reader._within_distance,
}


def _can_negate(node: Between | IsIn | IsLike | TextTest | IsNull | Calculated) -> bool:
    """Whether the text of a condition has a NOT of its own that it does not use."""
    if isinstance(node, Calculated) and node.op not in ("BETWEEN", "IN", "NULL"):
        return False
    return not (node.negated or (isinstance(node, TextTest) and node.op == "="))


def _is_folded_property(document: object) -> bool:
    """Whether this is CASEI or ACCENTI of an attribute; what else is wrong with it is found out by reading it."""
    while is_fold(document) and isinstance(document["args"], list | tuple) and len(document["args"]) == 1:  # type: ignore[index]
        document = document["args"][0]  # type: ignore[index]
        if is_property(document):
            return True
    return False


def _operand(value: object, fold: Fold, path: str) -> str:
    problem = unfolded(value, fold)
    if problem is not None:
        raise wrong(path, problem, value)
    assert isinstance(value, str)
    return value


def _unknown(op: str) -> str:
    operators = (*_COMPARISONS, *_CONDITIONS, "and", "or", "not")
    operators += (*map(str.lower, SPATIAL_FUNCTIONS), *JSON_ARRAYS, *JSON_TEMPORAL, *JSON_CLOCKS)
    right = {"!=": "<>", "==": "="}.get(op) or next(
        (operator for operator in operators if _plain(operator) == _plain(op)), None
    )
    return f"unknown op {op!r}; write {right!r}" if right else f"the op {unsupported(op, sorted(operators))}"


def _plain(op: str) -> str:
    return op.lower().replace("_", "")


def to_json(node: Node) -> dict[str, Any] | bool:
    """Return the CQL2-JSON document of a tree; a tree that is TRUE or FALSE as a whole is that boolean.

    Examples
    --------
    >>> to_json(IsIn("symbol", ("IBM", "SAP"), negated=True))
    {'op': 'not', 'args': [{'op': 'in', 'args': [{'property': 'symbol'}, ['IBM', 'SAP']]}]}
    """
    limits.check_nesting(node)
    return _written(node)


def _written(node: Node) -> dict[str, Any] | bool:
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, And | Or):
        return _op("and" if isinstance(node, And) else "or", *map(_written, node.parts))
    if isinstance(node, Not):
        return _op("not", _written(node.part))
    if isinstance(node, TextTest):
        return _text_test(node)
    if isinstance(node, Calculated):
        return calculated_json(node)
    written = _leaf(node, {"property": node.attribute})
    return _op("not", written) if isinstance(node, Between | IsIn | IsLike | IsNull) and node.negated else written


def _text_test(node: TextTest) -> dict[str, Any]:
    attribute = _folded({"property": node.attribute}, node.fold)
    if node.op == "MATCHES":
        written = _op("matches", attribute, node.operands[0])
    else:
        operands = [_folded(operand, node.fold) for operand in node.operands]
        if node.op == "=":
            return _op("<>" if node.negated else "=", attribute, operands[0])
        written = _op("in", attribute, operands) if node.op == "IN" else _op("like", attribute, operands[0])
    return _op("not", written) if node.negated else written


def _folded(document: object, fold: Fold) -> object:
    for name, bit in reversed(JSON_FOLDS.items()):
        document = _op(name, document) if fold & bit else document
    return document


def _leaf(node: Node, attribute: dict[str, str]) -> dict[str, Any]:
    if isinstance(node, Compare):
        return _op(node.op, attribute, literal_json(node.value))
    if isinstance(node, Between):
        return _op("between", attribute, literal_json(node.lo), literal_json(node.hi))
    if isinstance(node, IsIn):
        return _op("in", attribute, [literal_json(value) for value in node.values])
    if isinstance(node, IsLike):
        return _op("like", attribute, node.pattern)
    if isinstance(node, SpatialTest):
        return _op(node.function.lower(), attribute, _region(node.geometry))
    if isinstance(node, ArrayTest):
        name = next(name for name, function in JSON_ARRAYS.items() if function == node.function)
        return _op(name, attribute, [literal_json(value) for value in node.values])
    if isinstance(node, WithinBall):
        return _op("v_within", attribute, list(node.center), node.radius)
    if isinstance(node, CosineTest):
        return _op("v_cosine", attribute, list(node.direction), node.least)
    if isinstance(node, NetworkTest):
        return _op("ip_within", attribute, node.network)
    if isinstance(node, ClockTest):
        return _op(node.function.lower(), attribute, *node.operands, node.zone)
    if isinstance(node, DistanceTest):
        unit = () if node.unit is None else (node.unit,)
        return _op("s_dwithin", attribute, _region(node.geometry), node.distance, *unit)
    return _op("isNull", attribute)


def _op(name: str, *args: object) -> dict[str, Any]:
    return {"op": name, "args": list(args)}


def _region(polygon: Operand) -> dict[str, object]:
    corners = literals.corners(polygon)
    if corners is not None:
        return {"bbox": list(corners)}
    return to_geojson(polygon)
