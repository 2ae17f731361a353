"""The distributed R-tree toward ten million peers: trees that were grown, and straight lines through what they show.

Real peers join one by one up to a size that fits this machine (`tamis_lab.peers.express` carries their mail). Beyond it
the share of peers that get a uniform event in vain goes on as a straight line on logarithmic axes. The share that want
it is the mean volume of a subscription, at any size; both together, times n, are the peers that an event reaches. The
height needs no line: a node has m to M children, so it lies between two logarithms. The largest tree grown is also
predicted from the smaller ones, and the lesson says how far off that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tamis_lab.drtree.trees import DEFAULT, READINGS, Floats, draw, grow, mean_hits
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.peers.containment import SIDE
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, column, where

__all__ = ["EXPERIMENT", "straight_line"]

#: The sizes that are predicted; how many trees are grown, each twice the one before, and how many a line goes through.
_PREDICTED: Final = (100_000, 1_000_000, 10_000_000)
_GROWN: Final = 5
_FITTED: Final = 4
_SPLITS: Final = ("quadratic", "r*")


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["most"], 4, rng)
    hits = mean_hits(lo, hi, SIDE)
    sizes = [config["most"] >> halved for halved in reversed(range(_GROWN))]
    rows: list[Row] = []
    for split in _SPLITS:
        grown = [_grown(lo[:n], hi[:n], split) for n in sizes]
        check = {**_predicted(grown[:-1], sizes[-1]), "check": True}
        of_split = [*grown, *(_predicted(grown, n) for n in _PREDICTED), check]
        rows += [{"split": split, **row, "reached": (row["false_positives"] + hits) * row["n"]} for row in of_split]
    return [{**row, "hits": hits} for row in rows]


def _grown(lo: Floats, hi: Floats, split: str) -> Row:
    tree = tree_statistics(grow(lo, hi, split))
    return {
        "n": len(lo),
        "grown": True,
        "check": False,
        "height": tree.height,
        "false_positives": tree.false_positive_ratio,
    }


def _predicted(rows: Rows, n: int) -> Row:
    share = straight_line(column(rows, "n"), column(rows, "false_positives"), n)
    least, most = math.log(n, DEFAULT[1]), 1 + math.log(n / 2, DEFAULT[0])
    heights = {"least_height": math.ceil(least), "most_height": math.floor(most)}
    return {"n": n, "grown": False, "check": False, **heights, "false_positives": share}


def straight_line(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Return y at x of the straight line on logarithmic axes through the last few points.

    >>> round(straight_line([1, 10, 100], [8, 4, 2], 1_000), 6)
    1.0
    """
    line = np.polyfit(np.log(xs[-_FITTED:]), np.log(ys[-_FITTED:]), 1)
    return float(np.exp(np.polyval(line, math.log(x))))


def _lesson(rows: Rows) -> str:
    last = where(rows, n=_PREDICTED[-1])
    in_vain = ", ".join(f"{row['false_positives']:.3%} of the peers ({row['split']})" for row in last)
    apart = []
    for check in where(rows, check=True):
        [grown] = where(rows, split=check["split"], n=check["n"], grown=True)
        apart.append(abs(math.log(check["false_positives"] / grown["false_positives"])))
    largest = max(column(where(rows, grown=True), "n"))
    heights = f"{last[0]['least_height']} to {last[0]['most_height']}"
    return (
        f"At {_PREDICTED[-1]:,} peers with a subscription each an event comes in vain to {in_vain}; "
        f"{last[0]['hits']:.2%} want it; the height is {heights}. Grown up to {largest:,} peers, a straight line on "
        f"logarithmic axes beyond; the same line through the smaller trees misses the largest by a factor of "
        f"{math.exp(max(apart)):.2f} at most."
    )


EXPERIMENT: Final = Experiment(
    name="b-overlay",
    paper="beyond",
    figure="toward 10^7 peers of a distributed R-tree",
    set_up="Zipf-25:75 subscriptions of four attributes, a peer for each, 5 to 10 children per node: who gets a "
    "uniform event in vain, by growing trees and a straight line beyond them.",
    readings=(
        *READINGS,
        "Beyond the largest tree shares go on as a straight line on logarithmic axes: assumed, and marked in the rows.",
    ),
    configs=lambda scale: grid(most=(scale.choose(1_000, 8_000, 16_000),)),
    run=_run,
    lesson=_lesson,
    charts=(
        Chart(
            "Peers that get an event in vain",
            "n",
            "false_positives",
            ("split",),
            beside=("hits",),
            only={"check": False},
            log_x=True,
            log_y=True,
            x_label="peers",
            y_label="share of peers",
        ),
    ),
)
