"""How long insertion, covering and matching take as the table grows: claims M5 and M6."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from tamis.curves.hilbert import HilbertCurve
from tamis.index.mics.table import RangeTable
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import Interval, bootstrap
from tamis_lab.mics.drawing import BITS, KINDS, READINGS, Cells, draw_boxes, draw_cells, ranges_of_each
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, interval, per_seed, ratio, where
from tamis_lab.timing import median_seconds
from tamis_lab.verdicts import Change, Decision, Judge, all_above, all_below

__all__ = ["EXPERIMENT"]

_WORKS: Final = ("insertion", "covering", "matching")
_DIMENSIONS: Final = (2, 3, 4)
_FIRST: Final = 1_000
_QUESTIONS: Final = 200
_SCANNED: Final = 20
#: Growth of a time over the whole range of sizes that still counts as flat: a logarithm grows by 1.7.
_FLAT: Final = 2.0
#: How many times as fast as a scan is far below linear.
_FAR: Final = 10.0


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Fill a table up to each size; time the next insertions, coverings and matchings there, and linear scans."""
    d, kind = config["d"], config["kind"]
    curve = HilbertCurve(d, BITS)
    table, held = RangeTable(curve.n_keys), draw_boxes(config["most"], d, kind, 2, rng)
    rows: list[Row] = []
    filled, n = 0, _FIRST
    while n <= config["most"]:
        table.add(curve.ranges_of(held[filled:n])[1])
        fresh, cells = draw_boxes(_QUESTIONS, d, kind, 2, rng), draw_cells(_QUESTIONS, d, "uniform", rng)
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


def _growths(rows: Rows, work: str) -> list[Interval]:
    """Return by how much the time of each table grew, from the first to the last size."""
    sizes = {"top": {"n": max(column(rows, "n"))}, "bottom": {"n": _FIRST}}
    return [ratio(rows, f"{work}_seconds", **sizes, d=d, kind=kind) for d in _DIMENSIONS for kind in KINDS]


def _uniform_to_zipf(rows: Rows, work: str) -> list[Interval]:
    """Return the time with uniform subscriptions over that with Zipf ones at the last size, by dimension."""
    kinds, most = {"top": {"kind": "uniform"}, "bottom": {"kind": "zipf"}}, max(column(rows, "n"))
    return [ratio(rows, f"{work}_seconds", **kinds, d=d, n=most) for d in _DIMENSIONS]


def _decide_insertion(rows: Rows) -> Decision:
    last = where(rows, n=max(column(rows, "n")))
    by_d = [ratio(last, "insertion_seconds", top={"d": d + 1}, bottom={"d": d}) for d in (2, 3)]
    slower = _uniform_to_zipf(rows, "insertion")
    clauses = [
        all_below(f"growth from {_FIRST:,} to {last[0]['n']:,}", _growths(rows, "insertion"), _FLAT),
        all_above("time of d + 1 over d attributes", by_d, 1),
        all_above("uniform over Zipf", slower, 1),
    ]
    times = ", ".join(f"{interval(last, 'insertion_seconds', d=d).middle * 1e3:.3f} ms" for d in _DIMENSIONS)
    return Decision(clauses, f"uniform over Zipf {_listed(slower)}; {times} (2, 3, 4-d)")


def _decide_covering_and_matching(rows: Rows) -> Decision:
    last, clauses = where(rows, n=max(column(rows, "n"))), []
    for work in ("covering", "matching"):
        faster = [_times_as_fast(where(last, d=d, kind=kind), work) for d in _DIMENSIONS for kind in KINDS]
        clauses.append(all_above(f"{work}: time of a scan over ours", faster, _FAR))
        clauses.append(all_below(f"{work}: growth from {_FIRST:,} to {last[0]['n']:,}", _growths(rows, work), _FLAT))
    slower = _uniform_to_zipf(rows, "matching")
    clauses.append(all_above("matching, uniform over Zipf", slower, 1))
    return Decision(clauses, f"matching, uniform over Zipf: {_listed(slower)} (2, 3, 4-d)", "The scan is vectorised.")


