"""False positives by the number of subscriptions: claim D1."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, falls, grid, judged, value_at, where
from tamis_lab.peers.tree_statistics import reach_of, tree_statistics
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

_EVENTS: Final = 2_500


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], 4, rng)
    events = rng.random((_EVENTS, 4))
    rows: list[Row] = []
    for split in SPLITS:
        seats = grow(lo, hi, split)
        tree, reach = tree_statistics(seats), reach_of(seats, events)
        shares = {"false_positives": tree.false_positive_ratio, "sampled": reach.false_positives, "hits": reach.hits}
        rows.append({"split": split, **shares, "height": tree.height})
    return rows


def _judge_sizes(rows: Rows) -> Outcome:
    most = max(column(rows, "false_positives"))
    sizes = sorted(set(column(rows, "n")))
    falling = all(falls(column(where(rows, split=split), "false_positives"), 0.1) for split in SPLITS)
    best = [n for n in sizes if min(where(rows, n=n), key=lambda row: row["false_positives"])["split"] == "r*"]
    told = [f"{split} {value_at(rows, 'false_positives', split=split, n=sizes[-1]):.2%}" for split in SPLITS]
    apart = max(abs(row["sampled"] - row["false_positives"]) for row in rows)
    return judged(
        most < 0.05 and falling and best == sizes,
        "< 5 % for all sizes, slightly falling with them; R* best",
        f"at most {most:.2%}; at {sizes[-1]:,}: {', '.join(told)}",
        f"They {'fall' if falling else 'do not always fall'} with the size (within a tenth); R* is best at "
        f"{len(best)} of {len(sizes)} sizes. Closed form; {_EVENTS:,} sampled events differ by {apart:.3%} at most.",
    )


EXPERIMENT: Final = Experiment(
    name="dr-sizes",
    paper="drtree",
    figure="Fig. 7",
    set_up="Zipf-25:75 subscriptions of four attributes join one after another, 5 to 10 children per node; who "
    "receives a uniform event in vain?",
    readings=READINGS,
    configs=lambda scale: grid(n=scale.choose((250, 500, 1_000), (1_000, 2_500, 5_000, 10_000, 25_000, 50_000))),
    run=_run,
    claims={"D1": _judge_sizes},
    charts=(
        Chart(
            "False positives by the number of subscriptions",
            "n",
            "false_positives",
            ("split",),
            log_x=True,
            x_label="subscriptions",
            y_label="share of peers",
        ),
    ),
)
