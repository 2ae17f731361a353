"""What leaving out a share of the region saves: claims Z6 to Z9."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tamis.index.zcurve.sfc_array import SfcArray
from tamis_lab.experiment import (
    Config,
    Experiment,
    Outcome,
    Row,
    Rows,
    Scale,
    column,
    falls,
    grid,
    judged,
    rises,
    value_at,
    where,
)
from tamis_lab.plots.charts import Chart
from tamis_lab.timing import best_seconds
from tamis_lab.zcurve.counting import count_all_cubes, cubes_needed

__all__ = ["EXPERIMENT"]

_COVERAGES: Final = (0.5, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95)
_DIMENSIONS: Final = (4, 6, 8)
_QUERIES: Final = 50
#: Look-ups of an exhaustive search up to which it is also timed.
_TIMED_CUBES: Final = 20_000

_Lengths = tuple[int, ...]


def _configs(scale: Scale) -> list[Config]:
    sizes = scale.choose(range(3, 11), range(3, 15))
    return grid(d=_DIMENSIONS, alpha=(0, 1, 2), fixed=("shortest", "longest"), bits=sizes)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    shortest = config["bits"] - (config["alpha"] if config["fixed"] == "longest" else 0)
    queries = [_draw_lengths(config["d"], shortest, config["alpha"], rng) for _ in range(_QUERIES)]
    whole = sum(count_all_cubes(lengths) for lengths in queries)
    rows: list[Row] = []
    for coverage in _COVERAGES:
        part = sum(cubes_needed(lengths, coverage) for lengths in queries)
        row = {"coverage": coverage, "cubes": float(whole), "cubes_approximate": float(part), "speedup": whole / part}
        rows.append(row | _times(config["d"], queries, whole, coverage))
    return rows


def _draw_lengths(d: int, shortest: int, alpha: int, rng: np.random.Generator) -> _Lengths:
    """Draw sides with ``shortest`` to ``shortest + alpha`` bits, both of them present."""
    bits = rng.integers(shortest, shortest + alpha + 1, d)
    bits[0], bits[-1] = shortest, shortest + alpha
    return tuple(int(rng.integers(2 ** (b - 1), 2**b)) for b in rng.permutation(bits).tolist())


def _times(d: int, queries: Sequence[_Lengths], whole: int, coverage: float) -> dict[str, float]:
    """Return the times of both searches in an array without a hit, where that does not take long."""
    k = max(max(lengths) for lengths in queries).bit_length()
    if whole > _TIMED_CUBES * len(queries) or d * k > 62:
        return {}
    array = SfcArray(d, k)
    array.insert_all(np.zeros((1_000, d), np.int64), np.arange(1_000, dtype=np.int32))

    def search(skipped: tuple[int, int]) -> None:
        for lengths in queries:
            for _ in array.runs(array.begin([2**k - length for length in lengths], skipped, most=2**60)):
                pass

    skipped = (1 - Fraction(coverage)).as_integer_ratio()
    return {
        "exhaustive_seconds": best_seconds(lambda: search((0, 1))),
        "approximate_seconds": best_seconds(lambda: search(skipped)),
    }


def _judge_every_case(rows: Rows) -> Outcome:
    below = [row for row in rows if row["speedup"] <= 1 / row["coverage"]]
    timed = [row for row in rows if "exhaustive_seconds" in row and row["cubes"] > 100 * _QUERIES]
    slow = sum(row["exhaustive_seconds"] / row["approximate_seconds"] <= 1 / row["coverage"] for row in timed)
    why = f"Cubes looked up, {len(rows):,} points of {_QUERIES} queries each."
    if below:
        smallest = sorted({(row["d"], row["bits"]) for row in below})
        why += f" Not above it for small rectangles: (d, bits) = {', '.join(map(str, smallest[:6]))}."
    why += f" By the clock, {slow} of {len(timed)} points with more than 100 cubes per query are not above it."
    ours = f"{len(below)} of {len(rows):,} points not above"
    return judged(not below, "speedup > 1/coverage in every case", ours, why)


def _judge_four(rows: Rows) -> Outcome:
    return _fitted(rows, 4, {0.7: 500, 0.9: 20})


def _judge_eight(rows: Rows) -> Outcome:
    return _fitted(rows, 8, {0.75: 3})


def _fitted(rows: Rows, d: int, paper: Mapping[float, float]) -> Outcome:
    """Judge stated speedups: the side length is not stated, so one size must fit them all, within a factor of 10."""
    apart: dict[int, float] = {}
    for bits in sorted(set(column(where(rows, d=d, fixed="shortest"), "bits"))):
        chosen = where(rows, d=d, fixed="shortest", bits=bits, coverage=list(paper))
        apart[bits] = max(abs(math.log10(row["speedup"] / paper[row["coverage"]])) for row in chosen)
    best = min(apart, key=lambda bits: apart[bits])
    at_best = where(rows, d=d, fixed="shortest", bits=best)
    told = []
    for coverage in paper:
        speedups = (value_at(at_best, "speedup", coverage=coverage, alpha=alpha) for alpha in (0, 1, 2))
        told.append(f"{coverage:.0%}: " + ", ".join(f"{speedup:,.1f}x" for speedup in speedups))
    return judged(
        apart[best] <= 1,
        "; ".join(f"{coverage:.0%}: about {speedup:g}x" for coverage, speedup in paper.items()),
        f"{'; '.join(told)} (alpha 0, 1, 2)",
        f"The paper states no side length; {best} bits of the shortest side fit best, within a factor of "
        f"{10 ** apart[best]:.1f}.",
    )


def _judge_trends(rows: Rows) -> Outcome:
    """Judge the trends at 90 % coverage."""
    at = where(rows, coverage=0.9, alpha=0, fixed="shortest")
    sizes = sorted(set(column(at, "bits")))
    by_size = {bits: [value_at(at, "speedup", d=d, bits=bits) for d in _DIMENSIONS] for bits in sizes}
    falling = [bits for bits, speedups in by_size.items() if falls(speedups)]
    grows = all(rises(column(where(at, d=d), "speedup"), 0.25) for d in _DIMENSIONS)
    by_alpha = {fixed: _falls_with_alpha(rows, fixed, sizes[-1]) for fixed in ("longest", "shortest")}
    told = [f"{bits} bits: " + ", ".join(f"{s:.3g}x" for s in by_size[bits]) for bits in (sizes[0], sizes[-1])]
    return judged(
        grows and by_alpha["longest"] and falling == sizes,
        "falls with d, grows with size, in general falls with alpha",
        f"{'; '.join(told)} (d = 4, 6, 8)",
        f"It {'grows' if grows else 'does not always grow'} with the size. It falls with d only where the shortest "
        f"side has {', '.join(map(str, falling))} bits (of {sizes[0]} to {sizes[-1]}): an exhaustive search grows as "
        f"side^(d-1), so for larger sides the speedup grows with d. With alpha it {_word(by_alpha['longest'])} if the "
        f"longest side is held fixed, and {_word(by_alpha['shortest'])} if the shortest is (d = 4, {sizes[-1]} bits).",
    )


def _falls_with_alpha(rows: Rows, fixed: str, bits: int) -> bool:
    chosen = where(rows, coverage=0.9, d=4, bits=bits, fixed=fixed)
    return falls([row["speedup"] for row in sorted(chosen, key=lambda row: row["alpha"])])


def _word(falls: bool) -> str:
    return "falls" if falls else "does not fall"


EXPERIMENT: Final = Experiment(
    name="z-speedup",
    paper="zcurve",
    figure="Figs. 7 to 9",
    set_up="50 random extremal rectangles per point, no hit; cubes looked up by an exhaustive and an approximate "
    "search.",
    readings=(
        "The shortest side is not stated: every size from 3 to 14 bits is run (small: 3 to 10).",
        "Sides have between b and b + alpha bits and both ends occur.",
        "Alpha is also varied with the longest side fixed.",
    ),
    configs=_configs,
    run=_run,
    claims={"Z6": _judge_every_case, "Z7": _judge_four, "Z8": _judge_eight, "Z9": _judge_trends},
    charts=tuple(
        Chart(
            f"Speedup of an approximate search, d = {d}",
            "coverage",
            "speedup",
            series=("bits",),
            panels="alpha",
            only={"d": d, "fixed": "shortest", "bits": (4, 6, 8, 10, 12, 14)},
            log_y=True,
            x_label="share of the region searched",
            y_label="cubes, exhaustive / approximate",
        )
        for d in _DIMENSIONS
    ),
)
