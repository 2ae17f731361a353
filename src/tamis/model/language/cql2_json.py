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

import shapely

from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.language import limits, literals
from tamis.model.language.json_values import (
    JSON_FOLDS,
    ValueReader,
    check_count,
    coordinates_of,
    is_fold,
    is_property,
    kind_of,
    number_of,
    wrong,
)
from tamis.model.language.lexer import TURNED, unsupported
from tamis.model.language.literals import ORDER_OF_FOLDED, Misreading, Refusal, unfolded
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.shapes import Operand
from tamis.model.spatial_functions import SPATIAL_FUNCTIONS
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
    except Refusal as error:
        raise SubscriptionError(error.problem, value=error.value) from None
    return from_json(document)


def from_json(document: object) -> Node:
    """Return the syntax tree of a decoded CQL2-JSON document.

    Examples
    --------
    >>> from_json({"op": "<", "args": [{"property": "price"}, 100]})
    Compare(attribute='price', op='<', value=100, span=None)
    >>> from_json({"op": "not", "args": [{"op": "<", "args": [{"property": "price"}]}]})
    Traceback (most recent call last):
    tamis.errors.SubscriptionError: args[0]: < takes 2 arguments, not 1
    """
    node = _Reader().condition(document, "", 0)
    limits.check_nesting(node)
    return node


