"""How often one projection agrees on a pair that does not cover: claim RP2."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tamis.index.balls.projections import pass_probability
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

_STATED: Final = 2 / math.pi


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    d, z = config["d"], config["z"]
    vectors = rng.standard_normal((config["draws"], d))
    cosines = np.abs(vectors[:, 0]) / np.linalg.norm(vectors, axis=1)
    return [{"measured": float((cosines <= z).mean()), "exact": pass_probability(z, d), "stated": _STATED * z}]


def _judge_probability(rows: Rows) -> Outcome:
    beyond = sum(row["measured"] > _STATED + 0.01 for row in rows)
    off = sum(abs(row["measured"] - row["stated"]) > 0.05 for row in rows)
    apart = max(abs(row["measured"] - row["exact"]) for row in rows)
    worst = max(rows, key=lambda row: row["measured"])
    return judged(
        not beyond and not off,
        "about (2/pi) z, at most 2/pi = 0.637",
        f"{worst['measured']:.3f} at d={worst['d']}, z={worst['z']}",
        f"Above 2/pi at {beyond} of {len(rows)} points and more than 0.05 off at {off}: the angle is uniform in the "
        f"plane only, and arcsin z is not z. The right probability is an incomplete beta function (largest "
        f"difference here {apart:.4f}).",
    )


EXPERIMENT: Final = Experiment(
    name="rp-one-projection",
    paper="projection",
    figure="Proposition 2.3",
    set_up="A pair of balls at z = (r - r') / distance < 1: how often does one random direction agree?",
    configs=lambda scale: grid(d=(2, 3, 4, 8, 20), z=(0.1, 0.3, 0.5, 0.7, 0.9), draws=(scale.choose(20_000, 500_000),)),
    run=_run,
    claims={"RP2": _judge_probability},
    charts=(
        Chart(
            "One projection agrees though nothing is covered",
            "z",
            "measured",
            ("d",),
            x_label="z = (r - r') / distance",
            y_label="probability",
        ),
    ),
)
