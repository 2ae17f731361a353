"""The CR-tree and the simplifier on real regions: claim SP7."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, mean
from tamis_lab.plots.charts import Chart
from tamis_lab.regions.crtree import compare_tree
from tamis_lab.regions.matching import TYPES
from tamis_lab.regions.polygons import REAL, REAL_READING
from tamis_lab.regions.simplifier import compare_simplifier

__all__ = ["EXPERIMENT"]

#: CR-tree off / on and simplifier off / on by type, as the ratios of Table 3 (California).
_TABLE_3: Final = {"A": (25, 372), "B": (45, 144), "C": (216, 37)}
_PREDICATES: Final = 25


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    if config["part"] == "tree":
        rows = compare_tree(config, rng)
    else:
        rows = compare_simplifier({**config, "predicates": _PREDICATES}, rng)
    return [{**row, "ratio_seconds": row["off_seconds"] / row["on_seconds"]} for row in rows]


def _judge_ratios(rows: Rows) -> Outcome:
    held, told = all(column(rows, "same")), []
    for kind in TYPES:
        tree, simplifier = (mean(rows, "ratio_seconds", part=part, type=kind) for part in ("tree", "simplifier"))
        held &= tree > 1 and simplifier > 1
        told.append(f"{kind} {tree:.0f}x, {simplifier:.1f}x")
    left = mean(rows, "left", part="simplifier")
    return judged(
        held,
        "; ".join(f"{kind} {tree}x, {simplifier}x" for kind, (tree, simplifier) in _TABLE_3.items()),
        "; ".join(told),
        "Ratios only, on other data, and judged by their direction: CR-tree off over on, simplifier off over on; the "
        f"paper's are for California. The simplifier leaves {left:.0%} of the filters. "
        f"Same answers: {'everywhere' if all(column(rows, 'same')) else 'no'}.",
    )


EXPERIMENT: Final = Experiment(
    name="sp-real",
    paper="crtree",
    figure="Table 3",
    set_up="Real regions: the CR-tree off and on with a predicate per constraint; 25 predicates with the simplifier "
    "off and on.",
    readings=(REAL_READING,),
    configs=lambda scale: grid(
        part=("tree", "simplifier"),
        data=REAL,
        n=(scale.choose(400, 4_000),),
        messages=(scale.choose(5, 20),),
    ),
    run=_run,
    claims={"SP7": _judge_ratios},
    charts=(
        Chart(
            "Time off / on",
            "type",
            "ratio_seconds",
            ("data",),
            panels="part",
            x_label="type of message",
            y_label="times as fast",
        ),
    ),
)
