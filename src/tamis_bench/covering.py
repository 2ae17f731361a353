"""The covering benchmark: who covers this box, by each system in one run, and a whole set reduced.

=========== =================================================================================
boxes2      two attributes on [0, 1), each range up to a tenth wide
boxes4      four attributes, the same
wide4       four attributes, each range up to a half wide: most boxes are covered
=========== =================================================================================

The plain Numba scan comes first: it says what is right. The exact index must agree with it on a sample; the
Z curve may miss covers, which its recall tells, but must not invent one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.errors import InvariantError
from tamis.index.dominance.index import DominanceIndex
from tamis.index.protocols import CoveringIndex
from tamis.index.zcurve.index import ZCurveIndex
from tamis.kernels.boxes.dominance import scan_least_covers
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis.reduction import reduce
from tamis_bench.rows import Row, find_goal
from tamis_bench.timing import Effort, best_of, time_each

__all__ = ["SYSTEMS", "WORKS", "make_covering_boxes", "measure_covering"]

#: ``{name: (attributes, width of the widest range)}``.
WORKS: Final = {"boxes2": (2, 0.1), "boxes4": (4, 0.1), "wide4": (4, 0.5)}

#: Bits of a side of the Z curve, so that keys fit into a word.
_BITS: Final = {2: 10, 4: 7}

SYSTEMS: Final[dict[str, Callable[[Schema], CoveringIndex] | None]] = {
    "ours": lambda schema: DominanceIndex(),
    "scan": None,
    "zcurve .05": lambda schema: ZCurveIndex(schema, epsilon=0.05, k=_BITS[len(schema)]),
    "zcurve .35": lambda schema: ZCurveIndex(schema, epsilon=0.35, k=_BITS[len(schema)]),
}

#: Boxes for which a cover is sought, and how many of them are checked against the scan.
_QUESTIONS, _SAMPLE = 50_000, 64
_NO_ROW: Final = 2_147_483_647

_RowArray = npt.NDArray[np.int32]


def make_covering_boxes(work: str, n: int, seed: int = 1) -> SubscriptionTable:
    """Make ``n`` boxes of one of `WORKS`.

    >>> make_covering_boxes("boxes4", 3).corners()[0].shape
    (3, 4)
    """
    d, width = WORKS[work]
    rng = np.random.default_rng(seed)
    centre, half = rng.random((n, d)), rng.random((n, d)) * width / 2
    return SubscriptionTable.from_boxes([f"a{k}" for k in range(d)], centre - half, centre + half)


def measure_covering(
    works: Sequence[str], sizes: Sequence[int], systems: Sequence[str], effort: Effort
) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is known."""
    for work in works:
        _warm(work)
        for n in sizes:
            yield from _measure(work, n, systems, effort)


def _warm(work: str) -> None:
    """Compile what the work needs, or read it from the cache."""
    few = make_covering_boxes(work, 2_000)
    reduce(few)
    index = DominanceIndex()
    index.add_boxes(np.arange(len(few), dtype=np.int32), few)
    index.find_covers(make_covering_boxes(work, 600, seed=2))


def _measure(work: str, n: int, systems: Sequence[str], effort: Effort) -> Iterator[Row]:
    stored = make_covering_boxes(work, n)
    n_questions = min(_QUESTIONS, max(effort.batch, 512)) if effort.repeat < 3 else _QUESTIONS
    questions = make_covering_boxes(work, n_questions, seed=2)
    truth, seconds = _scan(stored, questions, effort)
    scan_rate = len(truth) / seconds
    if "scan" in systems:
        yield Row(work, n, "scan", "cover", scan_rate, 1.0, note=f"scan: timed on {len(truth)} boxes")
    for name in systems:
        maker = SYSTEMS[name]
        if maker is not None:
            yield from _measure_index(work, name, maker, (stored, questions), (truth, scan_rate), effort)
    if "ours" in systems:
        start = time.perf_counter()
        reduction = reduce(stored)
        took = time.perf_counter() - start
        note = f"reduce, {work}: {n:,} boxes became {reduction.after:,}"
        yield Row(work, n, "ours", "reduce", took, goal=find_goal("reduce", work, n), note=note)


def _scan(stored: SubscriptionTable, questions: SubscriptionTable, effort: Effort) -> tuple[_RowArray, float]:
    lo, hi = stored.corners()
    low, high = (side[:_SAMPLE].copy() for side in questions.corners())
    best = np.full(len(low), _NO_ROW, np.int32)
    scan_least_covers(lo[:10], hi[:10], (low[:1], high[:1]), best[:1].copy())

    def scan() -> None:
        best[:] = _NO_ROW
        scan_least_covers(lo, hi, (low, high), best)

    seconds = best_of(scan, effort)
    return np.where(best == _NO_ROW, np.int32(-1), best).astype(np.int32), seconds


def _measure_index(
    work: str,
    name: str,
    maker: Callable[[Schema], CoveringIndex],
    boxes: tuple[SubscriptionTable, SubscriptionTable],
    scanned: tuple[_RowArray, float],
    effort: Effort,
) -> Iterator[Row]:
    """Yield the rows of one index: building, batches, single subscriptions, recall."""
    stored, questions = boxes
    n, truth = len(stored), scanned[0]
    start = time.perf_counter()
    index = maker(Schema({attribute: Number(-1.0, 2.0) for attribute in stored.names}))
    index.add_boxes(np.arange(n, dtype=np.int32), stored)
    yield Row(work, n, name, "build", n / (time.perf_counter() - start))
    is_exact = isinstance(index, DominanceIndex)
    some = questions if is_exact else _first(questions, _SAMPLE)
    covers = index.find_covers(some)
    _check(name, stored, some, covers, truth if is_exact else None)
    seconds = best_of(lambda: index.find_covers(some), effort)
    rate = len(some) / seconds
    yield Row(work, n, name, "cover", rate, rate / scanned[1], find_goal("cover", work, n) if is_exact else None)
    if is_exact:
        singles = [questions.box_subscription(i, i) for i in range(min(2_000, len(questions)))]
        latency = time_each(index.find_cover, singles, effort)
        yield Row(work, n, name, "cover p50", latency.p50, goal=find_goal("cover p50", work, n))
    elif (truth >= 0).any():
        yield Row(work, n, name, "recall", float((covers[: len(truth)] >= 0).sum() / (truth >= 0).sum()))


def _first(table: SubscriptionTable, n: int) -> SubscriptionTable:
    lo, hi = table.corners()
    return SubscriptionTable.from_boxes(table.names, lo[:n], hi[:n])


def _check(
    name: str, stored: SubscriptionTable, questions: SubscriptionTable, covers: _RowArray, truth: _RowArray | None
) -> None:
    """Raise `InvariantError` unless every row in ``covers`` covers its question and, if there is a truth, equals it."""
    (lo, hi), (low, high) = stored.corners(), questions.corners()
    covered = np.flatnonzero(covers >= 0)
    by = covers[covered]
    if not ((lo[by] <= low[covered]) & (hi[by] >= high[covered])).all():
        raise InvariantError(f"{name} returned a box that does not cover")
    if truth is not None and not np.array_equal(covers[: len(truth)], truth):
        raise InvariantError(f"{name} and the scan disagree")
