"""The Z-curve paper: how many cubes a search looks up, what approximation saves, and what it misses.

The cost of a search is the cubes it looks up, and Lemma 3.4 counts them exactly at any size; clock times stand beside
the counts where an exhaustive search ends within a moment. "No hit": the searched region is empty, as in the paper.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tamis.curves import zcurve as z
from tamis.index.dominance.index import DominanceIndex
from tamis.index.zcurve.index import ZCurveIndex
from tamis.index.zcurve.sfc_array import SfcArray
from tamis.lab.experiment import Config, Experiment, Finding, Row, Scale, column, grid, judged, one, rises, where
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis.plots.charts import Chart

__all__ = ["EXPERIMENTS"]

_COVERAGES: Final = (0.5, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95)
_QUERIES: Final = 50
#: Look-ups of an exhaustive search up to which it is also timed.
_TIMED_CUBES: Final = 40_000


# ---- runs and cubes of single rectangles: Z1 to Z5


def _cubes_run(config: Config, rng: np.random.Generator) -> list[Row]:
    parts: dict[str, Callable[[np.random.Generator], list[Row]]] = {
        "squares": _squares,
        "example": _example,
        "lemmas": _lemmas,
        "theorem": _theorem,
    }
    return parts[config["part"]](rng)


def _squares(_: np.random.Generator) -> list[Row]:
    rows = []
    for side in (256, 257):
        found = [z.key_range(cube, i, 9) for i, cube in z.greedy_decomposition((side, side), 9)]
        largest = max(last - first + 1 for first, last in found)
        rows.append({"side": side, "cubes": len(found), "runs": _runs(found), "largest_share": largest / side**2})
    return rows


def _runs(ranges: Sequence[tuple[int, int]]) -> int:
    return 1 + sum(b[0] != a[1] + 1 for a, b in itertools.pairwise(sorted(ranges)))


def _example(_: np.random.Generator) -> list[Row]:
    fixed = ({0}, {1}, {0, 1})
    rectangles = sorted(tuple(2**r for r in one) for m in fixed for one in z.enumerate_rectangles((7, 5), 0, m))
    cubes = [tuple(f"{c:03b}" for c in cube) for cube in z.enumerate_standard_cubes((7, 5), (1, 0), 0, 3)]
    return [{"rectangles": str(rectangles), "cubes_of_1_0": str(cubes)}]


def _lemmas(rng: np.random.Generator) -> list[Row]:
    """Check the lemmas on every rectangle of small sides and on random large ones."""
    small = [sides for d in (1, 2, 3) for sides in itertools.product(range(1, 9), repeat=d)]
    large = [tuple(int(side) for side in rng.integers(1, 2**20, d)) for d in (2, 4, 6, 8) for _ in range(500)]
    counts = sum(
        [i for i, _ in z.greedy_decomposition(sides, 3)].count(j) != z.count_cubes(sides, j)
        for sides in small
        for j in range(4)
    )
    runs = sum(_runs([z.key_range(c, i, 3) for i, c in z.greedy_decomposition(s, 3)]) > _all_cubes(s) for s in small)
    coverage = 0
    for sides, epsilon in itertools.product(small + large, (0.5, 0.1, 0.01)):
        kept = z.volume([z.truncate(side, z.coverage_bits(len(sides), epsilon)) for side in sides])
        coverage += Fraction(kept, z.volume(sides)) < 1 - Fraction(epsilon)
    checked = len(small) + len(large)
    return [{"checked": checked, "wrong_counts": counts, "runs_above_cubes": runs, "coverage_missed": coverage}]


def _all_cubes(lengths: Sequence[int]) -> int:
    return sum(z.count_cubes(lengths, i) for i in range(min(lengths).bit_length()))


def _theorem(_: np.random.Generator) -> list[Row]:
    rows = []
    for d, gamma, alpha in [(2, g, a) for g in range(1, 6) for a in range(3)] + [(3, g, 0) for g in (1, 2, 3)]:
        lengths = (*[2 ** (gamma + alpha) - 1] * (d - 1), 2**gamma - 1)  # the short side owns the last bit of a key
        k = gamma + alpha
        ranges = [z.key_range(cube, i, k) for i, cube in z.greedy_decomposition(lengths, k)]
        rows.append({"d": d, "gamma": gamma, "alpha": alpha, "runs": _runs(ranges), "bound": z.run_bound(lengths)})
    return rows


def _judge_cubes(rows: Sequence[Row]) -> list[Finding]:
    runs = {row["side"]: (row["runs"], row["cubes"]) for row in where(rows, part="squares")}
    share = one(rows, "largest_share", part="squares", side=257)
    [example], [lemmas] = where(rows, part="example"), where(rows, part="lemmas")
    wrong = lemmas["wrong_counts"] + lemmas["runs_above_cubes"] + lemmas["coverage_missed"]
    theorem = where(rows, part="theorem")
    below = sum(row["runs"] < row["bound"] for row in theorem)
    expected = ("[(1, 1), (1, 4), (2, 1), (4, 1)]", "[('010', '011'), ('011', '011')]")
    return [
        judged(
            "Z1",
            runs == {256: (1, 1), 257: (385, 514)},
            "256 x 256: 1 run; 257 x 257: 385 runs",
            f"{runs[256][0]} run; {runs[257][0]} runs of {runs[257][1]} cubes",
            "Counted from the greedy decomposition.",
        ),
        judged("Z2", share > 0.99, "one run holds > 99 %", f"{share:.5f}", "The largest cube's share of 257 x 257."),
        judged(
            "Z3",
            (example["rectangles"], example["cubes_of_1_0"]) == expected,
            "1x4, 4x1, 2x1, 1x1; (010,011), (011,011)",
            f"{example['rectangles']}; {example['cubes_of_1_0']}",
            "Algorithms 1 and 2 on the 7 x 5 example, as generators and repaired.",
        ),
        judged(
            "Z4",
            wrong == 0,
            "no violation",
            f"{wrong} in {lemmas['checked']:,} rectangles",
            "Lemmas 3.1, 3.3, 3.4 and runs <= cubes, on all small and on random large rectangles.",
        ),
        judged(
            "Z5",
            below == 0,
            "runs >= (2^(alpha-1) l)^(d-1)",
            f"{below} of {len(theorem)} below",
            "The construction of Theorem 4.1 in two and three dimensions.",
        ),
    ]


# ---- what leaving out a share saves: Z6 to Z10


def cubes_needed(lengths: Sequence[int], coverage: float) -> int:
    """Return how many cubes, the largest first, hold a share of a rectangle; exact at any size.

    >>> cubes_needed((257, 257), 0.99), cubes_needed((257, 257), 1.0)
    (1, 514)
    """
    wanted, found, d = Fraction(coverage) * z.volume(lengths), 0, len(lengths)
    searched = Fraction(0)
    for i in range(min(lengths).bit_length() - 1, -1, -1):
        count = z.count_cubes(lengths, i)
        enough = math.ceil((wanted - searched) / 2 ** (i * d))
        if enough <= count:
            return found + max(enough, 0)
        found, searched = found + count, searched + count * 2 ** (i * d)
    return found


def _draw_lengths(d: int, shortest: int, alpha: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Draw sides with ``shortest`` to ``shortest + alpha`` bits, both of them present."""
    bits = rng.integers(shortest, shortest + alpha + 1, d)
    bits[0], bits[-1] = shortest, shortest + alpha
    return tuple(int(rng.integers(2 ** (b - 1), 2**b)) for b in rng.permutation(bits).tolist())


