"""The Z-curve covering index: epsilon-approximate point dominance, faithful to its paper.

A subscription's box becomes a point of cells (`cells`), its lower ends counted downwards; every cover lies in the
extremal rectangle of that point. The search looks up the standard cubes of the rectangle in the SFC array, the
largest first, and stops when it has seen all but a share epsilon of the cells.

An end that bounds nothing would give the rectangle a side of one cell, and all its cubes would be cells. But a
coverer of an open end is open there, too: points are kept apart by *which ends they bound*, and a search
visits the arrays whose ends are among its own, in the dimensions of that array only.

Implements: [zcurve] section 1.1, the transformation of a rectangle into a point; Problem 2 and section 5; Problem 1 for
epsilon = 0.
Deviation: arrays by bounded ends (erratum Z.3.11 has them by wildcard attribute); a cap on the cubes, then a scan;
every hit is verified on raw values (Z.3.10); epsilon = 0 searches everything.
Deviation: the cell of the point itself is looked up first. Equal subscriptions lie there, and the paper's order comes
to it last, when epsilon has ended the search.
Deviation: an attribute without a domain gets a scale from the ends that are stored (`scales`); the paper takes a
normalised universe as given.
Deviation: few different ends leave each value several cells. A stored box gets the outermost of them and a question the
innermost, so that a cover with the same end lies within the searched rectangle, and not on the edge that epsilon skips.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.algebra.covers import Prover, is_covered
from tamis.curves.hilbert import MAX_BITS, MAX_DIMENSIONS, hilbert_key
from tamis.curves.zcurve import CurveKey, cube_bound, gray_key, run_bound, z_key
from tamis.errors import ModelError
from tamis.index.dominance.outline import ANYWHERE, PRESENT, AxisName, Outline, Side, outline_of
from tamis.index.protocols import Guarantee, IndexStatistics, OneByOne, Rows
from tamis.index.zcurve.cells import cell_of, cells_of, is_open
from tamis.index.zcurve.scales import Scales
from tamis.index.zcurve.sfc_array import CurveSearch, SfcArray
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription
from tamis.model.tables import SubscriptionTable

__all__ = ["CURVES", "CurveSearches", "ZCurveIndex"]

#: The curves by name. Cubes, bounds and epsilon are the same on all; a search visits the runs in another order.
CURVES: Final[dict[str, CurveKey]] = {"z": z_key, "hilbert": hilbert_key, "gray": gray_key}

#: Bits of a side unless told otherwise: keys of four attributes then fit into a word.
_BITS: Final = 7
#: Cubes that may be looked up for each point of an array before the points are scanned; bisecting takes about
#: as long as comparing this many points.
_CUBES_PER_POINT: Final = 0.25
_FEWEST_CUBES: Final = 1_024
_UNCAPPED: Final = 2**62

#: An end of an attribute: 0 the lower, 1 the upper one.
End = tuple[str, int]
_Ends = tuple[End, ...]


class BoxOfTable(NamedTuple):
    """The table and position of the box of a row."""

    table: SubscriptionTable
    place: int


class CurveSearches(NamedTuple):
    """Counts of searches for covers; ``volume`` is the share of the cells that each visited, on average."""

    questions: int
    hits: int
    cubes: int
    volume: float


class _Settings(NamedTuple):
    """The options of the index; ``skipped`` is epsilon as a fraction."""

    k: int
    curve: CurveKey
    skipped: tuple[int, int]
    capped: bool
    probes: int | None
    truncated: bool
    pieces: int | None


class ZCurveIndex(OneByOne):
    """Finds covers by searching all but ``epsilon`` of the space in which they can be.

    Guarantee: SOUND; EXACT with ``epsilon=0``, when it returns the least row. Cost: cubes looked up, which
    `statistics` counts beside the paper's bounds; thousands for two attributes, millions from three on, unless a
    search is ``capped`` and goes on as a scan of all points (as the paper has it, it is not). When not to use it:
    "exact" is quicker by orders of magnitude; this index is here to be measured. ``curve`` orders the points; on any
    but `z_key` keys are made one by one and searches take no kernel, on `hilbert_key` there are up to 16 bits a side.
    After ``probes`` cubes a search ends, found or not. ``truncated`` searches the rectangle of Lemma 3.1 instead of the
    largest cubes. ``pieces`` bounds the proofs of one question.

    >>> from tamis.model.language.compiler import compile_text
    >>> index = ZCurveIndex(epsilon=0.1)
    >>> index.add(3, compile_text("x BETWEEN 0 AND 10"))
    >>> index.find_cover(compile_text("x BETWEEN 4 AND 5"))
    3
    """

    kind = "zcurve"

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: float = 0.05,
        k: int | None = None,
        curve: CurveKey = z_key,
        capped: bool = True,
        probes: int | None = None,
        truncated: bool = False,
        pieces: int | None = None,
    ) -> None:
        if not 0 <= epsilon < 1:
            raise ModelError(f"epsilon is a share, at least 0 and below 1, not {epsilon}")
        if k is not None and not 1 <= k <= 32:
            raise ModelError(f"a side of the curve has 1 to 32 bits, not {k}")
        if curve is hilbert_key and (k or _BITS) > MAX_BITS:
            raise ModelError(f"a side of the Hilbert curve has 1 to {MAX_BITS} bits, not {k}")
        if probes is not None and probes < 1:
            raise ModelError(f"a search looks up 1 cube or more, not {probes}")
        if truncated and not epsilon:
            raise ModelError("a truncated search leaves something out: epsilon must be above 0")
        self.epsilon = epsilon
        skipped = Fraction(epsilon).as_integer_ratio()
        self._settings = _Settings(k or _BITS, curve, skipped, capped, probes, truncated, pieces)
        self._scales = Scales(schema or Schema(), self._settings.k)
        #: ``{row: its filters}``, or the place of its box in a table.
        self._held: dict[int, tuple[Filter, ...] | BoxOfTable] = {}
        #: ``{ends: array}``: every possible subscription is in the array of exactly the ends it bounds.
        self._arrays: dict[_Ends, SfcArray] = {}
        #: Rows that can match and of which the box does not tell the extent; rows that can never match.
        self._loose: set[int] = set()
        self._never: set[int] = set()
        self._counts = {"searches": 0, "hits": 0, "cubes": 0, "verified": 0, "capped": 0}
        self._volume = 0.0
        self._last: list[CurveSearch] = []

    @property
    def guarantee(self) -> Guarantee:
        """SOUND; EXACT when nothing may be left out."""
        is_partial = self.epsilon or self._settings.probes is not None or self._settings.pieces is not None
        return Guarantee.SOUND if is_partial else Guarantee.EXACT

    def __len__(self) -> int:
        return len(self._held)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row that is free."""
        if row in self._held:
            raise KeyError(f"row {row} is taken")
        self._held[row] = subscription.filters
        outline = outline_of(subscription.filters)
        if outline is None:
            self._never.add(row)
            return
        if outline.inner != outline.outer:
            self._loose.add(row)
        if not self._learn():
            ends, point = self._place(outline)
            self._array(ends).insert(point, row)

    def add_boxes(self, rows: Rows, table: SubscriptionTable) -> None:
        """Add the boxes of a table; those that bound the same ends are sorted at once."""
        taken = next((row for row in rows.tolist() if row in self._held), None)
        if taken is not None:
            raise KeyError(f"row {taken} is taken")
        self._held |= {row: BoxOfTable(table, i) for i, row in enumerate(rows.tolist())}
        if not self._learn():
            self._insert_boxes(rows, table, np.arange(len(table)))

    def _insert_boxes(self, rows: Rows, table: SubscriptionTable, positions: npt.NDArray[np.int64]) -> None:
        """Add boxes of a table, by their positions in it, to the arrays of their ends."""
        lo, hi = (side[positions] for side in table.corners())
        bounded = np.stack((np.isfinite(lo), np.isfinite(hi)), axis=2).reshape(len(positions), -1)
        names = sorted(range(len(table.names)), key=lambda j: table.names[j])
        for pattern in np.unique(bounded, axis=0):
            chosen = np.flatnonzero((bounded == pattern).all(axis=1))
            ends = tuple((table.names[j], end) for j in names for end in (0, 1) if pattern[2 * j + end])
            cells = np.empty((chosen.size, len(ends)), np.int64)
            for at, (name, end) in enumerate(ends):
                side = (hi if end else lo)[chosen, table.names.index(name)]
                cells_of_side = cells_of(side, self._scales.of(name), self._settings.k, last=end == 1)
                cells[:, at] = cells_of_side if end else 2**self._settings.k - 1 - cells_of_side
            self._array(ends).insert_all(cells, rows[chosen])

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        outline = outline_of(self._filters(row))
        if outline is not None:
            ends, point = self._place(outline)
            self._arrays[ends].delete(point, row)
        self._never.discard(row)
        self._loose.discard(row)
        del self._held[row]

    def find_cover(self, subscription: Subscription) -> int | None:
        """Return the row of a subscription that covers the given one, as far as was searched."""
        outline = outline_of(subscription.filters)
        self._last = []
        self._counts["searches"] += 1
        if outline is None:
            return min(self._held, default=None)
        runs = self._runs(outline)
        if not self.epsilon:
            runs = iter([np.unique(np.concatenate([np.zeros(0, np.int32), *runs]))])
        prover = Prover(self._settings.pieces)
        cover = next((row for rows in runs for row in rows.tolist() if self._covers(row, subscription, prover)), None)
        self._counts["hits"] += cover is not None
        self._volume += _share(self._last)
        self._counts["cubes"] += sum(search.cubes for search in self._last)
        self._counts["capped"] += sum(search.capped for search in self._last)
        return cover

    def find_covered(self, subscription: Subscription) -> Rows:
        """Return the rows the given subscription covers, ascending; every point is compared, so none is missed."""
        outline = outline_of(subscription.filters)
        if outline is None:
            return np.array(sorted(self._never), np.int32)
        candidates, sides = set(self._loose), _values(outline.outer)
        for ends, array in self._arrays.items():
            reach = [self._cell(end, sides.get(end[0], PRESENT)) for end in ends]
            candidates.update(array.dominated(reach).tolist())
        covered = (row for row in candidates if is_covered(self._filters(row), subscription.filters))
        return np.array(sorted([*self._never, *covered]), np.int32)

    def searches(self) -> CurveSearches:
        """Return the counts of all searches for a cover."""
        n = self._counts["searches"]
        return CurveSearches(n, self._counts["hits"], self._counts["cubes"], self._volume / max(n, 1))

    def statistics(self) -> IndexStatistics:
        """Return the contents, the cost of searches, and the paper's bounds for the last search.

        ``cube_bound`` is Theorem 3.1 (times d), ``run_bound`` Theorem 4.1; ``volume_searched`` is a share.
        """
        largest = max(self._last, key=lambda search: len(search.lengths), default=None)
        details: dict[str, int | float | str] = {
            "epsilon": self.epsilon,
            "k": self._settings.k,
            "arrays": len(self._arrays),
        }
        details |= self._counts
        details["scales"] = self._scales.version
        details |= {
            "last_cubes": sum(search.cubes for search in self._last),
            "volume_searched": _share(self._last),
            "mean_volume": self.searches().volume,
            "cube_bound": cube_bound(largest.lengths, self.epsilon) if largest and self.epsilon else 0,
            "run_bound": run_bound(largest.lengths) if largest else 0.0,
        }
        return IndexStatistics(self.kind, len(self), details)

    # ---- inside

    def _runs(self, outline: Outline) -> Iterator[Rows]:
        """Yield rows that may cover, run by run, from every array whose ends are among those of the outline."""
        sides = None if outline.inner is None else _values(outline.inner)
        for ends, array in list(self._arrays.items()):
            if sides is not None and not all(name in sides and _bounds(sides[name], end) for name, end in ends):
                continue
            if not ends:
                yield array.dominating(())
                continue
            if self.epsilon:
                yield array.at([0 if sides is None else self._cell(end, sides[end[0]]) for end in ends])
            point = [0 if sides is None else self._cell(end, sides[end[0]], innermost=True) for end in ends]
            search = self._begin(array, point)
            self._last.append(search)
            yield from array.runs(search)

    def _begin(self, array: SfcArray, point: list[int]) -> CurveSearch:
        most = max(_FEWEST_CUBES, int(len(array) * _CUBES_PER_POINT)) if self._settings.capped else _UNCAPPED
        most = most if self._settings.probes is None else self._settings.probes
        if self._settings.truncated:
            search = array.begin_truncated(point, self.epsilon, most)
        else:
            search = array.begin(point, self._settings.skipped, most)
        search.scans = self._settings.probes is None
        return search

    def _covers(self, row: int, subscription: Subscription, prover: Prover) -> bool:
        self._counts["verified"] += 1
        return prover.is_covered(subscription.filters, self._filters(row))

    def _learn(self) -> bool:
        """Learn scales if the rows have doubled since; then every row is placed again."""
        if not self._scales.is_due(len(self._held)):
            return False
        ends: dict[str, list[npt.NDArray[np.float64]]] = {}
        tables: dict[int, tuple[SubscriptionTable, list[tuple[int, int]]]] = {}
        outlines: list[tuple[int, Outline]] = []
        for row, held in self._held.items():
            if isinstance(held, BoxOfTable):
                tables.setdefault(id(held.table), (held.table, []))[1].append((row, held.place))
            elif (outline := outline_of(held)) is not None:
                outlines.append((row, outline))
                for name, side in _values(outline.outer).items():
                    ends.setdefault(name, []).append(np.array(side))
        for table, _ in tables.values():
            for name, lo, hi in zip(table.names, *(side.T for side in table.corners()), strict=True):
                ends.setdefault(name, []).extend((lo, hi))
        self._scales.learn(ends, len(self._held))
        self._place_all(outlines, tables.values())
        return True

    def _place_all(
        self,
        outlines: Sequence[tuple[int, Outline]],
        tables: Iterable[tuple[SubscriptionTable, list[tuple[int, int]]]],
    ) -> None:
        self._arrays = {}
        placed: dict[_Ends, list[tuple[int, tuple[int, ...]]]] = {}
        for row, outline in outlines:
            ends, point = self._place(outline)
            placed.setdefault(ends, []).append((row, point))
        for ends, points in placed.items():
            cells = np.array([point for _, point in points], np.int64).reshape(len(points), len(ends))
            self._array(ends).insert_all(cells, np.array([row for row, _ in points], np.int32))
        for table, boxes in tables:
            rows, positions = np.array(boxes, np.int64).T
            self._insert_boxes(rows.astype(np.int32), table, positions)

    def _filters(self, row: int) -> tuple[Filter, ...]:
        held = self._held[row]
        if isinstance(held, BoxOfTable):
            return held.table.box_subscription(held.place, row).filters
        return held

    def _place(self, outline: Outline) -> tuple[_Ends, tuple[int, ...]]:
        """Return the ends that a stored subscription bounds, and its point in their dimensions."""
        sides = _values(outline.outer)
        ends = tuple((name, end) for name in sorted(sides) for end in (0, 1) if not is_open(sides[name], end))
        return ends, tuple(self._cell(end, sides[end[0]]) for end in ends)

    def _cell(self, end: End, side: Side, *, innermost: bool = False) -> int:
        """Return the largest coordinate of an end, or the smallest: larger means that the box reaches farther."""
        if side == ANYWHERE:
            return 0
        is_last = (end[1] == 1) != innermost
        cell = cell_of(side[end[1]], self._scales.of(end[0]), self._settings.k, last=is_last)
        return cell if end[1] else 2**self._settings.k - 1 - cell

    def _array(self, ends: _Ends) -> SfcArray:
        if ends not in self._arrays:
            is_too_wide = (
                self._settings.curve is hilbert_key and len(ends) > MAX_DIMENSIONS
            )  # such points stay on the Z curve
            self._arrays[ends] = SfcArray(len(ends), self._settings.k, z_key if is_too_wide else self._settings.curve)
        return self._arrays[ends]


def _share(searches: Sequence[CurveSearch]) -> float:
    """Return the share of cells that searches looked at."""
    cells = sum(search.volume for search in searches)
    return float(Fraction(sum(search.searched for search in searches), cells)) if cells else 0.0


def _values(sides: dict[AxisName, Side]) -> dict[str, Side]:
    """Return the sides on value axes by attribute; codes and coordinates have no cells."""
    return {name: side for (name, part), side in sides.items() if part == ""}


def _bounds(side: Side, end: int) -> bool:
    return side == ANYWHERE or not is_open(side, end)
