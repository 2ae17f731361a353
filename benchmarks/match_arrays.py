"""How fast is the packed index on bare arrays, against a plain linear scan in the same run?

    python benchmarks/match_arrays.py                       # all workloads, 10k, 100k and 1M boxes
    python benchmarks/match_arrays.py --sizes 100000 --workloads stock --json

Four workloads: *uniform4* (four ranges each), *zipf4* (the same, skewed, many matches), *sparse20* (four of
twenty attributes), *stock* (equality, ranges open on one side). The scan is compiled too: float64, row-major,
leaving a box at the first axis that fails. Rates are the best of several repetitions, because other work
shares the machine; compare the ratios of one run, not the figures of two.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numba import njit

from tamis.index.packed.box_index import BoxIndex

INF = np.inf
BATCH = 4_096


@dataclass
class Workload:
    """Boxes ``lo, hi`` float64[n, d], closed, and events float64[m, d]."""

    lo: np.ndarray
    hi: np.ndarray
    events: np.ndarray


# ---- workloads


def ranges4(rng: np.random.Generator, n: int, m: int, skewed: bool) -> Workload:
    """Four ranges per box, centres and events uniform or log-uniform on [0, 1000), widths up to 100."""

    def values(size: tuple[int, int]) -> np.ndarray:
        u = rng.random(size)
        return (1000.0**u - 1.0) * 1000.0 / 999.0 if skewed else u * 1000.0

    centre, width = values((n, 4)), rng.random((n, 4)) * 100.0
    return Workload(centre - width / 2, centre + width / 2, values((m, 4)))


def sparse20(rng: np.random.Generator, n: int, m: int) -> Workload:
    """Four of twenty attributes per box, chosen by popularity 1 / rank; events carry all twenty."""
    d, k = 20, 4
    popularity = 1.0 / np.arange(1, d + 1)
    gumbel = np.log(popularity / popularity.sum()) - np.log(-np.log(rng.random((n, d))))
    chosen = np.argpartition(-gumbel, k, axis=1)[:, :k]
    centre, width = rng.random((n, k)) * 1000, rng.random((n, k)) * 100
    lo, hi = np.full((n, d), -INF), np.full((n, d), INF)
    np.put_along_axis(lo, chosen, centre - width / 2, 1)
    np.put_along_axis(hi, chosen, centre + width / 2, 1)
    return Workload(lo, hi, rng.random((m, d)) * 1000)


def stock(rng: np.random.Generator, n: int, m: int) -> Workload:
    """Symbol (equality, Zipf), price (one- or two-sided), volume (at least), change (at most, half of them)."""
    popularity = 1.0 / np.arange(1, 1001)
    popularity /= popularity.sum()
    lo, hi = np.full((n, 4), -INF), np.full((n, 4), INF)
    symbol = rng.choice(1000, n, p=popularity)
    lo[:, 0] = hi[:, 0] = symbol
    base = 10 + (np.arange(1000) * 7919 % 490)
    price = base[symbol] * np.exp(rng.normal(0, 0.1, n))
    both, up = rng.random(n) < 0.5, rng.random(n) < 0.5
    lo[:, 1] = np.where(both | up, price, -INF)
    hi[:, 1] = np.where(both, price * 1.02, np.where(up, INF, price))
    lo[:, 2] = np.exp(rng.normal(8, 1.5, n))
    half = rng.random(n) < 0.5
    hi[half, 3] = rng.normal(-2, 1, half.sum())
    s = rng.choice(1000, m, p=popularity)
    columns = [s, base[s] * np.exp(rng.normal(0, 0.1, m)), np.exp(rng.normal(8, 1.5, m)), rng.normal(0, 2, m)]
    return Workload(lo, hi, np.stack(columns, 1))


WORKLOADS: dict[str, Callable[[np.random.Generator, int, int], Workload]] = {
    "uniform4": lambda rng, n, m: ranges4(rng, n, m, skewed=False),
    "zipf4": lambda rng, n, m: ranges4(rng, n, m, skewed=True),
    "sparse20": sparse20,
    "stock": stock,
}


# ---- measurements


@njit(cache=True)
def scan(lo, hi, events, out):  # type: ignore[no-untyped-def]
    """Match by brute force; return the number of rows written (``out`` is reused for each event)."""
    total = 0
    for e in range(events.shape[0]):
        count = 0
        for s in range(lo.shape[0]):
            fits = True
            for k in range(lo.shape[1]):
                if not (lo[s, k] <= events[e, k] <= hi[s, k]):
                    fits = False
                    break
            if fits:
                out[count] = s
                count += 1
        total += count
    return total


def best(function: Callable[[], object], repeat: int) -> float:
    """Return the least wall time of several calls, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


