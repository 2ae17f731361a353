"""How fast is the box index on bare arrays, below the engine? For work on the kernels; users run ``tamis bench``.

    python scripts/match_arrays.py                       # all workloads, 10k, 100k and 1M boxes
    python scripts/match_arrays.py --sizes 100000 --workloads stock --json
    python scripts/match_arrays.py --sizes 100000 --kinds  # is the layout that was chosen the fastest one?

Rates are the best of several repetitions, because other work shares the machine; compare the ratios of one
run, not the figures of two.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass

import numpy as np

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.segment import LAYOUTS
from tamis.kernels import directory as at
from tamis_bench.matching.systems import Scan
from tamis_bench.timing import Effort, best_of, sustained
from tamis_bench.workloads.boxes import BOX_WORKS, BoxWork, make_boxes

BATCH = 4_096


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


def updates(index: BoxIndex, work: BoxWork, effort: Effort) -> tuple[float, float]:
    """Insert 50k boxes by the thousand, matching some events after each; delete as many; return both rates."""
    n, steps, size = len(work), 50, 1_000
    pick = np.random.default_rng(2).integers(0, n, steps * size)
    lo, hi = work.lo[pick], work.hi[pick]
    added: list[np.ndarray] = []

    def add() -> None:
        part = slice(size * len(added), size * len(added) + size)
        rows = np.arange(n + part.start, n + part.stop, dtype=np.int32)
        index.add_boxes(lo[part], hi[part], rows)
        added.append(rows)

    def look() -> None:
        index.match_points(work.points[:8])

    inserting = size * steps / sustained(add, look, effort, steps)
    return inserting, size * steps / sustained(lambda: index.remove(added.pop()), look, effort, steps)


def measure(name: str, n: int, repeat: int) -> Result:
    """Build, match, update and scan one workload."""
    work, effort = make_boxes(name, n, BATCH), Effort(repeat=repeat, seconds=60.0)
    rows = np.arange(n, dtype=np.int32)

    def load() -> BoxIndex:
        index = BoxIndex(work.lo.shape[1])
        index.add_boxes(work.lo, work.hi, rows)
        return index

    loading = best_of(load, Effort(repeat=3, seconds=60.0))
    index = load()
    merging = settle(index)
    _, matches = index.match_points(work.points)
    rate = BATCH / best_of(lambda: index.match_points(work.points), effort)
    scan, few = Scan(work), work.points[: max(4, min(BATCH, 20_000_000 // n))]
    scan.match(few[:1])
    scan_rate = len(few) / best_of(lambda: scan.match(few), Effort(repeat=3, seconds=60.0))
    p50, p99 = latencies(index, work.points)
    total = index.statistics()["bytes"]
    raw = sum(
        s.boxes.axis.nbytes + s.boxes.ends.nbytes + s.boxes.first.nbytes + 4 * s.n_slots for s in index.snapshot.parts
    )
    layouts = "+".join(sorted({segment["layout"] for segment in index.statistics()["segments"]}))
    insert, delete = updates(index, work, effort)
    return Result(
        name, n, layouts, matches.size / BATCH, rate, scan_rate, rate / scan_rate, n / loading, merging,
        insert, delete, total / n, (total - raw) / n, p50, p99,
    )  # fmt: skip


def compare_kinds(name: str, n: int, repeat: int) -> str:
    """Match in the layout that the index chooses and in each one forced; say how the choice compares with the best.

    Rates are those of processor time, layouts in turn: other work on the machine hits all of them alike.
    """
    work = make_boxes(name, n, BATCH)
    forced = {"tree": (at.TREE,), "pairs": (at.TREE, at.PAIRS), "bitmaps": (at.BITMAPS,)}
    indexes: dict[str, BoxIndex] = {}
    for kind, layouts in (("chosen", LAYOUTS), *forced.items()):
        index = BoxIndex(work.lo.shape[1], layouts)
        try:
            index.add_boxes(work.lo, work.hi, np.arange(n, dtype=np.int32))
        except ValueError:  # more axes than bitmaps have
            continue
        if kind == "chosen" or index.statistics()["segments"][0]["layout"] == kind:
            indexes[kind] = index
    seconds = dict.fromkeys(indexes, math.inf)
    for _ in range(repeat):
        for kind, index in indexes.items():
            start = time.process_time()
            index.match_points(work.points)
            seconds[kind] = min(seconds[kind], time.process_time() - start)
    rates = "  ".join(f"{kind} {BATCH / spent:11,.0f}/s" for kind, spent in seconds.items())
    chosen = indexes["chosen"].statistics()["segments"][0]
    own = min(seconds["chosen"], seconds.get(chosen["layout"], math.inf))  # the same arrays: they differ by noise
    share = min(seconds.values()) / own
    return f"{name:9} {n:8,} {chosen['layout']:8} is {share:.2f} of the best  {rates}  costs {chosen['costs']}"


def main() -> None:
    """Parse the command line, measure, print one line per workload and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e4,1e5,1e6")
    parser.add_argument("--workloads", default=",".join(BOX_WORKS))
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--kinds", action="store_true", help="compare the chosen layout with each one forced")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    chosen = parser.parse_args()
    for size in chosen.sizes.split(","):
        for name in chosen.workloads.split(","):
            if chosen.kinds:
                print(compare_kinds(name, int(float(size)), chosen.repeat), flush=True)
                continue
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
