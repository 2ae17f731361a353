"""JMS message selectors and SQL conditions: text that is nearly the language of tamis, rewritten until it is.

Both are SQL-92 conditions. What differs is small: ``LIKE ... ESCAPE 'c'``, numbers with a type (``10L``, ``0x1F``),
``!=`` and ``==``, names in back-quotes or brackets, ``TIMESTAMP '...'`` without parentheses. A division has no
equivalent, for it drops the remainder of two integers; ``^`` is a power in some dialects and no operator in others.
"""

from __future__ import annotations

import re
from typing import Final

from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.language.arithmetic.reading import operators_of
from tamis.model.language.nodes import Calculated, Node, leaves
from tamis.model.language.parse import parse

__all__ = ["read_selector", "rewritten_selector", "without_division"]

_REFUSED: Final = {
    "/": "division (/) is not imported: integers are divided without a remainder there, and exactly here",
    "^": "the operator ^ is not imported: dialects of SQL do not agree on its meaning",
}
_TOKEN: Final = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | `(?P<ticks>[^`]+)`
    | \[(?P<brackets>[^\]]+)\]
    | (?P<hex>0[xX][0-9a-fA-F]+)[lL]?
    | (?P<typed>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[lLdDfF]\b
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<unequal>!=) | (?P<equal>==)
    | (?P<word>[A-Za-z_$][\w$.]*)
    | (?P<other>\s+|.)
    """,
    re.VERBOSE | re.DOTALL,
)


#: The offset of a moment in hours, as SQL may write it.
_HOURS: Final = re.compile(r"(?<=[:.0-9]{3})([-+][0-9]{2})(?='$)")


def read_selector(text: str) -> Node:
    """Return the syntax tree of a JMS selector or SQL condition.

    >>> from tamis.model.language.format import format_node
    >>> format_node(read_selector("JMSType = 'car' AND weight > 2500L AND colour != 'blue'"))
    "JMSType = 'car' AND weight > 2500 AND colour <> 'blue'"
    """
    return without_division(parse(rewritten_selector(text)))


def without_division(node: Node) -> Node:
    """Return a syntax tree; refuse operators whose meaning is another one in dialects of SQL."""
    for leaf in leaves(node):
        for operator in operators_of(leaf) if isinstance(leaf, Calculated) else ():
            if operator in _REFUSED:
                raise SubscriptionError(_REFUSED[operator], value=operator)
    return node


def rewritten_selector(text: str) -> str:
    r"""Return a selector in the language of tamis.

    >>> rewritten_selector("code LIKE '10!%!_%' ESCAPE '!'")
    "code LIKE '10\\%\\_%'"
    """
    tokens = [
        (str(match.lastgroup), match.group(str(match.lastgroup)), match.start()) for match in _TOKEN.finditer(text)
    ]
    written = [_rewritten(kind, value) for kind, value, _ in tokens]
    solid = [index for index, (_, value, _) in enumerate(tokens) if value.strip()]
    for at, index in enumerate(solid):
        kind, value, start = tokens[index]
        if kind == "string" and at and tokens[solid[at - 1]][1].upper() == "LIKE":
            written[index] = _escaped(_plain(value), None)  # in SQL a backslash is a letter like any other
        if kind == "string" and at and tokens[solid[at - 1]][1].upper() == "TIMESTAMP":
            written[index] = "(" + _HOURS.sub(r"\1:00", value) + ")"
        if kind == "string" and at and tokens[solid[at - 1]][1].upper() == "DATE":
            written[index] = f"({value})"
        if kind == "word" and value.upper() == "ESCAPE":
            pattern, mark = (solid[at + step] if 0 <= at + step < len(solid) else index for step in (-1, 1))
            if tokens[pattern][0] != "string" or len(_plain(tokens[mark][1])) != 1:
                raise SubscriptionSyntaxError(text, start, "LIKE 'pattern' ESCAPE 'c'")
            written[pattern] = _escaped(_plain(tokens[pattern][1]), _plain(tokens[mark][1]))
            for dropped in range(pattern + 1, mark + 1):
                written[dropped] = ""
    return "".join(written).strip()


def _rewritten(kind: str, value: str) -> str:
    if kind == "unequal":
        return "<>"
    if kind == "equal":
        return "="
    if kind in ("ticks", "brackets"):
        return f'"{value}"'
    if kind == "word" and "$" in value:
        return f'"{value}"'
    if kind == "hex":
        return str(int(value, 16))
    return value


def _plain(string: str) -> str:
    return string[1:-1].replace("''", "'") if string.startswith("'") else ""


def _escaped(pattern: str, mark: str | None) -> str:
    """Return a LIKE pattern whose escape is a backslash, from one whose escape is ``mark`` or that has none."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == mark:
            character = next(characters, character)
            parts.append(f"\\{character}" if character in "%_\\" else character)
        else:
            parts.append("\\\\" if character == "\\" else character)
    return "'" + "".join(parts).replace("'", "''") + "'"
