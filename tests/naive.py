"""Obvious implementations to compare the real ones with: short, slow, and made of other parts.

A subscription is evaluated on its syntax tree in SQL's three-valued logic, where tamis pushes NOT down
and builds sets of values. LIKE is the textbook recursion, regions are asked with shapely's named
predicates, where tamis reads a matrix, and balls are measured in fractions. `grid_relations` needs no
geometry at all: regions made of the cells of a grid are sets of cells, edges and corners. `exact_relation` cuts
edges in fractions, for polygons so close to touching that shapely may err.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
import re
import sys
import unicodedata
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from tamis.model.language.nodes import (
    And,
    Arithmetic,
    ArrayTest,
    Between,
    Calculated,
    Call,
    ClockTest,
    Compare,
    Constant,
    CosineTest,
    DistanceTest,
    Expression,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    Property,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.text.folding import Fold

#: True, False or unknown.
Outcome = bool | None

RELATIONS = ("disjoint", "meets", "overlaps", "equals", "inside", "contains", "covers", "covered_by")

#: What OGC's functions mean, as relations "event REL operand".
FUNCTIONS = {
    **{f"RCC_{name.upper()}": {name} for name in RELATIONS},
    "S_INTERSECTS": {"meets", "overlaps", "equals", "inside", "contains", "covers", "covered_by"},
    "S_DISJOINT": {"disjoint"},
    "S_WITHIN": {"inside", "covered_by", "equals"},
    "S_CONTAINS": {"contains", "covers", "equals"},
    "S_TOUCHES": {"meets"},
    "S_OVERLAPS": {"overlaps"},
    "S_EQUALS": {"equals"},
}

_OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(node: Node, event: Mapping[str, Any]) -> Outcome:
    """Return what a syntax tree says of a canonical event: True, False, or None for unknown."""
    if isinstance(node, And):
        return conjunction([evaluate(part, event) for part in node.parts])
    if isinstance(node, Or):
        return disjunction([evaluate(part, event) for part in node.parts])
    if isinstance(node, Not):
        return negation(evaluate(node.part, event))
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Calculated):
        return calculated(node, event)
    value = event.get(node.attribute)
    if isinstance(node, IsNull):
        return (value is None) != node.negated
    if isinstance(value, tuple):
        return _some_holds(node, value)
    if isinstance(node, CosineTest) and value is not None:
        length = math.hypot(*value) * math.hypot(*node.direction)
        if not any(value):
            return None
        cosine = sum(a / max(map(abs, value)) * b for a, b in zip(value, node.direction, strict=True))
        return bool(cosine >= (node.least - 1e-12) * length / max(map(abs, value)))
    return None if value is None else _holds(node, value)


def calculated(node: Calculated, event: Mapping[str, Any]) -> Outcome:
    """Return what a condition on expressions says, in fractions and three values."""
    first, *others = [number_of(operand, event) for operand in node.operands]
    if node.op == "NULL":
        return (first is None) != node.negated
    compared = [(">=", others[0]), ("<=", others[1])] if node.op == "BETWEEN" else [("=", other) for other in others]
    if node.op in _OPERATORS:
        compared = [(node.op, others[0])]
    outcomes = [
        None if first is None or other is None else bool(_OPERATORS[op](first, other)) for op, other in compared
    ]
    outcome = disjunction(outcomes) if node.op == "IN" else conjunction(outcomes)
    return negation(outcome) if node.negated else outcome


def number_of(expression: Expression, event: Mapping[str, Any]) -> Any:
    """Return the value of an expression; None when it has none, or one beyond float64."""
    if isinstance(expression, Arithmetic):
        left, right = number_of(expression.left, event), number_of(expression.right, event)
        if left is None or right is None:
            return None
        result = _ARITHMETIC[expression.op](Fraction(left), Fraction(right))
        return None if result is None or abs(result) > sys.float_info.max else result
    if isinstance(expression, Call) and expression.name != "COMPARE":
        return _related(expression, event)
    if isinstance(expression, Call):
        left, right = (number_of(arg, event) for arg in expression.args)
        return None if left is None or right is None else (left > right) - (left < right)
    value = event.get(expression.name) if isinstance(expression, Property) else _plain(expression)
    return Fraction(value) if isinstance(value, float) else value


def _related(call: Call, event: Mapping[str, Any]) -> Outcome:
    """Return what a function says of two attributes: the second is taken for what would stand in the text."""
    left, right = (event.get(arg.name) for arg in call.args if isinstance(arg, Property))
    if left is None or right is None:
        return None
    if call.name.startswith("A_"):
        return _some_holds(ArrayTest(call.name, "", tuple(right)), left)
    return _holds(SpatialTest(call.name, "", right), left)


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if abs(exponent) > 1024 or (base == 0 and exponent < 0):
        return None
    if exponent.denominator == 1:
        return base ** int(exponent)
    return None if base < 0 else Fraction(float(base) ** float(exponent))


_ARITHMETIC: dict[str, Callable[[Fraction, Fraction], Fraction | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: None if b == 0 else a / b,
    "div": lambda a, b: None if b == 0 else Fraction(math.trunc(a / b)),
    "%": lambda a, b: None if b == 0 else a - b * math.trunc(a / b),
    "^": _power,
}


def _some_holds(node: Node, elements: tuple[Any, ...]) -> bool:
    """Whether some element of a list satisfies a condition; NOT IN, NOT BETWEEN and NOT LIKE say that none does."""
    if isinstance(node, ArrayTest):
        listed = {_plain(value) for value in node.values}
        return {
            "A_CONTAINS": listed <= set(elements),
            "A_CONTAINEDBY": set(elements) <= listed,
            "A_EQUALS": listed == set(elements),
            "A_OVERLAPS": bool(listed & set(elements)),
        }[node.function]
    negated = isinstance(node, Between | IsIn | IsLike) and node.negated
    negated = negated or (isinstance(node, TextTest) and node.op != "=" and node.negated)
    return any(_holds(node, element) != negated for element in elements) != negated


def conjunction(outcomes: Iterable[Outcome]) -> Outcome:
    listed = list(outcomes)
    if any(outcome is False for outcome in listed):
        return False
    return None if None in listed else True


def disjunction(outcomes: Iterable[Outcome]) -> Outcome:
    listed = list(outcomes)
    if any(outcome is True for outcome in listed):
        return True
    return None if None in listed else False


def negation(outcome: Outcome) -> Outcome:
    return None if outcome is None else not outcome


def _holds(node: Node, value: Any) -> bool:
    """Whether a condition holds for a value that is there."""
    if isinstance(node, Compare):
        return bool(_OPERATORS[node.op](value, _plain(node.value)))
    if isinstance(node, Between):
        return (_plain(node.lo) <= value <= _plain(node.hi)) != node.negated
    if isinstance(node, IsIn):
        return any(value == _plain(literal) for literal in node.values) != node.negated
    if isinstance(node, IsLike):
        return like(node.pattern, value) != node.negated
    if isinstance(node, TextTest):
        return text_holds(node, value) != node.negated
    if isinstance(node, SpatialTest):
        return spatial_holds(node.function, value, node.geometry)
    if isinstance(node, DistanceTest):
        return distance(value, mended(node.geometry), node.unit) <= node.distance
    if isinstance(node, ClockTest):
        return clock_holds(node, value)
    assert isinstance(node, WithinBall)
    return within(value, node.center, node.radius)


def spatial_holds(function: str, value: shapely.Geometry, operand: shapely.Geometry) -> bool:
    """Whether shapely says so; a ring that jumps across the antimeridian is moved to the east with the value."""
    if shapely.bounds(operand)[0] < -120 and shapely.bounds(operand)[2] > 120 and "Polygon" in operand.geom_type:
        value, operand = (
            shapely.transform(geometry, lambda xy: xy + (xy[:, :1] < 0) * [360.0, 0.0]) for geometry in (value, operand)
        )
    operand = mended(operand)
    if is_area(operand) and (is_area(value) or isinstance(value, shapely.Point)) and function != "S_CROSSES":
        return relation(value, operand) in FUNCTIONS[function]
    if function.startswith("RCC_"):
        named = {name: bool(holds) for name, holds in _predicates(value, operand).items()}
        named["overlaps"] = not any(holds for name, holds in named.items() if name not in ("overlaps", "covered_by"))
        named["covered_by"] = bool(shapely.within(value, operand)) and not named["inside"]
        named["overlaps"] &= not named["covered_by"]
        return named[function[4:].lower()]
    return bool(getattr(shapely, function[2:].lower())(value, operand))


def mended(shape: shapely.Geometry) -> shapely.Geometry:
    """Return a geometry; polygons that are not valid as the union of what GEOS makes of the lines of each."""
    if shape.is_valid or not is_area(shape):
        return shape
    pieces = shapely.get_parts(shapely.get_parts(shapely.make_valid(shapely.get_parts(shape))))
    return shapely.union_all(pieces[shapely.get_dimensions(pieces) == 2])


def is_area(shape: shapely.Geometry) -> bool:
    """Whether a geometry is one or more polygons."""
    return isinstance(shape, shapely.Polygon | shapely.MultiPolygon)


_UNITS = {"m": 1.0, "km": 1e3, "mi": 1609.344, "nmi": 1852.0, "ft": 0.3048}


def distance(a: shapely.Geometry, b: shapely.Geometry, unit: str | None) -> float:
    """Return the distance in a unit of the globe, by haversine between many points of both, or in the plane."""
    if unit is None:
        return float(shapely.distance(a, b))
    if shapely.intersects(a, b):
        return 0.0
    (x, y), (u, v) = (np.radians(shapely.get_coordinates(shapely.segmentize(geometry, 0.02))).T for geometry in (a, b))
    dy, dx = y[:, None] - v[None], x[:, None] - u[None]
    h = np.sin(dy / 2) ** 2 + np.cos(y)[:, None] * np.cos(v)[None] * np.sin(dx / 2) ** 2
    return float(2 * 6_371_008.771_415 * np.arcsin(np.sqrt(np.clip(h, 0, 1))).min()) / _UNITS[unit]


def clock_holds(node: ClockTest, microseconds: int) -> bool:
    """Whether the clocks of a zone show an hour or a day, by the calendar of Python."""
    local = dt.datetime.fromtimestamp(microseconds // 10**6, zoneinfo.ZoneInfo(node.zone))
    if node.function == "T_TIME":
        begin, end = node.operands
        now = f"{local:%H:%M:%S}"
        begin, end = f"{begin}:00"[:8], f"{end}:00"[:8]
        return begin <= now < end if begin < end else now >= begin or now < end
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    for part in node.operands[0].split(","):
        first, _, last = (day.strip() for day in part.partition("-"))
        ring = (days * 2)[days.index(first) :]
        if days[local.weekday()] in ring[: ring.index(last or first) + 1]:
            return True
    return False


def _plain(literal: Literal) -> Any:
    return literal.microseconds if isinstance(literal, Instant) else literal


def text_holds(node: TextTest, value: str) -> bool:
    """Whether a test of text holds, its negation apart; regular expressions are Python's."""
    text = folded(value, node.fold)
    if node.op == "MATCHES":
        (expression,) = node.operands
        flags = re.ASCII | (re.IGNORECASE if node.fold & Fold.CASE else 0)
        strict_end = expression if re.match(r"\(\?[a-z]*m", expression) else expression.replace("$", r"\Z")
        return re.search(strict_end, text, flags) is not None
    if node.op == "LIKE":
        return like(node.operands[0], text)
    return text in node.operands