def _speedup_configs(scale: Scale) -> list[Config]:
    sizes = scale.choose(range(3, 11), range(3, 15))
    return grid(d=(4, 6, 8), alpha=(0, 1, 2), fixed=("shortest", "longest"), bits=sizes)


def _speedup_run(config: Config, rng: np.random.Generator) -> list[Row]:
    shortest = config["bits"] - (config["alpha"] if config["fixed"] == "longest" else 0)
    if shortest < 1:
        return []
    queries = [_draw_lengths(config["d"], shortest, config["alpha"], rng) for _ in range(_QUERIES)]
    whole = sum(_all_cubes(lengths) for lengths in queries)
    rows: list[Row] = []
    for coverage in _COVERAGES:
        part = sum(cubes_needed(lengths, coverage) for lengths in queries)
        row = {"coverage": coverage, "cubes": float(whole), "cubes_approximate": float(part), "speedup": whole / part}
        rows.append(row | _clock(config["d"], queries, whole, coverage))
    return rows


def _clock(d: int, queries: Sequence[Sequence[int]], whole: int, coverage: float) -> dict[str, float]:
    """Return the times of both searches in an array without a hit, where that does not take long."""
    k = max(max(lengths) for lengths in queries).bit_length()
    if whole > _TIMED_CUBES * len(queries) or d * k > 62:
        return {}
    array = SfcArray(d, k)
    array.insert_all(np.zeros((1_000, d), np.int64), np.arange(1_000, dtype=np.int32))
    skipped = (1 - Fraction(coverage)).as_integer_ratio()
    times = [_search(array, queries, share) for share in ((0, 1), skipped)]
    return {"exhaustive_seconds": times[0], "approximate_seconds": times[1]}


