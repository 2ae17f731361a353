"""How much a higher density changes what matches: claim SP6."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import shapely

from tamis.geometry.relations import RELATIONS
from tamis_bench.workloads.regions import UNIVERSE, message_regions
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged, mean
from tamis_lab.plots.charts import Chart
from tamis_lab.regions.find_relation import find_relation
from tamis_lab.regions.matching import TYPES
from tamis_lab.regions.polygons import REAL, REAL_READING, draw_regions

__all__ = ["EXPERIMENT"]

_DENSITIES: Final = tuple(range(0, 50_001, 10_000))


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Compare the matches of each density with those of the next; only pairs whose MBRs meet can differ."""
    regions = draw_regions(config["data"], config["n"], rng)
    operators = rng.integers(8, size=len(regions))
    messages = message_regions(config["type"], config["messages"], rng)
    tree = shapely.STRtree(regions)
    pairs = [(m, int(c)) for m, region in enumerate(messages) for c in tree.query(region)]
    matched: dict[int, list[bool]] = {}
    for points in _DENSITIES:
        found = (find_relation(messages[m], regions[c], points / sum(UNIVERSE)) for m, c in pairs)
        matched[points] = [each is RELATIONS[operators[c]] for each, (_, c) in zip(found, pairs, strict=True)]
    whole = len(messages) * len(regions)
    return [
        {
            "points": points,
            "difference": sum(a != b for a, b in zip(matched[points], matched[more], strict=True)) / whole,
        }
        for points, more in pairwise(_DENSITIES)
    ]


def _judge_differences(rows: Rows) -> Outcome:
    means = [mean(rows, "difference", points=points) for points in _DENSITIES[:-1]]
    falling = means[-1] <= means[0] and all(b <= a * 1.5 + 1e-5 for a, b in pairwise(means))
    return judged(
        max(means) < 0.01 and falling,
        "tiny and falling",
        ", ".join(f"{each:.4%}" for each in means),
        "Mean over data and types, at 0, 10,000 .. 40,000 further points; a difference is one predicate that matches "
        "at one density only.",
    )


EXPERIMENT: Final = Experiment(
    name="sp-precision",
    paper="crtree",
    figure="Fig. 5",
    set_up="Real regions, messages of three types: how many matches change when 10,000 points are added.",
    readings=(REAL_READING,),
    configs=lambda scale: grid(data=REAL, type=TYPES, n=(scale.choose(300, 3_000),), messages=(scale.choose(3, 30),)),
    run=_run,
    claims={"SP6": _judge_differences},
    charts=(
        Chart(
            "Matches that change with 10,000 more points",
            "points",
            "difference",
            ("type",),
            panels="data",
            x_label="further points of the density",
            y_label="share of predicates",
        ),
    ),
)
