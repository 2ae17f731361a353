"""The limits on the size of a subscription, with their reasons.

A client that can send text can send a lot of it, so reading is bounded before it starts: beyond these limits
there is a `LimitError` that names the limit, and a text that goes to any one of them takes at most 30 ms to
read (all of them at once, about twice that).

The bulky parts (geometries, vectors, lists of IN) do not count as text; they are lexed as one token each and
have budgets of their own. A `LimitBudget` is spent by one subscription as a whole, so that two lists of 6,000
values do not get around a limit of 10,000.

JSON spends the same budgets as the text it says the same as: `CONDITION_TEXT` and `NOT_TEXT` are the
least that a condition and a NOT can cost in text, so that what can be said in text fits as JSON, too.
"""

from __future__ import annotations

from typing import NamedTuple

from tamis.errors import LimitError
from tamis.model.language.nodes import And, Arithmetic, ArrayTest, Calculated, Call, Expression, Node, Not, Or
from tamis.model.shapes import MAX_VERTICES

__all__ = [
    "CONDITION_TEXT",
    "COORDINATES",
    "DEPTH",
    "DISTANCE_DEGREES",
    "DISTANCE_VERTICES",
    "EXPONENT",
    "IN_VALUES",
    "JSON_BRACKETS",
    "JSON_DEPTH",
    "JSON_KEYS",
    "JSON_VALUES",
    "NOT_TEXT",
    "OPERATIONS",
    "POWERS",
    "REGIONS",
    "SET_VALUES",
    "TEXT",
    "TOTAL",
    "VERTICES",
    "WRITTEN_TIMES",
    "Limit",
    "LimitBudget",
    "check_costs",
    "check_nesting",
]


class Limit(NamedTuple):
    """A number that a subscription may not exceed."""

    what: str
    most: int

    def check(self, count: int) -> None:
        """Raise `LimitError` when there is more than this.

        >>> DEPTH.check(33)
        Traceback (most recent call last):
        tamis.errors.LimitError: nesting of parentheses and NOT: 33 is more than the 32 accepted
        """
        if count > self.most:
            raise LimitError(self.what, count, self.most)


#: Promise S14: 16 KiB of filter text. Geometries, vectors and IN lists of numbers or strings are apart.
TEXT = Limit("characters of filter text outside geometries, vectors and IN lists", 16_384)
#: Promise S14: a message with a region is at most 1 MiB; no subscription can be larger.
TOTAL = Limit("characters of filter text", 1_048_576)
#: Promise S14. Parentheses and NOT count; so do AND, OR and NOT of JSON where text would need them.
DEPTH = Limit("nesting of parentheses and NOT", 32)
#: Promise S19.
IN_VALUES = Limit("values in the IN lists of one filter", 10_000)
#: Each value of A_CONTAINS and A_EQUALS becomes a condition of its own.
SET_VALUES = Limit("values in A_CONTAINS and A_EQUALS of one filter", 500)
#: Promise S17, for all regions of a filter together: GEOS needs about 1 ms per thousand vertices.
VERTICES = Limit("vertices in the regions of one filter", MAX_VERTICES)
#: Each WKT or GeoJSON literal costs 50 microseconds to validate, however small. BBOX is cheap and free.
REGIONS = Limit("WKT and GeoJSON regions in one filter", 256)
#: The edges of both sides of a distance on the sphere are compared in pairs.
DISTANCE_VERTICES = Limit("vertices of a geometry of S_DWITHIN on the sphere", 1_000)
#: An edge is cut into pieces of a tenth of a degree.
DISTANCE_DEGREES = Limit("degrees of all edges of a geometry of S_DWITHIN on the sphere", 500)
#: A power is computed exactly, or to 50 digits: up to half a millisecond of each event.
POWERS = Limit("powers (^) in one filter", 64)
#: Each event pays for every operation of every different expression.
OPERATIONS = Limit("operators and arguments of one expression", 64)
#: A power of a float64 with an exponent of more than 1,024 is 0, 1 or beyond all numbers, or nearly so.
EXPONENT = Limit("exponent of ^", 1_024)
#: The longest vector that a schema can declare.
COORDINATES = Limit("coordinates in the vectors of one filter", 65_536)
#: Objects and arrays of a JSON document: the ten thousand positions of a region, three objects and an
#: array for each of the 3,277 conditions that fit into 16 KiB of text, and as much again to spare.
JSON_BRACKETS = Limit("objects and arrays in one JSON filter", 65_536)

