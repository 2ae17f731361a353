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
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import shapely

from tamis.errors import SubscriptionError, SubscriptionSyntaxError, shorten
from tamis.model import values
from tamis.model.language import limits, literals
from tamis.model.language.functions import SPATIAL_FUNCTIONS
from tamis.model.language.lexer import FOLDS, TURNED, unsupported
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
from tamis.model.text.folding import Fold, fold_text
from tamis.model.values import UnfitError

__all__ = ["from_json", "from_json_text", "to_json"]

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_FOLDS = {name.lower(): fold for name, fold in FOLDS.items()}
_DEEPEST = limits.JSON_DEPTH.most // 2
_INSTANT_TEXT = len("DATE('2026-01-31')")
_BOOLEAN_TEXT = len("TRUE,")


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


def _wrong(path: str, problem: str, value: object = None, attribute: str | None = None) -> SubscriptionError:
    """Return the error about what stands at a path; ``path`` is empty or ends with a dot."""
    return SubscriptionError(f"{path[:-1]}: {problem}" if path else problem, attribute, value)


class _Reader:
    """Reads one document; ``path`` is where it is, ``level`` how deep in AND, OR and NOT."""

    def __init__(self) -> None:
        self._budget = limits.Budget()
        self._budget.spend(limits.TEXT, -limits.CONDITION_TEXT)  # n conditions have n - 1 connectives

    def condition(self, document: object, path: str, level: int) -> Node:
        """Read anything that is true or false."""
        if isinstance(document, bool):
            self._budget.spend(limits.TEXT, limits.CONDITION_TEXT)
            return Constant(document)
        if isinstance(document, Mapping) and document.keys() == {"property"}:
            return Compare(self._attribute(document, path), "=", True)
        op, args = self._operation(document, path)
        if op in ("and", "or", "not"):
            return self._connective(op, args, path, level)
        if op in _COMPARISONS:
            return self._comparison(op, args, path)
        if op.upper() in SPATIAL_FUNCTIONS and op.islower():
            return self._spatial_test(op, args, path)
        read = _CONDITIONS.get(op)
        if read is None:
            raise _wrong(path, _unknown(op), op)
        return read(self, args, path)

    def _operation(self, document: object, path: str) -> tuple[str, Sequence[Any]]:
        if not isinstance(document, Mapping) or document.keys() != {"op", "args"}:
            raise _wrong(path, f'expected {{"op": ..., "args": [...]}}, not {_kind(document)}', document)
        op, args = document["op"], document["args"]
        if not isinstance(op, str):
            raise _wrong(f"{path}op.", f"expected a string, not {_kind(op)}", op)
        if not isinstance(args, list | tuple):
            raise _wrong(f"{path}args.", f"expected a list, not {_kind(args)}", args)
        return op, args

    def _connective(self, op: str, args: Sequence[Any], path: str, level: int) -> Node:
        if level >= _DEEPEST:
            limits.JSON_DEPTH.check(2 * level + 2)
        if op == "not":
            self._budget.spend(limits.TEXT, limits.NOT_TEXT)
            _count(op, args, 1, path)
            part = self.condition(args[0], f"{path}args[0].", level + 1)
            if isinstance(part, Between | IsIn | IsLike | TextTest | IsNull) and _can_negate(part):
                return dataclasses.replace(part, negated=True)
            return Not(part)
        if len(args) < 2:
            raise _wrong(path, f"{op} takes 2 or more arguments, not {len(args)}", args)
        parts = tuple([self.condition(one, f"{path}args[{at}].", level + 1) for at, one in enumerate(args)])
        return And(parts) if op == "and" else Or(parts)

    def _comparison(self, op: str, args: Sequence[Any], path: str) -> Node:
        _count(op, args, 2, path)
        here, there = f"{path}args[0].", f"{path}args[1]."
        if _is_folded_property(args[0]):
            return self._folded_comparison(op, args, path)
        if _is_folded_property(args[1]):
            return self._folded_comparison(TURNED.get(op, op), [args[1], args[0]], path)
        if _is_property(args[0]):
            return Compare(self._attribute(args[0], here), op, self._literal(args[1], there))
        value = self._literal(args[0], here)
        return Compare(self._attribute(args[1], there), TURNED.get(op, op), value)

    def _between(self, args: Sequence[Any], path: str) -> Node:
        _count("between", args, 3, path)
        attribute = self._attribute(args[0], f"{path}args[0].")
        return Between(attribute, self._literal(args[1], f"{path}args[1]."), self._literal(args[2], f"{path}args[2]."))

    def _is_in(self, args: Sequence[Any], path: str) -> Node:
        _count("in", args, 2, path)
        (attribute, fold), listed = self._folded_attribute(args[0], f"{path}args[0]."), args[1]
        if not isinstance(listed, list | tuple):
            raise _wrong(f"{path}args[1].", f"expected a list of values, not {_kind(listed)}", listed, attribute)
        if not listed:
            raise _wrong(f"{path}args[1].", "in needs at least one value", listed, attribute)
        self._budget.spend(limits.IN_VALUES, len(listed))
        place = f"{path}args[1]["
        values = tuple([self._listed(one, f"{place}{at}].") for at, one in enumerate(listed)])
        if not fold:
            return IsIn(attribute, values)
        return TextTest(attribute, "IN", tuple([_operand(one, fold, f"{path}args[1].") for one in values]), fold)

    def _is_like(self, args: Sequence[Any], path: str) -> Node:
        _count("like", args, 2, path)
        (attribute, fold), there = self._folded_attribute(args[0], f"{path}args[0]."), f"{path}args[1]."
        pattern = self._string_operand(args[1], there, attribute)
        return (
            TextTest(attribute, "LIKE", (_operand(pattern, fold, there),), fold) if fold else IsLike(attribute, pattern)
        )

    def _is_ilike(self, args: Sequence[Any], path: str) -> Node:
        _count("ilike", args, 2, path)
        attribute = self._attribute(args[0], f"{path}args[0].")
        pattern = self._string_operand(args[1], f"{path}args[1].", attribute)
        return TextTest(attribute, "LIKE", (fold_text(pattern, Fold.CASE),), Fold.CASE)

    def _is_match(self, args: Sequence[Any], path: str) -> Node:
        _count("matches", args, 2, path)
        attribute, fold = self._folded_attribute(args[0], f"{path}args[0].")
        return TextTest(attribute, "MATCHES", (self._string_operand(args[1], f"{path}args[1].", attribute),), fold)

    def _folded_comparison(self, op: str, args: Sequence[Any], path: str) -> Node:
        attribute, fold = self._folded_attribute(args[0], f"{path}args[0].")
        if op not in ("=", "<>"):
            raise _wrong(path, ORDER_OF_FOLDED, op, attribute)
        there = f"{path}args[1]."
        operand = _operand(self._literal(args[1], there), fold, there)
        return TextTest(attribute, "=", (operand,), fold, negated=op == "<>")

    def _string_operand(self, document: object, path: str, attribute: str) -> str:
        """Read a string, or CASEI or ACCENTI of one."""
        text = self._folded_string(document, path) if _is_fold(document) else document
        if not isinstance(text, str):
            raise _wrong(path, f"expected a string, not {_kind(text)}", text, attribute)
        return self._text(text, path)

    def _folded_string(self, document: object, path: str) -> str:
        folds, inner = _unwrapped(document, path)
        if not isinstance(inner, str):
            raise _wrong(f"{path}args[0].", f"expected a string, not {_kind(inner)}", inner)
        return fold_text(_string(inner, path), folds)

    def _folded_attribute(self, document: object, path: str) -> tuple[str, Fold]:
        """Read an attribute, or CASEI or ACCENTI of one."""
        if not _is_fold(document):
            return self._attribute(document, path), Fold.NONE
        fold, inner = _unwrapped(document, path)
        return self._attribute(inner, f"{path}args[0]."), fold

    def _is_null(self, args: Sequence[Any], path: str) -> Node:
        _count("isNull", args, 1, path)
        return IsNull(self._attribute(args[0], f"{path}args[0]."))

    def _spatial_test(self, op: str, args: Sequence[Any], path: str) -> Node:
        _count(op, args, 2, path)
        function, here, there = op.upper(), f"{path}args[0].", f"{path}args[1]."
        if _is_property(args[0]):
            return SpatialTest(function, self._attribute(args[0], here), self._geometry(args[1], there))
        geometry = self._geometry(args[0], here)
        return SpatialTest(TURNED.get(function, function), self._attribute(args[1], there), geometry)

    def _within_ball(self, args: Sequence[Any], path: str) -> Node:
        _count("v_within", args, 3, path)
        attribute, center = self._attribute(args[0], f"{path}args[0]."), args[1]
        if not isinstance(center, list | tuple) or not center:
            raise _wrong(f"{path}args[1].", f"expected a list of numbers, not {_kind(center)}", center, attribute)
        self._budget.spend(limits.COORDINATES, len(center))
        coordinates = _coordinates(center, f"{path}args[1][")
        radius = _number(args[2], f"{path}args[2].")
        if radius < 0:
            raise _wrong(f"{path}args[2].", "a radius is not negative", radius, attribute)
        return WithinBall(attribute, coordinates, float(radius))

    def _attribute(self, document: object, path: str) -> str:
        """Read ``{"property": name}``; each condition has exactly one."""
        if not _is_property(document):
            raise _wrong(path, f'expected {{"property": name}}, not {_kind(document)}', document)
        name = document["property"]  # type: ignore[index]
        if not isinstance(name, str) or not name:
            raise _wrong(f"{path}property.", "an attribute needs a name", name)
        self._budget.spend(limits.TEXT, limits.CONDITION_TEXT)
        return self._text(name, f"{path}property.")

    def _text(self, text: str, path: str) -> str:
        self._budget.spend(limits.TEXT, len(text))
        return _string(text, path)

    def _literal(self, document: object, path: str) -> Literal:
        if isinstance(document, str):
            return self._text(document, path)
        if _is_fold(document):
            return self._text(self._folded_string(document, path), path)
        if _is_property(document):
            raise _wrong(path, "attributes are compared with values only, not with one another", document)
        return self._value(document, path)

    def _listed(self, document: object, path: str) -> Literal:
        """Read a value of an IN list; the budget of the list has paid for its strings and numbers."""
        if isinstance(document, str):
            return _string(document, path)
        if _is_fold(document):
            return self._folded_string(document, path)
        if isinstance(document, bool):
            self._budget.spend(limits.TEXT, _BOOLEAN_TEXT)
        return self._value(document, path)

    def _value(self, document: object, path: str) -> Literal:
        if isinstance(document, bool):
            return document
        if isinstance(document, Mapping):
            return self._instant(document, path)
        if isinstance(document, int | float):
            return _number(document, path)
        raise _wrong(path, f"expected a value, not {_kind(document)}", document)

    def _instant(self, document: Mapping[str, Any], path: str) -> Instant:
        (key, text), *more = document.items() or [("", None)]
        if more or key not in ("timestamp", "date"):
            raise _wrong(path, f"expected a value, not {_kind(document)}", document)
        if not isinstance(text, str):
            raise _wrong(f"{path}{key}.", f"expected a string, not {_kind(text)}", text)
        self._budget.spend(limits.TEXT, _INSTANT_TEXT)
        found: Instant = _placed(f"{path}{key}.", literals.instant, key.upper(), text, 0)
        return found

    def _geometry(self, document: object, path: str) -> Operand:
        if isinstance(document, Mapping) and document.keys() == {"bbox"}:
            corners = document["bbox"]
            if not isinstance(corners, list | tuple):
                raise _wrong(f"{path}bbox.", f"expected a list of four numbers, not {_kind(corners)}", corners)
            self._budget.spend(limits.TEXT, len(corners))
            found = [_number(one, f"{path}bbox[{at}].") for at, one in enumerate(corners)]
            return _placed(f"{path}bbox.", literals.bbox, found, 0)
        if isinstance(document, Mapping) and "coordinates" in document:
            return _placed(path, literals.geojson, document, 0, self._budget)
        raise _wrong(path, f"expected GeoJSON or a bbox, not {_kind(document)}", document)


