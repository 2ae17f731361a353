"""Runs and cubes of single rectangles: claims Z1 to Z5."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tamis.curves import zcurve as z
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, value_at, where
from tamis_lab.zcurve.counting import count_all_cubes, count_runs

__all__ = ["EXPERIMENT"]

_Lengths = tuple[int, ...]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    return _PARTS[config["part"]](rng)


def _squares(_: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for side in (256, 257):
        found = [z.key_range(cube, i, 9) for i, cube in z.greedy_decomposition((side, side), 9)]
        largest = max(last - first + 1 for first, last in found)
        rows.append({"side": side, "cubes": len(found), "runs": count_runs(found), "largest_share": largest / side**2})
    return rows


def _example(_: np.random.Generator) -> list[Row]:
    fixed = ({0}, {1}, {0, 1})
    rectangles = sorted(tuple(2**r for r in sides) for m in fixed for sides in z.enumerate_rectangles((7, 5), 0, m))
    cubes = [tuple(f"{c:03b}" for c in cube) for cube in z.enumerate_standard_cubes((7, 5), (1, 0), 0, 3)]
    return [{"rectangles": str(rectangles), "cubes_of_1_0": str(cubes)}]


def _lemmas(rng: np.random.Generator) -> list[Row]:
    """Check the lemmas on every rectangle of small sides and on random large ones."""
    small = [sides for d in (1, 2, 3) for sides in itertools.product(range(1, 9), repeat=d)]
    large = [tuple(int(side) for side in rng.integers(1, 2**20, d)) for d in (2, 4, 6, 8) for _ in range(500)]
    return [
        {
            "checked": len(small) + len(large),
            "wrong_counts": sum(_wrong_counts(sides) for sides in small),
            "runs_above_cubes": sum(_has_more_runs_than_cubes(sides) for sides in small),
            "coverage_missed": sum(_missed_coverages(sides) for sides in small + large),
        }
    ]


def _wrong_counts(sides: _Lengths) -> int:
    """Count the sizes of cubes for which Lemma 3.4 is not what the decomposition has."""
    found = [i for i, _ in z.greedy_decomposition(sides, 3)]
    return sum(found.count(i) != z.count_cubes(sides, i) for i in range(4))


def _has_more_runs_than_cubes(sides: _Lengths) -> bool:
    return count_runs([z.key_range(c, i, 3) for i, c in z.greedy_decomposition(sides, 3)]) > count_all_cubes(sides)


def _missed_coverages(sides: _Lengths) -> int:
    """Count the shares that the truncation of Lemma 3.1 should keep and does not."""
    missed = 0
    for epsilon in (0.5, 0.1, 0.01):
        kept = z.volume([z.truncate(side, z.coverage_bits(len(sides), epsilon)) for side in sides])
        missed += Fraction(kept, z.volume(sides)) < 1 - Fraction(epsilon)
    return missed


def _theorem(_: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for d, gamma, alpha in [(2, g, a) for g in range(1, 6) for a in range(3)] + [(3, g, 0) for g in (1, 2, 3)]:
        lengths = (*[2 ** (gamma + alpha) - 1] * (d - 1), 2**gamma - 1)  # the short side owns the last bit of a key
        k = gamma + alpha
        ranges = [z.key_range(cube, i, k) for i, cube in z.greedy_decomposition(lengths, k)]
        bound = z.run_bound(lengths)
        rows.append({"d": d, "gamma": gamma, "alpha": alpha, "runs": count_runs(ranges), "bound": bound})
    return rows


_PARTS: Final[dict[str, Callable[[np.random.Generator], list[Row]]]] = {
    "squares": _squares,
    "example": _example,
    "lemmas": _lemmas,
    "theorem": _theorem,
}


def _judge_runs(rows: Rows) -> Outcome:
    found = {row["side"]: (row["runs"], row["cubes"]) for row in where(rows, part="squares")}
    return judged(
        found == {256: (1, 1), 257: (385, 514)},
        "256 x 256: 1 run; 257 x 257: 385 runs",
        f"{found[256][0]} run; {found[257][0]} runs of {found[257][1]} cubes",
        "Counted from the greedy decomposition.",
    )


def _judge_largest(rows: Rows) -> Outcome:
    share = value_at(rows, "largest_share", part="squares", side=257)
    return judged(share > 0.99, "one run holds > 99 %", f"{share:.3%}", "The largest cube's share of 257 x 257.")


def _judge_example(rows: Rows) -> Outcome:
    [found] = where(rows, part="example")
    expected = ("[(1, 1), (1, 4), (2, 1), (4, 1)]", "[('010', '011'), ('011', '011')]")
    return judged(
        (found["rectangles"], found["cubes_of_1_0"]) == expected,
        "1x4, 4x1, 2x1, 1x1; (010,011), (011,011)",
        f"{found['rectangles']}; {found['cubes_of_1_0']}",
        "Algorithms 1 and 2 on the 7 x 5 example, as generators and repaired.",
    )


def _judge_lemmas(rows: Rows) -> Outcome:
    [found] = where(rows, part="lemmas")
    wrong = found["wrong_counts"] + found["runs_above_cubes"] + found["coverage_missed"]
    why = "Lemmas 3.1, 3.3, 3.4 and runs <= cubes, on all small and on random large rectangles."
    return judged(wrong == 0, "no violation", f"{wrong} in {found['checked']:,} rectangles", why)


def _judge_theorem(rows: Rows) -> Outcome:
    found: Sequence[Row] = where(rows, part="theorem")
    below = sum(runs < bound for runs, bound in zip(column(found, "runs"), column(found, "bound"), strict=True))
    why = "The construction of Theorem 4.1 in two and three dimensions."
    return judged(below == 0, "runs >= (2^(alpha-1) l)^(d-1)", f"{below} of {len(found)} below", why)


EXPERIMENT: Final = Experiment(
    name="z-cubes",
    paper="zcurve",
    figure="sections 3.1, 4, 5",
    set_up="Standard cubes and runs of extremal rectangles: the squares of 256 and 257, the 7 x 5 example, all small "
    "sides.",
    configs=lambda _: grid(part=_PARTS),
    run=_run,
    claims={
        "Z1": _judge_runs,
        "Z2": _judge_largest,
        "Z3": _judge_example,
        "Z4": _judge_lemmas,
        "Z5": _judge_theorem,
    },
)
