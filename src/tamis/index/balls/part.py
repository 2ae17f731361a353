"""A part of the balls: arrays in which only the alive bytes change, ordered for one search method.

The balls stand in *slot* order. For ``blocks`` that is by radius, the largest first, so that a search for one
cover meets the likeliest first and ends where the balls are too small. For ``tree`` the balls are cut by radius into
a few *bands*, the largest first for the same reason, and each band is a packed tree in its own order.

Implements: [projection] section III, the index of 2k-dimensional points.
Deviation: R.3.10: a layered range tree has log(n)**(2k - 1) factors that exceed n, and no updates; this is a packed
max-corner tree. R.3.6: candidates are met by radius, the largest first.
"""

from __future__ import annotations

import itertools
import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.balls.arrays import BallArrays, Columns
from tamis.index.balls.projections import Projections
from tamis.index.balls.search import Search
from tamis.index.balls.ways import Choice, choose_way, fits_blocks
from tamis.index.packed.boxes.coding import Coding, boxes_from_dense
from tamis.index.packed.boxes.segment import Segment
from tamis.kernels import balls as kernels
from tamis.kernels import directory as at

__all__ = ["BallPart"]

_FloatArray = npt.NDArray[np.float64]

#: Bands end at these shares of the balls, if there are at least ``_ENOUGH_FOR_BANDS`` balls.
_BANDS: Final = (1 / 64, 1 / 8)
_ENOUGH_FOR_BANDS: Final = 8_192
#: Balls and questions that one product of matrices takes.
_BLOCK, _CHUNK = 4_096, 512
#: Relative error of a float32 sum of d products, per term.
_UNIT_32: Final = 1.2e-7


class _Trees(NamedTuple):
    """The bands, with a directory row and a ball table for the kernels."""

    segments: list[Segment]
    directory: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]


class BallPart(BallArrays):
    """Balls ordered for one search method; ``choice`` has the method and the reason."""

    def __init__(self, columns: Columns, projections: Projections, choice: Choice) -> None:
        rows, centers, radii = columns
        order = np.argsort(-radii, kind="stable")
        segments = []
        if choice.way == "tree":
            bands = np.split(order, _band_ends(len(order)))
            segments = _pack(*projections.rectangles(centers, radii), bands)
            order = np.concatenate([band[segment.rows] for band, segment in zip(bands, segments, strict=True)])
        centers, radii = np.ascontiguousarray(centers[order]), np.ascontiguousarray(radii[order])
        super().__init__(rows[order], centers, radii, len(order))
        self.choice = choice
        self._by_row = np.argsort(self.rows).astype(np.int32)
        self._trees = self._make_trees(segments) if segments else None
        self._blocks = _Blocks.of(self.centers, self.radii) if choice.way == "blocks" else None
        if choice.way == "blocks" and self._blocks is None:
            self.choice = Choice("scan", choice.pass_share, "some balls are too far from the typical one for float32")

    @classmethod
    def build(cls, columns: Columns, projections: Projections, *, points: bool, wanted: str = "auto") -> BallPart:
        """Return a part with the search method that suits the balls."""
        return cls(columns, projections, choose_way(*columns[1:], projections, points=points, wanted=wanted))

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        own = self.centers.nbytes + self.radii.nbytes + self.rows.nbytes + self._by_row.nbytes + self.alive.nbytes
        trees = sum(segment.n_bytes for segment in self._trees.segments) if self._trees else 0
        return own + trees + (self._blocks.kept.nbytes if self._blocks else 0)

    def find(self, row: int) -> int | None:
        """Return the slot of a living row."""
        position = int(np.searchsorted(self.rows, row, sorter=self._by_row))
        if position == len(self.rows):
            return None
        slot = int(self._by_row[position])
        return slot if self.rows[slot] == row and self.alive[slot] else None

    def search(self, search: Search) -> None:
        """Find covers among these balls."""
        if self._trees is not None:
            self._search_trees(self._trees, search)
        elif self._blocks is not None and self._blocks.takes(search):
            self._search_blocks(self._blocks, search)
        else:
            self.scan(search)

    def _make_trees(self, segments: list[Segment]) -> _Trees:
        ends = np.cumsum([0, *(segment.n_slots for segment in segments)]).tolist()
        spans = itertools.pairwise(ends)
        tables = [kernels.ball_table(self.centers, self.radii, self.alive, span) for span in spans]
        return _Trees(segments, np.array([segment.row for segment in segments]), np.array(tables))

    def _search_trees(self, trees: _Trees, search: Search) -> None:
        begin = 0
        while begin < len(search):
            begin = kernels.tree_covers(
                trees.directory, trees.tables, search.queries, begin, search.first, search.hits, search.scratch
            )
            search.drain(self)
            if begin < len(search):
                search.enlarge(4 * search.room)

    def _search_blocks(self, blocks: _Blocks, search: Search) -> None:
        questions = blocks.question_factors(search)
        for start in range(0, len(search), _CHUNK):
            for first_slot in range(0, len(self.rows), _BLOCK):
                active = search.waiting(start, min(start + _CHUNK, len(search)))
                if not active.size or self.radii[first_slot] < search.queries.radii[active].min():
                    break
                products = questions[active] @ blocks.kept[first_slot : first_slot + _BLOCK].T
                self._read_products(products, active, first_slot, search)

    def _read_products(
        self, products: npt.NDArray[np.float32], active: npt.NDArray[np.int32], first_slot: int, search: Search
    ) -> None:
        begin, signs = 0, products.view(np.int32)
        while begin < len(active):
            begin = kernels.block_covers(
                signs,
                active,
                self._table,
                first_slot,
                search.queries,
                begin,
                search.first,
                search.hits,
            )
            search.drain(self)
            if begin < len(active) and search.room < 64 * _BLOCK:
                search.enlarge(64 * _BLOCK)