@dataclass
class Result:
    """One workload at one size; rates per second, latencies in microseconds."""

    work: str
    n: int
    layouts: str
    rows_per_event: float
    events: float
    scan_events: float
    ratio: float
    load: float
    merge_seconds: float
    insert: float
    delete: float
    bytes_per_box: float
    index_bytes_per_box: float
    p50: float
    p99: float


def settle(index: BoxIndex) -> float:
    """Run merges until there is nothing to gain; return the seconds they took."""
    start = time.perf_counter()
    while (plan := index.plan_merge()) is not None:
        plan.run()
        index.install(plan)
    return time.perf_counter() - start


def latencies(index: BoxIndex, events: np.ndarray) -> tuple[float, float]:
    """Return median and 99th percentile of single events, in microseconds."""
    times = []
    for event in events[:2_000]:
        start = time.perf_counter()
        index.match_point(event)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6, float(np.percentile(times, 99)) * 1e6


def updates(index: BoxIndex, work: Workload, n: int) -> tuple[float, float]:
    """Insert 50k boxes by the thousand, matching some events after each; delete as many; return both rates."""
    more, size = 50_000, 1_000
    pick = np.random.default_rng(2).integers(0, n, more)
    lo, hi = work.lo[pick], work.hi[pick]
    inserting = deleting = 0.0
    for start in range(0, more, size):
        rows = np.arange(n + start, n + start + size, dtype=np.int32)
        begin = time.perf_counter()
        index.add_boxes(lo[start : start + size], hi[start : start + size], rows)
        inserting += time.perf_counter() - begin
        index.match_points(work.events[:8])
    for start in range(0, more, size):
        rows = np.arange(n + start, n + start + size, dtype=np.int32)
        begin = time.perf_counter()
        index.remove(rows)
        deleting += time.perf_counter() - begin
        index.match_points(work.events[:8])
    return more / inserting, more / deleting


def measure(name: str, n: int, repeat: int) -> Result:
    """Build, match, update and scan one workload."""
    work = WORKLOADS[name](np.random.default_rng(1), n, BATCH)
    rows = np.arange(n, dtype=np.int32)

    def load() -> BoxIndex:
        index = BoxIndex(work.lo.shape[1])
        index.add_boxes(work.lo, work.hi, rows)
        return index

    loading = best(load, 3)
    index = load()
    merging = settle(index)
    events = work.events
    _, found = index.match_points(events)
    matching = best(lambda: index.match_points(events), repeat)
    few = events[: max(4, min(BATCH, 20_000_000 // n))]
    out = np.empty(n, np.int32)
    scan(work.lo[:10], work.hi[:10], few[:1], out)
    scanning = best(lambda: scan(work.lo, work.hi, few, out), 3) / len(few)
    p50, p99 = latencies(index, events)
    total = index.statistics()["bytes"]
    raw = sum(s.boxes.axis.nbytes + s.boxes.ends.nbytes + s.boxes.first.nbytes + 4 * s.n_slots for s in index._segments)
    layouts = "+".join(sorted({segment["layout"] for segment in index.statistics()["segments"]}))
    insert, delete = updates(index, work, n)
    rate = BATCH / matching
    return Result(
        name, n, layouts, found.size / BATCH, rate, 1 / scanning, rate * scanning, n / loading, merging,
        insert, delete, total / n, (total - raw) / n, p50, p99,
    )  # fmt: skip


def main() -> None:
    """Parse the command line, measure, print one line per workload and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e4,1e5,1e6")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    chosen = parser.parse_args()
    for size in chosen.sizes.split(","):
        for name in chosen.workloads.split(","):
            r = measure(name, int(float(size)), chosen.repeat)
            if chosen.json:
                print(json.dumps(asdict(r)), flush=True)
                continue
            print(
                f"{r.work:9} {r.n:8,} {r.layouts:9} {r.events:11,.0f} events/s"
                f"  scan {r.scan_events:9,.0f}/s  ratio {r.ratio:7,.0f}x"
                f"  {r.rows_per_event:8.1f} rows/event  load {r.load / 1e6:5.2f}M/s  merge {r.merge_seconds:5.2f} s"
                f"  insert {r.insert / 1e3:5.0f}k/s  delete {r.delete / 1e3:7.0f}k/s"
                f"  {r.bytes_per_box:4.0f} B/box ({r.index_bytes_per_box:.0f} without bounds and ids)"
                f"  one event p50 {r.p50:5.1f} p99 {r.p99:6.1f} us",
                flush=True,
            )


if __name__ == "__main__":
    main()
