"""Runs and cubes of single rectangles: claims Z1 to Z5."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tamis.curves import zcurve as z
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.rows import Row, Rows, changed, column, value_at, where
from tamis_lab.verdicts import Decision, Judge, certain
from tamis_lab.zcurve.counting import count_all_cubes, count_runs

__all__ = ["EXPERIMENT"]

_Lengths = tuple[int, ...]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    return _PARTS[config["part"]](rng)


def _squares(_: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for side in (256, 257):
        ranges = [z.key_range(cube, i, 9) for i, cube in z.greedy_decomposition((side, side), 9)]
        largest = max(last - first + 1 for first, last in ranges)
        rows.append(
            {"side": side, "cubes": len(ranges), "runs": count_runs(ranges), "largest_share": largest / side**2}
        )
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
    """Return the number of cube sizes for which Lemma 3.4 differs from the decomposition."""
    levels = [i for i, _ in z.greedy_decomposition(sides, 3)]
    return sum(levels.count(i) != z.count_cubes(sides, i) for i in range(4))


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


def _decide_runs(rows: Rows) -> Decision:
    counts = {row["side"]: (row["runs"], row["cubes"]) for row in where(rows, part="squares")}
    (small, _), (large, cubes) = counts[256], counts[257]
    expected = counts == {256: (1, 1), 257: (385, 514)}
    return Decision([certain(f"{small} run and {large} runs", expected)], f"{small} run; {large} runs of {cubes} cubes")


def _decide_largest(rows: Rows) -> Decision:
    share = value_at(rows, "largest_share", part="squares", side=257)
    return Decision([certain(f"{share:.3%} > 99 %", share > 0.99)], f"{share:.3%}")


def _decide_example(rows: Rows) -> Decision:
    [row] = where(rows, part="example")
    clauses = [
        certain(f"rectangles {row['rectangles']}", row["rectangles"] == _RECTANGLES),
        certain(f"cubes {row['cubes_of_1_0']}", row["cubes_of_1_0"] == _CUBES),
    ]
    return Decision(clauses, f"{row['rectangles']}; {row['cubes_of_1_0']}")


def _decide_lemmas(rows: Rows) -> Decision:
    [row] = where(rows, part="lemmas")
    names = ("wrong_counts", "runs_above_cubes", "coverage_missed")
    clauses = [certain(f"{name.replace('_', ' ')} {row[name]}", row[name] == 0) for name in names]
    return Decision(clauses, f"{sum(row[name] for name in names)} in {row['checked']:,} rectangles")


def _decide_theorem(rows: Rows) -> Decision:
    chosen: Sequence[Row] = where(rows, part="theorem")
    below = sum(runs < bound for runs, bound in zip(column(chosen, "runs"), column(chosen, "bound"), strict=True))
    return Decision([certain(f"{below} below the bound", below == 0)], f"{below} of {len(chosen)} below")


_RECTANGLES: Final = "[(1, 1), (1, 4), (2, 1), (4, 1)]"
_CUBES: Final = "[('010', '011'), ('011', '011')]"


def _made_up() -> Rows:
    return [
        {"part": "squares", "side": 256, "cubes": 1, "runs": 1, "largest_share": 1.0},
        {"part": "squares", "side": 257, "cubes": 514, "runs": 385, "largest_share": 0.992},
        {"part": "example", "rectangles": _RECTANGLES, "cubes_of_1_0": _CUBES},
        {"part": "lemmas", "checked": 9, "wrong_counts": 0, "runs_above_cubes": 0, "coverage_missed": 0},
        {"part": "theorem", "d": 2, "gamma": 3, "alpha": 1, "runs": 9, "bound": 7},
    ]


CLAIMS: Final = {
    "Z1": Judge(
        rule="Counted from the greedy decomposition, the runs and cubes of both squares are those of the paper.",
        reason="The numbers are exact, so only equality will do. The paper has the runs; the 514 cubes follow.",
        paper_value="256 x 256: 1 run; 257 x 257: 385 runs",
        decide=_decide_runs,
        passing=_made_up,
        failing={"a run more": changed(runs=lambda row: row["runs"] + 1), "a cube less": changed(cubes=513)},
    ),
    "Z2": Judge(
        rule="The largest cube has more than 99 % of the square of 257.",
        reason="This is the paper's sentence.",
        paper_value="one run holds > 99 %",
        decide=_decide_largest,
        passing=_made_up,
        failing={"a smaller cube": changed(largest_share=0.98)},
    ),
    "Z3": Judge(
        rule="Algorithms 1 and 2, repaired, give the rectangles and cubes of the 7 x 5 example.",
        reason="The paper lists both, so only equality will do.",
        paper_value="1x4, 4x1, 2x1, 1x1; (010,011), (011,011)",
        decide=_decide_example,
        passing=_made_up,
        failing={"a rectangle less": changed(rectangles="[(1, 1)]"), "another cube": changed(cubes_of_1_0="[]")},
    ),
    "Z4": Judge(
        rule="Lemmas 3.1, 3.3, 3.4 and runs <= cubes hold for all small and for random large rectangles.",
        reason="A lemma has no exceptions: one counterexample refutes it.",
        paper_value="no violation",
        decide=_decide_lemmas,
        passing=_made_up,
        failing={
            "a wrong count": changed(wrong_counts=1),
            "more runs than cubes": changed(runs_above_cubes=1),
            "a share that is missed": changed(coverage_missed=1),
        },
    ),
    "Z5": Judge(
        rule="No rectangle of the construction of Theorem 4.1 has fewer runs than the bound.",
        reason="A lower bound has no exceptions.",
        paper_value="runs >= (2^(alpha-1) l)^(d-1)",
        decide=_decide_theorem,
        passing=_made_up,
        failing={"fewer runs": changed(runs=6)},
    ),
}


EXPERIMENT: Final = Experiment(
    name="z-cubes",
    paper="zcurve",
    figure="sections 3.1, 4, 5",
    set_up="Standard cubes and runs of extremal rectangles: the squares of 256 and 257, the 7 x 5 example, all small "
    "sides.",
    configs=lambda _: grid(part=_PARTS),
    run=_run,
    claims=CLAIMS,
)
