"""Approximate searches do not grow with the region: claim Z10."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.curves import zcurve as z
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, where
from tamis_lab.plots.charts import Chart
from tamis_lab.zcurve.counting import count_all_cubes, cubes_needed

__all__ = ["EXPERIMENT"]

_SHAPES: Final = 50
#: Bits of a side from which on the cost should not move any more.
_LATE: Final = 12


def _run(config: Config, _: np.random.Generator) -> list[Row]:
    shapes = np.random.default_rng(config["d"]).uniform(0.5, 1, (_SHAPES, config["d"]))  # the same ones at every size
    queries = [tuple(int(side * 2 ** config["bits"]) for side in shape) for shape in shapes]
    return [
        {
            "cubes_approximate": float(np.mean([cubes_needed(lengths, 1 - config["epsilon"]) for lengths in queries])),
            "cubes": float(sum(count_all_cubes(lengths) for lengths in queries)) / _SHAPES,
            "bound": float(max(z.cube_bound(lengths, config["epsilon"]) for lengths in queries)),
        }
    ]


def _judge_plateau(rows: Rows) -> Outcome:
    flat, told = [], []
    for d in sorted(set(column(rows, "d"))):
        late = [row["cubes_approximate"] for row in where(rows, d=d) if row["bits"] >= _LATE]
        flat.append(max(late) / min(late) < 1.1)
        told.append(f"d={d}: {min(late):,.0f} to {max(late):,.0f}")
    above = sum(row["cubes_approximate"] > row["bound"] for row in rows)
    return judged(
        all(flat) and not above,
        "independent of side lengths",
        "; ".join(told),
        f"From {_LATE} bits on the mean should vary by less than a tenth; {above} points are above the bound of "
        "Theorem 3.1 (times d).",
    )


EXPERIMENT: Final = Experiment(
    name="z-plateau",
    paper="zcurve",
    figure="section 1.2, Theorem 3.1",
    set_up="The share left out is fixed at 0.1 and 50 shapes grow; sides of equal bits (alpha = 0).",
    configs=lambda scale: grid(d=(2, 3, 4), bits=scale.choose(range(2, 25, 2), range(2, 31)), epsilon=(0.1,)),
    run=_run,
    claims={"Z10": _judge_plateau},
    charts=(
        Chart(
            "Approximate searches do not grow with the region",
            "bits",
            "cubes_approximate",
            ("d",),
            log_y=True,
            x_label="bits of a side",
            y_label="cubes looked up at 90 %",
        ),
    ),
)
