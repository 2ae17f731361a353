"""Stores one literal of each pattern as a position on an axis, so that the tree finds patterns that may cover a text.

A pattern that covers a component accepts every string of the component, so each literal that it requires is in a string
that is known of the component (`known_texts`). One literal of each stored pattern has a number, and the pattern is
stored at that number on an axis of its attribute. Who asks for coverers walks the tree once for each stored literal
that is in the known string: whatever else the components say takes part in the same walk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tamis.index.dominance.outline import AxisName, Side
from tamis.index.dominance.splitting.components import Component
from tamis.index.packed.texts.literals import Anchor, LiteralKey, required_groups
from tamis.model.subscription import Like, Values
from tamis.model.text.folding import Fold, fold_text

__all__ = ["LITERAL", "LiteralAxes", "known_texts", "required_keys"]

#: The part of an attribute on which literals are numbered.
LITERAL: Final = "l"
#: Walks of the tree for one component; with more literals than that they are left to the other sides.
_MOST_WALKS: Final = 64
#: For each byte that a literal is shorter than this, it counts as if 2 to the power of this many patterns had it.
_SHORT, _PENALTY = 3, 5
_NONE: Final[Side] = (-1.0, -1.0)


class _View(NamedTuple):
    """The numbers of the literals of one attribute, fold and anchor, and the lengths that occur."""

    numbers: dict[bytes, int]
    lengths: set[int]


class LiteralAxes:
    """Numbers literals of stored patterns.

    >>> from tamis.index.dominance.splitting.components import decompose
    >>> from tamis.model.language.compiler import compile_text
    >>> def component(text):
    ...     return decompose(compile_text(text).filters).components[0]
    >>> axes = LiteralAxes()
    >>> axes.stored(component("name LIKE '%quake%'"))
    {('name', 'l'): (0.0, 0.0)}
    >>> axes.coverer_sides(component("name = 'earthquakes'"))
    [{('name', 'l'): (0.0, 0.0)}]
    >>> axes.coverer_sides(component("name LIKE '%flood%'"))
    [{('name', 'l'): (-1.0, -1.0)}]
    """

    def __init__(self) -> None:
        self._views: dict[tuple[str, Fold, Anchor], _View] = {}
        #: The number of patterns at each number.
        self._used: list[int] = []

    def stored(self, component: Component) -> dict[AxisName, Side]:
        """Return the sides of a component that is to be stored: one literal for each attribute with patterns."""
        best: dict[str, LiteralKey] = {}
        for key in required_keys(component) if component.witnesses else ():
            current = best.get(key.attribute)
            if current is None or self._weight(key) < self._weight(current):
                best[key.attribute] = key
        return {(name, LITERAL): self._numbered(key) for name, key in best.items()}

    def coverer_sides(self, component: Component) -> list[dict[AxisName, Side]]:
        """Return the sides that coverers of a component may have: the tree is walked for each of them."""
        if not self._views:
            return [{}]
        names = {name for name, _, _ in self._views}
        texts = known_texts(component, names)
        options: list[list[dict[AxisName, Side]]] = []
        for name, text in texts.items():
            numbers = sorted(self._literals_in(name, text))
            sides = [{(name, LITERAL): (float(number), float(number))} for number in numbers]
            options.append(sides or [{(name, LITERAL): _NONE}])
        options.sort(key=len)
        while math.prod(map(len, options)) > _MOST_WALKS:
            options.pop()
        return [
            dict(itertools.chain(*(sides_of_name.items() for sides_of_name in chosen)))
            for chosen in itertools.product(*options)
        ]

    def _literals_in(self, name: str, text: str) -> set[int]:
        """Return the numbers of the stored literals that are in a text."""
        numbers: set[int] = set()
        for (attribute, fold, anchor), view in self._views.items():
            if attribute == name:
                written = fold_text(text, fold).encode()
                numbers.update(
                    view.numbers[window] for window in _windows(written, anchor, view.lengths) if window in view.numbers
                )
        return numbers

    def _weight(self, key: LiteralKey) -> int:
        view = self._views.get((key.attribute, key.fold, key.anchor))
        number = view.numbers.get(key.literal) if view is not None else None
        used = 1 if number is None else 1 + self._used[number]
        return used << _PENALTY * max(0, _SHORT - len(key.literal))

    def _numbered(self, key: LiteralKey) -> Side:
        view = self._views.setdefault((key.attribute, key.fold, key.anchor), _View({}, set()))
        number = view.numbers.setdefault(key.literal, len(self._used))
        if number == len(self._used):
            self._used.append(0)
            view.lengths.add(len(key.literal))
        self._used[number] += 1
        return float(number), float(number)


def required_keys(component: Component) -> Iterator[LiteralKey]:
    """Yield the literals that every string of a component holds, where a single one is required."""
    for constraint in component.filter.constraints:
        if isinstance(constraint, Like):
            yield from (group[0] for group in required_groups(constraint) if len(group) == 1 and group[0].literal)


def known_texts(component: Component, names: set[str] | None = None) -> Mapping[str, str]:
    """Return for attributes with strings one that the component accepts; ``names``: attributes that are of interest."""
    texts = {**component.texts, **component.witnesses}
    for constraint in component.filter.constraints:
        name = constraint.attribute
        if isinstance(constraint, Values) and name not in texts and (names is None or name in names):
            cuts = constraint.allowed.cuts
            if cuts and isinstance(cuts[0][0], str):
                start, side = cuts[0]
                texts[name] = "" if constraint.allowed.from_below else start + "\0" * side
    return texts if names is None else {name: text for name, text in texts.items() if name in names}


def _windows(text: bytes, anchor: Anchor, lengths: set[int]) -> Iterator[bytes]:
    """Yield the parts of a text that have certain lengths, all or those at one end."""
    for length in lengths:
        if length > len(text):
            continue
        if anchor is Anchor.START:
            yield text[:length]
        elif anchor is Anchor.END:
            yield text[-length:]
        else:
            yield from (text[at : at + length] for at in range(len(text) - length + 1))
