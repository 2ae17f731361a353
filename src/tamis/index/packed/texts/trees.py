"""Conditions that are joined by AND and OR, as steps that a kernel takes without a stack.

A step evaluates one condition and names the next step if it holds and if it does not: a later step, `ACCEPT` or
`REJECT`. Steps only go forward, so a tree evaluates each of its conditions at most once. A condition that a kernel
cannot decide is taken to hold. No condition is below a NOT, so the result is then a necessary condition, and raw values
decide.

A condition is a pattern of text (`TextStep`) or a side of a box (`SideStep`). ``x NOT LIKE p OR x IS NULL`` is one
pattern that a missing string satisfies, too: the exclusions in rules about text have this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tamis.model.subscription import AllOf, AnyOf, Constraint, Like, Predicate, Some, Values
from tamis.model.text.folding import Fold
from tamis.model.value_set import MISSING, ValueSet

__all__ = ["ACCEPT", "REJECT", "SideStep", "TextStep", "Tree", "TreeStep", "steps_of"]

#: Where a tree ends.
ACCEPT: Final = -1
REJECT: Final = -2

_ANY_STRING: Final = "%"


class SideStep(NamedTuple):
    """The condition that an event lies between two ends on an axis or, if ``negated``, has no value there."""

    axis: int
    low: float
    high: float
    negated: bool = False


class TextStep(NamedTuple):
    """The condition that a string matches a pattern or, with ``or_missing``, that there is no string."""

    like: Like
    or_missing: bool = False


Condition = TextStep | SideStep


class TreeStep(NamedTuple):
    """A condition, and the step that follows when it holds or not."""

    condition: Condition
    yes: int
    no: int


class Tree(NamedTuple):
    """Steps, and whether they are equivalent to the predicate."""

    steps: tuple[TreeStep, ...]
    is_all: bool


#: Turns a set of values into alternatives of sides, and tells whether these are equivalent to it.
Sides = Callable[[Values], tuple[Sequence[Iterable[SideStep]], bool]]


def steps_of(predicate: Predicate, sides: Sides) -> Tree:
    """Return the steps of a predicate; ``sides`` turns sets of values, without the missing value, into sides."""
    writer = _Writer(predicate, sides)
    start = writer.write(predicate, ACCEPT, REJECT)
    if start < 0:
        return Tree((), is_all=False)
    last = start
    turned = {ACCEPT: ACCEPT, REJECT: REJECT} | {number: last - number for number in range(last + 1)}
    steps = (TreeStep(step.condition, turned[step.yes], turned[step.no]) for step in reversed(writer.steps[: last + 1]))
    return Tree(tuple(steps), writer.is_all)


class _Writer:
    """Writes steps from the last to the first: a step knows its followers when it is written."""

    def __init__(self, predicate: Predicate, sides: Sides) -> None:
        self.steps: list[TreeStep] = []
        self.is_all = True
        self._sides = sides
        #: For each attribute, a folding in which its text is read anyway.
        self._folds: dict[str, Fold] = {
            like.attribute: like.fold for like in _constraints(predicate) if isinstance(like, Like)
        }

    def write(self, predicate: Predicate, yes: int, no: int) -> int:
        if isinstance(predicate, AllOf):
            return self._join(sorted(predicate.parts, key=_cost), yes, no, is_all=True)
        if isinstance(predicate, AnyOf):
            return self._join(sorted(predicate.parts, key=_cost), yes, no, is_all=False)
        if isinstance(predicate, Like):
            return self._add(TextStep(predicate), yes, no)
        if isinstance(predicate, Values):
            return self._values(predicate, yes, no)
        self.is_all = False
        return yes

    def _join(self, parts: Sequence[Predicate], yes: int, no: int, *, is_all: bool) -> int:
        missing = set() if is_all else {p.attribute for p in parts if isinstance(p, Values) and p.allowed == MISSING}
        absorbed = {_lacking(part) for part in parts} & missing
        for part in reversed(parts):
            if isinstance(part, Values) and part.allowed == MISSING and part.attribute in absorbed:
                continue
            if _lacking(part) in absorbed:
                start = self._lacking(part, yes, no)
            else:
                start = self.write(part, yes, no)
            yes, no = (start, no) if is_all else (yes, start)
        return yes if is_all else no

    def _lacking(self, part: Predicate, yes: int, no: int) -> int:
        """Write the negated patterns of one attribute, which a missing value satisfies, too."""
        for like in reversed(part.parts if isinstance(part, AllOf) else (part,)):
            assert isinstance(like, Like)
            yes = self._add(TextStep(like, or_missing=True), yes, no)
        return yes

    def _values(self, values: Values, yes: int, no: int) -> int:
        present = ValueSet(values.allowed.cuts, values.allowed.from_below, False)
        if present:
            alternatives, is_all = self._sides(Values(values.attribute, present))
            self.is_all &= is_all
            for sides in reversed(alternatives):
                start = yes
                for side in sides:
                    start = self._add(side, start, no)
                no = start
        return self._missing(values.attribute, yes, no) if values.allowed.missing else no

    def _missing(self, attribute: str, yes: int, no: int) -> int:
        if attribute in self._folds:
            never = Like(attribute, _ANY_STRING, True, self._folds[attribute])
            return self._add(TextStep(never, or_missing=True), yes, no)
        [[side]], _ = self._sides(Values(attribute, MISSING))
        return self._add(side, yes, no)

    def _add(self, condition: Condition, yes: int, no: int) -> int:
        self.steps.append(TreeStep(condition, yes, no))
        return len(self.steps) - 1


def _lacking(part: Predicate) -> str | None:
    """Return the attribute of a part that has only negated patterns on its text; None for any other part."""
    likes = part.parts if isinstance(part, AllOf) else (part,)
    names = {like.attribute if isinstance(like, Like) and like.negated else None for like in likes}
    return names.pop() if len(names) == 1 else None


def _constraints(predicate: Predicate) -> Iterable[Constraint | Some]:
    waiting: list[Predicate] = [predicate]
    while waiting:
        node = waiting.pop()
        if isinstance(node, AllOf | AnyOf):
            waiting.extend(node.parts)
        else:
            yield node


def _cost(predicate: Predicate) -> int:
    """Return the rough cost of a part: values, groups of values, patterns at an end of the text, patterns anywhere."""
    if isinstance(predicate, AllOf | AnyOf):
        return 1 + 4 * max(map(_cost, predicate.parts), default=0)
    if not isinstance(predicate, Like):
        return 0
    if predicate.is_regex:
        return 8
    return 2 if predicate.pattern.endswith("%") and predicate.pattern.startswith("%") else 1
