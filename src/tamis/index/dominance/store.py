"""Subscriptions by their components, in stores with the same interface.

* `BoxStore`: subscriptions that are one box, each end of which is meant. The tree's row is the subscription's.
* `ComponentStore`: all others. A row may have several components; each is a box with a number of its own, its
  conditions in columns. Where every end is meant, or lies strictly beyond, the box decides; regions and balls are
  decided in batches (`conditions`); patterns and ends that tie are left `OPEN` for a proof on raw values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.geometry.relations import relation_set
from tamis.index.dominance.conditions import Conditions, Verdicts
from tamis.index.dominance.corners import NOBODY
from tamis.index.dominance.outline import Outline
from tamis.index.dominance.patterns.known_texts import KnownTexts
from tamis.index.dominance.patterns.literal_axes import known_texts, required_keys
from tamis.index.dominance.proposals import Proposals, ProposingTree, TieCounts
from tamis.index.dominance.region_sides import ALL
from tamis.index.dominance.sides import component_sides
from tamis.index.dominance.space import Corners, DominanceSpace
from tamis.index.dominance.splitting.components import Component
from tamis.index.protocols import NO_ROWS, Rows
from tamis.kernels.covering.joining import Marks, join_components
from tamis.kernels.polygons.region_tests import NO, OPEN, YES
from tamis.model.subscription import Filter, Like

__all__ = ["AskedComponents", "BoxStore", "ComponentPairs", "ComponentStore", "HullStore", "LeastCoverers"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]
_BoolArray = npt.NDArray[np.bool_]

#: Flags of a stored component: its numbers are exact, its strings are exact, it has no pattern.
_NUMBERS, _STRINGS, _PLAIN = 1, 2, 4
#: Dead components that are kept, at least; beyond that as many as living ones.
_DEAD: Final = 4_096
#: Largest number of boxes that are compared directly with a pattern's range; with more, the tree selects first.
_FEW: Final = 64


class ComponentPairs(NamedTuple):
    """Pairs of a component in question and a stored one (row and number), with a verdict: YES or OPEN."""

    question: _IntArray
    rows: Rows
    stored: Rows
    verdicts: Verdicts


class AskedComponents(NamedTuple):
    """Questions of as many components each.

    Attributes
    ----------
    lo, hi
        The corners of the components, float64[n, components, axes], NaN where one is free.
    is_exact
        bool[n, components]: whether each end is the end that was meant.
    make_strict
        Returns the corners that are one step larger: what is around them is around the components beyond doubt.
    """

    lo: _FloatArray
    hi: _FloatArray
    is_exact: _BoolArray
    make_strict: Callable[[], Corners]


class LeastCoverers(NamedTuple):
    """The least row that surely covers each question, or `NOBODY`; pairs of a question and a lower row that may."""

    best: Rows
    question: Rows
    rows: Rows


class BoxStore(ProposingTree):
    """Subscriptions that are one box each."""

    def find_least_coverers(self, questions: AskedComponents) -> LeastCoverers:
        """Return the least row that surely covers each question, and the lower ones that may cover it.

        A box that has all components of a question inside has the box around them inside.
        """
        if not len(self):
            return LeastCoverers(np.full(len(questions.lo), NOBODY, np.int32), NO_ROWS, NO_ROWS)
        self.grow()
        lo, hi = questions.lo.min(axis=1), questions.hi.max(axis=1)
        best = self.tree.find_least_covers(lo, hi)
        tied = np.flatnonzero(~questions.is_exact.all(axis=1) & (best != NOBODY))
        if not len(tied):
            return LeastCoverers(best, NO_ROWS, NO_ROWS)
        strict_lo, strict_hi = questions.make_strict()
        sure = self.tree.find_least_covers(strict_lo[tied].min(axis=1), strict_hi[tied].max(axis=1))
        left = tied[sure != best[tied]]
        best[tied] = sure
        offsets, rows = self.tree.match_points(hi[left], lo[left])
        question = np.repeat(left, np.diff(offsets)).astype(np.int32)
        lower = rows < best[question]
        return LeastCoverers(best, question[lower], rows[lower])

    def find_pairs(self, components: Sequence[Component], *, outwards: bool) -> ComponentPairs:
        """Return rows that may cover the components, or (not ``outwards``) that they may cover; none is left out."""
        exact = np.array([component.exact_numbers for component in components], np.bool_)
        find = self.find_around if outwards else self.find_inside
        question, stored, sure = find(components, lambda question, stored: exact[question])
        plain = np.array([component.exact_strings and not component.witnesses for component in components], np.bool_)
        if not outwards:  # a box implies no condition
            plain &= [not (component.regions or component.balls) for component in components]
        verdicts = np.where(sure & plain[question], YES, OPEN).astype(np.int8)
        return ComponentPairs(question, stored, stored, verdicts)

    def find_pairs_inside(self, options: Sequence[_FloatArray]) -> ComponentPairs:
        """Return the rows that boxes cover whose ends are all meant; see `ProposingTree.find_fitting`."""
        question, stored = self.find_fitting(options)
        return ComponentPairs(question, stored, stored, np.full(len(stored), YES, np.int8))


class HullStore(ProposingTree):
    """The boxes around subscriptions that are compared as wholes; the tree's row is the subscription's."""

    def find_meeting(self, outline: Outline) -> Rows:
        """Return the rows whose box intersects that of an outline, in any order."""
        if not len(self):
            return NO_ROWS
        self.grow()
        return self.tree.find_meeting(*self.space.around(outline))


class ComponentStore:
    """Subscriptions in components. Cost: a walk of the tree per component, and what it proposes."""

    def __init__(self, space: DominanceSpace) -> None:
        self.boxes = ProposingTree(space)
        self._attributes: dict[str, int] = {}
        self._conditions = Conditions(self._attributes)
        self._texts = KnownTexts()
        #: The row, the first component of the row, and the flags of each component.
        self._row_of = np.zeros(0, np.int32)
        self._head_of = np.zeros(0, np.int32)
        self._flags = np.zeros(0, np.uint8)
        #: ``{row: (first component, number of components)}``.
        self._spans: dict[int, tuple[int, int]] = {}
        self._n = 0

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, row: int) -> bool:
        return row in self._spans

    def rows(self) -> list[int]:
        """Return the rows, in any order."""
        return list(self._spans)

    def add(self, added: Sequence[tuple[int, Sequence[Component]]]) -> None:
        """Add rows with their components."""
        components = [component for _, own_components in added for component in own_components]
        first, self._n = self._n, self._n + len(components)
        self._make_room()
        at = first
        for row, own_components in added:
            self._spans[row] = at, len(own_components)
            self._row_of[at : at + len(own_components)] = row
            self._head_of[at : at + len(own_components)] = at
            at += len(own_components)
        self._flags[first : self._n] = [_flags_of(component) for component in components]
        for component in components:
            for test in component.regions:
                if relation_set(test.relations) != ALL:
                    self.boxes.classes.setdefault(test.attribute, set()).add(relation_set(test.relations))
        self._conditions.append(components)
        self._texts.append(map(known_texts, components))
        self._add_boxes(first, components)

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        first, count = self._spans.pop(row)
        for number in range(first, first + count):
            self.boxes.tree.remove_one(number)
            self._conditions.remove(number)
            self._texts.remove(number)

    @property
    def is_sparse(self) -> bool:
        """Whether most components are dead, so that the store is better created again."""
        return self._n > _DEAD + 2 * len(self.boxes)

    def find_pairs(self, components: Sequence[Component], *, outwards: bool) -> ComponentPairs:
        """Return stored components that may cover the given ones, or (not ``outwards``) that they may cover.

        None is left out that does, or that they do.
        """
        if not self._spans:
            return _NO_PAIRS
        exact = np.array([component.exact_numbers for component in components], np.bool_)

        def tie_counts(question: _IntArray, stored: Rows) -> _BoolArray:
            is_meant: _BoolArray = self._flags[stored] & _NUMBERS != 0
            return exact[question] & is_meant

        question, stored, sure = (self.boxes.find_around if outwards else self._find_inside)(components, tie_counts)
        plain = np.array([component.exact_strings and not component.witnesses for component in components], np.bool_)
        sure &= plain[question] & (self._flags[stored] & (_STRINGS | _PLAIN) == _STRINGS | _PLAIN)
        implied = self._decide(components, question.astype(np.int32), stored, outwards=outwards)
        return self._judged(question, stored, sure, implied)

    def _find_inside(self, components: Sequence[Component], tie_counts: TieCounts) -> Proposals:
        """Return the boxes that each component may cover: those with the literals of its patterns, or by the tree."""
        if not any(component.witnesses for component in components):
            return self.boxes.find_inside(components, tie_counts)
        proposals: list[Proposals] = []
        for number, component in enumerate(components):
            listed = self._texts.find(required_keys(component)) if component.witnesses else None
            if listed is not None and (len(listed) <= _FEW or _has_patterns_only(component)):
                stored = self.boxes.fitting_among(component, listed)
                proposals.append(Proposals(np.full(len(stored), number), stored, np.zeros(len(stored), np.bool_)))
                continue
            question, stored, sure = self.boxes.find_inside([component], _of_one(tie_counts, number))
            keep = slice(None) if listed is None else np.isin(stored, listed, assume_unique=True)
            proposals.append(Proposals(question[keep] + number, stored[keep], sure[keep]))
        return Proposals(*(np.concatenate(columns) for columns in zip(*proposals, strict=True)))

    def find_pairs_of_boxes(self, lo: _FloatArray, hi: _FloatArray) -> ComponentPairs:
        """Return the components that may cover boxes whose ends are all meant, float64[n, axes]."""
        if not self._spans:
            return _NO_PAIRS
        self.boxes.grow()
        offsets, stored = self.boxes.tree.match_points(hi, lo)
        question = np.repeat(np.arange(len(lo)), np.diff(offsets))
        exact = _NUMBERS | _STRINGS | _PLAIN
        implied = self._decide([_A_BOX], np.zeros(len(stored), np.int32), stored, outwards=True)
        return self._judged(question, stored, self._flags[stored] & exact == exact, implied)

    def find_least_coverers(self, questions: AskedComponents) -> LeastCoverers:
        """Return the least row that surely covers each of n questions, and the lower ones that may cover it."""
        n, n_components, _ = questions.lo.shape
        best = np.full(n, NOBODY, np.int32)
        if not self._spans:
            return LeastCoverers(best, NO_ROWS, NO_ROWS)
        self.boxes.grow()
        offsets, stored = self.boxes.tree.match_points(_flat(questions.hi), _flat(questions.lo))
        question = np.repeat(np.arange(n * n_components), np.diff(offsets))
        meant = self._flags[stored] & _NUMBERS != 0
        sure = questions.is_exact.reshape(-1)[question] & meant
        if not sure.all():
            lo, hi = questions.make_strict()
            beyond_offsets, beyond = self.boxes.tree.match_points(_flat(hi), _flat(lo))
            beyond_question = np.repeat(np.arange(n * n_components), np.diff(beyond_offsets))
            sure |= np.isin(question << 32 | stored, beyond_question << 32 | beyond)
        sure &= self._flags[stored] & (_STRINGS | _PLAIN) == _STRINGS | _PLAIN
        implied = self._decide([_A_BOX], np.zeros(len(stored), np.int32), stored, outwards=True)
        verdicts = np.where(sure & (implied == YES), YES, np.where(implied == NO, NO, OPEN)).astype(np.int8)
        components = np.arange(0, n * n_components + 1, n_components)
        undecided = np.empty((2, len(stored)), np.int32)
        marks = Marks(np.zeros(self._n, np.int64), np.zeros(self._n, np.int64))
        proposed = self._head_of[stored], verdicts
        count = join_components(components, offsets, proposed, self._row_of, marks, best, undecided)
        return LeastCoverers(best, undecided[0, :count], undecided[1, :count])

    def find_pairs_inside(self, options: Sequence[_FloatArray]) -> ComponentPairs:
        """Return the components that boxes may cover whose ends are all meant; see `ProposingTree.find_fitting`."""
        question, stored = self.boxes.find_fitting(options)
        exact = _NUMBERS | _STRINGS | _PLAIN
        implied = self._decide([_A_BOX], np.zeros(len(stored), np.int32), stored, outwards=False)
        return self._judged(question, stored, self._flags[stored] & exact == exact, implied)

    def find_meeting(self, lo: _FloatArray, hi: _FloatArray) -> Rows:
        """Return the rows of which a component has something in common with one box, ascending."""
        if not self._spans:
            return NO_ROWS
        self.boxes.grow()
        return np.unique(self._row_of[self.boxes.tree.find_meeting(lo, hi)])

    def counts_of(self, rows: Rows) -> _IntArray:
        """Return how many components each row has."""
        return np.array([self._spans[row][1] for row in rows.tolist()], np.int64)

    def _make_room(self) -> None:
        if self._n > len(self._flags):
            room = max(2 * len(self._flags), self._n, 64)
            self._row_of = np.concatenate((self._row_of, np.zeros(room - len(self._row_of), np.int32)))
            self._head_of = np.concatenate((self._head_of, np.zeros(room - len(self._head_of), np.int32)))
            self._flags = np.concatenate((self._flags, np.zeros(room - len(self._flags), np.uint8)))

    def _add_boxes(self, first: int, components: Sequence[Component]) -> None:
        space, literals = self.boxes.space, self.boxes.literals
        sides = [component_sides(component) | literals.stored(component) for component in components]
        texts = [component.texts for component in components]
        lo, hi = space.stored_many(list(zip(sides, texts, strict=True)))
        self.boxes.add(lo, hi, np.arange(first, self._n, dtype=np.int32))

    def _decide(self, components: Sequence[Component], question: Rows, stored: Rows, *, outwards: bool) -> Verdicts:
        """Return for each pair whether the conditions of one imply those of the other."""
        if not len(stored) or not (
            self._conditions.has_any or any(component.regions or component.balls for component in components)
        ):
            return np.full(len(stored), YES, np.int8)
        own_conditions = Conditions(self._attributes)
        own_conditions.append(components)
        if outwards:
            return self._conditions.decide(stored, own_conditions, question)
        return own_conditions.decide(question, self._conditions, stored)

    def _judged(self, question: _IntArray, stored: Rows, sure: _BoolArray, implied: Verdicts) -> ComponentPairs:
        """Return the pairs whose conditions may be implied."""
        verdicts = np.where(sure & (implied == YES), YES, OPEN).astype(np.int8)
        keep = implied != NO
        if not keep.all():
            question, stored, verdicts = question[keep], stored[keep], verdicts[keep]
        return ComponentPairs(question, self._row_of[stored], stored, verdicts)


_NO_PAIRS: Final = ComponentPairs(np.zeros(0, np.int64), NO_ROWS, NO_ROWS, np.zeros(0, np.int8))
#: A component without conditions.
_A_BOX: Final = Component(Filter(), {}, {}, {}, (), (), True, True)


def _flat(corners: _FloatArray) -> _FloatArray:
    return corners.reshape(-1, corners.shape[-1])


def _of_one(tie_counts: TieCounts, number: int) -> TieCounts:
    """Return the same function for a single component, which then has number 0."""
    return lambda question, stored: tie_counts(question + number, stored)


def _has_patterns_only(component: Component) -> bool:
    return all(isinstance(constraint, Like) for constraint in component.filter.constraints)


def _flags_of(component: Component) -> int:
    flags = (_NUMBERS if component.exact_numbers else 0) | (_STRINGS if component.exact_strings else 0)
    return flags | (0 if component.witnesses else _PLAIN)
