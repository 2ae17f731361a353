"""Explains why one subscription covers another or not: each condition of the wide one beside those of the narrow one.

Each condition is checked separately: does every event of the narrow subscription satisfy it? In a conjunction
the answer is "no" exactly if the answer for some condition is "no"; that condition *decides*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tamis.algebra.covers import Covering, compare
from tamis.algebra.sources import Source, as_subscriptions
from tamis.model.language.compiler import compile_node
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Constant, Leaf, Node, leaves
from tamis.model.language.parse import parse
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription

__all__ = ["CoveredCondition", "CoveringExplanation", "explain_covers"]

#: Filters of the narrow subscription that are shown for one attribute.
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CoveredCondition:
    """One condition of the wide subscription, and whether every event of the narrow one satisfies it.

    ``narrow`` is the text of the narrow subscription's conditions on the attribute, None if it has none; ``decides`` is
    true if this condition alone makes the answer "no"; ``witness`` is an event of the narrow one that fails it.
    """

    text: str
    narrow: str | None
    holds: bool
    unknown: bool
    decides: bool
    witness: dict[str, Any] | None

    def __str__(self) -> str:
        narrow_text = "says nothing about it" if self.narrow is None else f"says {self.narrow}"
        if self.holds:
            return f"yes      {self.text}: B {narrow_text}"
        word = "unknown" if self.unknown else "decides" if self.decides else "no"
        return f"{word:<8} {self.text}: B {narrow_text}"


@dataclass(frozen=True, slots=True)
class CoveringExplanation:
    """The answer of `covers`, and the answer for each condition of the wide subscription."""

    answer: Covering
    conditions: tuple[CoveredCondition, ...]

    def __str__(self) -> str:
        word = "yes" if self.answer.yes else "unknown" if self.answer.unknown else "no"
        return "\n".join(
            [f"{word}: {self.answer.reason.removeprefix('unknown: ')}", *(f"  {c}" for c in self.conditions)]
        )


def explain_covers(a: Source, b: Source, schema: Schema | None = None) -> CoveringExplanation:
    """Explain whether every event that matches ``b`` matches ``a``.

    >>> print(explain_covers("price < 100 AND volume > 5", "price < 50 AND volume > 1"))
    no: an event matches the second subscription and not the first
      yes      price < 100: B says price < 50
      decides  volume > 5: B says volume > 1
    """
    [wide, narrow], used_schema = as_subscriptions([("a", a), ("b", b)], schema)
    answer = compare(wide.filters, narrow.filters, used_schema)
    if isinstance(a, Subscription):
        return CoveringExplanation(answer, ())
    node = parse(a)
    text = a if isinstance(a, str) and not a.lstrip().startswith("{") else None
    conditions = [_condition(leaf, text, narrow.filters, used_schema, schema is None) for leaf in leaves(node)]
    decides = _is_conjunction(node) and not answer.yes
    return CoveringExplanation(
        answer, tuple(_covered_condition(condition, leaf_answer, decides) for condition, leaf_answer in conditions)
    )


def _is_conjunction(node: Node) -> bool:
    if isinstance(node, And):
        return all(_is_conjunction(part) for part in node.parts)
    return isinstance(node, Leaf)


def _condition(
    leaf: Leaf, text: str | None, narrow: Sequence[Filter], schema: Schema, open: bool
) -> tuple[tuple[str, str | None], Covering]:
    own = format_node(leaf) if text is None or leaf.span is None else text[leaf.span[0] : leaf.span[1]]
    compiled = compile_node(leaf, schema, open=open)
    names = {name for filter in compiled for name in filter.attributes}
    narrow_text = None if isinstance(leaf, Constant) else _narrow_text(names or {leaf.attribute}, narrow, schema)
    return (own, narrow_text), compare(compiled, narrow, schema)


def _covered_condition(condition: tuple[str, str | None], answer: Covering, decides: bool) -> CoveredCondition:
    no = not answer.yes and not answer.unknown
    return CoveredCondition(*condition, answer.yes, answer.unknown, no and decides, answer.witness)


def _narrow_text(names: set[str], narrow: Sequence[Filter], schema: Schema) -> str | None:
    """Return the narrow subscription's conditions on attributes or computed values, as text."""
    parts = []
    for filter in narrow:
        own = tuple(constraint for constraint in filter.constraints if constraint.attribute in names)
        if own:
            parts.append(format_filters((Filter(own),), schema))
    if not parts:
        return None
    shown = list(dict.fromkeys(parts))
    more = f" or {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    return " or ".join(shown[:_MOST_SHOWN]) + more
