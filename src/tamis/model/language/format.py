"""Writing a subscription: a syntax tree becomes canonical CQL2 text, which reads back as the same tree.

Parentheses stand only where the tree needs them, names are quoted only where they must be, floats are
written by their shortest exact digits, moments in UTC with microseconds, and regions as BBOX or WKT whose
coordinates read back to the last bit.
"""

from __future__ import annotations

import math

from tamis.errors import SubscriptionError
from tamis.model.language import limits
from tamis.model.language.lexer import is_plain_name
from tamis.model.language.literals import instant_text, region_text
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    Instant,
    IsIn,
    IsLike,
    Leaf,
    Literal,
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
    return _leaf(node)


def _bracketed(part: Node, looser: object) -> str:
    """Write a part, in parentheses when it is of a kind that would fall apart without them."""
    text = _written(part)
    return f"({text})" if isinstance(part, looser) else text  # type: ignore[arg-type]


def _leaf(node: Leaf) -> str:
    assert not isinstance(node, Constant)
    name = _name(node.attribute)
    if isinstance(node, Compare):
        return f"{name} {node.op} {_literal(node.value)}"
    if isinstance(node, SpatialTest):
        return f"{node.function}({name}, {region_text(node.geometry)})"
    if isinstance(node, WithinBall):
        center = ", ".join(map(_literal, node.center))
        return f"V_WITHIN({name}, ({center}), {_literal(node.radius)})"
    negation = "NOT " if node.negated else ""
    if isinstance(node, Between):
        return f"{name} {negation}BETWEEN {_literal(node.lo)} AND {_literal(node.hi)}"
    if isinstance(node, IsIn):
        return f"{name} {negation}IN ({', '.join(map(_literal, node.values))})"
    if isinstance(node, IsLike):
        return f"{name} {negation}LIKE {_quoted(node.pattern)}"
    if isinstance(node, TextTest):
        return _text_test(node)
    return f"{name} IS {negation}NULL"


def _text_test(node: TextTest) -> str:
    name = _folded(_name(node.attribute), node.fold)
    negation = "NOT " if node.negated else ""
    if node.op == "MATCHES":
        return f"{name} {negation}MATCHES {_quoted(node.operands[0])}"
    operands = [_folded(_quoted(one), node.fold) for one in node.operands]
    if node.op == "=":
        return f"{name} {'<>' if node.negated else '='} {operands[0]}"
    return f"{name} {negation}IN ({', '.join(operands)})" if node.op == "IN" else f"{name} {negation}LIKE {operands[0]}"


def _folded(text: str, fold: Fold) -> str:
    inner = f"ACCENTI({text})" if fold & Fold.ACCENTS else text
    return f"CASEI({inner})" if fold & Fold.CASE else inner


def _name(name: str) -> str:
    return name if is_plain_name(name) else '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(value: Literal) -> str:
    """Write a literal; ``repr`` of a float has the shortest digits that read back as it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Instant):
        return f"TIMESTAMP('{instant_text(value)}')"
    if isinstance(value, float) and not math.isfinite(value):
        raise SubscriptionError("NaN and infinity cannot be written", value=value)
    return repr(float(value)) if isinstance(value, float) else repr(int(value))