class _Reader(ValueReader):
    """Reads one document; ``path`` is where it is, ``level`` how deep in AND, OR and NOT."""

    def condition(self, document: object, path: str, level: int) -> Node:
        """Read anything that is true or false."""
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
        read = _CONDITIONS.get(op)
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
            if isinstance(part, Between | IsIn | IsLike | TextTest | IsNull) and _can_negate(part):
                return dataclasses.replace(part, negated=True)
            return Not(part)
        if len(args) < 2:
            raise wrong(path, f"{op} takes 2 or more arguments, not {len(args)}", args)
        parts = tuple([self.condition(one, f"{path}args[{at}].", level + 1) for at, one in enumerate(args)])
        return And(parts) if op == "and" else Or(parts)

    def _comparison(self, op: str, args: Sequence[Any], path: str) -> Node:
        check_count(op, args, 2, path)
        here, there = f"{path}args[0].", f"{path}args[1]."
        if _is_folded_property(args[0]):
            return self._folded_comparison(op, args, path)
        if _is_folded_property(args[1]):
            return self._folded_comparison(TURNED.get(op, op), [args[1], args[0]], path)
        if is_property(args[0]):
            return Compare(self.attribute(args[0], here), op, self.literal(args[1], there))
        value = self.literal(args[0], here)
        return Compare(self.attribute(args[1], there), TURNED.get(op, op), value)

    def _between(self, args: Sequence[Any], path: str) -> Node:
        check_count("between", args, 3, path)
        attribute = self.attribute(args[0], f"{path}args[0].")
        return Between(attribute, self.literal(args[1], f"{path}args[1]."), self.literal(args[2], f"{path}args[2]."))

    def _is_in(self, args: Sequence[Any], path: str) -> Node:
        check_count("in", args, 2, path)
        (attribute, fold), listed = self.folded_attribute(args[0], f"{path}args[0]."), args[1]
        if not isinstance(listed, list | tuple):
            raise wrong(f"{path}args[1].", f"expected a list of values, not {kind_of(listed)}", listed, attribute)
        if not listed:
            raise wrong(f"{path}args[1].", "in needs at least one value", listed, attribute)
        self.budget.spend(limits.IN_VALUES, len(listed))
        place = f"{path}args[1]["
        values = tuple([self.listed(one, f"{place}{at}].") for at, one in enumerate(listed)])
        if not fold:
            return IsIn(attribute, values)
        return TextTest(attribute, "IN", tuple([_operand(one, fold, f"{path}args[1].") for one in values]), fold)

    def _is_like(self, args: Sequence[Any], path: str) -> Node:
        check_count("like", args, 2, path)
        (attribute, fold), there = self.folded_attribute(args[0], f"{path}args[0]."), f"{path}args[1]."
        pattern = self.string_operand(args[1], there, attribute)
        return (
            TextTest(attribute, "LIKE", (_operand(pattern, fold, there),), fold) if fold else IsLike(attribute, pattern)
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
        there = f"{path}args[1]."
        operand = _operand(self.literal(args[1], there), fold, there)
        return TextTest(attribute, "=", (operand,), fold, negated=op == "<>")

    def _is_null(self, args: Sequence[Any], path: str) -> Node:
        check_count("isNull", args, 1, path)
        return IsNull(self.attribute(args[0], f"{path}args[0]."))

    def _spatial_test(self, op: str, args: Sequence[Any], path: str) -> Node:
        check_count(op, args, 2, path)
        function, here, there = op.upper(), f"{path}args[0].", f"{path}args[1]."
        if is_property(args[0]):
            return SpatialTest(function, self.attribute(args[0], here), self.geometry(args[1], there))
        geometry = self.geometry(args[0], here)
        return SpatialTest(TURNED.get(function, function), self.attribute(args[1], there), geometry)

    def _within_ball(self, args: Sequence[Any], path: str) -> Node:
        check_count("v_within", args, 3, path)
        attribute, center = self.attribute(args[0], f"{path}args[0]."), args[1]
        if not isinstance(center, list | tuple) or not center:
            raise wrong(f"{path}args[1].", f"expected a list of numbers, not {kind_of(center)}", center, attribute)
        self.budget.spend(limits.COORDINATES, len(center))
        coordinates = coordinates_of(center, f"{path}args[1][")
        radius = number_of(args[2], f"{path}args[2].")
        if radius < 0:
            raise wrong(f"{path}args[2].", "a radius is not negative", radius, attribute)
        return WithinBall(attribute, coordinates, float(radius))


_CONDITIONS: dict[str, Callable[[_Reader, Sequence[Any], str], Node]] = {
    "between": _Reader._between,
    "in": _Reader._is_in,
    "like": _Reader._is_like,
    "ilike": _Reader._is_ilike,
    "matches": _Reader._is_match,
    "isNull": _Reader._is_null,
    "v_within": _Reader._within_ball,
}


def _can_negate(node: Between | IsIn | IsLike | TextTest | IsNull) -> bool:
    """Whether the text of a condition has a NOT of its own that it does not use."""
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
    known = (*_COMPARISONS, *_CONDITIONS, "and", "or", "not", *map(str.lower, SPATIAL_FUNCTIONS))
    right = {"!=": "<>", "==": "="}.get(op) or next((one for one in known if one.lower() == op.lower()), None)
    return f"there is no op {op!r}; write {right!r}" if right else f"the op {unsupported(op, sorted(known))}"


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
    written = _leaf(node, {"property": node.attribute})
    return _op("not", written) if isinstance(node, Between | IsIn | IsLike | IsNull) and node.negated else written


def _text_test(node: TextTest) -> dict[str, Any]:
    attribute = _folded({"property": node.attribute}, node.fold)
    if node.op == "MATCHES":
        written = _op("matches", attribute, node.operands[0])
    else:
        operands = [_folded(one, node.fold) for one in node.operands]
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
        return _op(node.op, attribute, _document(node.value))
    if isinstance(node, Between):
        return _op("between", attribute, _document(node.lo), _document(node.hi))
    if isinstance(node, IsIn):
        return _op("in", attribute, [_document(one) for one in node.values])
    if isinstance(node, IsLike):
        return _op("like", attribute, node.pattern)
    if isinstance(node, SpatialTest):
        return _op(node.function.lower(), attribute, _region(node.geometry))
    if isinstance(node, WithinBall):
        return _op("v_within", attribute, list(node.center), node.radius)
    return _op("isNull", attribute)


def _op(name: str, *args: object) -> dict[str, Any]:
    return {"op": name, "args": list(args)}


def _region(polygon: Operand) -> dict[str, object]:
    corners = literals.corners(polygon)
    if corners is not None:
        return {"bbox": list(corners)}
    if isinstance(polygon, shapely.MultiPolygon):
        return {"type": "MultiPolygon", "coordinates": [_rings(one) for one in polygon.geoms]}
    return {"type": "Polygon", "coordinates": _rings(polygon)}


def _rings(polygon: shapely.Polygon) -> list[object]:
    return [shapely.get_coordinates(ring).tolist() for ring in (polygon.exterior, *polygon.interiors)]


def _document(value: Literal) -> object:
    return {"timestamp": literals.instant_text(value)} if isinstance(value, Instant) else value
