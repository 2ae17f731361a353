"""Writing a subscription: a syntax tree becomes canonical CQL2 text, which reads back as the same tree.

Parentheses stand only where the tree needs them, names are quoted only where they must be, floats are
written by their shortest exact digits, moments in UTC with microseconds, and regions as BBOX or WKT whose
coordinates read back to the last bit.
"""

from __future__ import annotations

from tamis.model.language import limits
from tamis.model.language.arithmetic.writing import calculated_text, literal_text, name_text, quoted
from tamis.model.language.literals import region_text
from tamis.model.language.nodes import (
    And,
    ArrayTest,
    Between,
    Calculated,
    ClockTest,
    Compare,
    Constant,
    CosineTest,
    DistanceTest,
    IsIn,
    IsLike,
    Leaf,
    NetworkTest,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.text.folding import Fold

__all__ = ["format_node"]


def format_node(node: Node) -> str:
    """Return the canonical text of a tree; ``parse`` turns it back into an equal one.

    The text may be longer than `parse` accepts when the source was near the limit; JSON has no such gap.

    Examples
    --------
    >>> format_node(And((Compare("a", "=", 1), Or((Compare("in", "<", 0.5), Constant(False))))))
    'a = 1 AND ("in" < 0.5 OR FALSE)'
    """
    limits.check_nesting(node)
    return _written(node)


def _written(node: Node) -> str:
    if isinstance(node, And):
        return " AND ".join(_bracketed(part, And | Or) for part in node.parts)
    if isinstance(node, Or):
        return " OR ".join(_bracketed(part, Or) for part in node.parts)
    if isinstance(node, Not):
        return f"NOT {_bracketed(node.part, And | Or)}"
    if isinstance(node, Constant):
        return "TRUE" if node.value else "FALSE"
    return calculated_text(node) if isinstance(node, Calculated) else _leaf(node)


def _bracketed(part: Node, looser: object) -> str:
    """Write a part, in parentheses when it is of a kind that would fall apart without them."""
    text = _written(part)
    return f"({text})" if isinstance(part, looser) else text  # type: ignore[arg-type]


def _leaf(node: Leaf) -> str:
    assert not isinstance(node, Constant | Calculated)
    name = name_text(node.attribute)
    if isinstance(node, Compare):
        return f"{name} {node.op} {literal_text(node.value)}"
    if isinstance(node, SpatialTest):
        return f"{node.function}({name}, {region_text(node.geometry)})"
    if isinstance(node, ArrayTest):
        return f"{node.function}({name}, ({', '.join(map(literal_text, node.values))}))"
    if isinstance(node, NetworkTest):
        return f"IP_WITHIN({name}, {quoted(node.network)})"
    if isinstance(node, ClockTest):
        return f"{node.function}({name}, {', '.join(map(quoted, (*node.operands, node.zone)))})"
    if isinstance(node, DistanceTest):
        unit = "" if node.unit is None else f", {quoted(node.unit)}"
        return f"S_DWITHIN({name}, {region_text(node.geometry)}, {literal_text(node.distance)}{unit})"
    if isinstance(node, CosineTest):
        return f"V_COSINE({name}, ({', '.join(map(literal_text, node.direction))}), {literal_text(node.least)})"
    if isinstance(node, WithinBall):
        center = ", ".join(map(literal_text, node.center))
        return f"V_WITHIN({name}, ({center}), {literal_text(node.radius)})"
    negation = "NOT " if node.negated else ""
    if isinstance(node, Between):
        return f"{name} {negation}BETWEEN {literal_text(node.lo)} AND {literal_text(node.hi)}"
    if isinstance(node, IsIn):
        return f"{name} {negation}IN ({', '.join(map(literal_text, node.values))})"
    if isinstance(node, IsLike):
        return f"{name} {negation}LIKE {quoted(node.pattern)}"
    if isinstance(node, TextTest):
        return _text_test(node)
    return f"{name} IS {negation}NULL"


def _text_test(node: TextTest) -> str:
    name = _folded(name_text(node.attribute), node.fold)
    negation = "NOT " if node.negated else ""
    if node.op == "MATCHES":
        return f"{name} {negation}MATCHES {quoted(node.operands[0])}"
    operands = [_folded(quoted(operand), node.fold) for operand in node.operands]
    if node.op == "=":
        return f"{name} {'<>' if node.negated else '='} {operands[0]}"
    return f"{name} {negation}IN ({', '.join(operands)})" if node.op == "IN" else f"{name} {negation}LIKE {operands[0]}"


def _folded(text: str, fold: Fold) -> str:
    inner = f"ACCENTI({text})" if fold & Fold.ACCENTS else text
    return f"CASEI({inner})" if fold & Fold.CASE else inner
