"""A small experiment to try the framework on: it says how often it ran."""

from __future__ import annotations

import numpy as np

from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged
from tamis_lab.plots.charts import Chart

RAN: list[Config] = []


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    RAN.append(config)
    return [{"value": float(rng.random()), "twice": np.int64(2 * config["n"]), "spent_seconds": float(len(RAN))}]


def _judge(rows: Rows) -> Outcome:
    return judged(sum(column(rows, "twice")) > 0, "more than 0", str(sum(column(rows, "twice"))), "A sum.")


TOY = Experiment(
    name="toy",
    paper="zcurve",
    figure="none",
    set_up="Numbers.",
    configs=lambda scale: grid(n=scale.choose((1, 2, 3), (1, 2, 3, 4))),
    run=_run,
    claims={"T1": _judge},
    charts=(Chart("Values", "n", "value", beside=("twice",)),),
)