def folded(text: str, fold: Fold) -> str:
    """Return a text without its case or accents."""
    if fold & Fold.CASE:
        text = text.casefold()
    if fold & Fold.ACCENTS:
        letters = (c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = unicodedata.normalize("NFC", "".join(letters))
    return text


def like(pattern: str, text: str) -> bool:
    """Whether a text fits a LIKE pattern, by recursion over both."""

    @cache
    def fits(i: int, j: int) -> bool:
        if i == len(pattern):
            return j == len(text)
        if pattern[i] == "%":
            return fits(i + 1, j) or (j < len(text) and fits(i, j + 1))
        if j == len(text):
            return False
        if pattern[i] == "\\":
            return pattern[i + 1] == text[j] and fits(i + 2, j + 1)
        return pattern[i] in ("_", text[j]) and fits(i + 1, j + 1)

    return fits(0, 0)


def within(point: Sequence[float], center: Sequence[float], radius: float) -> bool:
    """Whether a point lies in a closed ball."""
    squares = [(Fraction(float(x)) - Fraction(c)) ** 2 for x, c in zip(point, center, strict=True)]
    return sum(squares) <= Fraction(radius) ** 2


def relation(a: shapely.Geometry, b: shapely.Polygon) -> str:
    """Return the one relation "a REL b" of a polygon or a point to a polygon."""
    [held] = [name for name, holds in _predicates(a, b).items() if holds]
    return held


def relations(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the relation of each polygon or point of ``a`` to its partner in ``b``, as a place in `RELATIONS`."""
    named = _predicates(a, b)
    held = np.array([named[name] for name in RELATIONS])
    assert (held.sum(axis=0) == 1).all(), "exactly one relation holds"
    return held.argmax(axis=0)


def _predicates(a: Any, b: Any) -> dict[str, Any]:
    equals = shapely.equals(a, b)
    inside, contains = shapely.contains_properly(b, a), shapely.contains_properly(a, b)
    is_area = shapely.get_dimensions(a) == 2
    return {
        "disjoint": shapely.disjoint(a, b),
        "meets": shapely.touches(a, b),
        "overlaps": shapely.overlaps(a, b),
        "equals": equals,
        "inside": inside,
        "contains": contains,
        "covers": shapely.covers(a, b) & ~equals & ~contains,
        "covered_by": shapely.covered_by(a, b) & ~equals & ~inside & is_area,
    }


def grid_relations(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the relation of every region of ``a`` to every region of ``b``, as places in `RELATIONS`.

    A region is the cells of a grid that belong to it: ``bool[n, rows, columns]``. Two regions meet where
    they share a corner or an edge; one is part of the other when its cells are.
    """
    closed_a, inner_a = _complex(a)
    closed_b, inner_b = _complex(b)
    apart = ~_share(closed_a, closed_b)
    open_share = _share(inner_a, inner_b)
    a_within, b_within = ~_share(closed_a, ~closed_b), ~_share(~closed_a, closed_b)
    rims_share = _share(closed_a & ~inner_a, closed_b & ~inner_b)
    codes = np.full(apart.shape, RELATIONS.index("overlaps"))
    for name, where in (
        ("disjoint", apart),
        ("meets", ~apart & ~open_share),
        ("equals", a_within & b_within),
        ("inside", a_within & ~b_within & ~rims_share),
        ("covered_by", a_within & ~b_within & rims_share),
        ("contains", b_within & ~a_within & ~rims_share),
        ("covers", b_within & ~a_within & rims_share),
    ):
        codes[where] = RELATIONS.index(name)
    return codes


def _complex(cells: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the closure and the interior of regions as flat sets of cells, edges and corners.

    Cell (i, j) stands at (2i + 1, 2j + 1) of a finer grid; between cells stand edges, between edges corners.
    Each belongs to the closure when a cell around it is in the region, to the interior when all of them are.
    """
    n, rows, columns = cells.shape
    around = np.zeros((4, n, 2 * rows + 1, 2 * columns + 1), dtype=bool)
    for quarter, (down, right) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        # The cell that each place of the finer grid sees in one of four directions.
        i, j = (np.arange(2 * size + 1) for size in (rows, columns))
        seen_i, seen_j = (i - 1 + down) // 2, (j - 1 + right) // 2
        valid = np.ix_(range(n), (seen_i >= 0) & (seen_i < rows), (seen_j >= 0) & (seen_j < columns))
        kept_i, kept_j = (seen[(seen >= 0) & (seen < size)] for seen, size in ((seen_i, rows), (seen_j, columns)))
        around[quarter][valid] = cells[:, kept_i][:, :, kept_j]
    return around.any(axis=0).reshape(n, -1), around.all(axis=0).reshape(n, -1)


def _share(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether each set of ``a`` has something in common with each set of ``b``."""
    return a.astype(np.float32) @ b.T.astype(np.float32) > 0


def exact_relation(a: Any, b: Any) -> str:
    """Return the relation of two simple polygons by rational arithmetic: no filter, no kernel, no GEOS.

    Every edge of each is cut at every point it shares with the other's edges, and the middle of each piece is inside
    the other, outside it or on it. What is found of both boundaries is looked up, as in a textbook.
    """
    rings = [_rational_ring(polygon) for polygon in (a, b)]
    touch, a_found = _pieces(rings[0], rings[1])
    _, b_found = _pieces(rings[1], rings[0])
    if {"in", "out"} <= a_found or {"in", "out"} <= b_found:
        return "overlaps"
    if a_found == b_found == {"on"}:
        return "equals"
    if "in" in a_found or ("on" in a_found and len(a_found) == 1 and "out" in b_found):
        return "covered_by" if touch else "inside"
    if "in" in b_found or ("on" in b_found and len(b_found) == 1 and "out" in a_found):
        return "covers" if touch else "contains"
    return "meets" if touch else "disjoint"


Pair = tuple[Fraction, Fraction]


def _rational_ring(polygon: Any) -> list[Pair]:
    return [(Fraction(x), Fraction(y)) for x, y in shapely.get_coordinates(polygon)[:-1].tolist()]


def _pieces(ring: list[Pair], other: list[Pair]) -> tuple[bool, set[str]]:
    """Return whether a ring touches another, and where the pieces of its edges lie: in, out or on."""
    sides, touch = set(), False
    for p, q in zip(ring, [*ring[1:], ring[0]], strict=True):
        cuts = {Fraction(0), Fraction(1)}
        for r, s in zip(other, [*other[1:], other[0]], strict=True):
            shared = _shared(p, q, r, s)
            touch |= bool(shared)
            cuts.update(shared)
        ordered = sorted(cuts)
        for low, high in itertools.pairwise(ordered):
            middle = (low + high) / 2
            sides.add(_place((p[0] + (q[0] - p[0]) * middle, p[1] + (q[1] - p[1]) * middle), other))
    return touch, sides


def _cross(o: Pair, p: Pair, q: Pair) -> Fraction:
    return (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0])


def _shared(p: Pair, q: Pair, r: Pair, s: Pair) -> list[Fraction]:
    """Return where on the edge from p to q (0 to 1) it meets the edge from r to s: none, a place, or two ends."""
    along = 0 if q[0] != p[0] else 1
    slope = (q[0] - p[0]) * (s[1] - r[1]) - (q[1] - p[1]) * (s[0] - r[0])
    if slope:
        t = ((r[0] - p[0]) * (s[1] - r[1]) - (r[1] - p[1]) * (s[0] - r[0])) / slope
        u = ((r[0] - p[0]) * (q[1] - p[1]) - (r[1] - p[1]) * (q[0] - p[0])) / slope
        return [t] if 0 <= t <= 1 and 0 <= u <= 1 else []
    if _cross(p, q, r):
        return []
    low, high = sorted((end[along] - p[along]) / (q[along] - p[along]) for end in (r, s))
    low, high = max(low, Fraction(0)), min(high, Fraction(1))
    return [low, high] if low <= high else []


def _place(point: Pair, ring: list[Pair]) -> str:
    """Return where a point lies: on the ring, or by the crossings of a ray to the right."""
    inside = False
    for r, s in zip(ring, [*ring[1:], ring[0]], strict=True):
        side = _cross(r, s, point)
        within = all(min(r[k], s[k]) <= point[k] <= max(r[k], s[k]) for k in (0, 1))
        if side == 0 and within:
            return "on"
        if (r[1] > point[1]) != (s[1] > point[1]):
            inside ^= (side > 0) == (s[1] > r[1])
    return "in" if inside else "out"
