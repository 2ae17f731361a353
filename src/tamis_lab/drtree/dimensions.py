"""False positives and hits by the number of attributes: claim D3."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow, mean_hits
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, falls, grid, judged, value_at, where
from tamis_lab.peers.containment import SIDE
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], config["d"], rng)
    rows: list[Row] = []
    for split in SPLITS:
        tree = tree_statistics(grow(lo, hi, split))
        rows.append({"split": split, "false_positives": tree.false_positive_ratio, "hits": mean_hits(lo, hi, SIDE)})
    return rows


def _judge_dimensions(rows: Rows) -> Outcome:
    dimensions = sorted(set(column(rows, "d")))
    shares = {split: column(where(rows, split=split), "false_positives") for split in SPLITS}
    falling = {split: _falling_from(dimensions, shares[split]) for split in SPLITS}
    hits = falls([value_at(rows, "hits", split="quadratic", d=d) for d in dimensions])
    told = ", ".join(f"{d}: {share:.2%}" for d, share in zip(dimensions, shares["quadratic"], strict=True))
    from_where = ", ".join(f"{split} from d = {d}" for split, d in falling.items())
    return judged(
        hits and all(d == dimensions[0] for d in falling.values()),
        "falls with the dimension, because hits fall",
        f"quadratic: {told}",
        f"Hits {'fall' if hits else 'do not fall'} with every attribute. False positives fall only {from_where}; they "
        "rise before.",
    )


def _falling_from(dimensions: list[int], shares: list[float]) -> int:
    """Return the dimension from which on every further attribute means fewer."""
    rising = [place for place, (a, b) in enumerate(pairwise(shares), 1) if b > a]
    return dimensions[rising[-1] if rising else 0]


EXPERIMENT: Final = Experiment(
    name="dr-dimensions",
    paper="drtree",
    figure="Figs. 9 and 10",
    set_up="Zipf-25:75 subscriptions of 2 to 12 attributes, 5 to 10 children per node.",
    readings=READINGS,
    configs=lambda scale: grid(d=(2, 4, 6, 8, 10, 12), n=(scale.choose(500, 10_000),)),
    run=_run,
    claims={"D3": _judge_dimensions},
    charts=(
        Chart(
            "False positives by attributes", "d", "false_positives", ("split",), x_label="attributes", y_label="share"
        ),
        Chart("Hits by attributes", "d", "hits", x_label="attributes", y_label="share of peers", log_y=True),
    ),
)
