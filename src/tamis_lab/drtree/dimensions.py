"""False positives and hits by the number of attributes: claim D3."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow, mean_hits
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.peers.containment import SIDE
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, interval, steps, values_of
from tamis_lab.verdicts import Decision, Judge, all_below

__all__ = ["EXPERIMENT"]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], config["d"], rng)
    rows: list[Row] = []
    for split in SPLITS:
        tree = tree_statistics(grow(lo, hi, split))
        rows.append({"split": split, "false_positives": tree.false_positive_ratio, "hits": mean_hits(lo, hi, SIDE)})
    return rows


def _decide_dimensions(rows: Rows) -> Decision:
    dimensions = values_of(rows, "d")
    by_split = {split: steps(rows, "false_positives", by="d", split=split) for split in SPLITS}
    clauses = [
        all_below("hits, from a number of attributes to the next,", steps(rows, "hits", by="d"), 1),
        all_below("false positives, the same,", [step for some in by_split.values() for step in some], 1),
    ]
    falling = {
        split: dimensions[max((place for place, step in enumerate(some, 1) if step.high >= 1), default=0)]
        for split, some in by_split.items()
    }
    ours = ", ".join(f"{d}: {interval(rows, 'false_positives', split='quadratic', d=d):.2%}" for d in dimensions)
    remark = f"They surely fall from here on: {', '.join(f'{split} d = {d}' for split, d in falling.items())}."
    return Decision(clauses, f"quadratic: {ours}", remark)


def _made_up() -> Rows:
    return [
        {
            "seed": seed,
            "d": d,
            "split": split,
            "false_positives": (0.03 + seed / 1e3) / d,
            "hits": (0.1 + seed / 100) / d,
        }
        for seed in range(3)
        for d in (2, 4, 6)
        for split in SPLITS
    ]


CLAIMS: Final = {
    "D3": Judge(
        rule="Hits and false positives fall with every step of the number of attributes, for all splits.",
        reason="Figs. 9 and 10 are read as 'falls with the dimension, because hits fall'; the text names no exception.",
        paper_value="falls with the dimension, because hits fall",
        decide=_decide_dimensions,
        passing=_made_up,
        failing={
            "false positives rise first": changed(
                false_positives=lambda row: 0.01 if row["d"] == 2 else row["false_positives"] + 0.02
            ),
            "hits do not fall": changed(hits=lambda row: row["d"] / 100),
        },
    ),
}


EXPERIMENT: Final = Experiment(
    name="dr-dimensions",
    paper="drtree",
    figure="Figs. 9 and 10",
    set_up="Zipf-25:75 subscriptions of 2 to 12 attributes, 5 to 10 children per node.",
    readings=READINGS,
    configs=lambda scale: grid(d=(2, 4, 6, 8, 10, 12), n=(scale.choose(100, 10_000),), seed=range(SEEDS)),
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart(
            "False positives by attributes", "d", "false_positives", ("split",), x_label="attributes", y_label="share"
        ),
        Chart("Hits by attributes", "d", "hits", x_label="attributes", y_label="share of peers", log_y=True),
    ),
)
