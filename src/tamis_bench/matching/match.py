"""The matching benchmark: every system on every work and size, one after the other, in one run.

For one work and size the scan comes first: it says what is right, and it is what the others are compared
with. A system's answers on a sample of events, half of them with matches, must be those of the scan before its
time counts; if the engine's are not, the run stops. A system that is slow is timed on fewer events, and its row
says so; one that is left out has a row that says why.
"""

from __future__ import annotations

import importlib.util
import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tamis.errors import InvariantError
from tamis_bench.matching.fresh import COLD_START, GROWTH
from tamis_bench.matching.peers import DuckDb, Polars, Rtree, StrTree
from tamis_bench.matching.systems import (
    ChangingSystem,
    Counting,
    EngineSystem,
    IntArray,
    Linear,
    MatchingSystem,
    Ours,
    Scan,
    Work,
)
from tamis_bench.rows import Row, find_goal
from tamis_bench.timing import Effort, best_of, changing_beside, is_merging, run_fresh, sustained, time_each
from tamis_bench.workloads.boxes import TEXT_WORKS, BoxWork, TextWork, make_boxes, make_work

__all__ = ["LARGEST_MIXED", "SYSTEMS", "Bench", "measure_all"]

SYSTEMS: Final[dict[str, type[MatchingSystem]]] = {
    system.name: system for system in (Ours, Scan, Counting, Rtree, StrTree, DuckDb, Polars)
}
#: Texts are compiled one by one, some thousands per second.
LARGEST_MIXED: Final = 100_000
#: Events of a small table, and of one that several threads share.
_SMALL, _LARGE = 256, 65_536
_THREADS: Final = (1, 2)
#: Events of the sample that is checked.
_SAMPLE: Final = 16
#: Comparisons that the scan may take to find events with matches.
_SEARCHED: Final = 100_000_000
#: How often boxes are added for the rate of insertion.
_CHUNKS: Final = 50
#: During churn, subscriptions that come and go at once, and steps until the first ones go again.
_CHURN, _STEPS = 250, 20
#: More than an index keeps; single events that make a percentile.
_SEGMENTS, _ENOUGH = 6, 200
#: A writer in its own thread rests so long between two steps: some 10,000 changes per second.
_PAUSE: Final = 0.05