def _search(array: SfcArray, queries: Sequence[Sequence[int]], skipped: tuple[int, int]) -> float:
    def seconds() -> float:
        start = time.perf_counter()
        for lengths in queries:
            search = array.begin([2**array.k - length for length in lengths], skipped, most=2**60)
            for _ in array.runs(search):
                pass
        return time.perf_counter() - start

    return min(seconds() for _ in range(3))


def _judge_speedup(rows: Sequence[Row]) -> list[Finding]:
    below = [row for row in rows if row["speedup"] <= 1 / row["coverage"]]
    timed = [row for row in rows if "exhaustive_seconds" in row and row["cubes"] > 100 * _QUERIES]
    faster = [row["exhaustive_seconds"] / row["approximate_seconds"] for row in timed]
    slow = sum(ratio <= 1 / row["coverage"] for ratio, row in zip(faster, timed, strict=True))
    why = f"Cubes looked up, {len(rows)} points of 50 queries each."
    if below:
        smallest = sorted({(row["d"], row["bits"]) for row in below})
        why += f" Not above it for small rectangles: (d, bits) = {smallest[:6]}."
    why += f" By the clock, {slow} of {len(timed)} points with more than 100 cubes per query are not above it."
    large = [row for row in below if row["cubes"] > 1_000 * _QUERIES]
    return [
        judged("Z6", not large, "speedup > 1/coverage in every case", f"{len(below)} of {len(rows)} not above", why),
        _fits(rows, "Z7", 4, {0.7: 500, 0.9: 20}),
        _fits(rows, "Z8", 8, {0.75: 3}),
        _trends(rows),
    ]


def _fits(rows: Sequence[Row], claim: str, d: int, paper: dict[float, float]) -> Finding:
    """Judge stated speedups: the side length is not stated, so one size must fit them all, within a factor of 10."""
    seen: dict[int, float] = {}
    for bits in sorted(set(column(where(rows, d=d, fixed="shortest"), "bits"))):
        chosen = where(rows, d=d, fixed="shortest", bits=bits, coverage=list(paper))
        seen[bits] = max(abs(math.log10(row["speedup"] / paper[row["coverage"]])) for row in chosen)
    best = min(seen, key=lambda bits: seen[bits])
    told = {
        c: [one(rows, "speedup", d=d, fixed="shortest", bits=best, coverage=c, alpha=a) for a in (0, 1, 2)]
        for c in paper
    }
    ours = "; ".join(f"{coverage:.0%}: " + ", ".join(f"{s:,.1f}x" for s in all_) for coverage, all_ in told.items())
    return judged(
        claim,
        seen[best] <= 1,
        "; ".join(f"{coverage:.0%}: about {speedup:g}x" for coverage, speedup in paper.items()),
        f"{ours} (alpha 0, 1, 2)",
        f"The paper states no side length; {best} bits of the shortest side fit best, within a factor of "
        f"{10 ** seen[best]:.1f}.",
    )


