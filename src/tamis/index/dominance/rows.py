"""The subscriptions of a dominance index by their rows, and candidates for covering among them.

A row that is one box stands in `BoxStore`, any other in `ComponentStore`. A row of which several filters may cover
something together (`are_linked`), or that does not fall into components, stands with its hull besides, in a third tree:
there a proof on whole filters decides. A row that can never match stands in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.outline import outline_of
from tamis.index.dominance.space import Corners, DominanceSpace
from tamis.index.dominance.splitting.components import Decomposition, are_linked, decompose
from tamis.index.dominance.store import (
    AskedComponents,
    BoxStore,
    ComponentPairs,
    ComponentStore,
    HullStore,
    LeastCoverers,
)
from tamis.index.protocols import NO_ROWS, Filtered, Rows
from tamis.kernels.polygons.region_tests import YES
from tamis.model.subscription import Filter

__all__ = ["Candidates", "RowStore"]

_IntArray = npt.NDArray[np.int64]
_FloatArray = npt.NDArray[np.float64]
_BoolArray = npt.NDArray[np.bool_]


class Candidates(NamedTuple):
    """Rows that may cover questions, and whether each cover is proved."""

    question: _IntArray
    rows: Rows
    sure: _BoolArray


class RowStore:
    """Subscriptions by row. Candidates miss no cover and nothing that is covered; sure ones need no proof."""

    def __init__(self) -> None:
        self.space = DominanceSpace()
        self.boxes = BoxStore(self.space)
        self._parts = ComponentStore(self.space)
        self._hulls = HullStore(self.space)
        #: Rows that do not fall into components: they stand with their hull alone.
        self.loose: set[int] = set()
        #: Rows that can never match.
        self.never: set[int] = set()
        #: ``{row: subscription}``: those that came as such; boxes of a table are read from the tree.
        self._subscriptions: dict[int, Filtered] = {}

    def __len__(self) -> int:
        return len(self.boxes) + len(self._parts) + len(self.loose) + len(self.never)

    def __contains__(self, row: int) -> bool:
        return row in self._subscriptions or self.boxes.tree.find_box(row) is not None

    def rows(self) -> list[int]:
        """Return all rows, in any order."""
        return [*self.never, *self.loose, *self.boxes.tree.rows().tolist(), *self._parts.rows()]

    def filters(self, row: int) -> tuple[Filter, ...]:
        """Return the filters of a row."""
        subscription = self._subscriptions.get(row)
        return (
            subscription.filters if subscription is not None else (self.space.filter_of(self.boxes.tree.find_box(row)),)
        )

    @property
    def has_boxes_only(self) -> bool:
        """Whether every row is a box."""
        return not (len(self._parts) or self.loose or self.never)

    # ---- writing

    def add(
        self, rows: Sequence[int], subscriptions: Sequence[Filtered], split: Sequence[Decomposition] | None = None
    ) -> None:
        """Add subscriptions under rows that are free; ``split`` are their components, if these are known."""
        boxes, parts = [], []
        decompositions = (
            split if split is not None else [decompose(subscription.filters) for subscription in subscriptions]
        )
        for row, subscription, (components, whole) in zip(rows, subscriptions, decompositions, strict=True):
            self._subscriptions[row] = subscription
            if whole and len(components) == 1 and components[0].is_box:
                boxes.append((row, components[0]))
                continue
            if whole and components:
                parts.append((row, components))
            elif whole:
                self.never.add(row)
            if not whole or are_linked(subscription.filters):
                self._add_hull(row, subscription.filters, is_loose=not whole)
        if parts:
            self._parts.add(parts)
        if boxes:
            lo, hi = self.space.stored_many([(component.sides, component.texts) for _, component in boxes])
            self.boxes.add(lo, hi, np.array([row for row, _ in boxes], np.int32))

    def add_corners(self, rows: Rows, corners: Corners, subscriptions: Sequence[Filtered] = ()) -> None:
        """Add boxes, all of whose ends are meant; without their subscriptions they are read from the tree."""
        self.boxes.add(*corners, rows)
        self._subscriptions.update(zip(rows.tolist(), subscriptions, strict=False))

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        if row in self.never:
            self.never.remove(row)
        elif row in self.loose:
            self.loose.remove(row)
        elif row in self._parts:
            self._parts.remove(row)
        else:
            self.boxes.tree.remove_one(row)
        if self._hulls.tree.find_box(row) is not None:
            self._hulls.tree.remove_one(row)
        self._subscriptions.pop(row, None)
        if self._parts.is_sparse:
            living, self._parts = self._parts.rows(), ComponentStore(self.space)
            split = [(row, decompose(self.filters(row)).components) for row in living]
            if split:
                self._parts.add(split)

    # ---- finding covers

    def find_coverers(self, questions: Sequence[tuple[Filter, ...]], split: Sequence[Decomposition]) -> Candidates:
        """Return the rows that may cover each question, each once; ``split`` are the questions in components."""
        components = [component for decomposition in split for component in decomposition.components]
        counts = np.array([len(decomposition.components) for decomposition in split], np.int64)
        owner = np.repeat(np.arange(len(split)), counts)
        whole = np.array([decomposition.whole for decomposition in split], np.bool_)
        candidates = [self._hull_coverers(questions)]
        if components:
            candidates += (
                _joined(store.find_pairs(components, outwards=True), owner, counts, whole)
                for store in (self.boxes, self._parts)
                if len(store)
            )
        for number in np.flatnonzero((counts == 0) & ~whole).tolist():  # every row is a candidate
            every = np.array(self.rows(), np.int32)
            candidates.append(Candidates(np.full(len(every), number), every, np.zeros(len(every), np.bool_)))
        return _merged(candidates)

    def find_coverers_of_corners(self, lo: _FloatArray, hi: _FloatArray) -> Candidates:
        """Return the rows that are not boxes and may cover boxes all of whose ends are meant, each once."""
        pairs = self._parts.find_pairs_of_boxes(lo, hi)
        once = np.ones(len(lo), np.int64)
        candidates = [_joined(pairs, np.arange(len(lo)), once, once > 0)]
        if len(self._hulls):
            self._hulls.grow()
            offsets, rows = self._hulls.tree.match_points(hi, lo)
            question = np.repeat(np.arange(len(lo)), np.diff(offsets))
            candidates.append(Candidates(question, rows, np.zeros(len(rows), np.bool_)))
        return _merged(candidates)

    def find_least_coverers(self, questions: AskedComponents) -> LeastCoverers:
        """Return the least row that surely covers each question, and the lower ones that may cover it."""
        answers = [store.find_least_coverers(questions) for store in (self.boxes, self._parts)]
        if len(self._hulls):
            self._hulls.grow()
            offsets, rows = self._hulls.tree.match_points(questions.hi.max(axis=1), questions.lo.min(axis=1))
            question = np.repeat(np.arange(len(questions.lo), dtype=np.int32), np.diff(offsets))
            answers.append(LeastCoverers(answers[0].best, question, rows))
        best = np.minimum(answers[0].best, answers[1].best)
        question, rows = (np.concatenate([answer[column] for answer in answers]) for column in (1, 2))
        lower = rows < best[question]
        return LeastCoverers(best, question[lower], rows[lower])

    def _hull_coverers(self, questions: Sequence[tuple[Filter, ...]]) -> Candidates:
        rows_of: list[Rows] = [NO_ROWS for _ in questions]
        if len(self._hulls):
            self._hulls.grow()
            for number, filters in enumerate(questions):
                outline = outline_of(filters)
                if outline is not None:
                    rows_of[number] = self._hulls.tree.find_coverers(*self.space.asked_outline(outline))
        question = np.repeat(np.arange(len(questions)), [len(rows) for rows in rows_of])
        rows = np.concatenate([NO_ROWS, *rows_of])
        return Candidates(question, rows, np.zeros(len(rows), np.bool_))

    # ---- what a subscription covers

    def find_covered(
        self, questions: Sequence[tuple[Filter, ...]], split: Sequence[Decomposition]
    ) -> list[tuple[Rows, Rows]]:
        """Return the rows that each question surely covers, and others that it may cover; see `find_coverers`."""
        sure: list[list[Rows]] = [[NO_ROWS] for _ in questions]
        maybe: list[list[Rows]] = [[NO_ROWS] for _ in questions]
        wholes = [decomposition.components if decomposition.whole else [] for decomposition in split]
        components = [component for own_components in wholes for component in own_components]
        owner = np.repeat(np.arange(len(wholes)), [len(own_components) for own_components in wholes])
        for store, counts_of in ((self.boxes, _count_one_each), (self._parts, self._parts.counts_of)):
            if components and len(store):
                pairs = store.find_pairs(components, outwards=False)
                for number, rows, is_sure in _whole_rows(pairs, owner, counts_of):
                    sure[number].append(rows[is_sure])
                    maybe[number].append(rows[~is_sure])
        for number, (filters, decomposition) in enumerate(zip(questions, split, strict=True)):
            maybe[number] += self._covered_hulls(filters, is_linked=not decomposition.whole or are_linked(filters))
        return [_settled(certain, others) for certain, others in zip(sure, maybe, strict=True)]

    def find_covered_by_boxes(self, options: Sequence[_FloatArray], n: int) -> list[tuple[Rows, Rows]]:
        """Return what `find_covered` does of ``n`` boxes all of whose ends are meant, unless some rows are loose.

        A row that is covered fits one of ``options``, float64[4, n, axes] each (`DominanceSpace.fitting`).
        """
        sure: list[list[Rows]] = [[NO_ROWS] for _ in range(n)]
        maybe: list[list[Rows]] = [[NO_ROWS] for _ in range(n)]
        for store, counts_of in ((self.boxes, _count_one_each), (self._parts, self._parts.counts_of)):
            if options and len(store):
                pairs = store.find_pairs_inside(options)
                for number, rows, is_sure in _whole_rows(pairs, np.arange(n), counts_of):
                    sure[number].append(rows[is_sure])
                    maybe[number].append(rows[~is_sure])
        return [_settled(certain, others) for certain, others in zip(sure, maybe, strict=True)]

    def _covered_hulls(self, filters: tuple[Filter, ...], *, is_linked: bool) -> Iterator[Rows]:
        """Yield rows that filters may cover together, or that stand with their hull alone."""
        outline = outline_of(filters) if is_linked or self.loose else None
        if outline is not None and is_linked:
            lo, hi = self.space.around(outline)
            yield self._parts.find_meeting(lo, hi)
            if len(self.boxes) and self.space.knows(outline):
                self.boxes.grow()
                yield self.boxes.tree.find_inside(lo.reshape(1, -1), hi.reshape(1, -1))[1]
        if outline is not None and self.loose:
            yield np.intersect1d(self._hulls.find_meeting(outline), np.fromiter(self.loose, np.int32))

    def find_meeting(self, filters: tuple[Filter, ...]) -> Rows:
        """Return every row that can match an event which a subscription matches, and perhaps others."""
        outline = outline_of(filters)
        if outline is None:
            return NO_ROWS
        around = self.space.around(outline)
        self.boxes.grow()
        meeting = [self.boxes.tree.find_meeting(*around), self._parts.find_meeting(*around)]
        return np.unique(np.concatenate([*meeting, self._hulls.find_meeting(outline)]))

    def statistics(self) -> dict[str, int]:
        """Return how many rows are handled by which method, and the bytes of the trees."""
        parts = self._parts.boxes.tree
        return {
            "plain": len(self.boxes),
            "special": len(self._parts) + len(self.loose),
            "components": len(parts),
            "hulls": len(self._hulls),
            "never": len(self.never),
            "axes": len(self.space),
            "bytes": sum(int(tree.statistics()["bytes"]) for tree in (self.boxes.tree, parts, self._hulls.tree)),
        }

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless the trees are consistent."""
        for tree in (self.boxes.tree, self._parts.boxes.tree, self._hulls.tree):
            tree.check_invariants()

    # ---- inside

    def _add_hull(self, row: int, filters: tuple[Filter, ...], *, is_loose: bool) -> None:
        outline = outline_of(filters)
        if outline is None:
            if is_loose:
                self.never.add(row)
            return
        if is_loose:
            self.loose.add(row)
        lo, hi = self.space.stored(outline)
        self._hulls.grow()
        self._hulls.tree.add_boxes(lo.reshape(1, -1), hi.reshape(1, -1), np.array([row], np.int32))


