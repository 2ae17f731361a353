"""The values of a CQL2-JSON document: attributes, literals, moments and geometries, each refused by its path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tamis.errors import SubscriptionError, shorten
from tamis.model import values
from tamis.model.derived.functions import RELATIONS, find_function
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language import limits, literals
from tamis.model.language.functions import temporal
from tamis.model.language.lexer import ARRAY_FUNCTIONS, FOLDS
from tamis.model.language.literals import MeaningError
from tamis.model.language.nodes import Arithmetic, Call, Expression, Instant, Literal, Node, Property
from tamis.model.shapes import Operand
from tamis.model.text.folding import Fold, fold_text
from tamis.model.values import UnfitError

__all__ = [
    "ARITHMETIC_OPERATIONS",
    "JSON_ARRAYS",
    "JSON_CLOCKS",
    "JSON_FOLDS",
    "JSON_TEMPORAL",
    "ValueReader",
    "check_count",
    "coordinates_of",
    "is_call",
    "is_fold",
    "is_property",
    "kind_of",
    "number_of",
    "placed",
    "wrong",
]

#: The operations that ignore case or accents.
JSON_FOLDS = {name.lower(): fold for name, fold in FOLDS.items()}


def _json_names(functions: Iterable[str]) -> dict[str, str]:
    """Return the operations of JSON, in which "By" begins with a capital, and the functions that they are."""
    return {name.lower() if "BY" not in name[2:] else f"{name[:-2].lower()}By": name for name in functions}


JSON_TEMPORAL = _json_names(temporal.TEMPORAL_FUNCTIONS)
JSON_ARRAYS = _json_names(ARRAY_FUNCTIONS)
JSON_CLOCKS = frozenset(map(str.lower, temporal.CLOCK_FUNCTIONS))
_RELATIONS = {name: function for function, name in RELATIONS.items()}
#: The operations of arithmetic.
ARITHMETIC_OPERATIONS = frozenset({"+", "-", "*", "/", "%", "div", "^"})
_INSTANT_TEXT = len("DATE('2026-01-31')")
_BOOLEAN_TEXT = len("TRUE,")


def wrong(path: str, problem: str, value: object = None, attribute: str | None = None) -> SubscriptionError:
    """Return the error about what stands at a path; ``path`` is empty or ends with a dot."""
    return SubscriptionError(f"{path[:-1]}: {problem}" if path else problem, attribute, value)


class ValueReader:
    """Reads the values of one document; ``path`` is where they stand, ``times`` as in `limits.LimitBudget`."""

    def __init__(self, times: int = 1) -> None:
        self.budget = limits.LimitBudget(times)
        self.budget.spend(limits.TEXT, -limits.CONDITION_TEXT)  # n conditions have n - 1 connectives

    def attribute(self, document: object, path: str) -> str:
        """Read ``{"property": name}``; each condition has exactly one."""
        if not is_property(document):
            raise wrong(path, f'expected {{"property": name}}, not {kind_of(document)}', document)
        name = document["property"]  # type: ignore[index]
        if not isinstance(name, str) or not name:
            raise wrong(f"{path}property.", "an attribute needs a name", name)
        self.budget.spend(limits.TEXT, limits.CONDITION_TEXT)
        return self.text(name, f"{path}property.")

    def text(self, text: str, path: str) -> str:
        """Read a string, which counts for the limit on text."""
        self.budget.spend(limits.TEXT, len(text))
        return _string(text, path)

    def literal(self, document: object, path: str) -> Literal:
        """Read what an attribute is compared with."""
        if isinstance(document, str):
            return self.text(document, path)
        if is_fold(document):
            return self.text(self._folded_string(document, path), path)
        return self._value(document, path)

    def expression(self, document: object, path: str, level: int = 0) -> Expression:
        """Read an attribute, a literal, or an operation of arithmetic or a function that is known."""
        if is_property(document):
            return Property(self.attribute(document, path))
        if not is_call(document):
            return self.literal(document, path)
        limits.OPERATIONS.check(level + 1)
        op, args = document["op"], document["args"]  # type: ignore[index]
        if not isinstance(args, list | tuple):
            raise wrong(f"{path}args.", f"expected a list, not {kind_of(args)}", args)
        self.budget.spend(limits.TEXT, len(op) + len(args))
        if op in ARITHMETIC_OPERATIONS:
            check_count(op, args, 2, path)
        operands = [self.expression(arg, f"{path}args[{at}].", level + 1) for at, arg in enumerate(args)]
        if op in ARITHMETIC_OPERATIONS:
            return Arithmetic(op, *operands)
        return Call(_RELATIONS.get(op, op), tuple(operands))

    def listed_expression(self, document: object, path: str) -> Expression:
        """Read a member of an IN list: a value, for which the budget of the list has paid, or an expression."""
        return (
            self.expression(document, path)
            if is_property(document) or is_call(document)
            else self.listed(document, path)
        )

    def listed(self, document: object, path: str) -> Literal:
        """Read a value of an IN list; the budget of the list has paid for its strings and numbers."""
        if isinstance(document, str):
            return _string(document, path)
        if is_fold(document):
            return self._folded_string(document, path)
        if isinstance(document, bool):
            self.budget.spend(limits.TEXT, _BOOLEAN_TEXT)
        return self._value(document, path)

    def _value(self, document: object, path: str) -> Literal:
        if isinstance(document, bool):
            return document
        if isinstance(document, Mapping):
            return self._instant(document, path)
        if isinstance(document, int | float):
            return number_of(document, path)
        hint = " (a missing value is asked for with isNull)" if document is None else ""
        raise wrong(path, f"expected a value, not {kind_of(document)}{hint}", document)

    def _instant(self, document: Mapping[str, Any], path: str) -> Instant:
        (key, text), *more = document.items() or [("", None)]
        if more or key not in ("timestamp", "date"):
            if (op := str(document.get("op"))) in SPATIAL_FUNCTIONS:
                raise wrong(
                    path, f"{op} compares an attribute with polygons; S_* compare two attributes, too", document
                )
            raise wrong(path, f"expected a value, not {kind_of(document)}", document)
        if not isinstance(text, str):
            raise wrong(f"{path}{key}.", f"expected a string, not {kind_of(text)}", text)
        self.budget.spend(limits.TEXT, _INSTANT_TEXT)
        instant: Instant = placed(f"{path}{key}.", literals.instant, key.upper(), text, 0)
        return instant

    def geometry(self, document: object, path: str) -> Operand:
        """Read GeoJSON or ``{"bbox": [...]}``."""
        if isinstance(document, Mapping) and document.keys() == {"bbox"}:
            corners = document["bbox"]
            if not isinstance(corners, list | tuple):
                raise wrong(f"{path}bbox.", f"expected a list of four numbers, not {kind_of(corners)}", corners)
            self.budget.spend(limits.TEXT, len(corners))
            numbers = [number_of(corner, f"{path}bbox[{at}].") for at, corner in enumerate(corners)]
            return placed(f"{path}bbox.", literals.bbox, numbers, 0)
        if isinstance(document, Mapping) and ("coordinates" in document or "geometries" in document):
            return placed(path, literals.geojson, document, 0, self.budget)
        raise wrong(path, f"expected GeoJSON or a bbox, not {kind_of(document)}", document)

    def vector_of(self, args: Sequence[Any], path: str) -> tuple[str, tuple[float, ...]]:
        """Read an attribute and a vector, the first two arguments of a function."""
        attribute, vector = self.attribute(args[0], f"{path}args[0]."), args[1]
        if not isinstance(vector, list | tuple) or not vector:
            raise wrong(f"{path}args[1].", f"expected a list of numbers, not {kind_of(vector)}", vector, attribute)
        self.budget.spend(limits.COORDINATES, len(vector))
        return attribute, coordinates_of(vector, f"{path}args[1][")

    def temporal_test(self, function: str, args: Sequence[Any], path: str) -> Node:
        """Read a relation of two moments or intervals."""
        sides = [self._time(arg, f"{path}args[{at}].") for at, arg in enumerate(args)]
        node: Node = placed(path, temporal.relate, function, *sides, None)
        return node

    def _time(self, document: object, path: str) -> temporal.Time:
        if isinstance(document, Mapping) and document.keys() == {"interval"}:
            ends = document["interval"]
            if not isinstance(ends, list | tuple) or len(ends) != 2:
                raise wrong(f"{path}interval.", "expected a list of two ends", ends)
            both = [self._end(end, f"{path}interval[{at}].") for at, end in enumerate(ends)]
            whole: temporal.Time = placed(path, temporal.interval, *both)
            return whole
        return temporal.instant_time(self._end(document, path))

    def _end(self, document: object, path: str) -> temporal.End:
        if is_property(document):
            return temporal.End(attribute=self.attribute(document, path))
        if isinstance(document, str):
            end: temporal.End = placed(path, temporal.end_of, "STRING", self.text(document, path))
            return end
        if not isinstance(document, Mapping):
            raise wrong(path, f"expected a time, not {kind_of(document)}", document)
        moment = self._instant(document, path)
        return temporal.end_of("DAY" if "date" in document else "INSTANT", moment)

    def clock_test(self, function: str, args: Sequence[Any], path: str) -> Node:
        """Read T_TIME or T_WEEKDAY."""
        if len(args) < 3:
            check_count(function.lower(), args, 4 if function == "T_TIME" else 3, path)
        attribute = self.attribute(args[0], f"{path}args[0].")
        texts = tuple(self.string_operand(arg, f"{path}args[{at}].", attribute) for at, arg in enumerate(args) if at)
        node: Node = placed(path, temporal.clock_test, function, attribute, texts, None)
        return node

    def string_operand(self, document: object, path: str, attribute: str) -> str:
        """Read a string, or CASEI or ACCENTI of one."""
        text = self._folded_string(document, path) if is_fold(document) else document
        if not isinstance(text, str):
            raise wrong(path, f"expected a string, not {kind_of(text)}", text, attribute)
        return self.text(text, path)

    def _folded_string(self, document: object, path: str) -> str:
        folds, inner = _unwrapped(document, path)
        if not isinstance(inner, str):
            raise wrong(f"{path}args[0].", f"expected a string, not {kind_of(inner)}", inner)
        return fold_text(_string(inner, path), folds)

    def folded_attribute(self, document: object, path: str) -> tuple[str, Fold]:
        """Read an attribute, or CASEI or ACCENTI of one."""
        if not is_fold(document):
            return self.attribute(document, path), Fold.NONE
        fold, inner = _unwrapped(document, path)
        return self.attribute(inner, f"{path}args[0]."), fold


def is_property(document: object) -> bool:
    """Whether this is ``{"property": ...}``."""
    return isinstance(document, Mapping) and document.keys() == {"property"}


def is_fold(document: object) -> bool:
    """Whether this is CASEI or ACCENTI of something."""
    if not isinstance(document, Mapping) or document.keys() != {"op", "args"}:
        return False
    return isinstance(document["op"], str) and document["op"] in JSON_FOLDS


def is_call(document: object) -> bool:
    """Whether this is an operation of arithmetic, or a function that gives a value."""
    if not isinstance(document, Mapping) or document.keys() != {"op", "args"}:
        return False
    op = document["op"]
    if not isinstance(op, str) or op in RELATIONS:  # JSON writes these in lower case
        return False
    return op in ARITHMETIC_OPERATIONS or op in _RELATIONS or find_function(op) is not None


def _unwrapped(document: object, path: str) -> tuple[Fold, object]:
    """Return what all the CASEI and ACCENTI around something ignore, and that something."""
    fold = Fold.NONE
    for depth in range(limits.DEPTH.most + 1):
        if not is_fold(document):
            return fold, document
        op, args = document["op"], document["args"]  # type: ignore[index]
        if not isinstance(args, list | tuple):
            raise wrong(f"{path}args.", f"expected a list, not {kind_of(args)}", args)
        check_count(op, args, 1, path)
        fold, document = fold | JSON_FOLDS[op], args[0]
        limits.DEPTH.check(depth)
    return fold, document


def check_count(op: str, args: Sequence[Any], wanted: int, path: str) -> None:
    """Raise unless an operation has as many arguments as it takes."""
    if len(args) != wanted:
        plural = "" if wanted == 1 else "s"
        raise wrong(path, f"{op} takes {wanted} argument{plural}, not {len(args)}", args)


def placed(path: str, make: Callable[..., Any], *arguments: object) -> Any:
    """Return ``make(*arguments)``; what it refuses is refused at a path."""
    try:
        return make(*arguments)
    except MeaningError as error:
        raise wrong(path, error.problem, error.value) from None


def _string(text: str, path: str) -> str:
    if not text.isascii():
        try:
            return values.string(text)
        except UnfitError as error:
            raise wrong(path, str(error), text) from None
    return text


def number_of(document: object, path: str) -> int | float:
    """Return a number that is finite and fits float64, int64 or uint64."""
    if isinstance(document, float):
        if math.isfinite(document):
            return float(document) + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits
        raise wrong(path, "a number beyond the range of float64", document)
    if isinstance(document, int) and not isinstance(document, bool):
        if values.INT64_MIN <= document <= values.UINT64_MAX:
            return document
        raise wrong(path, "an integer outside int64 and uint64", document)
    raise wrong(path, f"expected a number, not {kind_of(document)}", document)


def coordinates_of(center: Sequence[Any], path: str) -> tuple[float, ...]:
    """Return the coordinates of a vector."""
    if set(map(type, center)) == {float}:
        array = np.asarray(center)
        if np.isfinite(array).all():
            return tuple((array + 0.0).tolist())
    return tuple([float(number_of(number, f"{path}{at}].")) for at, number in enumerate(center)])


def kind_of(document: object) -> str:
    """Name a JSON value for a message."""
    if isinstance(document, Mapping):
        if document.keys() == {"op", "args"}:
            return f"the operation {shorten(document['op'])}"
        return "an object with " + (", ".join(map(shorten, list(document)[:3])) or "no key")
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", tuple: "a list"}
    return names.get(type(document), "a number" if isinstance(document, int | float) else type(document).__name__)
