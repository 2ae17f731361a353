"""Which curve cuts a box into the fewest ranges: claim M15."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.experiment import SEEDS, Config, Experiment
from tamis_lab.mics.drawing import BITS, SIDE
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, grouped, interval, ratio
from tamis_lab.verdicts import Decision, Judge, all_below
from tamis_lab.zcurve.curve_runs import CURVES, count_runs_of_boxes

__all__ = ["EXPERIMENT"]

_BOXES: Final = 50
#: The sides in cells, by dimension: those of Table 1 whose cells can all be counted.
_SIZES: Final = {2: (2, 4, 8, 16), 3: (2, 4, 8), 4: (2, 4)}


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    d, size = config["d"], config["size"]
    low = rng.integers(0, SIDE - size + 1, (_BOXES, d))
    sides = np.full(d, size)
    return [{"curve": name, "ranges": float(count_runs_of_boxes(low, sides, BITS, name).mean())} for name in CURVES]


def _decide_fewest(rows: Rows) -> Decision:
    others = [name for name in CURVES if name != "hilbert"]
    cases = list(grouped(rows, "d", "size"))
    clauses = [
        all_below(
            f"ranges of Hilbert over those of {name}",
            [ratio(rows, "ranges", top={"curve": "hilbert"}, bottom={"curve": name}, d=d, size=s) for d, s in cases],
            1,
        )
        for name in others
    ]
    ours = "; ".join(
        f"{d}-d, {size} cells: "
        + ", ".join(f"{name} {interval(rows, 'ranges', d=d, size=size, curve=name):.3g}" for name in CURVES)
        for d, size in cases
        if size == max(s for other, s in cases if other == d)
    )
    return Decision(clauses, ours)


def _made_up() -> Rows:
    return [
        {"seed": seed, "d": d, "size": size, "curve": name, "ranges": (size + seed / 10) * share}
        for seed in range(3)
        for d in (2, 3)
        for size in (4, 8)
        for name, share in (("z", 1.6), ("gray", 1.3), ("hilbert", 1.0))
    ]


CLAIMS: Final = {
    "M15": Judge(
        rule="In 2, 3 and 4 dimensions a random box of any size has fewer ranges on the Hilbert curve than on the Z "
        "and on the Gray code curve.",
        reason="The paper chooses the Hilbert curve because it keeps neighbouring cells together best; ranges are what "
        "its tables store.",
        paper_value="the Hilbert curve clusters best, so that a subscription has the fewest ranges",
        decide=_decide_fewest,
        passing=_made_up,
        failing={
            "Z has fewer": changed(ranges=lambda row: row["ranges"] / (4 if row["curve"] == "z" else 1)),
            "Gray has fewer": changed(ranges=lambda row: row["ranges"] / (4 if row["curve"] == "gray" else 1)),
        },
    ),
}

EXPERIMENT: Final = Experiment(
    name="m-curves",
    paper="mics",
    figure="section 3, the choice of the curve",
    set_up="Boxes at random places of a grid of 256 cells to an axis: ranges on three curves, all cells counted.",
    configs=lambda scale: [{"d": d, "size": size} for d, sizes in _SIZES.items() for size in sizes],
    run=_run,
    draws=SEEDS,
    claims=CLAIMS,
    charts=(Chart("Ranges of a box", "size", "ranges", ("curve",), panels="d", log_y=True, x_label="cells of a side"),),
)