def measure_all(works: Sequence[str], sizes: Sequence[int], systems: Sequence[str], effort: Effort) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is measured."""
    for name in works:
        for n in sizes:
            if name in TEXT_WORKS and n > LARGEST_MIXED:
                note = f"left out: texts are compiled one by one; at most {LARGEST_MIXED:,}"
                yield from (Row(name, n, system, "match", None, note=note) for system in systems)
                continue
            _warm(make_work(name, 200 if name in TEXT_WORKS else 3_000, 64))
            work = make_work(name, n, effort.batch)
            yield from Bench(work, effort).measure([SYSTEMS[system] for system in systems])
    if effort.fresh and "ours" in systems:
        run_fresh(COLD_START)  # puts the kernels into the cache
        seconds = min(run_fresh(COLD_START) for _ in range(effort.repeat))
        yield Row("uniform4", 10_000, "ours", "cold start", seconds)


def _warm(work: Work) -> None:
    """Compile the kernels that a work needs, or read them from the cache: no build is to pay for that."""
    ours = Ours(work)
    ours.match(work.events)
    ours.engine.match(work.events.slice(0, 1).to_pylist()[0])


@dataclass
class Bench:
    """One work at one size."""

    work: Work
    effort: Effort
    #: ``{measure: rate}`` of the scan.
    _scan: dict[str, float] = field(default_factory=dict)

    def measure(self, systems: Sequence[type[MatchingSystem]]) -> Iterator[Row]:
        """Yield the rows of these systems, the scan's first."""
        base = self._base()
        self._sample, self._truth = self._find_sample(base)
        for kind in sorted(systems, key=lambda kind: kind.name != base.name):
            reason = self._reason_to_leave_out(kind)
            if reason:
                yield self._row(kind.name, "match", None, reason)
            elif kind.name == base.name:
                yield from self._measure(base)
            else:
                system, seconds = self._made(kind)
                yield self._row(kind.name, "build", len(self.work) / seconds)
                yield from self._measure(system)

    def _made(self, kind: type[MatchingSystem]) -> tuple[MatchingSystem, float]:
        """Return a system and the least seconds that making it took; it is made several times if that is quick."""
        held: list[MatchingSystem] = []

        def make() -> None:
            held.clear()
            held.append(kind(self.work))

        seconds = best_of(make, self.effort)
        return held[0], seconds

    def _base(self) -> MatchingSystem:
        return Linear(self.work) if isinstance(self.work, TextWork) else Scan(self.work)

    def _reason_to_leave_out(self, kind: type[MatchingSystem]) -> str:
        if kind.package and importlib.util.find_spec(kind.package) is None:
            return f"left out: {kind.package} is not installed; pip install 'tamis-bench[peers]'"
        if kind.most is not None and len(self.work) > kind.most:
            return f"left out: {kind.too_many}"
        if isinstance(self.work, TextWork) and not kind.takes_texts and kind is not Scan:
            return "left out: it takes boxes only"
        return ""

    def _measure(self, system: MatchingSystem) -> Iterator[Row]:
        pairs = system.pairs(system.match(system.prepare(self.work, self._sample)))
        if not _same(pairs, self._truth):
            if isinstance(system, EngineSystem):
                raise InvariantError(f"{system.name} and the scan disagree on {self.work.name}, n = {len(self.work)}")
            yield self._row(system.name, "match", None, "left out: its answers are not those of the scan")
            return
        yield self._match_rate(system)
        if isinstance(system, Ours):
            yield from self._other_tables(system)
            yield from self._memory(system)
            yield from self._latency(system)
        if isinstance(system, ChangingSystem) and isinstance(self.work, BoxWork):
            yield from self._change_rates(system)
        if isinstance(system, Ours) and isinstance(self.work, BoxWork):
            yield from self._latency_of_change(system)
            yield from self._latency_of_merge(system)

    def _match_rate(self, system: MatchingSystem) -> Row:
        """Time as many events as there is time for."""
        few = system.prepare(self.work, self._sample)
        each = best_of(lambda: system.match(few), replace(self.effort, repeat=2)) / len(self._sample)
        n = int(np.clip(self.effort.seconds / max(each, 1e-9), len(self._sample), self.effort.batch))
        rows = self._sample if n == len(self._sample) else np.arange(n)
        events = system.prepare(self.work, rows)
        if isinstance(system, Ours):  # a large table takes kernels and room of its own: not on the clock
            for _ in range(2):
                system.match(events)
        seconds = best_of(lambda: system.match(events), self.effort)
        notes = ["every filter in turn, in Python"] if isinstance(system, Linear) else []
        notes += [] if n == self.effort.batch else [f"timed on {n:,} events"]
        return self._row(system.name, "match", n / seconds, "; ".join(notes))

    def _other_tables(self, ours: Ours) -> Iterator[Row]:
        """Time small tables, and a large one on one thread and on two, whose answers must be the same."""
        small = ours.prepare(self.work, np.arange(min(_SMALL, self.work.events.num_rows)))
        ours.match(small)
        seconds = best_of(lambda: ours.match(small), self.effort)
        yield self._row(ours.name, "match 256", small.num_rows / seconds)
        large = pa.concat_tables([self.work.events] * max(1, _LARGE // self.work.events.num_rows)).combine_chunks()
        alone, shared = (ours.engine.match_table(large, threads=threads) for threads in _THREADS)
        if not (np.array_equal(alone.offsets, shared.offsets) and np.array_equal(alone.rows, shared.rows)):
            raise InvariantError(f"matches of one thread and of two differ on {self.work.name}, n = {len(self.work)}")
        del alone, shared
        one_thread, two_threads = (
            best_of(partial(ours.engine.match_table, large, threads=threads), self.effort) for threads in _THREADS
        )
        yield replace(
            self._row(ours.name, "match 2 threads", large.num_rows / two_threads), ratio=one_thread / two_threads
        )

    def _memory(self, ours: Ours) -> Iterator[Row]:
        own = ours.engine.statistics()["namespaces"]["default"].get("bytes")
        if own is not None:
            yield self._row(ours.name, "bytes", own / len(self.work))
        if self.effort.fresh:
            grown = run_fresh(GROWTH, self.work.name, len(self.work))
            rate, note = (None, "this system does not tell") if grown is None else (grown / len(self.work), "")
            yield self._row(ours.name, "resident", rate, note)

    def _latency(self, system: EngineSystem) -> Iterator[Row]:
        latency = time_each(system.engine.match, self._events(), self.effort)
        yield self._row(system.name, "p50", latency.p50)
        yield self._row(system.name, "p99", latency.p99)
        if isinstance(self.work, BoxWork):
            latency = time_each(
                system.engine.match_json, [json.dumps(event).encode() for event in self._events()], self.effort
            )
            yield self._row(system.name, "p50 json", latency.p50)
            yield self._row(system.name, "p99 json", latency.p99)

    def _change_rates(self, system: ChangingSystem) -> Iterator[Row]:
        """Add boxes by the thousand and remove them again; some events are matched between, off the clock."""
        size = self.effort.chunk
        more = make_boxes(self.work.name, _CHUNKS * size, 1, seed=2)
        some = system.prepare(self.work, self._sample)
        added: list[Sequence[Any]] = []

        def add() -> None:
            part = slice(size * len(added), size * len(added) + size)
            added.append(system.insert(more.lo[part], more.hi[part]))

        adding = sustained(add, lambda: system.match(some), self.effort, _CHUNKS)
        yield self._row(system.name, "insert", size * len(added) / adding)
        n = len(added)
        removing = sustained(lambda: system.delete(added.pop()), lambda: system.match(some), self.effort, n)
        yield self._row(system.name, "delete", size * (n - len(added)) / removing)

    def _latency_of_change(self, system: Ours) -> Iterator[Row]:
        """Time events while subscriptions come and go: in this thread between two events, then in another."""
        more = make_boxes(self.work.name, _CHURN * _STEPS, 1, seed=3)
        held: deque[Sequence[Any]] = deque()
        steps = count()

        def change() -> None:
            start = next(steps) % _STEPS * _CHURN
            held.append(system.insert(more.lo[start : start + _CHURN], more.hi[start : start + _CHURN]))
            if len(held) > _STEPS:
                system.delete(held.popleft())

        latency = time_each(system.engine.match, self._events(), self.effort, change)
        yield self._row(system.name, "p50 churn", latency.p50)
        yield self._row(system.name, "p99 churn", latency.p99)
        with changing_beside(change, _PAUSE):
            latency = time_each(system.engine.match, self._events(), self.effort)
        yield self._row(system.name, "p50 writer", latency.p50)
        yield self._row(system.name, "p99 writer", latency.p99)

    def _latency_of_merge(self, system: Ours) -> Iterator[Row]:
        """Add segments, and time events as long as a merge runs; the longest merge counts."""
        more = make_boxes(self.work.name, len(self.work) // 10, 1, seed=4)
        runs = []
        for _ in range(_SEGMENTS):
            system.insert(more.lo, more.hi)
            runs.append(time_each(system.engine.match, self._events(), self.effort, is_merging))
        latency = max(runs, key=lambda run: run.n)
        if latency.n < _ENOUGH:
            yield self._row(system.name, "p99 merge", None, "left out: the merge was over too soon")
            return
        yield self._row(system.name, "p50 merge", latency.p50)
        # In the other works some answers are a hundred times as long as others, so p99 is far from p50 anyway.
        goal = 3 * latency.p50 if self.work.name in ("uniform4", "sparse20") else None
        yield replace(self._row(system.name, "p99 merge", latency.p99), goal=goal)

    def _events(self) -> list[dict[str, Any]]:
        """Return single events as users have them, without nulls."""
        rows = self.work.events.slice(0, 2_000).to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def _find_sample(self, base: MatchingSystem) -> tuple[IntArray, tuple[IntArray, IntArray]]:
        """Choose events, half of them with matches where there are such, and find the truth about them."""
        per_event = 1_000 if isinstance(base, Linear) else 1
        n = int(np.clip(_SEARCHED // (per_event * len(self.work)), _SAMPLE, self.effort.batch))
        event, _ = base.pairs(base.match(base.prepare(self.work, np.arange(n))))
        matched = np.unique(event)[: _SAMPLE // 2]
        others = np.setdiff1d(np.arange(n), matched)[: _SAMPLE - len(matched)]
        sample = np.sort(np.concatenate((matched, others)))
        return sample, base.pairs(base.match(base.prepare(self.work, sample)))

    def _row(self, system: str, what: str, rate: float | None, note: str = "") -> Row:
        if system == Scan.name and rate is not None:
            self._scan[what] = rate
        goal = find_goal(what, self.work.name, len(self.work)) if system == Ours.name else None
        ratio = rate / self._scan[what] if rate is not None and what in self._scan else None
        return Row(self.work.name, len(self.work), system, what, rate, ratio, goal, note)


def _same(pairs: tuple[IntArray, IntArray], truth: tuple[IntArray, IntArray]) -> bool:
    """Whether two lists of pairs hold the same pairs, in any order."""
    ordered, ordered_truth = (np.stack(some)[:, np.lexsort(some)] for some in (pairs, truth))
    return np.array_equal(ordered, ordered_truth)
