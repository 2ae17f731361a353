"""Looks up and adds many subscriptions at once.

Subscriptions in columns of closed ranges (`TextColumns`) need no object: their corners are made from the columns. All
others are decomposed once, however often they are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.corners import NOBODY
from tamis.index.dominance.patterns.literal_axes import LITERAL
from tamis.index.dominance.rows import RowStore
from tamis.index.dominance.space import Corners, asked_columns, fitting_columns, stored_columns
from tamis.index.dominance.splitting.components import Decomposition, decompose
from tamis.index.dominance.splitting.shapes import Shaped, group_by_shape, shaped_corners
from tamis.index.dominance.store import AskedComponents
from tamis.index.dominance.verifying import Patience, Verifier
from tamis.index.protocols import NO_ROWS, Filtered, MatchRows, Rows
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Filter

__all__ = ["Batches", "Questions"]

_FloatArray = npt.NDArray[np.float64]


class Questions:
    """Subscriptions by position; ``columns`` has some of them once more, their rows are positions.

    Columns with open ends are not used: they do not show which of two equal ends reaches further.
    """

    def __init__(self, subscriptions: Sequence[Filtered], columns: Sequence[TextColumns] = ()) -> None:
        self.subscriptions = subscriptions
        self.columns = [column for column in columns if column.is_closed and len(column.rows)]
        is_other = np.ones(len(subscriptions), np.bool_)
        for column in self.columns:
            is_other[column.rows] = False
        #: Positions that are in no column, ascending.
        self.others: list[int] = np.flatnonzero(is_other).tolist()
        self._split: dict[int, Decomposition] = {}

    def __len__(self) -> int:
        return len(self.subscriptions)

    def filters(self, position: int) -> tuple[Filter, ...]:
        """Return the filters at a position."""
        return self.subscriptions[position].filters

    def split(self, position: int) -> Decomposition:
        """Return the components at a position."""
        if position not in self._split:
            self._split[position] = decompose(self.filters(position))
        return self._split[position]

    def take(self, chosen: Sequence[int]) -> Questions:
        """Return the questions at some positions, ascending, under new positions."""
        new = np.full(len(self), -1, np.int32)
        new[chosen] = np.arange(len(chosen))
        columns = []
        for column in self.columns:
            kept = np.flatnonzero(new[column.rows] >= 0)
            columns.append(column.take(kept, new[column.rows[kept]]))
        taken = Questions([self.subscriptions[position] for position in chosen], columns)
        taken._split = {int(new[old]): split for old, split in self._split.items() if new[old] >= 0}
        return taken


class Batches:
    """Answers batches of questions from a `RowStore`, with the same results as single questions."""

    def __init__(self, rows: RowStore, verifier: Verifier) -> None:
        self._rows = rows
        self._verifier = verifier

    def add(self, rows: Sequence[int], questions: Questions) -> None:
        """Add subscriptions under rows that are free."""
        for columns in questions.columns:
            positions = columns.rows.tolist()
            theirs = np.array([rows[position] for position in positions], np.int32)
            subscriptions = [questions.subscriptions[position] for position in positions]
            self._rows.add_corners(theirs, stored_columns(self._rows.space, columns), subscriptions)
        others = questions.others
        self._rows.add(
            [rows[position] for position in others],
            [questions.subscriptions[position] for position in others],
            [questions.split(position) for position in others],
        )

    def find_covers(self, questions: Questions) -> Rows:
        """Return the least row that covers each subscription, -1 where there is none."""
        best = np.full(len(questions), NOBODY, np.int32)
        positions_left = list(questions.others)
        for columns in questions.columns:
            if any(self._rows.space.has((name, LITERAL)) for name in columns.strings):
                positions_left += columns.rows.tolist()  # patterns are found by the literals in each string
                continue
            positions = columns.rows.tolist()
            corners = asked_columns(self._rows.space, columns)
            best[columns.rows] = self.covers_of_corners(corners, lambda i, at=positions: questions.filters(at[i]))  # type: ignore[misc]
        groups, positions_left = group_by_shape(questions.subscriptions, positions_left)
        for group in groups:
            if any(self._rows.space.has((name, LITERAL)) for name in group.strings):
                positions_left += group.positions.tolist()
            else:
                best[group.positions] = self._covers_of_shape(group, questions)
        if positions_left:
            filters = [questions.filters(position) for position in positions_left]
            split = [questions.split(position) for position in positions_left]
            best[positions_left] = self.find_each(filters, split, [self._verifier.patience() for _ in filters])
        best[best == NOBODY] = -1
        return best

    def _covers_of_shape(self, group: Shaped, questions: Questions) -> Rows:
        """Return the least row that covers each subscription of one shape, or `NOBODY`."""
        space = self._rows.space
        corners = shaped_corners(space, group)
        components = AskedComponents(*corners, lambda: shaped_corners(space, group, strict=True)[:2])
        best, question, rows = self._rows.find_least_coverers(components)
        patience: dict[int, Patience] = {}
        for k in np.lexsort((rows, question)).tolist():
            i, row = int(question[k]), int(rows[k])
            if row < best[i]:
                budget = patience.setdefault(i, self._verifier.patience())
                filters = questions.filters(int(group.positions[i]))
                best[i] = self._verifier.first([row], filters, int(best[i]), budget)
        return best

    def covers_of_corners(self, corners: Corners, filters_of: Callable[[int], tuple[Filter, ...]]) -> Rows:
        """Return the least row that covers each box, all of whose ends are meant; `NOBODY` where there is none."""
        self._rows.boxes.grow()
        best = self._rows.boxes.tree.find_least_covers(*corners)
        question, rows, sure = self._rows.find_coverers_of_corners(*corners)
        np.minimum.at(best, question[sure], rows[sure])
        patience: dict[int, Patience] = {}
        for k in np.flatnonzero(~sure).tolist():
            i, row = int(question[k]), int(rows[k])
            if row < best[i]:
                budget = patience.setdefault(i, self._verifier.patience())
                best[i] = self._verifier.first([row], filters_of(i), int(best[i]), budget)
        return best

    def find_each(
        self, questions: Sequence[tuple[Filter, ...]], split: Sequence[Decomposition], patience: Sequence[Patience]
    ) -> list[int]:
        """Return the least row that covers each question, or `NOBODY`."""
        question, rows, sure = self._rows.find_coverers(questions, split)
        offsets = np.searchsorted(question, np.arange(len(questions) + 1))
        best: list[int] = []
        for i, filters in enumerate(questions):
            if split[i].whole and not split[i].components:  # it can never match
                best.append(min(self._rows.rows(), default=NOBODY))
                continue
            own = slice(offsets[i], offsets[i + 1])
            certain = np.flatnonzero(sure[own])
            stop, row = (certain[0], int(rows[own][certain[0]])) if certain.size else (None, NOBODY)
            best.append(self._verifier.first(rows[own][:stop].tolist(), filters, row, patience[i]))
        return best

    def propose_covers(
        self, filters: Sequence[tuple[Filter, ...]], split: Sequence[Decomposition]
    ) -> list[tuple[Rows, npt.NDArray[np.bool_]]]:
        """Return the rows that may cover each of several subscriptions, ascending, and which of them surely do."""
        question, rows, sure = self._rows.find_coverers(filters, split)
        ends = np.searchsorted(question, np.arange(len(filters) + 1)).tolist()
        proposals = [(rows[start:stop], sure[start:stop]) for start, stop in pairwise(ends)]
        for number, decomposition in enumerate(split):
            if decomposition.whole and not decomposition.components:  # it can never match
                every = np.array(sorted(self._rows.rows()), np.int32)
                proposals[number] = every, np.ones(len(every), np.bool_)
        return proposals

    def find_covered(self, questions: Questions) -> list[Rows]:
        """Return the rows that each subscription covers, ascending."""
        covered: list[Rows] = [NO_ROWS] * len(questions)
        positions_left: Sequence[int] = range(len(questions)) if self._rows.loose else questions.others
        for columns in () if self._rows.loose else questions.columns:
            positions, options = columns.rows.tolist(), fitting_columns(self._rows.space, columns)
            inside = self.covered_by_boxes(options, len(positions), lambda i, at=positions: questions.filters(at[i]))  # type: ignore[misc]
            for position, rows in zip(positions, inside, strict=True):
                covered[position] = rows
        filters = [questions.filters(position) for position in positions_left]
        around = self._rows.find_covered(filters, [questions.split(position) for position in positions_left])
        for position, question, (sure, candidates) in zip(positions_left, filters, around, strict=True):
            covered[position] = self.verified(sure, candidates, question, self._verifier.patience())
        return covered

    def covered_by_boxes(
        self, options: Sequence[_FloatArray], n: int, filters_of: Callable[[int], tuple[Filter, ...]]
    ) -> list[Rows]:
        """Return the rows that each of ``n`` boxes covers, all of whose ends are meant; unless some rows are loose."""
        if self._rows.has_boxes_only:
            offsets, rows = self.boxes_in_boxes(options, n)
            return [rows[start:stop] for start, stop in pairwise(offsets.tolist())]
        covered: list[Rows] = []
        for i, (sure, candidates) in enumerate(self._rows.find_covered_by_boxes(options, n)):
            if len(candidates) or self._rows.never:
                sure = self.verified(sure, candidates, filters_of(i), self._verifier.patience())
            covered.append(sure)
        return covered

    def boxes_in_boxes(self, options: Sequence[_FloatArray], n: int) -> MatchRows:
        """Return the rows of boxes that each of ``n`` boxes covers, ascending inside each box."""
        if not options:
            return MatchRows(np.zeros(n + 1, np.int64), NO_ROWS)
        question, rows = self._rows.boxes.find_fitting(options)
        return MatchRows(np.searchsorted(question, np.arange(n + 1)), rows[np.lexsort((rows, question))])

    def verified(self, sure: Rows, candidates: Rows, filters: tuple[Filter, ...], patience: Patience) -> Rows:
        """Return the rows that are surely covered and those candidates that are, ascending."""
        proved = self._verifier.covered(candidates.tolist(), filters, patience)
        return np.array(sorted([*self._rows.never, *sure.tolist(), *proved]), np.int32)