#: Keys of a JSON document: the 3,277 conditions need five each (op and args of their own, property, and op and
#: args of an operation around them), and twice as many are to spare.
JSON_KEYS = Limit("keys in one JSON filter", 32_768)
#: Values of a JSON document: more than a filter that uses up all of the above can hold.
JSON_VALUES = Limit("values in one JSON filter", 131_072)
#: Brackets inside brackets. Each of 32 parentheses may hold an AND in an OR, two levels, and each level of
#: JSON is an object with an array; the positions of a region lie six deep below them.
JSON_DEPTH = Limit("nesting of brackets in one JSON filter", 2 * 2 * (DEPTH.most + 1) + 6)

#: ``a OR`` and a space: what each condition costs in text besides its name and its strings.
CONDITION_TEXT = 4
NOT_TEXT = 3


#: How often a document that a broker wrote may use up each limit: multiplied out, a filter says things many times.
WRITTEN_TIMES = 64


class LimitBudget:
    """The use of each limit by one subscription so far; it may use each limit ``times`` over.

    >>> budget = LimitBudget()
    >>> budget.spend(IN_VALUES, 6_000)
    >>> budget.spend(IN_VALUES, 6_000)
    Traceback (most recent call last):
    tamis.errors.LimitError: values in the IN lists of one filter: 12,000 is more than the 10,000 accepted
    """

    __slots__ = ("_spent", "_times")

    def __init__(self, times: int = 1) -> None:
        self._spent: dict[Limit, int] = {}
        self._times = times

    def spend(self, limit: Limit, amount: int) -> None:
        """Use ``amount`` of a limit, or raise `LimitError`."""
        spent = self._spent[limit] = self._spent.get(limit, 0) + amount
        if spent > limit.most * self._times:
            raise LimitError(limit.what, spent, limit.most * self._times)


def check_nesting(node: Node) -> None:
    """Raise `LimitError` when the canonical text of a tree nests deeper than can be read.

    Walks without recursion, so that a tree made by hand may be of any depth.
    """
    stack: list[tuple[Node, int]] = [(node, 0)]
    while stack:
        current, depth = stack.pop()
        if isinstance(current, Not):
            DEPTH.check(depth + 1)
            stack.append((current.part, depth + 1 + isinstance(current.part, And | Or)))
        elif isinstance(current, And | Or):
            DEPTH.check(depth)
            bracketed = And | Or if isinstance(current, And) else Or
            stack.extend((part, depth + isinstance(part, bracketed)) for part in current.parts)


def check_costs(node: Node) -> None:
    """Raise `LimitError` when the sets of a tree have too many values, or its expressions too many powers."""
    stack, values, powers = [node], 0, 0
    while stack:
        current = stack.pop()
        if isinstance(current, Not):
            stack.append(current.part)
        elif isinstance(current, And | Or):
            stack.extend(current.parts)
        elif isinstance(current, ArrayTest) and current.function in ("A_CONTAINS", "A_EQUALS"):
            values += len(current.values)
        elif isinstance(current, Calculated):
            powers += sum(map(_n_powers, current.operands))
    SET_VALUES.check(values)
    POWERS.check(powers)


def _n_powers(expression: Expression) -> int:
    count, waiting = 0, [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Arithmetic):
            count += node.op == "^"
            waiting += (node.left, node.right)
        elif isinstance(node, Call):
            waiting += node.args
    return count
