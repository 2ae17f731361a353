"""The syntax tree: a subscription as it was written, before it is bound to a schema.

A node knows where it stands in the source (``span``, half-open offsets; None when it came as JSON or was
made by hand). The span takes no part in equality, so ``parse(format(tree)) == tree``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from tamis.model.shapes import Operand
from tamis.model.text.folding import Fold

__all__ = [
    "And",
    "Arithmetic",
    "ArrayTest",
    "Between",
    "Calculated",
    "Call",
    "ClockTest",
    "Compare",
    "Constant",
    "CosineTest",
    "DistanceTest",
    "Expression",
    "Instant",
    "IsIn",
    "IsLike",
    "IsNull",
    "Leaf",
    "Literal",
    "NetworkTest",
    "Node",
    "Not",
    "Or",
    "Property",
    "Span",
    "SpatialTest",
    "TextTest",
    "WithinBall",
    "leaves",
]

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Instant:
    """A TIMESTAMP or DATE literal: microseconds UTC."""

    microseconds: int


#: A fraction that is not a float64 is written as a division: ``1 / 3``.
Literal = bool | int | float | Fraction | str | Instant


@dataclass(frozen=True, slots=True)
class Property:
    """An attribute inside an expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``; ``op`` is one of ``+ - * / % div ^``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """``name(arguments)``: a function that gives a value."""

    name: str
    args: tuple[Expression, ...]


#: What a comparison may have on either side.
Expression = Literal | Property | Arithmetic | Call


@dataclass(frozen=True, slots=True)
class Compare:
    """``attribute op value``; ``op`` is one of ``= <> < <= > >=``."""

    attribute: str
    op: str
    value: Literal
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``attribute [NOT] BETWEEN lo AND hi``, both ends included."""

    attribute: str
    lo: Literal
    hi: Literal
    negated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class IsIn:
    """``attribute [NOT] IN (values)``."""

    attribute: str
    values: tuple[Literal, ...]
    negated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class IsLike:
    """``attribute [NOT] LIKE pattern``: ``%`` any text, ``_`` one character, backslash escapes."""

    attribute: str
    pattern: str
    negated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TextTest:
    """``attribute [NOT] MATCHES expression``, or a comparison of folded text: ``CASEI(attribute) = CASEI(operand)``.

    ``op`` is one of ``= IN LIKE MATCHES``; only IN has several operands. Operands of all but MATCHES are folded.
    """

    attribute: str
    op: str
    operands: tuple[str, ...]
    fold: Fold = Fold.NONE
    negated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``attribute IS [NOT] NULL``."""

    attribute: str
    negated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SpatialTest:
    """``FUNCTION(attribute, geometry)``; ``function`` is upper case: S_INTERSECTS, RCC_MEETS, ..."""

    function: str
    attribute: str
    geometry: Operand
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DistanceTest:
    """``S_DWITHIN(attribute, geometry, distance[, 'unit'])``, the distance itself included."""

    attribute: str
    geometry: Operand
    distance: float
    unit: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CosineTest:
    """``V_COSINE(attribute, (c1, ..., cn), least)``: the cosine of the angle between the two is at least this."""

    attribute: str
    direction: tuple[float, ...]
    least: float
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NetworkTest:
    """``IP_WITHIN(attribute, 'network')``: the address belongs to the network."""

    attribute: str
    network: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ClockTest:
    """``T_TIME(attribute, 'from', 'to', 'zone')`` and ``T_WEEKDAY(attribute, 'days', 'zone')``: local time.

    ``function`` is T_TIME or T_WEEKDAY, ``operands`` what stands between the attribute and the zone, as written.
    """

    function: str
    attribute: str
    operands: tuple[str, ...]
    zone: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WithinBall:
    """``V_WITHIN(attribute, (c1, ..., cn), radius)``, the rim included."""

    attribute: str
    center: tuple[float, ...]
    radius: float
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ArrayTest:
    """``FUNCTION(attribute, (values))``; ``function`` is one of A_CONTAINS, A_CONTAINEDBY, A_EQUALS, A_OVERLAPS."""

    function: str
    attribute: str
    values: tuple[Literal, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Calculated:
    """A condition on expressions, where `Compare`, `Between`, `IsIn` and `IsNull` have an attribute and literals.

    ``op`` is one of ``= <> < <= > >=`` (two operands), ``BETWEEN`` (three), ``IN`` (two or more) and ``NULL`` (one);
    only the last three may be negated. ``is_time``: it was written as a
    relation of time (T_BEFORE, ...), so that its operands must be moments.
    """

    op: str
    operands: tuple[Expression, ...]
    negated: bool = False
    span: Span | None = field(default=None, compare=False)
    is_time: bool = field(default=False, repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of all operands, from left to right, each once."""
        names: dict[str, None] = {}
        waiting: list[Expression] = list(reversed(self.operands))
        while waiting:
            expression = waiting.pop()
            if isinstance(expression, Property):
                names[expression.name] = None
            elif isinstance(expression, Arithmetic):
                waiting += (expression.right, expression.left)
            elif isinstance(expression, Call):
                waiting += reversed(expression.args)
        return tuple(names)

    @property
    def attribute(self) -> str:
        """The first of its attributes; empty when there is none."""
        return next(iter(self.attributes), "")


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE as a whole condition."""

    value: bool
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT part``."""

    part: Node
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """Two or more parts joined by AND."""

    parts: tuple[Node, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more parts joined by OR."""

    parts: tuple[Node, ...]
    span: Span | None = field(default=None, compare=False)


Leaf = (
    Compare
    | Between
    | IsIn
    | IsLike
    | TextTest
    | IsNull
    | SpatialTest
    | DistanceTest
    | WithinBall
    | CosineTest
    | ClockTest
    | NetworkTest
    | ArrayTest
    | Calculated
    | Constant
)
Node = Leaf | Not | And | Or


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the conditions of a tree from left to right."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, And | Or):
            stack.extend(reversed(current.parts))
        elif isinstance(current, Not):
            stack.append(current.part)
        else:
            yield current
