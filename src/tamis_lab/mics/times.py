"""How long insertion, covering and matching take as the table grows: claims M5 and M6."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np

from tamis.curves.hilbert import HilbertCurve
from tamis.index.mics.table import RangeTable
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, mean, rises
from tamis_lab.mics.drawing import BITS, KINDS, READINGS, Cells, draw_boxes, draw_cells, ranges_of_each
from tamis_lab.plots.charts import Chart
from tamis_lab.timing import median_seconds

__all__ = ["EXPERIMENT"]

_WORKS: Final = ("insertion", "covering", "matching")
_FIRST: Final = 1_000
_ASKED: Final = 500
_SCANNED: Final = 50
#: A ratio of two times that is above this is not below 1: the clock is no better.
_EQUAL: Final = 0.95


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Fill a table up to each size; time the next insertions, coverings and matchings there, and linear scans."""
    d, kind = config["d"], config["kind"]
    curve = HilbertCurve(d, BITS)
    table, held = RangeTable(curve.n_keys), draw_boxes(config["most"], d, kind, 2, rng)
    rows: list[Row] = []
    filled, n = 0, _FIRST
    while n <= config["most"]:
        for ranges in ranges_of_each(curve, held[filled:n]):
            table.add(ranges)
        fresh, cells = draw_boxes(_ASKED, d, kind, 2, rng), draw_cells(_ASKED, d, "uniform", rng)
        rows.append({"n": n, **_time_table(table, curve, fresh, cells), **_time_scan(held[:n], fresh, cells)})
        filled, n = n, n * 10
    return rows


def _time_table(table: RangeTable, curve: HilbertCurve, fresh: Cells, cells: Cells) -> dict[str, float]:
    each, keys = ranges_of_each(curve, fresh), curve.keys(cells).tolist()
    spent = {
        "covering_seconds": median_seconds(partial(table.covers, ranges) for ranges in each),
        "matching_seconds": median_seconds(partial(table.matches, [key]) for key in keys),
        "insertion_seconds": median_seconds(partial(table.add, ranges) for ranges in each),
    }
    for ranges in each:
        table.remove(ranges)
    return spent


def _time_scan(held: Cells, fresh: Cells, cells: Cells) -> dict[str, float]:
    def scan(low: Cells, high: Cells) -> bool:
        return bool(((held[:, 0] <= low) & (held[:, 1] >= high)).all(axis=1).any())

    return {
        "linear_covering_seconds": median_seconds(partial(scan, low, high) for low, high in fresh[:_SCANNED]),
        "linear_matching_seconds": median_seconds(partial(scan, cell, cell) for cell in cells[:_SCANNED]),
    }


def _growth(rows: Rows, works: Iterable[str]) -> float:
    """Return by how much the time of any table grew at most, from the first to the last size."""
    most = max(column(rows, "n"))
    return max(
        mean(rows, f"{work}_seconds", d=d, kind=kind, n=most) / mean(rows, f"{work}_seconds", d=d, kind=kind, n=_FIRST)
        for d in (2, 3, 4)
        for kind in KINDS
        for work in works
    )


def _uniform_to_zipf(rows: Rows, work: str) -> float:
    most = max(column(rows, "n"))
    name = f"{work}_seconds"
    return mean(rows, name, kind="uniform", n=most) / mean(rows, name, kind="zipf", n=most)


def _judge_insertion(rows: Rows) -> Outcome:
    most = max(column(rows, "n"))
    by_d = [mean(rows, "insertion_seconds", d=d, n=most) for d in (2, 3, 4)]
    growth, slower = _growth(rows, ["insertion"]), _uniform_to_zipf(rows, "insertion")
    return judged(
        growth < 3 and rises(by_d, 0.1) and slower > _EQUAL,
        "about 0.1 ms, flat in table size; grows with d; uniform slower than Zipf",
        ", ".join(f"{each * 1e3:.3f} ms" for each in by_d) + " (2, 3, 4-d)",
        f"From {_FIRST:,} to {most:,} subscriptions it grows {growth:.1f}x at most; uniform takes {slower:.2f}x of "
        "Zipf; what is equal within a twentieth does not decide.",
    )


def _judge_covering_and_matching(rows: Rows) -> Outcome:
    most = max(column(rows, "n"))
    faster = [
        row[f"linear_{work}_seconds"] / row[f"{work}_seconds"]
        for row in rows
        if row["n"] == most
        for work in ("covering", "matching")
    ]
    growth, slower = _growth(rows, ("covering", "matching")), _uniform_to_zipf(rows, "matching")
    return judged(
        min(faster) > 1 and growth < 3 and slower > _EQUAL,
        "covering and matching far below linear and flat; matching faster for Zipf",
        f"{min(faster):.1f}x to {max(faster):,.0f}x as fast as a linear scan at {most:,}",
        f"Growth from {_FIRST:,} on is {growth:.1f}x at most. Matching with uniform subscriptions takes "
        f"{slower:.2f}x of Zipf; what is equal within a twentieth does not decide. The scan is vectorised.",
    )


EXPERIMENT: Final = Experiment(
    name="m-times",
    paper="mics",
    figure="Figs. 8 to 10",
    set_up="A table of 2-cell subscriptions grows tenfold; the next insertions, coverings and matchings are timed.",
    readings=READINGS,
    configs=lambda scale: grid(d=(2, 3, 4), kind=KINDS, most=(scale.choose(10_000, 100_000, 1_000_000),)),
    run=_run,
    claims={"M5": _judge_insertion, "M6": _judge_covering_and_matching},
    charts=tuple(
        Chart(
            f"{work.capitalize()} of one",
            "n",
            f"{work}_seconds",
            ("d",),
            panels="kind",
            beside=() if work == "insertion" else (f"linear_{work}_seconds",),
            log_x=True,
            log_y=True,
            x_label="subscriptions",
            y_label="seconds",
        )
        for work in _WORKS
    ),
)
