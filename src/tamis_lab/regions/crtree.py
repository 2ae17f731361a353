"""The CR-tree against a scan of all constraints: claim SP4."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_bench.workloads.regions import constraint_filters, message_regions, one_filter_each
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, mean
from tamis_lab.plots.charts import Chart
from tamis_lab.regions.matching import TYPES, match_all, scan_matcher, tree_matcher
from tamis_lab.regions.polygons import draw_regions

__all__ = ["EXPERIMENT", "compare_tree"]


def compare_tree(config: Config, rng: np.random.Generator) -> list[Row]:
    """Match messages of every type with a scan and with the CR-tree; a predicate per constraint."""
    regions = draw_regions(config["data"], config["n"], rng)
    subscriptions = one_filter_each(constraint_filters(regions, rng))
    scan, tree = scan_matcher(subscriptions), tree_matcher(subscriptions)
    rows: list[Row] = []
    for kind in TYPES:
        messages = message_regions(kind, config["messages"], rng)
        slow, fast = match_all(scan, messages), match_all(tree, messages)
        rows.append(
            {
                "type": kind,
                "constraints": len(regions),
                "off_seconds": slow.seconds,
                "on_seconds": fast.seconds,
                "evaluated": fast.evaluated / slow.evaluated,
                "same": slow.found == fast.found,
            }
        )
    return rows


def _judge_tree(rows: Rows) -> Outcome:
    same = all(column(rows, "same"))
    told = []
    for kind in TYPES:
        faster = mean(rows, "off_seconds", type=kind) / mean(rows, "on_seconds", type=kind)
        told.append(f"{kind}: {mean(rows, 'evaluated', type=kind):.0%}, {faster:.1f}x")
    return judged(
        same and max(column(rows, "evaluated")) < 1,
        "the CR-tree beats a linear scan even for large regions",
        f"evaluated, and speedup, by type: {'; '.join(told)}",
        "Judged by the constraints whose relation is computed, as a share of all. "
        f"Same answers: {'yes' if same else 'no'}.",
    )


EXPERIMENT: Final = Experiment(
    name="sp-crtree",
    paper="crtree",
    figure="Fig. 4a",
    set_up="Predicates of one constraint on large synthetic regions; the CR-tree against a scan of all constraints.",
    configs=lambda scale: grid(
        data=("synthetic",),
        n=scale.choose((500, 1_000), (1_000, 2_500, 5_000, 10_000)),
        messages=(scale.choose(10, 20),),
    ),
    run=compare_tree,
    claims={"SP4": _judge_tree},
    charts=(
        Chart("Share of constraints evaluated with the CR-tree", "n", "evaluated", ("type",), x_label="constraints"),
        Chart(
            "Time of a message: CR-tree and scan",
            "n",
            "on_seconds",
            ("type",),
            beside=("off_seconds",),
            x_label="constraints",
            y_label="seconds",
        ),
    ),
)
