"""The root that a containment tree would need: claim D7."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged, mean
from tamis_lab.peers.containment import containment_boxes
from tamis_lab.plots.charts import Chart
from tamis_lab.uncovered import count_uncovered

__all__ = ["EXPERIMENT"]

_DRAWS: Final = 5


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    rows: list[Row] = []
    for draw in range(_DRAWS):
        seed, side = int(rng.integers(2**31)), config["largest_side"]
        boxes = np.stack(containment_boxes("zipf-25:75", config["n"], seed=seed, largest=side), axis=1)
        children = count_uncovered(boxes)
        rows.append({"draw": draw, "children": children, "share": children / config["n"]})
    return rows


def _judge_root(rows: Rows) -> Outcome:
    share = {side: mean(rows, "share", largest_side=side) for side in (400, 1_000)}
    return judged(
        0.8 <= share[1_000] / 0.2 <= 1.25,
        "about 2000 of 10,000 (20 %)",
        f"{share[1_000]:.1%}; with sides of at most 400: {share[400]:.1%}",
        "Subscriptions that no other one contains, the mean of five draws. The paper does not say how long sides are: "
        "where they may be as long as the domain, many more are contained; shorter sides come near its number.",
    )


EXPERIMENT: Final = Experiment(
    name="dr-containment",
    paper="drtree",
    figure="section 5, comparison with a containment tree",
    set_up="Zipf-25:75 subscriptions of four attributes: how many stand in no other one, below a virtual root?",
    readings=READINGS,
    configs=lambda scale: grid(largest_side=(400, 1_000), n=(scale.choose(2_000, 10_000),)),
    run=_run,
    claims={"D7": _judge_root},
    charts=(
        Chart("Children of the virtual root", "draw", "share", ("largest_side",), y_label="share of subscriptions"),
    ),
)
