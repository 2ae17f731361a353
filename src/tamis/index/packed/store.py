"""The storage of the packed matcher: every subscription is in exactly one structure.

Each filter becomes boxes (`boxes_of`). Invariants: a row stands in exactly one of these places,

* *plain*: subscriptions that are one exact box, under their own row. What the index finds is the answer.
* *special*: subscriptions with other boxes, under entry numbers; an entry knows its row, its filter, and whether its
  box decides or only proposes. A row may have several entries; it is reported once. An entry stands in the box index
  *special*, or in *texts* when a literal of its patterns finds its events better.
* *loose*: filters that give no box at all. A row may have loose filters and entries as well.
* *never*: rows without a filter, which no event matches.
* *balls*: subscriptions that are one ball and nothing else (`balls`).
* *trees*: subscriptions that are one tree of conditions on values (`trees`).

``n_special`` counts the rows that have entries or are loose. All box indexes have as many axes as `axes`; *special*
grows first, so a reader that looks at the others first never finds them wider.

One thread writes. Readers may go on meanwhile: rows are never used again, entries and axes only grow, and what a new
box needs (axis, entry, decider) is there before the box is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tamis.index.packed.axes import AttributePart, Axes
from tamis.index.packed.balls import PackedBalls, only_ball
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes_of import Box, Sides, boxes_of
from tamis.index.packed.boxes_of_columns import ColumnSides, circle_boxes, sides_of_columns
from tamis.index.packed.deciders.combined import Deciders
from tamis.index.packed.deciders.entries import Entries
from tamis.index.packed.texts.text_index import TextIndex, TextPart
from tamis.index.packed.trees import HulledTree, PackedTrees, tree_of
from tamis.index.protocols import IndexStatistics, Rows
from tamis.model.language.templates.columns import TextColumns
from tamis.model.subscription import Ball, Subscription
from tamis.model.tables import SubscriptionTable

__all__ = ["PackedStore"]

_Corners = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
#: A row, and the boxes of its subscription with the numbers of their filters.
_Rowed = tuple[int, list[tuple[int, Box]]]

#: Some of many boxes: their rows, their sides, and which of them.
_Piece = tuple[Rows, ColumnSides, slice]

#: Rows are added in steps of at most ``_MOST_CORNERS`` sides of boxes (float64), but of at least ``_LEAST_STEP`` rows.
_MOST_CORNERS, _LEAST_STEP = 1 << 22, 1 << 10


@dataclass(slots=True)
class PackedStore:
    """The subscriptions by row. See the module's text; `search` reads it, `saving` writes it to arrays."""

    #: What decides entries whose boxes only propose.
    deciders: Deciders
    axes: Axes = field(default_factory=Axes)
    plain: BoxIndex = field(default_factory=lambda: BoxIndex(1))
    special: BoxIndex = field(default_factory=lambda: BoxIndex(1))
    texts: TextIndex = field(default_factory=TextIndex)
    entries: Entries = field(default_factory=Entries)
    balls: PackedBalls = field(default_factory=PackedBalls)
    n_special: int = 0
    #: ``{row: numbers of filters}`` that have no box.
    loose: dict[int, tuple[int, ...]] = field(default_factory=dict)
    never: set[int] = field(default_factory=set)
    trees: PackedTrees = field(default_factory=PackedTrees)
    #: Whether *plain* holds all that an event can match. False before anything enters another place.
    is_plain: bool = True

    def __post_init__(self) -> None:
        self.is_plain = not (self.n_special or len(self.balls) or len(self.trees))

    def __len__(self) -> int:
        return len(self.plain) + self.n_special + len(self.balls) + len(self.never) + len(self.trees)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all others."""
        self.add_many([row], [subscription])

    def add_many(
        self, rows: Sequence[int], subscriptions: Sequence[Subscription], circles: Sequence[TextColumns] = ()
    ) -> None:
        """Add subscriptions under ascending rows above all others, and texts with circles under rows among them.

        All are added or, if a filter has no boxes, none.
        """
        plain, special, balls = list[_Rowed](), list[_Rowed](), list[tuple[int, Ball]]()
        trees, never = list[tuple[int, HulledTree]](), list[int]()
        for row, subscription in zip(rows, subscriptions, strict=True):
            if (ball := only_ball(subscription)) is not None:
                balls.append((row, ball))
            elif (tree := tree_of(subscription, self.axes)) is not None:
                trees.append((row, tree))
            else:
                filters = enumerate(subscription.filters)
                boxes = [(i, box) for i, filter in filters for box in boxes_of(filter, self.axes)]
                if boxes:
                    (plain if len(boxes) == 1 and boxes[0][1].exact else special).append((row, boxes))
                else:
                    never.append(row)
        if circles:
            special += [rowed for columns in circles for rowed in circle_boxes(columns, self.axes)]
            special.sort(key=lambda rowed: rowed[0])
        self._grow()
        self.is_plain &= not (balls or trees or special)
        for row, ball in balls:
            self.balls.add(row, ball)
        self.never.update(never)
        step = self._step()
        for start in range(0, len(trees), step):
            self.trees.add(*zip(*trees[start : start + step], strict=True))
        for start in range(0, len(plain), step):
            chunk = plain[start : start + step]
            self.plain.add_boxes(*self._corners([boxes[0][1] for _, boxes in chunk]), _as_rows(row for row, _ in chunk))
        for start in range(0, len(special), step):
            self._add_special(special[start : start + step])

    def _add_special(self, rowed: Sequence[_Rowed]) -> None:
        """Add rows whose boxes do not decide alone, or that have several, or none."""
        entries, bounded = list[int](), list[Box]()
        for row, boxes in rowed:
            indexed = [(i, box) for i, box in boxes if box.sides or box.exact or self._is_about_text(box)]
            if len(indexed) < len(boxes):
                self.loose[row] = tuple(
                    i for i, box in boxes if not (box.sides or box.exact or self._is_about_text(box))
                )
            if indexed:
                entries += self.entries.append(row, [(i, box.exact) for i, box in indexed])
                bounded += [box for _, box in indexed]
        if bounded:
            self.deciders.append(entries, bounded)
            self._add_entries(entries, bounded)
        self.n_special += len(rowed)

    def _is_about_text(self, box: Box) -> bool:
        """Whether the text index finds the events of a box better than the box itself."""
        if box.text is None:
            return False
        has_sides = any(axis not in self.axes.of_presence for axis in box.sides)
        return self.texts.wants(box.text, has_sides=has_sides)

    def _add_entries(self, entries: Sequence[int], boxes: Sequence[Box]) -> None:
        """Add entries to the index that suits them: by their text, or by their boxes."""
        numbers, parts, sides = list[int](), list[TextPart](), list[Sides]()
        others = list[tuple[int, Box]]()
        for entry, box in zip(entries, boxes, strict=True):
            if box.text is not None and self._is_about_text(box):
                numbers.append(entry)
                parts.append(box.text)
                sides.append(box.sides)
            else:
                others.append((entry, box))
        if numbers:
            presence = {axis: self.axes.attribute(axis) for axis in self.axes.of_presence}
            self.texts.add(numbers, parts, sides, presence)
        if others:
            self.special.add_boxes(*self._corners([box for _, box in others]), _as_rows(entry for entry, _ in others))

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table under rows above all others."""
        axes = [self.axes.number(name, AttributePart.NUMBER) for name in table.names]
        self._grow()
        lo, hi = table.corners()
        if axes != list(range(self.plain.n_axes)):
            wide_lo, wide_hi = (np.full((len(rows), self.plain.n_axes), side) for side in (-math.inf, math.inf))
            wide_lo[:, axes], wide_hi[:, axes] = lo, hi
            lo, hi = wide_lo, wide_hi
        self.plain.add_boxes(lo, hi, rows)

    def add_columns(self, columns: Sequence[TextColumns]) -> None:
        """Add texts under rows above all that were added before in other calls; if it raises, none is added."""
        boxes = [(column.rows, sides_of_columns(column, self.axes)) for column in columns]
        self._grow()
        step = self._step()
        pieces = [(rows, sides, slice(i, i + step)) for rows, sides in boxes for i in range(0, len(rows), step)]
        added: list[Rows] = []
        try:
            while pieces:
                batch = [pieces.pop()]
                while pieces and sum(map(_size, batch)) + _size(pieces[-1]) <= step:
                    batch.append(pieces.pop())
                added.append(self._add_pieces(batch))
        except BaseException:
            self.plain.remove(np.concatenate([np.zeros(0, np.int32), *added]))
            raise

    def _add_pieces(self, pieces: Sequence[_Piece]) -> Rows:
        """Add boxes given as sides by axis; return their rows."""
        rows = np.concatenate([rows[part] for rows, _, part in pieces])
        lo, hi = (np.full((len(rows), self.plain.n_axes), side) for side in (-math.inf, math.inf))
        start = 0
        for piece in pieces:
            _, sides, part = piece
            stop = start + _size(piece)
            for axis, (low, high) in sides.items():
                lo[start:stop, axis], hi[start:stop, axis] = low[part], high[part]
            start = stop
        self.plain.add_boxes(lo, hi, rows)
        return rows

    def add_balls(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the balls of a table under rows above all others."""
        self.is_plain = False
        self.balls.add_many(rows, table.names[0], *table.balls())

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        if row in self.never:
            self.never.remove(row)
        elif self.is_plain:
            self.plain.remove_one(row)
        else:
            self._remove_of_many_kinds(row)
            self.is_plain = not (self.n_special or len(self.balls) or len(self.trees))

    def _remove_of_many_kinds(self, row: int) -> None:
        """Remove a row from the structures that contain it."""
        if self.balls.remove(row) or self.trees.remove(row):
            return
        entries = self.entries.of(row)
        if row in self.loose:
            del self.loose[row]
        elif not entries:
            self.plain.remove_one(row)
            return
        if entries:
            numbers = np.array(entries, np.int32)
            in_boxes = np.setdiff1d(numbers, self.texts.remove(numbers))
            if len(in_boxes):
                self.special.remove(in_boxes)
        self.n_special -= 1

    def decided(self, rows: Rows) -> list[int]:
        """Return the rows, of some ascending ones, that nothing needs the subscription for: boxes or texts decide."""
        owners, numbers = self.entries.of_rows(rows)
        if self.loose:
            tight = ~np.isin(owners, list(self.loose))
            owners, numbers = owners[tight], numbers[tight]
        without = np.setdiff1d(rows, owners).tolist()
        has_plain = len(self.plain) > 0
        alone = [row for row in without if row in self.never or (has_plain and self.plain.find_box(row) is not None)]
        open_rows = owners[~(self.texts.decides(numbers) | self.entries.exact[numbers])]
        return [*alone, *np.setdiff1d(owners, open_rows).tolist()]

    def find_sides(self, row: int) -> dict[str, tuple[float, float]] | None:
        """Return the sides of a plain box on the NUMBER axes by attribute; None if the row is absent."""
        box = self.plain.find_box(row)
        if box is None:
            return None
        names = dict(self.axes)
        return {names[axis].attribute: (lo, hi) for axis, lo, hi in zip(*box, strict=True)}

    def statistics(self) -> IndexStatistics:
        """Return how many subscriptions are stored in which way, and the axes."""
        indexes = [index.statistics() for index in (self.plain, self.special)]
        n_bytes = sum(index["bytes"] for index in indexes)
        n_bytes += self.balls.n_bytes + self.texts.n_bytes + self.trees.n_bytes
        layouts = Counter[str]()
        for segment in (segment for index in indexes for segment in index["segments"]):
            layouts[f"boxes_in_{segment['layout']}"] += segment["rows"]
        return IndexStatistics(
            "packed",
            len(self),
            {
                "plain": len(self.plain),
                "special": self.n_special,
                "special_boxes": len(self.special),
                "texts": len(self.texts),
                "loose": len(self.loose),
                "never": len(self.never),
                "trees": len(self.trees),
                "axes": len(self.axes),
                "bytes": n_bytes,
                "most_bytes_of_a_box": f"{indexes[0]['most_bytes_per_row']} in bitmaps",
                **layouts,
                **self.balls.statistics(),
            },
        )

    def _step(self) -> int:
        """Return how many boxes are added at once."""
        return max(_LEAST_STEP, _MOST_CORNERS // len(self.axes)) if len(self.axes) else _LEAST_STEP

    def _grow(self) -> None:
        if len(self.axes) > self.plain.n_axes:
            for index in (self.special, self.trees.hulls, self.plain):
                index.grow(len(self.axes))

    def _corners(self, boxes: Sequence[Box]) -> _Corners:
        lo, hi = (np.full((len(boxes), self.plain.n_axes), side) for side in (-math.inf, math.inf))
        for i, box in enumerate(boxes):
            for axis, (low, high) in box.sides.items():
                lo[i, axis], hi[i, axis] = low, high
        return lo, hi


def _as_rows(numbers: Iterable[int]) -> Rows:
    return np.fromiter(numbers, np.int32)


def _size(piece: _Piece) -> int:
    return len(piece[0][piece[2]])
