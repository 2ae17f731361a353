"""A small experiment to try the framework on: it says how often it ran."""

from __future__ import annotations

import numpy as np

from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column
from tamis_lab.verdicts import Change, Decision, Judge, certain

RAN: list[Config] = []


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    RAN.append(config)
    return [{"value": float(rng.random()), "twice": np.int64(2 * config["n"]), "spent_seconds": float(len(RAN))}]


def _decide(rows: Rows) -> Decision:
    total = sum(column(rows, "twice"))
    return Decision([certain("the sum is positive", total > 0)], str(total), "A sum.")


JUDGE = Judge(
    rule="The sum is above 0.",
    reason="Because it is a toy.",
    paper_value="more than 0",
    decide=_decide,
    passing=lambda: [{"twice": 2}],
    failing={"nothing": changed(twice=0)},
    history=(Change("2026-11-17", "The sum is 0.", "not held", "It was another toy."),),
)


TOY = Experiment(
    name="toy",
    paper="zcurve",
    figure="none",
    set_up="Numbers.",
    configs=lambda scale: grid(n=scale.choose((1, 2, 3), (1, 2, 3, 4))),
    run=_run,
    claims={"T1": JUDGE},
    charts=(Chart("Values", "n", "value", beside=("twice",)),),
)