def _times_as_fast(rows: Rows, work: str) -> Interval:
    scan, ours = (per_seed(rows, f"{name}_seconds") for name in (f"linear_{work}", work))
    return bootstrap([a / b for a, b in zip(scan, ours, strict=True)])


def _listed(values: list[Interval]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _made_up() -> Rows:
    return [
        {"seed": seed, "d": d, "kind": kind, "n": n}
        | {f"{work}_seconds": d * (1.0 if kind == "zipf" else 1.2) * (1 + seed / 100) for work in _WORKS}
        | {f"linear_{work}_seconds": 100.0 * d for work in _WORKS[1:]}
        for seed in range(3)
        for d in _DIMENSIONS
        for kind in KINDS
        for n in (_FIRST, 100 * _FIRST)
    ]


def _slower(work: str, **when: object) -> dict[str, object]:
    """Return a fault: the work takes three times as long in the rows that ``when`` describes."""
    name = f"{work}_seconds"
    return {name: lambda row: row[name] * (3 if all(row[key] == value for key, value in when.items()) else 1)}


CLAIMS: Final = {
    "M5": Judge(
        rule="The median time of an insertion grows less than 2x from 1,000 subscriptions to the most, in every "
        "table; it "
        "grows with every dimension; in every dimension uniform subscriptions take longer than Zipf ones.",
        reason="'Flat' allows for the logarithm of a tree (1.7x from 1,000 to 100,000). 'Slower' means a ratio above "
        "1, "
        "and its interval decides. The 0.1 ms of another machine is not compared.",
        paper_value="about 0.1 ms, flat in table size; grows with d; uniform slower than Zipf",
        decide=_decide_insertion,
        passing=_made_up,
        failing={
            "growth with the table": changed(**_slower("insertion", n=100 * _FIRST)),
            "no growth with d": changed(insertion_seconds=lambda row: row["insertion_seconds"] / row["d"] ** 2),
            "uniform as fast as Zipf": changed(insertion_seconds=lambda row: float(row["d"])),
        },
        history=(
            Change(
                "2026-11-17",
                "growth below 3x, and uniform over Zipf above 0.95 (first: above 1)",
                "held (with 'above 1' the same rows gave 0.99, not held)",
                "0.95 had been introduced together with the rows that needed it.",
            ),
        ),
    ),
    "M6": Judge(
        rule="Covering and matching are at least 10x as fast as a linear scan at the largest table, and grow less "
        "than 2x "
        "from 1,000 subscriptions on; in every dimension matching takes longer with uniform subscriptions than with "
        "Zipf.",
        reason="'Far below linear' is an order of magnitude. A mean over dimensions hid that they disagree, so each "
        "one "
        "must show the difference.",
        paper_value="covering and matching far below linear and flat; matching faster for Zipf",
        decide=_decide_covering_and_matching,
        passing=_made_up,
        failing={
            "a scan as fast at covering": changed(linear_covering_seconds=1.0),
            "a scan as fast at matching": changed(linear_matching_seconds=1.0),
            "covering that grows": changed(**_slower("covering", n=100 * _FIRST)),
            "matching that grows": changed(**_slower("matching", n=100 * _FIRST)),
            "Zipf slower in one dimension": changed(**_slower("matching", d=3, kind="zipf")),
        },
        history=(
            Change(
                "2026-11-17",
                "faster than a scan, growth below 3x, the mean of uniform over Zipf above 0.95",
                "held",
                "The mean 1.06 was that of 0.98, 0.72 and 1.61 in 2, 3 and 4 dimensions: noise.",
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="m-times",
    paper="mics",
    figure="Figs. 8 to 10",
    set_up="A table of 2-cell subscriptions grows tenfold; the next insertions, coverings and matchings are timed.",
    readings=READINGS,
    configs=lambda scale: grid(
        d=(2, 3, 4), kind=KINDS, most=(scale.choose(10_000, 100_000, 1_000_000),), seed=range(SEEDS)
    ),
    run=_run,
    claims=CLAIMS,
    design=2,
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
