"""How many pairs the bounding and the inner cube leave open: claim RP8."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_bench.workloads.balls import make_balls
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged
from tamis_lab.plots.charts import Chart
from tamis_lab.projection.covering import covers_each
from tamis_lab.projection.two_cubes import inner_half_side

__all__ = ["EXPERIMENT"]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    d, n = config["d"], config["n"]
    work = make_balls("uniform", n, d, 1, seed=int(rng.integers(2**31)))
    apart = np.abs(work.centers[:, None] - work.centers[None]).max(axis=2)
    room = work.radii[:, None] - work.radii[None]
    larger = room > 0
    is_open = larger & (apart <= room) & (apart > inner_half_side(d, 1.0) * room)
    covering = covers_each(work.centers, work.radii, work.centers, work.radii) & is_open
    return [
        {
            "ambiguous": float(is_open.sum() / larger.sum()),
            "stated": 1 - 2 ** (-d / 2),
            "real_covers": float(covering.sum() / max(is_open.sum(), 1)),
        }
    ]


def _judge_ambiguous(rows: Rows) -> Outcome:
    return judged(
        all(abs(row["ambiguous"] - row["stated"]) < 0.1 for row in rows),
        ", ".join(f"d={row['d']}: {row['stated']:.3f}" for row in rows),
        ", ".join(f"d={row['d']}: {row['ambiguous']:.3f}" for row in rows),
        "Share of ordered pairs with r > r' that the two cubes leave open. It falls with d; the baseline is dismissed "
        "wrongly.",
    )


EXPERIMENT: Final = Experiment(
    name="rp-cubes",
    paper="projection",
    figure="section II.A",
    set_up="Bounding and inner cubes of uniform balls: how many pairs do they leave open?",
    configs=lambda scale: grid(d=(2, 4, 8, 12, 20), n=(scale.choose(800, 1_500),)),
    run=_run,
    claims={"RP8": _judge_ambiguous},
    charts=(
        Chart(
            "Pairs that two cubes leave open",
            "d",
            "ambiguous",
            beside=("stated",),
            x_label="dimensions",
            y_label="share of pairs with r > r'",
        ),
    ),
)