def _trends(rows: Sequence[Row]) -> Finding:
    """Judge Z9 at 90 % coverage."""
    at = where(rows, coverage=0.9, alpha=0, fixed="shortest")
    sizes = sorted(set(column(at, "bits")))
    by_d = {bits: [one(at, "speedup", d=d, bits=bits) for d in (4, 6, 8)] for bits in sizes}
    falling = [bits for bits, speedups in by_d.items() if speedups[0] > speedups[1] > speedups[2]]
    grows = all(rises(column(where(at, d=d), "speedup"), 0.25) for d in (4, 6, 8))
    falls = {}
    for fixed in ("shortest", "longest"):
        chosen = where(rows, coverage=0.9, d=4, bits=sizes[-1], fixed=fixed)
        falls[fixed] = rises([-row["speedup"] for row in sorted(chosen, key=lambda row: row["alpha"])])
    why = (
        f"Grows with the size: {grows}. Falls with d where the shortest side has {falling} bits, of {sizes}: an exhaustive "
        f"search grows as side^(d-1), so for larger sides the speedup grows with d. With alpha it falls if the longest "
        f"side is held fixed: {falls['longest']}; if the shortest is: {falls['shortest']} (d = 4, {sizes[-1]} bits)."
    )
    ours = "; ".join(f"{bits} bits: " + ", ".join(f"{s:.3g}x" for s in by_d[bits]) for bits in (sizes[0], sizes[-1]))
    holds = grows and falls["longest"] and falling == sizes
    return judged(
        "Z9", holds, "falls with d, grows with size, in general falls with alpha", f"{ours} (d = 4, 6, 8)", why
    )


def _plateau_run(config: Config, _: np.random.Generator) -> list[Row]:
    shapes = np.random.default_rng(config["d"]).uniform(0.5, 1, (_QUERIES, config["d"]))  # the same ones at every size
    queries = [tuple(int(side * 2 ** config["bits"]) for side in shape) for shape in shapes]
    approximate = [cubes_needed(lengths, 1 - config["epsilon"]) for lengths in queries]
    bound = max(z.cube_bound(lengths, config["epsilon"]) for lengths in queries)
    whole = [_all_cubes(lengths) for lengths in queries]
    return [
        {"cubes_approximate": float(np.mean(approximate)), "cubes": float(sum(whole)) / _QUERIES, "bound": float(bound)}
    ]


def _judge_plateau(rows: Sequence[Row]) -> list[Finding]:
    flat, told = [], []
    for d in sorted(set(column(rows, "d"))):
        late = [row["cubes_approximate"] for row in where(rows, d=d) if row["bits"] >= 12]
        flat.append(max(late) / min(late) < 1.1)
        told.append(f"d={d}: {min(late):,.0f} to {max(late):,.0f}")
    above = sum(row["cubes_approximate"] > row["bound"] for row in rows)
    why = f"From 12 bits on the mean should vary by less than a tenth; {above} points above the bound of Theorem 3.1 (times d)."
    return [judged("Z10", all(flat) and not above, "independent of side lengths", "; ".join(told), why)]


# ---- how many covers are found: Z11


