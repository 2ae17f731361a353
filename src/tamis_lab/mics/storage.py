"""How many ranges a table stores: claims M7 and M8."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.curves.hilbert import HilbertCurve
from tamis.index.mics.table import RangeTable
from tamis_lab.experiment import (
    Config,
    Experiment,
    Outcome,
    Row,
    Rows,
    Scale,
    column,
    grid,
    judged,
    rises,
    value_at,
    where,
)
from tamis_lab.mics.drawing import BITS, KINDS, READINGS, draw_boxes
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

_STEPS: Final = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)


def _configs(scale: Scale) -> list[Config]:
    every = grid(d=(2, 3, 4), kind=KINDS, size=(2, 4, 8), most=(scale.choose(10_000, 100_000, 1_000_000),))
    return [config for config in every if config["d"] == 3 or config["size"] == 2]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    d, most = config["d"], config["most"]
    curve = HilbertCurve(d, BITS)
    table, boxes = RangeTable(curve.n_keys), draw_boxes(most, d, config["kind"], config["size"], rng)
    rows: list[Row] = []
    filled = 0
    for n in (step for step in _STEPS if step <= most):
        table.add(curve.ranges_of(boxes[filled:n])[1])
        filled = n
        rows.append({"n": n, "stored": len(table.ranges()), "given": n * d, "share": len(table.ranges()) / (n * d)})
    return rows


def _judge_fewer(rows: Rows) -> Outcome:
    two = where(rows, size=2)
    most = max(column(two, "n"))
    grows = all(rises([value_at(two, "stored", d=d, kind=kind, n=most) for d in (2, 3, 4)]) for kind in KINDS)
    fewer = sum(share < 1 for share in column(two, "share"))
    share = {kind: float(np.mean(column(where(two, kind=kind), "share"))) for kind in KINDS}
    told = [f"{kind} {d}-d {value_at(two, 'share', d=d, kind=kind, n=most):.2f}" for kind in KINDS for d in (2, 3, 4)]
    return judged(
        grows and fewer == len(two) and share["zipf"] < share["uniform"],
        "grow with d; fewer than n*d in both distributions; reduction larger for Zipf",
        f"stored / (n d) at {most:,}: {', '.join(told)}",
        f"They {'grow' if grows else 'do not always grow'} with d. Fewer than n*d at {fewer} of {len(two)} points: a "
        "cube of 2 cells is 2^(d-1) ranges on average, more than d from 3-d on, unless subscriptions overlap.",
    )


def _judge_slowing(rows: Rows) -> Outcome:
    three = where(rows, d=3)
    least = min(column(three, "n"))
    ordered = all(rises([value_at(three, "stored", size=s, kind=kind, n=least) for s in (2, 4, 8)]) for kind in KINDS)
    slowing = {kind: _slowing(where(three, size=4, kind=kind)) for kind in KINDS}
    filled = column(where(three, size=8, kind="uniform"), "stored")
    return judged(
        ordered and slowing["zipf"] < 1 and slowing["uniform"] < 1.02 and slowing["zipf"] < slowing["uniform"],
        "grow from size 2 to 4 to 8, growth slows with n, more so for Zipf",
        f"ranges per further subscription, last to first: Zipf {slowing['zipf']:.2f}, uniform {slowing['uniform']:.2f}",
        f"In three dimensions; size 4 for the slowing, the order of sizes at {least:,} subscriptions. Of size 8 "
        f"uniform ones fill the space in the end, and ranges grow together: {max(filled):,} at most, {filled[-1]:,} "
        "at last.",
    )


def _slowing(rows: Rows) -> float:
    """Return how many ranges the last subscriptions add, relative to the first ones."""
    ordered = sorted(rows, key=lambda row: row["n"])
    first, before, last = ordered[0], ordered[-2], ordered[-1]
    slope = (last["stored"] - before["stored"]) / (last["n"] - before["n"])
    return float(slope / (first["stored"] / first["n"]))


EXPERIMENT: Final = Experiment(
    name="m-storage",
    paper="mics",
    figure="Figs. 11 and 12",
    set_up="Ranges a table stores after covering, subsumption and merging, as subscriptions are added.",
    readings=READINGS,
    configs=_configs,
    run=_run,
    claims={"M7": _judge_fewer, "M8": _judge_slowing},
    charts=(
        Chart(
            "Stored ranges, 2 cells a side",
            "n",
            "stored",
            ("d",),
            panels="kind",
            only={"size": 2},
            log_x=True,
            log_y=True,
            x_label="subscriptions",
        ),
        Chart(
            "Stored ranges, 3-d",
            "n",
            "stored",
            ("size",),
            panels="kind",
            only={"d": 3},
            log_x=True,
            log_y=True,
            x_label="subscriptions",
        ),
    ),
)
