"""The syntax tree: a subscription as it was written, before any schema gives it meaning.

A node knows where it stands in the source (``span``, half-open offsets; None when it came as JSON or was
made by hand). The span takes no part in equality, so ``parse(format(tree)) == tree``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tamis.model.shapes import Operand
from tamis.model.text.folding import Fold

__all__ = [
    "And",
    "Between",
    "Compare",
    "Constant",
    "Instant",
    "IsIn",
    "IsLike",
    "IsNull",
    "Leaf",
    "Literal",
    "Node",
    "Not",
    "Or",
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


Literal = bool | int | float | str | Instant


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
class WithinBall:
    """``V_WITHIN(attribute, (c1, ..., cn), radius)``, the rim included."""

    attribute: str
    center: tuple[float, ...]
    radius: float
    span: Span | None = field(default=None, compare=False)


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


Leaf = Compare | Between | IsIn | IsLike | TextTest | IsNull | SpatialTest | WithinBall | Constant
Node = Leaf | Not | And | Or


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the conditions of a tree from left to right."""
    stack: list[Node] = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, And | Or):
            stack.extend(reversed(one.parts))
        elif isinstance(one, Not):
            stack.append(one.part)
        else:
            yield one
