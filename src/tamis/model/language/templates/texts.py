"""Texts that differ in their literals only are parsed once.

`split_text` takes the numbers and strings out of a text. What is left, the *shape*, is parsed once, with the literals
of one text that has it, and becomes a `Template`: the syntax tree with holes. Filling a template with the literals of
another text gives the tree that the parser would have made of it, and, for a conjunction of conditions on values,
its filters or its bounds as columns (`columns`), without a tree at all.

Whatever is unusual is not for a template: a text with a quoted name, GeoJSON, two geometries or a vector; a literal of
another type than the first one; one that changes the form of the filter (an empty range, two equal bounds) or that must
be refused. The answer is None then, and the ordinary road, `tamis.algebra.compiling.compile_source`, has the word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import shapely

from tamis.errors import ModelError
from tamis.model.language import limits, literals
from tamis.model.language.bind import bind
from tamis.model.language.lexer import NAME_PART
from tamis.model.language.literals import NUMBER, STRING, MeaningError
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    DistanceTest,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Leaf,
    Literal,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    leaves,
)
from tamis.model.language.normalise import filter_of, normalise
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.shapes import Operand
from tamis.model.subscription import Filter, Like, Values
from tamis.model.text.folding import Fold, fold_text
from tamis.model.text.patterns import reading_of
from tamis.model.types import Region, ScalarType, String
from tamis.model.value_set import Cut, ValueSet
from tamis.model.values import UnfitError, has_lone_surrogate

__all__ = [
    "CircleLiterals",
    "LiteralReader",
    "Parts",
    "RangeCondition",
    "Ranges",
    "Template",
    "checked_template",
    "literals_of",
    "make_template",
    "split_text",
    "with_values",
]

_POINTS = r"\([-+.0-9eE,\s]*+\)"
_RINGS = rf"\(\s*+{_POINTS}\s*+(?:,\s*+{_POINTS}\s*+)*+\)"
_PARTS = rf"\(\s*+{_RINGS}\s*+(?:,\s*+{_RINGS}\s*+)*+\)"
_WKT = rf"(?ai:(?:MULTI)?(?:POINT|LINESTRING|POLYGON))\s*+(?:{_POINTS}|{_RINGS}|{_PARTS})"
#: A literal as the lexer reads it; a digit inside a name is none.
_LITERAL = re.compile(
    rf"({STRING}|(?=[-+.0-9])(?<!{NAME_PART}){NUMBER}(?!{NAME_PART})|(?=[MPLmpl])(?<!{NAME_PART}){_WKT})"
)
#: Begins a quoted name, or GeoJSON.
_UNUSUAL = re.compile(r'["{]')
#: The words before the string of a moment.
_INSTANT = re.compile(r"(TIMESTAMP|DATE)\s*\(\s*\Z", re.IGNORECASE | re.ASCII)
#: The word before a pattern that is folded.
_ILIKE = re.compile(r"\bILIKE\s*\Z", re.IGNORECASE | re.ASCII)
#: Functions whose operands are folded, or must be.
_FOLDING = re.compile(r"\b(CASEI|ACCENTI)\b", re.IGNORECASE | re.ASCII)

#: What stands between the literals of a text, and the literals as they are written.
Parts = tuple[tuple[str, ...], list[str]]
#: The value of a literal of a template.
Filling = Literal | Operand

_Slot = Callable[[str], Filling]


#: Leaves whose literals can be exchanged.
_Fillable = Compare | Between | IsIn | IsLike | TextTest | SpatialTest | DistanceTest


class RangeCondition(NamedTuple):
    """A range of one attribute whose ends are literals: ``op`` as in `Compare`, and which literal it is."""

    op: str
    literal: int


class CircleLiterals(NamedTuple):
    """S_DWITHIN around a point: which literals are the point, the distance and its unit, if it has one."""

    attribute: str
    is_geodetic: bool
    point: int
    distance: int
    unit: int | None


def split_text(text: str) -> Parts | None:
    """Return the shape of a text and its literals; None for a text that no template can stand for.

    >>> split_text("price < 100 AND symbol = 'IBM'")
    (('price < ', ' AND symbol = ', ''), ['100', "'IBM'"])
    """
    if len(text) > limits.TEXT.most or _UNUSUAL.search(text) or has_lone_surrogate(text):
        return None
    pieces = _LITERAL.split(text)
    return tuple(pieces[::2]), pieces[1::2]


def make_template(text: str, parts: Parts, schema: Schema, *, open: bool = False) -> Template | None:
    """Return the template of the texts that have the shape of this one; None if there is none.

    The text was compiled under ``schema``; ``open`` is as in `tamis.model.language.bind.bind`.
    """
    shape, written = parts
    if any(map(_FOLDING.search, shape)):
        return None
    node = parse(text)
    node_literals = list(literals_of(node, is_text=True))
    reader = _TextReader([_slot(value, before) for value, before in zip(node_literals, shape, strict=False)])
    return checked_template(Template(node, reader, schema, open), written)


def checked_template(template: Template, written: Sequence[Any]) -> Template | None:
    """Return a template if its reader finds in ``written`` what the parser found there; else None."""
    node_literals = list(literals_of(template.node, is_text=isinstance(template.reader, _TextReader)))
    if (
        len(node_literals) != len(written)
        or None in node_literals
        or sum(isinstance(value, shapely.Geometry) for value in node_literals) > 1
    ):
        return None  # the limits on geometries are limits of a whole text
    read = template.read(written)
    if read is None or [(type(literal), literal) for literal in read] != [
        (type(literal), literal) for literal in node_literals
    ]:
        return None
    return template


def literals_of(node: Node, *, is_text: bool = False) -> Iterator[Filling | None]:
    """Yield the literals of a tree in the order of its text, without TRUE and FALSE; None for any other value.

    The operands of ILIKE, MATCHES and spatial functions are literals if the tree was made of a CQL2 text.
    """
    if isinstance(node, And | Or):
        for part in node.parts:
            yield from literals_of(part, is_text=is_text)
    elif isinstance(node, Not):
        yield from literals_of(node.part, is_text=is_text)
    elif isinstance(node, TextTest | SpatialTest | DistanceTest) and is_text:
        yield from _leaf_literals(node)
    elif isinstance(node, Compare | Between | IsIn | IsLike):
        yield from (value for value in _leaf_literals(node) if not isinstance(value, bool))
    elif not isinstance(node, IsNull | Constant):
        yield None


def _leaf_literals(leaf: _Fillable) -> tuple[Filling, ...]:
    if isinstance(leaf, Compare):
        return (leaf.value,)
    if isinstance(leaf, Between):
        return (leaf.lo, leaf.hi)
    if isinstance(leaf, TextTest):
        return leaf.operands
    if isinstance(leaf, SpatialTest):
        return (leaf.geometry,)
    if isinstance(leaf, DistanceTest):
        return (leaf.geometry, leaf.distance, *([] if leaf.unit is None else [leaf.unit]))
    return leaf.values if isinstance(leaf, IsIn) else (leaf.pattern,)


def _slot(value: Filling | None, before: str) -> _Slot:
    """Return what reads the literals that stand where ``value`` stood, behind the words ``before``."""
    if isinstance(value, shapely.Geometry):
        return _geometry
    if isinstance(value, Instant):
        call = _INSTANT.search(before)
        kind = call[1].upper() if call else ""
        return lambda written: literals.instant(kind, _string(written), 0)
    if _ILIKE.search(before):
        return lambda written: fold_text(_string(written), Fold.CASE)
    return _string if isinstance(value, str) else _number


def _string(written: str) -> str:
    if written[0] != "'":
        raise UnfitError("not a string")
    return literals.unquote(written)


def _number(written: str) -> int | float:
    if written[0] == "'" or written[0].isalpha():
        raise UnfitError("not a number")
    return literals.number(written, 0)


def _geometry(written: str) -> Operand:
    if not written[0].isalpha():
        raise UnfitError("not a geometry")
    return literals.wkt(written, 0, limits.LimitBudget())


class LiteralReader(Protocol):
    """Reads the literals of a shape as they are written; raises `MeaningError` or `UnfitError`."""

    def read(self, written: Sequence[Any]) -> list[Filling]:
        """Return the values of all literals of a text."""


class _TextReader:
    """Reads literals of CQL2 text, each by the slot it stands in."""

    def __init__(self, slots: Sequence[_Slot]) -> None:
        self.slots = slots

    def read(self, written: Sequence[str]) -> list[Filling]:
        """Return the values of all literals of a text."""
        return [slot(literal) for slot, literal in zip(self.slots, written, strict=True)]


class Template:
    """The filters of all texts of one shape, under one schema."""

    def __init__(self, node: Node, reader: LiteralReader, schema: Schema, open: bool) -> None:
        self.node = node
        self.reader = reader
        self._schema = schema
        self._open = open
        self.has_geometry = any(isinstance(leaf, SpatialTest | DistanceTest) for leaf in leaves(node))
        #: ``{attribute: (type, conditions)}``, ordered by attribute, if the text is a conjunction of ranges and at most
        #: one circle, else None; and the circle, if there is one.
        self.ranges, self.circle = _conjunction_of(node, schema)
        self._tests = _tests_of(node, schema)

    def read(self, written: Sequence[Any]) -> list[Filling] | None:
        """Return the values of literals; None when one is of another type, or must be refused."""
        try:
            return self.reader.read(written)
        except (ModelError, MeaningError, UnfitError):
            return None

    def read_one(self, number: int, written: str) -> Filling | None:
        """Return the value of one literal of a text; None as in `read`."""
        assert isinstance(self.reader, _TextReader)
        try:
            return self.reader.slots[number](written)
        except (ModelError, MeaningError, UnfitError):
            return None

    def fill(self, written: Sequence[Any]) -> tuple[Filter, ...] | None:
        """Return the filters of a text with these literals; None if the text must be parsed."""
        values = self.read(written)
        return None if values is None else self.filters(values)

    def filters(self, values: Sequence[Filling]) -> tuple[Filter, ...] | None:
        """Return the filters of a text with these values; None if the text must be parsed."""
        try:
            if self.ranges is not None and self.circle is None:
                return _filled(self.ranges, values)
            if self._tests is not None:
                return _of_tests(self._tests, values)
            return normalise(bind(with_values(self.node, iter(values)), self._schema, open=self._open))
        except (ModelError, MeaningError, UnfitError):
            return None


def with_values(node: Node, values: Iterator[Filling]) -> Node:
    """Return a tree with other literals, in the order of the text."""
    if isinstance(node, And | Or):
        return type(node)(tuple([with_values(part, values) for part in node.parts]))
    if isinstance(node, Not):
        return Not(with_values(node.part, values))
    if isinstance(node, _Fillable):
        filled = [value if isinstance(value, bool) else next(values) for value in _leaf_literals(node)]
        return _with_literals(node, filled)
    return node


def _with_literals(leaf: _Fillable, filled: list[Any]) -> Leaf:
    if isinstance(leaf, Compare):
        return Compare(leaf.attribute, leaf.op, filled[0])
    if isinstance(leaf, Between):
        return Between(leaf.attribute, filled[0], filled[1], leaf.negated)
    if isinstance(leaf, IsIn):
        return IsIn(leaf.attribute, tuple(filled), leaf.negated)
    if isinstance(leaf, TextTest):
        return TextTest(leaf.attribute, leaf.op, tuple(filled), leaf.fold, leaf.negated)
    if isinstance(leaf, SpatialTest):
        return SpatialTest(leaf.function, leaf.attribute, filled[0])
    if isinstance(leaf, DistanceTest):
        geometry, distance, unit = (*filled, None)[:3]
        literals.check_distance(distance, unit, 0)
        return DistanceTest(leaf.attribute, geometry, float(distance), unit)
    return IsLike(leaf.attribute, filled[0], leaf.negated)


Ranges = dict[str, tuple[ScalarType, list[RangeCondition]]]

_LOWER, _UPPER = frozenset({"=", ">", ">="}), frozenset({"=", "<", "<="})


def _conjunction_of(node: Node, schema: Schema) -> tuple[Ranges | None, CircleLiterals | None]:
    """Return the ranges and the circle of a conjunction of nothing else; None for the ranges of any other tree."""
    ranges: Ranges = {}
    circle: CircleLiterals | None = None
    number = 0
    for leaf in node.parts if isinstance(node, And) else (node,):
        if isinstance(leaf, DistanceTest) and circle is None:
            circle = _circle_of(leaf, number, schema)
            if circle is None:
                return None, None
            number += len(_leaf_literals(leaf))
        elif isinstance(leaf, Compare | Between):
            conditions, kind = _conditions_of(leaf, number), schema.get(leaf.attribute)
            if not conditions or not isinstance(kind, ScalarType):
                return None, None
            ranges.setdefault(leaf.attribute, (kind, []))[1].extend(conditions)
            number += len(conditions)
        else:
            return None, None
    return dict(sorted(ranges.items())), circle


def _conditions_of(leaf: Compare | Between, number: int) -> list[RangeCondition]:
    """Return the conditions of a leaf whose first literal is ``number``; none when it is not a range."""
    if isinstance(leaf, Between):
        is_range = not leaf.negated and not isinstance(leaf.lo, bool)
        return [RangeCondition(">=", number), RangeCondition("<=", number + 1)] if is_range else []
    return [RangeCondition(leaf.op, number)] if leaf.op in _LOWER | _UPPER and not isinstance(leaf.value, bool) else []


def _circle_of(leaf: DistanceTest, number: int, schema: Schema) -> CircleLiterals | None:
    """Return the literals of a distance from a point; None when it is one from other geometry."""
    kind = schema.get(leaf.attribute)
    if not isinstance(kind, Region) or not isinstance(leaf.geometry, shapely.Point):
        return None
    unit = None if leaf.unit is None else number + 2
    return CircleLiterals(leaf.attribute, kind.geodetic, number, number + 1, unit)


def _tests_of(node: Node, schema: Schema) -> list[TextTest] | None:
    """Return the tests of a conjunction of nothing but ILIKE and MATCHES; None for any other tree."""
    leaves = node.parts if isinstance(node, And) else (node,)
    tests = [leaf for leaf in leaves if isinstance(leaf, TextTest) and leaf.op in ("LIKE", "MATCHES")]
    if len(tests) < len(leaves) or not all(isinstance(schema.get(test.attribute), String) for test in tests):
        return None
    return tests


def _of_tests(tests: Sequence[TextTest], values: Sequence[Literal]) -> tuple[Filter, ...]:
    likes: list[Like] = []
    for test, pattern in zip(tests, values, strict=True):
        assert isinstance(pattern, str)
        reading_of(pattern, test.fold, test.op == "MATCHES")
        likes.append(Like(test.attribute, pattern, test.negated, test.fold, test.op == "MATCHES"))
    filter = filter_of(likes)
    return () if filter is None else (filter,)


def _filled(ranges: Ranges, values: Sequence[Literal]) -> tuple[Filter, ...] | None:
    constraints = []
    for name, (kind, conditions) in ranges.items():
        ends = _joined_ends(kind, conditions, values)
        if ends is None:
            return None
        start, stop = ends
        cuts = (start, stop) if start and stop else (start,) if start else (stop,) if stop else ()
        constraints.append(Values(name, ValueSet(cuts, from_below=start is None)))
    return (Filter(tuple(constraints)),)


def _joined_ends(
    kind: ScalarType, conditions: Sequence[RangeCondition], values: Sequence[Literal]
) -> tuple[Cut | None, Cut | None] | None:
    """Return the cuts of the range that meets all conditions; None when it is empty, or two bounds are equal."""
    start: Cut | None = None
    stop: Cut | None = None
    for op, number in conditions:
        literal = values[number]
        value = kind.from_literal(literal)
        if op in _LOWER:
            cut = kind.after(value) if op == ">" else kind.before(value)
            if cut == start if cut is not None else op == ">":
                return None
            start = cut if start is None or (cut is not None and cut > start) else start
        if op in _UPPER:
            cut = kind.before(value) if op == "<" else kind.after(value)
            if cut == stop if cut is not None else op == "<":
                return None
            stop = cut if stop is None or (cut is not None and cut < stop) else stop
    return None if start is not None and stop is not None and not start < stop else (start, stop)
