"""Explains why an event matches or not: each condition with the event's value, and the outcome of each AND, OR and NOT.

The explanation is made from the text the user wrote, in three-valued logic: a condition is true, false,
or unknown because its attribute is missing. It is a tree like the text: a condition under NOT may fail and the
subscription match all the same, so that a list of conditions alone would not explain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tamis.algebra.evaluate import holds
from tamis.errors import shorten
from tamis.model.language.bind import bind
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Calculated, Constant, Leaf, Node, Not, Or
from tamis.model.language.parse import parse
from tamis.model.schema import Event, Schema
from tamis.model.subscription import SubscriptionId
from tamis.model.types import AttributeType
from tamis.model.types.paths import value_at
from tamis.model.values import Value

__all__ = ["Condition", "Explanation", "Step", "explain"]

#: Texts up to this length are shown whole, with carets below.
_ONE_LINE = 100

_WORDS = {True: "yes", False: "no", None: "unknown"}
_HOLDS = {True: "holds", False: "does not hold", None: "is unknown"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a subscription and its outcome; None means unknown, because a value is missing.

    ``start`` is its position in the subscription's text, None if the text has no positions (a large JSON document);
    ``value`` is the event's value as text, None if it is missing.
    """

    text: str
    start: int | None
    attribute: str | None
    value: str | None
    outcome: bool | None
    #: The other attributes of an expression, and their values.
    others: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        values = () if self.attribute is None else ((self.attribute, self.value), *self.others)
        shown = ", ".join(f"{name} is {value or 'missing'}" for name, value in values) or "a constant"
        return f"{_WORDS[self.outcome]}: {shown}"

    def as_json(self) -> dict[str, object]:
        """Return the condition as plain JSON values."""
        fields: dict[str, object] = {
            "condition": self.text,
            "attribute": self.attribute,
            "value": self.value,
            "outcome": self.outcome,
        }
        return {**fields, "others": dict(self.others)} if self.others else fields


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of an ``operator`` ("AND", "OR" or "NOT"), and its parts."""

    operator: str
    text: str
    start: int | None
    outcome: bool | None
    parts: tuple[Condition | Step, ...]

    def __str__(self) -> str:
        if self.operator == "NOT":
            return f"{_WORDS[self.outcome]}: NOT of what {_HOLDS[self.parts[0].outcome]}"
        return f"{_WORDS[self.outcome]}: {self.operator} of {len(self.parts)}"

    def as_json(self) -> dict[str, object]:
        """Return the step as plain JSON values, with its parts."""
        parts = [part.as_json() for part in self.parts]
        return {"operator": self.operator, "condition": self.text, "outcome": self.outcome, "parts": parts}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one event matches one subscription or not; ``str()`` shows each condition and each NOT below the text."""

    matched: bool
    id: SubscriptionId
    text: str
    tree: Condition | Step

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions alone, from left to right."""
        return tuple(step for step in _walk(self.tree) if isinstance(step, Condition))

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        lines = [f"{'match' if self.matched else 'no match'}: subscription {self.id!r}"]
        # The outcome of AND and OR is obvious from their parts; NOT reverses an outcome, so it gets a line of its own.
        shown = [step for step in _walk(self.tree) if isinstance(step, Condition) or step.operator == "NOT"]
        have_positions = all(step.start is not None for step in shown)
        with_carets = have_positions and len(self.text) <= _ONE_LINE and self.text.isprintable()
        if with_carets:
            lines.append(f"  {self.text}")
        for step in shown:
            mark = " " * (step.start or 0) + "^" * len(step.text) if with_carets else _shortened(step.text)
            lines.append(f"  {mark} {step}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as plain JSON values."""
        conditions = [condition.as_json() for condition in self.conditions]
        fields = {"id": self.id, "matched": self.matched, "subscription": self.text, "conditions": conditions}
        return {**fields, "tree": self.tree.as_json()}


def explain(event: Event, raw: Mapping[str, Any], text: str, schema: Schema, id: SubscriptionId) -> Explanation:
    """Explain a canonical event, and as the user gave it, against a subscription's text or JSON."""
    node = parse(text)
    if text.lstrip().startswith("{"):  # JSON has no places to point at: show it as text
        text = format_node(node)
        node = parse(text) if len(text) <= _ONE_LINE else node
    matched = holds(event, bind(node, schema, text, open=True))
    return Explanation(matched, id, text, _Explainer(event, raw, text, schema).step(node))


@dataclass(frozen=True, slots=True)
class _Explainer:
    """Builds the explanation of one event and one subscription in a single walk over the predicate."""

    event: Event
    raw: Mapping[str, Any]
    text: str
    schema: Schema

    def step(self, node: Node) -> Condition | Step:
        start = None if node.span is None else node.span[0]
        own_text = format_node(node) if node.span is None else self.text[node.span[0] : node.span[1]]
        if not isinstance(node, And | Or | Not):
            return self.condition(node, own_text, start)
        parts = tuple(map(self.step, (node.part,) if isinstance(node, Not) else node.parts))
        operator = type(node).__name__.upper()
        return Step(operator, own_text, start, _joined(operator, [part.outcome for part in parts]), parts)

    def condition(self, leaf: Leaf, own_text: str, start: int | None) -> Condition:
        if isinstance(leaf, Constant):
            return Condition(own_text, start, None, None, leaf.value)
        names = leaf.attributes if isinstance(leaf, Calculated) else (leaf.attribute,)
        if not names:
            return Condition(own_text, start, None, None, self.outcome(leaf))
        first, *others = [(name, self._value(name)) for name in names]
        return Condition(own_text, start, *first, self.outcome(leaf), tuple(others))

    def _value(self, name: str) -> str | None:
        value = self.event.get(name)
        return None if value is None else _shown(value, value_at(self.raw, name), self.schema.get(name))

    def outcome(self, leaf: Leaf) -> bool | None:
        """Return true, false or unknown: unknown when neither the condition nor its negation holds."""
        if holds(self.event, bind(leaf, self.schema, open=True)):
            return True
        return False if holds(self.event, bind(Not(leaf), self.schema, open=True)) else None


def _joined(operator: str, outcomes: list[bool | None]) -> bool | None:
    """Return the outcome of an operator in three-valued logic: one part may decide; otherwise unknown stays unknown.

    >>> _joined("AND", [True, None, False]), _joined("OR", [False, None]), _joined("NOT", [False])
    (False, None, True)
    """
    if operator == "NOT":
        return None if outcomes[0] is None else not outcomes[0]
    decisive = operator == "OR"
    if decisive in outcomes:
        return decisive
    return None if None in outcomes else not decisive


def _walk(tree: Condition | Step) -> Iterator[Condition | Step]:
    """Yield a tree's steps and conditions from left to right, a step before its parts."""
    stack = [tree]
    while stack:
        step = stack.pop()
        yield step
        if isinstance(step, Step):
            stack.extend(reversed(step.parts))


def _shown(value: Value, raw: object, kind: AttributeType | None) -> str:
    """Return a value as text: a timestamp in UTC if the calendar has it, a long decimal as the user wrote it."""
    if isinstance(value, Fraction) or kind is None:
        return str(raw) if isinstance(value, Fraction) else shorten(raw)
    return kind.shown(value)


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width // 2 - 2]} ... {text[-width // 2 + 3 :]}"
