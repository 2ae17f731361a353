"""What simplifying predicates saves: claim SP5."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tamis.algebra.simplify import simplify_filters
from tamis_bench.workloads.regions import constraint_filters, message_regions, predicates
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, mean
from tamis_lab.plots.charts import Chart
from tamis_lab.regions.matching import TYPES, match_all, tree_matcher
from tamis_lab.regions.polygons import draw_regions

__all__ = ["EXPERIMENT", "compare_simplifier"]


def compare_simplifier(config: Config, rng: np.random.Generator) -> list[Row]:
    """Match messages with predicates as they are and simplified; filters of two constraints."""
    regions = draw_regions(config["data"], config["n"], rng)
    raw = predicates(constraint_filters(regions, rng, per_filter=2), config["predicates"])
    simple = [replace(each, filters=simplify_filters(each.filters)) for each in raw]
    plain, simplified = tree_matcher(raw), tree_matcher(simple)
    left = sum(len(each.filters) for each in simple) / sum(len(each.filters) for each in raw)
    rows: list[Row] = []
    for kind in TYPES:
        messages = message_regions(kind, config["messages"], rng)
        off, on = match_all(plain, messages), match_all(simplified, messages)
        rows.append(
            {
                "type": kind,
                "constraints": len(regions),
                "left": left,
                "off_seconds": off.seconds,
                "on_seconds": on.seconds,
                "evaluated_off": off.evaluated,
                "evaluated_on": on.evaluated,
                "same": off.found == on.found,
            }
        )
    return rows


def _judge_simplifier(rows: Rows) -> Outcome:
    same, sizes = all(column(rows, "same")), sorted(set(column(rows, "n")))
    first, last = sizes[0], sizes[-1]
    growth = {
        state: mean(rows, f"evaluated_{state}", n=last) / mean(rows, f"evaluated_{state}", n=first) / (last / first)
        for state in ("off", "on")
    }
    fewer = mean(rows, "evaluated_on", n=last) / mean(rows, "evaluated_off", n=last)
    return judged(
        same and max(growth.values()) < 1 and fewer < 1,
        "time flattens as predicates grow; the simplifier flattens it earlier",
        f"evaluations grow {growth['off']:.2f} times as fast as constraints without it, {growth['on']:.2f} with it",
        f"From {first:,} to {last:,} constraints in 5, 15 and 25 predicates; simplified sets evaluate {fewer:.0%} of "
        f"the constraints at the largest. Same answers: {'yes' if same else 'no'}.",
    )


EXPERIMENT: Final = Experiment(
    name="sp-simplifier",
    paper="crtree",
    figure="Fig. 4b",
    set_up="Filters of two constraints shared out over 5, 15 or 25 predicates, as they are and simplified.",
    configs=lambda scale: grid(
        data=("synthetic",),
        n=scale.choose((200, 800), (500, 1_000, 2_000, 4_000)),
        predicates=(5, 15, 25),
        messages=(scale.choose(10, 20),),
    ),
    run=compare_simplifier,
    claims={"SP5": _judge_simplifier},
    charts=(
        Chart(
            "Constraints evaluated for a message, simplified and not",
            "n",
            "evaluated_on",
            ("predicates",),
            beside=("evaluated_off",),
            x_label="constraints",
            y_label="evaluated",
        ),
    ),
)
