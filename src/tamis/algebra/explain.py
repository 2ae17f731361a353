"""Why an event matched or did not: each condition with the value it met.

The explanation is made from the text the user wrote, in three-valued logic: a condition is true, false,
or unknown because its attribute is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tamis.algebra.evaluate import holds
from tamis.errors import TamisError, shorten
from tamis.model.language.bind import bind
from tamis.model.language.format import format_node
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Constant, Instant, Leaf, Not, leaves
from tamis.model.language.parse import parse
from tamis.model.schema import Event, Schema
from tamis.model.subscription import SubscriptionId
from tamis.model.types import AttributeType, Timestamp
from tamis.model.values import Value

__all__ = ["Condition", "Explanation", "explain"]

#: Texts up to this length are shown whole, with carets below.
_ONE_LINE = 100

_WORDS = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a subscription and how it fared; ``outcome`` None means unknown (missing).

    ``start`` is its place in the subscription's text, None when that has no places (a large JSON document);
    ``value`` is what the event carries, as text, None when it is missing.
    """

    text: str
    start: int | None
    attribute: str | None
    value: str | None
    outcome: bool | None

    def __str__(self) -> str:
        met = "a constant" if self.attribute is None else f"{self.attribute} is {self.value or 'missing'}"
        return f"{_WORDS[self.outcome]}: {met}"

    def as_json(self) -> dict[str, object]:
        """Return the condition as plain JSON values."""
        return {"condition": self.text, "attribute": self.attribute, "value": self.value, "outcome": self.outcome}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one event matches one subscription or not; ``str()`` shows each condition below the text."""

    matched: bool
    id: SubscriptionId
    text: str
    conditions: tuple[Condition, ...]

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        lines = [f"{'match' if self.matched else 'no match'}: subscription {self.id!r}"]
        places = all(one.start is not None for one in self.conditions)
        with_carets = places and len(self.text) <= _ONE_LINE and self.text.isprintable()
        if with_carets:
            lines.append(f"  {self.text}")
        for one in self.conditions:
            mark = " " * (one.start or 0) + "^" * len(one.text) if with_carets else _shortened(one.text)
            lines.append(f"  {mark} {one}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as plain JSON values."""
        conditions = [one.as_json() for one in self.conditions]
        return {"id": self.id, "matched": self.matched, "subscription": self.text, "conditions": conditions}


def explain(event: Event, raw: Mapping[str, Any], text: str, schema: Schema, id: SubscriptionId) -> Explanation:
    """Explain a canonical event, and as the user gave it, against a subscription's text or JSON."""
    node = parse(text)
    if text.lstrip().startswith("{"):  # JSON has no places to point at: show it as text
        text = format_node(node)
        node = parse(text) if len(text) <= _ONE_LINE else node
    conditions = tuple(_condition(event, raw, leaf, text, schema) for leaf in leaves(node))
    return Explanation(holds(event, bind(node, schema, text, open=True)), id, text, conditions)


def _condition(event: Event, raw: Mapping[str, Any], leaf: Leaf, text: str, schema: Schema) -> Condition:
    start = None if leaf.span is None else leaf.span[0]
    own_text = format_node(leaf) if leaf.span is None else text[leaf.span[0] : leaf.span[1]]
    if isinstance(leaf, Constant):
        return Condition(own_text, start, None, None, leaf.value)
    value = event.get(leaf.attribute)
    shown = None if value is None else _shown(value, raw[leaf.attribute], schema.get(leaf.attribute))
    return Condition(own_text, start, leaf.attribute, shown, _outcome(event, leaf, schema))


def _outcome(event: Event, leaf: Leaf, schema: Schema) -> bool | None:
    """Return true, false or unknown: unknown when neither the condition nor its negation holds."""
    if holds(event, bind(leaf, schema, open=True)):
        return True
    return False if holds(event, bind(Not(leaf), schema, open=True)) else None


def _shown(value: Value, raw: object, kind: AttributeType | None) -> str:
    """Return a value as text: a moment in UTC if the calendar has it, a long decimal as the user wrote it."""
    if isinstance(kind, Timestamp) and isinstance(value, int):
        try:
            return instant_text(Instant(value))
        except TamisError:
            return f"{value} microseconds"
    if isinstance(value, Fraction) or kind is None:
        return str(raw) if isinstance(value, Fraction) else shorten(raw)
    return shorten(value.tolist() if isinstance(value, np.ndarray) else value)


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width // 2 - 2]} ... {text[-width // 2 + 3 :]}"
