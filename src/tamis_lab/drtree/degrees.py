"""False positives and neighbours by the size of nodes: claims D5 and D6."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, falls, grid, judged, value_at, where
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

_LIMITS: Final = {5: 2, 10: 5, 20: 10, 30: 15, 40: 20}
#: Table 2: maximum, average and variance of the degree, by split and M.
_TABLE_2: Final = {
    "quadratic": {5: (20, 4.59, 5.09), 10: (29, 7.99, 10.98), 20: (51, 14.92, 25.40), 30: (51, 21.91, 35.70)},
    "linear": {5: (19, 4.61, 5.08), 10: (28, 7.93, 10.66), 20: (37, 14.82, 23.15), 30: (50, 21.69, 33.52)},
    "r*": {5: (25, 3.91, 8.47), 10: (30, 7.49, 16.27), 20: (42, 15.05, 32.87), 30: (57, 22.28, 56.29)},
}
_TABLE_2["quadratic"][40] = (68, 28.02, 55.38)
_TABLE_2["linear"][40] = (60, 28.39, 54.02)
_TABLE_2["r*"][40] = (77, 30.00, 81.10)
#: How far the average may be off, by split; maximum and variance by `_WIDER`.
_NEAR: Final = {"quadratic": 0.05, "linear": 0.05, "r*": 0.13}
_WIDER: Final = 0.35


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], 4, rng)
    rows: list[Row] = []
    for most, least in _LIMITS.items():
        tree = tree_statistics(grow(lo, hi, config["split"], (least, most)))
        degree = {"largest": tree.degree_max, "average": tree.degree_avg, "variance": tree.degree_variance}
        rows.append({"most": most, "false_positives": tree.false_positive_ratio, "height": tree.height, **degree})
    return rows


def _judge_accuracy(rows: Rows) -> Outcome:
    shares = {split: column(where(rows, split=split), "false_positives") for split in SPLITS}
    falling = [split for split in SPLITS if falls(shares[split])]
    told = ", ".join(f"M = {most}: {share:.2%}" for most, share in zip(_LIMITS, shares["quadratic"], strict=True))
    gained = (shares["quadratic"][0] - shares["quadratic"][2]) / (shares["quadratic"][0] - shares["quadratic"][-1])
    return judged(
        len(falling) == len(SPLITS),
        "a larger degree means fewer false positives; M = 20 is a good compromise",
        f"quadratic: {told}",
        f"They fall with every step for {', '.join(falling) or 'no split'}. With M = 20 a node has gained "
        f"{gained:.0%} of what M = 40 gains over M = 5.",
    )


def _judge_table(rows: Rows) -> Outcome:
    off: dict[str, list[float]] = {name: [] for name in ("average", "largest", "variance")}
    missed = []
    for split, table in _TABLE_2.items():
        for most, (largest, average, variance) in table.items():
            [row] = where(rows, split=split, most=most)
            apart = {"largest": row["largest"] / largest, "variance": row["variance"] / variance}
            apart["average"] = row["average"] / average
            for name, ratio in apart.items():
                off[name].append(abs(ratio - 1))
            if abs(apart["average"] - 1) > _NEAR[split] or max(off["largest"][-1], off["variance"][-1]) > _WIDER:
                missed.append(f"{split} M = {most}")
    default = value_at(rows, "average", split="quadratic", most=10)
    return judged(
        not missed,
        "(5,10) quadratic: 29 / 7.99 / 10.98 (maximum, average, variance), and 14 others",
        f"average within {max(off['average']):.0%}, maximum {max(off['largest']):.0%}, variance "
        f"{max(off['variance']):.0%}; {default:.2f} at (5,10) quadratic",
        "Pass: average within 5 % (R*: 13 %), the others within 35 %, in all 15 cases."
        + (f" Not within: {', '.join(missed)}." if missed else ""),
    )


EXPERIMENT: Final = Experiment(
    name="dr-degrees",
    paper="drtree",
    figure="Fig. 12, Table 2",
    set_up="Zipf-25:75 subscriptions of four attributes; nodes of at most 5, 10, 20, 30, 40 children.",
    readings=(
        *READINGS,
        "Degree: children over all nodes of a peer but itself, and the parent of its topmost node; inner peers only.",
    ),
    configs=lambda scale: grid(split=SPLITS, n=(scale.choose(1_000, 10_000),)),
    run=_run,
    claims={"D5": _judge_accuracy, "D6": _judge_table},
    charts=(
        Chart(
            "False positives by the size of nodes",
            "most",
            "false_positives",
            ("split",),
            x_label="M, the most children",
            y_label="share of peers",
        ),
        Chart("Neighbours of an inner peer", "most", "average", ("split",), x_label="M, the most children"),
    ),
)