class _Blocks(NamedTuple):
    """The factors float32[n, d + 4] whose products say which balls can cover which, and their scale.

    The product of a ball (s, r) with a ball in question is ``||s - s'||**2 - (r - r')**2``, less a bound on
    its rounding: every term is in the factors. The bound is twice what is needed and never 0, so that a cover is
    always below 0.
    """

    kept: npt.NDArray[np.float32]
    scale: float

    @classmethod
    def of(cls, centers: _FloatArray, radii: _FloatArray) -> _Blocks | None:
        """Return the factors of balls; None when some are far larger than the typical one."""
        squares = np.einsum("ij,ij->i", centers, centers)
        typical = math.sqrt(float(np.median(squares))) + float(np.median(radii))
        scale = 2.0 ** -round(math.log2(typical)) if typical > 1e-140 else 1.0
        if not fits_blocks(float(max(np.abs(centers).max(), radii.max())), scale):
            return None
        n, d = centers.shape
        kept = np.empty((n, d + 4), np.float32)
        kept[:, :d] = centers * scale
        kept[:, d:] = _last_terms(centers, radii, scale, sign=1.0)
        return cls(kept, scale)

    def takes(self, search: Search) -> bool:
        """Whether the balls of a question are safe in float32, too."""
        largest = max(np.abs(search.queries.centers).max(initial=0.0), search.queries.radii.max(initial=0.0))
        return fits_blocks(float(largest), self.scale)

    def question_factors(self, search: Search) -> npt.NDArray[np.float32]:
        """Return the factors float32[m, d + 4] of the balls in question."""
        centers, radii = search.queries.centers, search.queries.radii
        d = centers.shape[1]
        factors = np.empty((len(radii), d + 4), np.float32)
        factors[:, :d] = centers * (-2.0 * self.scale)
        last = _last_terms(centers, radii, self.scale, sign=-1.0)
        factors[:, d:] = np.stack((2.0 * radii * self.scale, last[:, 2], last[:, 1], last[:, 3]), 1)
        return factors


def _last_terms(centers: _FloatArray, radii: _FloatArray, scale: float, *, sign: float) -> _FloatArray:
    """Return r, ||s||**2 - r**2, 1 and the factor of the rounding bound, scaled."""
    d = centers.shape[1]
    squares = np.einsum("ij,ij->i", centers, centers) * scale**2
    reach = radii * scale
    power = squares - reach**2
    length = np.sqrt(4.0 * squares + 4.0 * reach**2 + power**2 + 1.0)
    bound = math.sqrt((d + 12) * _UNIT_32) * length
    return np.stack((reach, power, np.ones(len(radii)), -sign * bound if sign > 0 else bound), 1)


def _band_ends(n: int) -> list[int]:
    return [int(n * share) for share in _BANDS] if n >= _ENOUGH_FOR_BANDS else []


def _pack(low: _FloatArray, high: _FloatArray, bands: list[npt.NDArray[np.int64]]) -> list[Segment]:
    """Pack the boxes of each band into a tree; all use the same coding, so a question is coded once."""
    coding = Coding.train(boxes_from_dense(low, high))
    rows = [np.arange(len(band), dtype=np.int32) for band in bands]
    boxes = [boxes_from_dense(low[band], high[band]) for band in bands]
    return [Segment.build(box, own, coding, at.TREE) for box, own in zip(boxes, rows, strict=True)]
