"""False positives by the distribution of subscriptions: claim D2."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow, mean_hits
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged, value_at
from tamis_lab.peers.containment import DISTRIBUTIONS, SIDE
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw(config["distribution"], config["n"], 4, rng)
    rows: list[Row] = []
    for split in SPLITS:
        tree = tree_statistics(grow(lo, hi, split))
        rows.append({"split": split, "false_positives": tree.false_positive_ratio, "hits": mean_hits(lo, hi, SIDE)})
    return rows


def _judge_distributions(rows: Rows) -> Outcome:
    def share(distribution: str, split: str = "quadratic") -> float:
        return float(value_at(rows, "false_positives", distribution=distribution, split=split))

    contained = all(
        share(origin, split) > share(f"{origin}-25:75", split) > share(f"{origin}-10:90", split)
        for origin in ("uniform", "zipf")
        for split in SPLITS
    )
    pairs = [(share(f"uniform{kind}"), share(f"zipf{kind}")) for kind in ("", "-25:75", "-10:90")]
    better = sum(uniform < zipf for uniform, zipf in pairs)
    return judged(
        contained and better >= 2,
        "more containment, fewer false positives; uniform slightly better than Zipf",
        ", ".join(f"{name} {share(name):.2%}" for name in DISTRIBUTIONS),
        f"Quadratic split. More containment means fewer {'in every case' if contained else 'NOT in every case'}; "
        f"uniform is better at {better} of 3 ratios.",
    )


EXPERIMENT: Final = Experiment(
    name="dr-distributions",
    paper="drtree",
    figure="Fig. 8",
    set_up="Uniform and Zipf origins, plain, 25:75 and 10:90; four attributes, 5 to 10 children per node.",
    readings=READINGS,
    configs=lambda scale: grid(distribution=DISTRIBUTIONS, n=(scale.choose(500, 10_000),)),
    run=_run,
    claims={"D2": _judge_distributions},
    charts=(
        Chart(
            "False positives by distribution", "distribution", "false_positives", ("split",), y_label="share of peers"
        ),
    ),
)