_CONDITIONS: dict[str, Callable[[_Reader, Sequence[Any], str], Node]] = {
    "between": _Reader._between,
    "in": _Reader._is_in,
    "like": _Reader._is_like,
    "ilike": _Reader._is_ilike,
    "matches": _Reader._is_match,
    "isNull": _Reader._is_null,
    "v_within": _Reader._within_ball,
}


def _is_property(document: object) -> bool:
    return isinstance(document, Mapping) and document.keys() == {"property"}


def _can_negate(node: Between | IsIn | IsLike | TextTest | IsNull) -> bool:
    """Whether the text of a condition has a NOT of its own that it does not use."""
    return not (node.negated or (isinstance(node, TextTest) and node.op == "="))


def _is_fold(document: object) -> bool:
    return isinstance(document, Mapping) and document.keys() == {"op", "args"} and document["op"] in _FOLDS


def _is_folded_property(document: object) -> bool:
    """Whether this is CASEI or ACCENTI of an attribute; what else is wrong with it is found out by reading it."""
    while _is_fold(document) and isinstance(document["args"], list | tuple) and len(document["args"]) == 1:  # type: ignore[index]
        document = document["args"][0]  # type: ignore[index]
        if _is_property(document):
            return True
    return False


def _unwrapped(document: object, path: str) -> tuple[Fold, object]:
    """Return what all the CASEI and ACCENTI around something ignore, and that something."""
    fold = Fold.NONE
    for depth in range(limits.DEPTH.most + 1):
        if not _is_fold(document):
            return fold, document
        op, args = document["op"], document["args"]  # type: ignore[index]
        if not isinstance(args, list | tuple):
            raise _wrong(f"{path}args.", f"expected a list, not {_kind(args)}", args)
        _count(op, args, 1, path)
        fold, document = fold | _FOLDS[op], args[0]
        limits.DEPTH.check(depth)
    return fold, document