def _count_one_each(rows: Rows) -> _IntArray:
    """Return the number of components of each row that is one box."""
    return np.ones(len(rows), np.int64)


def _joined(pairs: ComponentPairs, owner: _IntArray, counts: _IntArray, whole: _BoolArray) -> Candidates:
    """Return the rows that have something around each component of a question; sure if that is sure of each."""
    sure = pairs.verdicts == YES
    if counts.max(initial=0) <= 1 and pairs.rows is pairs.stored:
        question = owner[pairs.question]
        return Candidates(question, pairs.rows, sure & whole[question])
    keys, best = _by_key(pairs.question << 32 | pairs.rows, sure, np.logical_or)
    question, rows = owner[keys >> 32], keys & 0xFFFFFFFF
    keys, all_sure, n_around = _by_key_counted(question << 32 | rows, best)
    question = keys >> 32
    keep = n_around == counts[question]
    return Candidates(question[keep], (keys[keep] & 0xFFFFFFFF).astype(np.int32), (all_sure & whole[question])[keep])


def _by_key(keys: _IntArray, sure: _BoolArray, join: np.ufunc) -> tuple[_IntArray, _BoolArray]:
    """Return the keys, ascending, each once, and what ``sure`` of those with the same key is together."""
    if not len(keys):
        return keys, sure
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], join.reduceat(sure[order], starts)


