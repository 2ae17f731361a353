"""Rules that are longer than a filter may be, as several filters: an event that fires one of them fires the rule.

Public rules list thousands of hashes of files. A list of alternatives is cut where the text of a filter would be too
long; the conditions beside the list are repeated with each piece of it.
"""

from __future__ import annotations

from tamis.model.language import limits
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, IsIn, Node, Not, Or, TextTest

__all__ = ["parts_within"]

#: Characters between two conditions: an operator and parentheses.
_BETWEEN = 8
#: Characters of a condition with an IN list, whose values have a limit of their own, besides its attribute.
_AROUND_LIST = 40


def parts_within(node: Node, most: int = limits.TEXT.most) -> list[Node]:
    """Return trees of at most ``most`` characters that together say what one says.

    `LimitError` says that there is no list of alternatives that could be cut.

    >>> from tamis.model.language.nodes import Compare
    >>> [format_node(part) for part in parts_within(Or(tuple(Compare("n", "=", i) for i in range(5))), 30)]
    ['n = 0 OR n = 1', 'n = 2 OR n = 3', 'n = 4']
    """
    if _length(node) <= most:
        return [node]
    if isinstance(node, Or):
        return _gathered(node, most)
    longest = max(node.parts, key=_length) if isinstance(node, And) else None
    if not isinstance(node, And) or not isinstance(longest, And | Or):
        limits.TEXT.check(_length(node))
        raise AssertionError("a condition that is short enough needs no cut")
    others = tuple(part for part in node.parts if part is not longest)
    left = most - sum(map(_length, others))
    return [And((*others, *(part.parts if isinstance(part, And) else (part,)))) for part in parts_within(longest, left)]


def _gathered(node: Or, most: int) -> list[Node]:
    """Return alternatives, as many together as fit."""
    gathered: list[list[Node]] = []
    left = 0
    for part in (part for whole in node.parts for part in parts_within(whole, most)):
        length = _length(part)
        if not gathered or length > left:
            gathered.append([])
            left = most
        gathered[-1].append(part)
        left -= length
    return [parts[0] if len(parts) == 1 else Or(tuple(parts)) for parts in gathered]


def _length(node: Node) -> int:
    """Return the characters of a tree that count as text, or a few more."""
    if isinstance(node, And | Or):
        return sum(map(_length, node.parts))
    if isinstance(node, Not):
        return _length(node.part) + _BETWEEN
    if isinstance(node, IsIn) or (isinstance(node, TextTest) and node.op == "IN"):
        return len(node.attribute) + _AROUND_LIST
    return len(format_node(node)) + _BETWEEN
