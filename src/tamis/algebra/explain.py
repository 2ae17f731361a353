"""Why an event matched or did not: each condition with the value it met, and what AND, OR and NOT made of them.

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
    """One condition of a subscription and how it fared; ``outcome`` None means unknown (missing).

    ``start`` is its place in the subscription's text, None when that has no places (a large JSON document);
    ``value`` is what the event carries, as text, None when it is missing.
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
        met = ", ".join(f"{name} is {value or 'missing'}" for name, value in values) or "a constant"
        return f"{_WORDS[self.outcome]}: {met}"

    def as_json(self) -> dict[str, object]:
        """Return the condition as plain JSON values."""
        told: dict[str, object] = {
            "condition": self.text,
            "attribute": self.attribute,
            "value": self.value,
            "outcome": self.outcome,
        }
        return {**told, "others": dict(self.others)} if self.others else told


@dataclass(frozen=True, slots=True)
class Step:
    """What ``operator`` ("AND", "OR" or "NOT") made of the outcomes of its parts."""

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
        parts = [one.as_json() for one in self.parts]
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
        return tuple(one for one in _walk(self.tree) if isinstance(one, Condition))

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        lines = [f"{'match' if self.matched else 'no match'}: subscription {self.id!r}"]
        # AND and OR can be read off their parts; NOT turns what is below it round, so it has a line of its own.
        told = [one for one in _walk(self.tree) if isinstance(one, Condition) or one.operator == "NOT"]
        places = all(one.start is not None for one in told)
        with_carets = places and len(self.text) <= _ONE_LINE and self.text.isprintable()
        if with_carets:
            lines.append(f"  {self.text}")
        for one in told:
            mark = " " * (one.start or 0) + "^" * len(one.text) if with_carets else _shortened(one.text)
            lines.append(f"  {mark} {one}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Return the explanation as plain JSON values."""
        conditions = [one.as_json() for one in self.conditions]
        told = {"id": self.id, "matched": self.matched, "subscription": self.text, "conditions": conditions}
        return {**told, "tree": self.tree.as_json()}


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
    """Walks a tree once; the fields are what every step needs."""

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
        return Step(operator, own_text, start, _joined(operator, [one.outcome for one in parts]), parts)

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
    """Return what an operator makes of outcomes: one part may decide; else unknown stays unknown.

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
        one = stack.pop()
        yield one
        if isinstance(one, Step):
            stack.extend(reversed(one.parts))


def _shown(value: Value, raw: object, kind: AttributeType | None) -> str:
    """Return a value as text: a moment in UTC if the calendar has it, a long decimal as the user wrote it."""
    if isinstance(value, Fraction) or kind is None:
        return str(raw) if isinstance(value, Fraction) else shorten(raw)
    return kind.shown(value)


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width // 2 - 2]} ... {text[-width // 2 + 3 :]}"