def _operand(value: object, fold: Fold, path: str) -> str:
    problem = unfolded(value, fold)
    if problem is not None:
        raise _wrong(path, problem, value)
    assert isinstance(value, str)
    return value


def _count(op: str, args: Sequence[Any], wanted: int, path: str) -> None:
    if len(args) != wanted:
        plural = "" if wanted == 1 else "s"
        raise _wrong(path, f"{op} takes {wanted} argument{plural}, not {len(args)}", args)


def _placed(path: str, make: Callable[..., Any], *given: object) -> Any:
    try:
        return make(*given)
    except Refusal as error:
        raise _wrong(path, error.problem, error.value) from None


def _string(text: str, path: str) -> str:
    if not text.isascii():
        try:
            return values.string(text)
        except UnfitError as error:
            raise _wrong(path, str(error), text) from None
    return text


def _number(document: object, path: str) -> int | float:
    if isinstance(document, float):
        if math.isfinite(document):
            return float(document) + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits
        raise _wrong(path, "a number beyond the range of float64", document)
    if isinstance(document, int) and not isinstance(document, bool):
        if values.INT64_MIN <= document <= values.UINT64_MAX:
            return document
        raise _wrong(path, "an integer outside int64 and uint64", document)
    raise _wrong(path, f"expected a number, not {_kind(document)}", document)


def _coordinates(center: Sequence[Any], place: str) -> tuple[float, ...]:
    if set(map(type, center)) == {float}:
        found = np.asarray(center)
        if np.isfinite(found).all():
            return tuple((found + 0.0).tolist())
    return tuple([float(_number(one, f"{place}{at}].")) for at, one in enumerate(center)])


def _kind(document: object) -> str:
    """Name a JSON value for a message."""
    if isinstance(document, Mapping):
        if document.keys() == {"op", "args"}:
            return f"the operation {shorten(document['op'])}"
        return "an object with " + (", ".join(map(shorten, list(document)[:3])) or "no key")
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", tuple: "a list"}
    return names.get(type(document), "a number" if isinstance(document, int | float) else type(document).__name__)


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
    for name, bit in reversed(_FOLDS.items()):
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