def _by_key_counted(keys: _IntArray, sure: _BoolArray) -> tuple[_IntArray, _BoolArray, _IntArray]:
    """Return the keys, ascending, each once, whether all with the same key are sure, and how many there are."""
    once, counts = np.unique(keys, return_counts=True)
    return once, _by_key(keys, sure, np.logical_and)[1], counts


def _merged(candidates: Sequence[Candidates]) -> Candidates:
    """Return candidates of several stores, ordered by question and row, each once."""
    question, rows, sure = (np.concatenate(columns) for columns in zip(*candidates, strict=True))
    order = np.lexsort((~sure, rows, question))  # of two that are the same a sure one comes first
    question, rows, sure = question[order], rows[order], sure[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (question[1:] != question[:-1]) | (rows[1:] != rows[:-1])
    return Candidates(question[first], rows[first].astype(np.int32), sure[first])


def _whole_rows(
    pairs: ComponentPairs, owner: _IntArray, counts_of: Callable[[Rows], _IntArray]
) -> Iterator[tuple[int, Rows, _BoolArray]]:
    """Yield for each question the rows all of whose components were found, and whether each is surely covered.

    ``owner`` is the question that each component belongs to. Questions without rows are left out.
    """
    question = owner[pairs.question]
    order = np.lexsort((pairs.stored, pairs.rows, question))
    question, rows, stored = question[order], pairs.rows[order], pairs.stored[order]
    starts = _starts(question, rows, stored)  # a stored component may lie in several of one question
    question, rows = question[starts], rows[starts]
    best = np.logical_or.reduceat((pairs.verdicts == YES)[order], starts) if len(starts) else np.zeros(0, np.bool_)
    starts = _starts(question, rows)
    n_found = np.diff(np.append(starts, len(rows)))
    all_sure = np.logical_and.reduceat(best, starts) if len(starts) else best
    question, rows = question[starts], rows[starts]
    keep = n_found == counts_of(rows)
    question, rows, all_sure = question[keep], rows[keep], all_sure[keep]
    ends = _starts(question)
    for start, stop in pairwise([*ends.tolist(), len(rows)]):
        yield int(question[start]), rows[start:stop], all_sure[start:stop]


def _starts(*columns: npt.NDArray[Any]) -> _IntArray:
    """Return where one of several columns has another value than before."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


def _settled(certain: Sequence[Rows], others: Sequence[Rows]) -> tuple[Rows, Rows]:
    """Return the rows that are certain, and the others that are not among them."""
    rows = np.unique(np.concatenate(certain)) if len(certain) > 2 else certain[-1]
    return rows, np.setdiff1d(np.concatenate(others), rows) if any(map(len, others)) else NO_ROWS
