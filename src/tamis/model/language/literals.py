r"""Converts literals in the source to the values of the syntax tree.

Numbers without point or exponent stay ``int`` and are exact, all others are float64; -0.0 becomes 0.0.
In a string a quote is written twice and a backslash is a backslash (CQL2 also reads ``\'`` as a quote;
tamis does not, because LIKE patterns need their backslashes as they are). TIMESTAMP and DATE become
microseconds UTC. Geometry is read by GEOS and validated by `tamis.model.shapes`, this module does not inspect it.

Errors here have a position, but no source: `Misreading` for wrong syntax, `MeaningError` for a wrong meaning. The
caller, which has the source, raises a `SubscriptionSyntaxError` or a `SubscriptionError` instead.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import shapely

from tamis.errors import SubscriptionError, shorten
from tamis.model import shapes, values
from tamis.model.derived.spatial_functions import METRES
from tamis.model.geometry_text import coordinate, exact_wkt
from tamis.model.language import limits
from tamis.model.language.nodes import Instant
from tamis.model.text.folding import Fold, fold_text
from tamis.model.values import UnfitError

__all__ = [
    "NUMBER",
    "ORDER_OF_FOLDED",
    "STRING",
    "MeaningError",
    "Misreading",
    "bbox",
    "check_cosine",
    "check_distance",
    "closing_parenthesis",
    "coordinates",
    "corners",
    "decimal",
    "fitting",
    "geojson",
    "instant",
    "instant_text",
    "integer",
    "number",
    "numbers",
    "region_text",
    "strict_json",
    "strings",
    "unfolded",
    "unquote",
    "wkt",
]

#: Possessive quantifiers (``++``) keep every pattern free of backtracking (promise S16).
NUMBER = r"[-+]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+"
STRING = r"'[^']*+(?:''[^']*+)*+'"

ORDER_OF_FOLDED = "CASEI and ACCENTI are compared with =, <>, IN, LIKE and MATCHES; their results have no order"

_STRINGS = re.compile(STRING)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET = re.compile(r"(?:[Zz]|[-+][0-9]{2}:[0-9]{2})$")
_PARENTHESIS = re.compile(r"[()]")
#: A string of JSON, also without its closing quote: else a search would start again at each quote inside of it.
_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_INTEGER_DIGITS = 40  # more than any integer we accept, fewer than Python's own limit
Result = TypeVar("Result")


class Misreading(Exception):
    """A syntax error at ``position``; ``expected`` describes what is allowed there."""

    def __init__(self, position: int, expected: str) -> None:
        super().__init__(position, expected)
        self.position = position
        self.expected = expected


class MeaningError(Exception):
    """Correct syntax with an invalid meaning, at ``position``."""

    def __init__(self, problem: str, position: int, value: object = None, attribute: str | None = None) -> None:
        super().__init__(problem, position, value, attribute)
        self.problem = problem
        self.position = position
        self.value = value
        self.attribute = attribute


def unfolded(value: object, fold: Fold) -> str | None:
    """Return why folded text cannot be compared with a value; None when it can.

    >>> unfolded("Foo", Fold.CASE)
    "a folded text never equals 'Foo'; write CASEI('Foo')"
    """
    if not isinstance(value, str):
        return f"CASEI and ACCENTI give text, which {shorten(value)} is not"
    if fold_text(value, fold) == value:
        return None
    names = [name for name, bit in (("CASEI", Fold.CASE), ("ACCENTI", Fold.ACCENTS)) if fold & bit]
    return f"a folded text never equals {shorten(value)}; write {'('.join(names)}({shorten(value)}{')' * len(names)}"


def check_distance(distance: int | float, unit: str | None, position: int) -> None:
    """Refuse a distance below 0 and an unknown unit."""
    if distance < 0:
        raise MeaningError("a distance must not be negative", position, distance)
    if unit is not None and unit not in METRES:
        raise MeaningError(f"unknown unit {shorten(unit)}; write one of {', '.join(map(repr, METRES))}", position, unit)


def check_cosine(direction: Sequence[float], least: int | float, position: int) -> None:
    """Refuse a vector without a direction and a number that is not a cosine."""
    if not any(direction):
        raise MeaningError("a vector of zeros has no direction", position, direction)
    if not -1 <= least <= 1:
        raise MeaningError("a cosine must be between -1 and 1", position, least)


def fitting(make: Callable[..., Result], position: int, *arguments: object) -> Result:
    """Return ``make(*arguments)``; a value that does not fit becomes a `MeaningError` at ``position``."""
    try:
        return make(*arguments)
    except UnfitError as error:
        raise MeaningError(str(error), position, arguments[0]) from None


def integer(text: str, position: int) -> int:
    """Return the exact integer that a text of digits denotes.

    >>> integer("-007", 0)
    -7
    """
    if len(text) <= _INTEGER_DIGITS or len(text.lstrip("+-0")) <= _INTEGER_DIGITS:
        number = int(text if len(text) <= _INTEGER_DIGITS else text[0] + text.lstrip("+-0").rjust(1, "0"))
        if values.INT64_MIN <= number <= values.UINT64_MAX:
            return number
    raise MeaningError("an integer outside int64 and uint64", position, text)


def decimal(text: str, position: int) -> float:
    """Return the float64 nearest to a text with a point or an exponent."""
    number = float(text)
    if math.isinf(number):
        raise MeaningError("a number beyond the range of float64", position, text)
    return number + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits


def number(text: str, position: int) -> int | float:
    """Return the number a text denotes: an int when it is written like one.

    >>> number("9007199254740993", 0), number("1e3", 0), number(".5", 0)
    (9007199254740993, 1000.0, 0.5)
    """
    return integer(text, position) if text.lstrip("+-").isdigit() else decimal(text, position)


def numbers(text: str, position: int) -> tuple[int | float, ...]:
    """Return the numbers of a comma-separated list that stands at ``position``.

    >>> numbers("1, 2.5 ,3", 0)
    (1, 2.5, 3)
    """
    parts = text.split(",")
    try:
        integers = tuple(map(int, parts))
        if min(integers) >= values.INT64_MIN and max(integers) <= values.UINT64_MAX:
            return integers
    except ValueError:
        pass  # a point or an exponent somewhere, or digits without end
    slow: list[int | float] = []
    for part in parts:
        slow.append(number(part.strip(), position + len(part) - len(part.lstrip())))
        position += len(part) + 1
    return tuple(slow)


def coordinates(text: str, position: int) -> tuple[float, ...]:
    """Return the coordinates of a comma-separated list that stands at ``position``.

    >>> coordinates("1, -0", 0)
    (1.0, 0.0)
    """
    try:
        floats = tuple(map(float, text.split(",")))
        if not (math.isinf(max(floats)) or math.isinf(min(floats)) or "-0" in text):
            return floats
    except ValueError:
        pass  # space that `float` does not skip, such as U+001C
    return tuple(map(float, numbers(text, position)))  # slower, but it knows what to refuse


def unquote(text: str) -> str:
    """Return the string that a text in quotes (single or double) denotes.

    >>> unquote("'it''s'"), unquote('"6"" nails"')
    ("it's", '6" nails')
    """
    quote, inner = text[0], text[1:-1]
    return inner.replace(quote * 2, quote) if quote in inner else inner


def strings(text: str) -> tuple[str, ...]:
    """Return the strings of a comma-separated list.

    >>> strings("'a', 'it''s'")
    ('a', "it's")
    """
    return tuple(map(unquote, _STRINGS.findall(text)))


def instant(kind: str, text: str, position: int) -> Instant:
    """Return the moment of ``TIMESTAMP('text')`` or ``DATE('text')``, the latter at midnight UTC.

    >>> instant("DATE", "1970-01-02", 0)
    Instant(microseconds=86400000000)
    """
    if kind == "DATE":
        if not _DATE.fullmatch(text):
            raise MeaningError("expected a date such as 2026-01-31", position, text)
        text += "T00:00:00Z"
    microseconds = fitting(values.moment, position, text, "UTC")
    if not _OFFSET.search(text):
        raise MeaningError("a time without a zone; add Z or an offset such as +01:00", position, text)
    if not _FIRST <= microseconds <= _LAST:
        raise MeaningError("a time outside the years 1 to 9999", position, text)
    return Instant(microseconds)


def instant_text(moment: Instant) -> str:
    """Return the RFC 3339 text of a moment, in UTC and with microseconds.

    >>> instant_text(Instant(1_500_000))
    '1970-01-01T00:00:01.500000Z'
    """
    if not _FIRST <= moment.microseconds <= _LAST:
        raise SubscriptionError("a time outside the years 1 to 9999 cannot be written", value=moment.microseconds)
    datetime = _EPOCH + dt.timedelta(microseconds=moment.microseconds)
    return datetime.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def closing_parenthesis(text: str, start: int, stop: int) -> int | None:
    """Return the offset just after the parenthesis that closes the first one from ``start`` on."""
    depth = 0
    for parenthesis in _PARENTHESIS.finditer(text, start, stop):
        depth += 1 if parenthesis[0] == "(" else -1
        if depth == 0:
            return parenthesis.end()
    return None


def wkt(text: str, position: int, budget: limits.LimitBudget) -> shapes.Operand:
    """Return the geometry of a WKT literal."""
    budget.spend(limits.REGIONS, max(text.count("(") - 1, 1))  # each ring is one
    budget.spend(limits.VERTICES, text.count(","))
    with np.errstate(over="ignore"):  # 1e999 becomes an infinity, which is refused; no need to warn as well
        return fitting(shapes.operand, position, text)


def corners(polygon: shapes.Operand) -> tuple[float, float, float, float] | None:
    """Return min x, min y, max x, max y of a polygon that `bbox` could have made, else None."""
    if shapely.get_num_coordinates(polygon) != 5 or polygon.has_z or polygon != shapely.box(*polygon.bounds):
        return None
    bounds: tuple[float, float, float, float] = polygon.bounds
    return bounds


def region_text(geometry: shapes.Operand) -> str:
    """Return the BBOX or WKT of a geometry, whose coordinates read back to the last bit.

    >>> region_text(shapely.box(0, 0, 0.1, 1)), region_text(shapely.Polygon([(0, 0), (1, 0), (0, 0.1)]))
    ('BBOX(0, 0, 0.1, 1)', 'POLYGON ((0 0, 1 0, 0 0.1, 0 0))')
    """
    box = corners(geometry)
    return exact_wkt(geometry) if box is None else f"BBOX({', '.join(map(coordinate, box))})"


def geojson(document: Mapping[str, Any], position: int, budget: limits.LimitBudget) -> shapes.Operand:
    """Return the geometry of a GeoJSON object."""
    parts = document.get("geometries", [document])
    for part in parts if isinstance(parts, Sequence) and not isinstance(parts, str) else ():
        _spend(part, budget)
    allowed_key = "geometries" if document.get("type") == "GeometryCollection" else "coordinates"
    if unknown := sorted(map(str, document.keys() - {"type", allowed_key})):
        raise MeaningError(
            f"a GeoJSON geometry has type and {allowed_key}, not {shorten(unknown[0])}", position, document
        )
    return fitting(shapes.operand, position, document)


def _spend(part: object, budget: limits.LimitBudget) -> None:
    """Spend the rings and vertices of a GeoJSON object that is not a collection."""
    coordinates: Any = part.get("coordinates") if isinstance(part, Mapping) else None
    kind = part.get("type") if isinstance(part, Mapping) else None
    lines: Any = [coordinates] if kind in ("LineString", "MultiPoint") else coordinates
    if kind == "MultiPolygon":
        lines = (
            [ring for polygon in coordinates for ring in polygon]
            if _is_list(coordinates) and all(map(_is_list, coordinates))
            else []
        )
    lines = [line for line in lines if _is_list(line)] if _is_list(lines) else []
    budget.spend(limits.REGIONS, max(len(lines), 1))
    budget.spend(limits.VERTICES, sum(max(len(line) - 1, 0) for line in lines))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def bbox(numbers: Sequence[int | float], position: int) -> shapely.Polygon:
    """Return the rectangle of a BBOX literal."""
    if len(numbers) == 6:  # with a third coordinate, which the type of the attribute drops or refuses
        x, y, z, *upper = map(float, numbers)
        flat = fitting(shapes.bbox_polygon, position, x, y, *upper[:2])
        return shapely.force_3d(flat, z)
    if len(numbers) != 4:
        raise MeaningError("a BBOX has four numbers: min x, min y, max x, max y", position, numbers)
    return fitting(shapes.bbox_polygon, position, *map(float, numbers))


def strict_json(text: str) -> object:
    """Return what a JSON text denotes; NaN, duplicate keys and deep nesting are refused.

    A number too large for float64 becomes an infinity here (Python's decoder gives no other choice that
    is quick); the code that reads the numbers refuses it.
    """
    _check_brackets(text)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        expected = next((words for start, words in _JSON_WORDS.items() if error.msg.startswith(start)), "valid JSON")
        raise Misreading(error.pos, expected) from None
    except ValueError:  # Python's own limit of 4,300 digits
        raise MeaningError("an integer outside int64 and uint64", 0) from None


def _check_brackets(text: str) -> None:
    """Refuse what would make the decoder recurse too deep or call us too often."""
    skeleton = np.frombuffer(_JSON_STRING.sub("", text).encode("utf-8", "replace"), np.uint8)
    opened = (skeleton == ord("[")) | (skeleton == ord("{"))
    closed = (skeleton == ord("]")) | (skeleton == ord("}"))
    limits.JSON_BRACKETS.check(int(opened.sum()))
    limits.JSON_KEYS.check(int((skeleton == ord(":")).sum()))
    limits.JSON_VALUES.check(int((skeleton == ord(",")).sum()) + 1)
    depth = np.cumsum(opened.astype(np.int32) - closed)
    limits.JSON_DEPTH.check(int(depth.max(initial=0)))


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise MeaningError(f"duplicate key {shorten(twice)} in one object", 0)
    return members


def _refuse_constant(name: str) -> object:
    raise MeaningError(f"{name} is not JSON; leave a missing value out", 0)


_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
_JSON_WORDS = {
    "Expecting value": "a JSON value",
    "Expecting property name": "a key in double quotes",
    "Expecting ':'": "':'",
    "Expecting ','": "',' or a closing bracket",
    "Unterminated string": "a closing '\"' for the string that starts here",
    "Invalid control character": "an escape such as \\n for a control character",
    "Invalid \\": "an escape that JSON knows",
    "Illegal trailing comma": "a closing bracket without a comma before it",
    "Extra data": "the end",
}
