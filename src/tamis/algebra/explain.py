"""Why an event matched or did not: each condition with the value it met.

The explanation is made from the text the user wrote, in three-valued logic: a condition is true, false,
or unknown because its attribute is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.algebra.evaluate import holds
from tamis.errors import shorten
from tamis.model.language.bind import bind
from tamis.model.language.literals import instant_text
from tamis.model.language.nodes import Constant, Instant, Leaf, Node, Not, leaves
from tamis.model.schema import Event, Schema
from tamis.model.subscription import SubscriptionId
from tamis.model.types import Timestamp
from tamis.model.values import Value

__all__ = ["Condition", "Explanation", "explain"]

_WORDS = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a subscription and how it fared; ``outcome`` None means unknown (missing)."""

    text: str
    start: int
    attribute: str | None
    value: Value | None
    outcome: bool | None
    shown: str

    def as_json(self) -> dict[str, object]:
        """Return the condition as plain JSON values."""
        return {"condition": self.text, "attribute": self.attribute, "value": self.shown, "outcome": self.outcome}


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
        one_line = "\n" not in self.text and "\t" not in self.text and len(self.text) <= 100
        if one_line:
            lines.append(f"  {self.text}")
        for one in self.conditions:
            mark = " " * one.start + "^" * len(one.text) if one_line else shorten_text(one.text)
            lines.append(f"  {mark} {_WORDS[one.outcome]}: {one.shown}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as plain JSON values."""
        conditions = [one.as_json() for one in self.conditions]
        return {"id": self.id, "matched": self.matched, "subscription": self.text, "conditions": conditions}


def shorten_text(text: str, width: int = 60) -> str:
    """Cut a long condition in the middle."""
    return text if len(text) <= width else f"{text[: width // 2 - 2]} ... {text[-width // 2 + 3 :]}"


def explain(event: Event, node: Node, text: str, schema: Schema, id: SubscriptionId) -> Explanation:
    """Explain a canonical event against a syntax tree whose spans point into ``text``."""
    conditions = tuple(_condition(event, leaf, text, schema) for leaf in leaves(node))
    return Explanation(holds(event, bind(node, schema, text, open=True)), id, text, conditions)


def _condition(event: Event, leaf: Leaf, text: str, schema: Schema) -> Condition:
    start, stop = leaf.span or (0, 0)
    shown_text = text[start:stop]
    if isinstance(leaf, Constant):
        return Condition(shown_text, start, None, None, leaf.value, "a constant")
    outcome = _outcome(event, leaf, schema)
    value = event.get(leaf.attribute)
    shown = f"{leaf.attribute} is {'missing' if value is None else _shown(value, leaf, schema)}"
    return Condition(shown_text, start, leaf.attribute, value, outcome, shown)


def _outcome(event: Event, leaf: Leaf, schema: Schema) -> bool | None:
    """Return true, false or unknown: unknown when neither the condition nor its negation holds."""
    if holds(event, bind(leaf, schema, open=True)):
        return True
    return False if holds(event, bind(Not(leaf), schema, open=True)) else None


def _shown(value: Value, leaf: Leaf, schema: Schema) -> str:
    assert not isinstance(leaf, Constant)
    if isinstance(schema.get(leaf.attribute), Timestamp) and isinstance(value, int):
        return instant_text(Instant(value))
    return shorten(value.tolist() if isinstance(value, np.ndarray) else value)
