"""Covering of subscriptions that are not single boxes, by the exact index: a row of numbers for each kind of condition.

Answers are checked on a sample before their times count: the named row must cover, and no smaller row among the first
may cover. Times are processor time, which other work on the machine disturbs least.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from tamis.algebra.covers import is_covered
from tamis.errors import InvariantError
from tamis.index.dominance.index import DominanceIndex
from tamis.model.subscription import Subscription
from tamis_bench.rows import Row, find_goal
from tamis_bench.timing import Effort
from tamis_bench.workloads.conditions import make_conditions

__all__ = ["measure_kinds"]

#: Subscriptions that are asked about one by one and at once, and how many answers and rows are checked.
_SINGLES, _BATCH, _CHECKED, _FIRST_ROWS = 200, 20_000, 10, 100


def measure_kinds(kinds: Sequence[str], sizes: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is known."""
    for kind in kinds:
        list(_measure(kind, 1_000, 20))  # compiles
        for n in sizes:
            yield from _measure(kind, n, _SINGLES if effort.repeat > 1 else _SINGLES // 4)


def _measure(kind: str, n: int, n_questions: int) -> Iterator[Row]:
    stored, questions = make_conditions(kind, n), make_conditions(kind, n_questions, seed=2)
    index = DominanceIndex()
    start = time.process_time()
    index.add_many(range(n), stored)
    yield Row(kind, n, "ours", "build", n / (time.process_time() - start))
    _check(kind, index, stored, questions[:_CHECKED])
    times, n_covered = np.zeros((2, n_questions)), 0
    for i, question in enumerate(questions):
        marks = [time.process_time()]
        index.find_cover(question)
        marks.append(time.process_time())
        n_covered += len(index.find_covered(question))
        marks.append(time.process_time())
        times[:, i] = np.diff(marks) * 1e6
    cover, covered = np.median(times, axis=1).tolist()
    note = f"{kind}: {n_covered / n_questions:.1f} rows are covered by a subscription of {n:,}"
    yield Row(kind, n, "ours", "cover p50", cover, goal=find_goal("cover p50", "conditions", n))
    yield Row(kind, n, "ours", "covered p50", covered, goal=find_goal("covered p50", "conditions", n), note=note)
    batch = make_conditions(kind, _BATCH * n_questions // _SINGLES, seed=3)
    start = time.process_time()
    index.find_cover_many(batch)
    yield Row(kind, n, "ours", "cover", len(batch) / (time.process_time() - start))


_Subscriptions = Sequence[Subscription]


def _check(kind: str, index: DominanceIndex, stored: _Subscriptions, questions: _Subscriptions) -> None:
    """Raise `InvariantError` if an answer contradicts a scan of the first ``_FIRST_ROWS`` rows."""
    for question in questions:
        cover, covered = index.find_cover(question), set(index.find_covered(question).tolist())
        first = stored[:_FIRST_ROWS]
        least = next((row for row, other in enumerate(first) if is_covered(question.filters, other.filters)), None)
        inside = {row for row, other in enumerate(first) if is_covered(other.filters, question.filters)}
        if cover is not None and not is_covered(question.filters, stored[cover].filters):
            raise InvariantError(f"{kind}: row {cover} was returned and does not cover")
        if least is not None and cover != least:
            raise InvariantError(f"{kind}: row {least} covers and {cover} was returned")
        if inside != {row for row in covered if row < _FIRST_ROWS}:
            raise InvariantError(f"{kind}: covered rows differ from those of a scan")