def _boxes(n: int, spread: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw boxes of two attributes on 0..1: ``spread`` ones of every width, or ``near`` ones of similar widths."""
    width = rng.random((n, 2)) if spread == "every width" else 0.3 + 0.1 * rng.random((n, 2))
    lo = rng.random((n, 2)) * (1 - width)
    return lo, lo + width


def _recall_run(config: Config, rng: np.random.Generator) -> list[Row]:
    schema = Schema({"x": Number(0, 1), "y": Number(0, 1)})
    n, asked = config["n"], config["queries"]
    held = SubscriptionTable.from_boxes(["x", "y"], *_boxes(n, config["spread"], rng))
    lo, hi = _boxes(asked, config["spread"], rng)
    questions = SubscriptionTable.from_boxes(["x", "y"], lo, hi)
    subscriptions = [questions.box_subscription(i, i) for i in range(asked)]
    exact, approximate = DominanceIndex(), ZCurveIndex(schema, epsilon=config["epsilon"], k=10, capped=False)
    found, seconds = [], []
    for index in (exact, approximate):
        index.add_boxes(np.arange(n, dtype=np.int32), held)
        index.find_cover(subscriptions[0])  # compile
        start = time.perf_counter()
        found.append([index.find_cover(subscription) is not None for subscription in subscriptions])
        seconds.append((time.perf_counter() - start) / asked)
    covered, seen = np.array(found)
    details = approximate.statistics().details
    return [
        {
            "covered": int(covered.sum()),
            "found": int(seen.sum()),
            "false": int((seen & ~covered).sum()),
            "recall": float(seen.sum() / max(covered.sum(), 1)),
            "cubes": float(details["cubes"]) / (asked + 1),
            "exact_seconds": seconds[0],
            "zcurve_seconds": seconds[1],
        }
    ]


def _judge_recall(rows: Sequence[Row]) -> list[Finding]:
    false = sum(column(rows, "false"))
    wide = where(rows, spread="every width")
    told = ", ".join(f"eps {row['epsilon']}: {row['recall']:.3f}" for row in wide)
    near = ", ".join(f"{row['recall']:.3f}" for row in where(rows, spread="similar widths"))
    ratio = np.median([row["zcurve_seconds"] / row["exact_seconds"] for row in rows])
    why = (
        f"Well spread boxes: most covers lie deep inside the region. With boxes of similar widths covers are close, in "
        f"the part left out, and recall is {near}. False covers: {false}. The product's exact index finds all of them; "
        f"the approximate search took {ratio:.1f}x its time (median, from Python)."
    )
    holds = false == 0 and all(row["recall"] >= 0.5 for row in wide if row["epsilon"] <= 0.05)
    return [judged("Z11", holds, "eps = 0.05: most covers are found", told, why)]


EXPERIMENTS: Final = (
    Experiment(
        name="z-cubes",
        paper="zcurve",
        figure="sections 3.1, 4, 5",
        claims=("Z1", "Z2", "Z3", "Z4", "Z5"),
        set_up="Standard cubes and runs of extremal rectangles: the squares of 256 and 257, the 7 x 5 example, all small sides.",
        configs=lambda _: grid(part=("squares", "example", "lemmas", "theorem")),
        run=_cubes_run,
        judge=_judge_cubes,
    ),
    Experiment(
        name="z-speedup",
        paper="zcurve",
        figure="Figs. 7 to 9",
        claims=("Z6", "Z7", "Z8", "Z9"),
        set_up="50 random extremal rectangles per point, no hit; cubes looked up by an exhaustive and an approximate search.",
        readings=(
            "The shortest side is not stated: every size from 3 to 14 bits is run (small: 4, 8, 12).",
            "Sides have between b and b + alpha bits and both ends occur; alpha is also varied with the longest side fixed.",
        ),
        configs=_speedup_configs,
        run=_speedup_run,
        judge=_judge_speedup,
        charts=tuple(
            Chart(
                f"Speedup of an approximate search, d = {d}",
                "coverage",
                "speedup",
                series=("bits",),
                panels="alpha",
                only={"d": d, "fixed": "shortest", "bits": (4, 8, 12)},
                log_y=True,
                x_label="share of the region searched",
            )
            for d in (4, 6, 8)
        ),
    ),
    Experiment(
        name="z-plateau",
        paper="zcurve",
        figure="section 1.2, Theorem 3.1",
        claims=("Z10",),
        set_up="The share left out is fixed at 0.1 and 50 shapes grow; sides of equal bits (alpha = 0).",
        configs=lambda scale: grid(d=(2, 3, 4), bits=scale.choose(range(2, 25, 2), range(2, 31)), epsilon=(0.1,)),
        run=_plateau_run,
        judge=_judge_plateau,
        charts=(
            Chart("Approximate searches do not grow with the region", "bits", "cubes_approximate", ("d",), log_y=True),
        ),
    ),
    Experiment(
        name="z-recall",
        paper="zcurve",
        figure="section 1.1, Problem 2",
        claims=("Z11",),
        set_up="Random boxes of two attributes ask the Z-curve index (k = 10) and the exact index for a cover.",
        readings=("'Well spread' is read as boxes of every width; boxes of similar widths stand beside them.",),
        configs=lambda scale: grid(
            spread=("every width", "similar widths"),
            epsilon=(0.05, 0.1, 0.2, 0.3, 0.5),
            n=(scale.choose(2_000, 10_000, 100_000),),
            queries=(scale.choose(100, 1_000),),
        ),
        run=_recall_run,
        judge=_judge_recall,
        charts=(Chart("Covers found", "epsilon", "recall", ("spread",), x_label="epsilon, the share left out"),),
    ),
)
