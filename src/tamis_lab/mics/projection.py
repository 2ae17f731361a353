"""Routing on three of seven attributes: claims M9 to M11.

Table 2 of the paper contradicts its own set-up: with seven constrained attributes of 4 of 256 cells hardly anything
matches. Both readings are run, the printed one and the one that fits the numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.curves.hilbert import HilbertCurve
from tamis.curves.runs import merged
from tamis.engine.engine import Engine
from tamis.index.mics.subscription_index import SubscriptionIndex
from tamis.index.mics.table import RangeTable
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import Interval, bootstrap
from tamis_lab.mics.drawing import BITS, KINDS, READINGS, SIDE, Cells, draw_cells, ranges_of_each
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, grouped, interval, per_seed, where
from tamis_lab.scale import Scale
from tamis_lab.verdicts import Change, Clause, Decision, Judge, all_above, all_below, below, certain

__all__ = ["EXPERIMENT"]

_ATTRIBUTES: Final = [f"a{axis}" for axis in range(7)]
_INDEXED: Final = 3
_PRINTED: Final = "as printed"
_FITTED: Final = "fitted"
#: Cells of a side on average, and how often each of the other four attributes is open.
_WORKLOADS: Final = {_PRINTED: (4.0, 0.0), _FITTED: (2.56, 0.87)}
#: Table 2: publications forwarded and the false share of them, by distribution and thousands of subscriptions.
_TABLE_2: Final = {
    "zipf": {20: (5217, 0.0554), 60: (6472, 0.0371), 100: (7040, 0.0315), 150: (7502, 0.0257)},
    "uniform": {20: (209, 0.4211), 60: (583, 0.4237), 100: (858, 0.3695), 150: (1325, 0.3819)},
}
#: Table 3: subscriptions to evaluate.
_TABLE_3: Final = {"zipf": {20: 64, 60: 232, 100: 414, 150: 600}, "uniform": dict.fromkeys((20, 60, 100, 150), 1)}
#: The factor by which a number may differ from that of a table.
_NEAR: Final = 1.5


def _configs(scale: Scale) -> list[Config]:
    sizes = scale.choose((20_000,), (20_000, 60_000, 100_000, 150_000))
    events = scale.choose(1_000, 10_000)
    return grid(reading=_WORKLOADS, kind=KINDS, n=sizes, events=(events,), seed=range(SEEDS))


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Count the events forwarded on three attributes, and how many of them match nothing by the packed engine."""
    low, high, is_open = _draw(config, rng)
    events = draw_cells(config["events"], len(_ATTRIBUTES), config["kind"], rng)
    curve = HilbertCurve(_INDEXED, BITS)
    boxes = np.stack([low[:, :_INDEXED], high[:, :_INDEXED]], axis=1)
    table = RangeTable(curve.n_keys)
    table.add(curve.ranges_of(boxes)[1])
    sent = table.matches(curve.keys(events[:, :_INDEXED]))
    wanted = _wanted(np.where(is_open, -np.inf, low), np.where(is_open, np.inf, high), events)
    row: Row = {
        "forwarded": int(sent.sum()),
        "lost": int((wanted & ~sent).sum()),
        "false_share": int((sent & ~wanted).sum()) / max(int(sent.sum()), 1),
    }
    if config["reading"] == _PRINTED:
        row["candidates"] = _candidates(curve, boxes, rng)
    return [row]


def _draw(config: Config, rng: np.random.Generator) -> tuple[Cells, Cells, npt.NDArray[np.bool_]]:
    """Draw the lower and upper cells of subscriptions, and where they are open."""
    n, (side, open_share) = config["n"], _WORKLOADS[config["reading"]]
    shape = (n, len(_ATTRIBUTES))
    sides = int(side) + (rng.random(shape) < side % 1)  # whole cells, ``side`` on average
    low = np.minimum(draw_cells(*shape, config["kind"], rng), SIDE - sides)
    is_open = rng.random(shape) < open_share
    is_open[:, :_INDEXED] = False
    return low, low + sides - 1, is_open


def _wanted(lo: npt.NDArray[np.float64], hi: npt.NDArray[np.float64], events: Cells) -> npt.NDArray[np.bool_]:
    engine = Engine(Schema({name: Number(0, SIDE) for name in _ATTRIBUTES}))
    engine.subscribe_boxes(_ATTRIBUTES, lo, hi)
    columns = {name: events[:, axis].astype(float) for axis, name in enumerate(_ATTRIBUTES)}
    wanted: npt.NDArray[np.bool_] = np.diff(engine.match_table(columns).offsets) > 0
    return wanted


def _candidates(curve: HilbertCurve, boxes: Cells, rng: np.random.Generator) -> float:
    """Return the mean number of subscriptions that must be compared with a new subscription."""
    index, each = SubscriptionIndex(), ranges_of_each(curve, boxes)
    for owner, ranges in enumerate(each):
        index.add(owner, merged(ranges))
    sample = rng.choice(len(boxes), min(200, len(boxes)), replace=False)
    return float(np.mean([len(np.unique(index.owners(each[owner][:, 0])[1])) for owner in sample.tolist()]))


def _decide_traffic(rows: Rows) -> Decision:
    """Compare traffic and false shares of the fitted reading with every cell of Table 2."""
    ours = []
    apart: dict[str, list[Interval]] = {"forwarded": [], "false share": []}
    for (kind, n), some in grouped(where(rows, reading=_FITTED), "kind", "n").items():
        sent, false = _TABLE_2[kind][n // 1_000]
        scaled = [count * 10_000 / some[0]["events"] / sent for count in per_seed(some, "forwarded")]
        apart["forwarded"].append(bootstrap([_factor(ratio) for ratio in scaled]))
        apart["false share"].append(bootstrap([_factor(share / false) for share in per_seed(some, "false_share")]))
        ours.append(
            f"{kind} {n // 1_000}K: {bootstrap(scaled).middle * sent:,.0f}, {interval(some, 'false_share'):.1%}"
        )
    lost, printed = sum(column(rows, "lost")), min(column(where(rows, reading=_PRINTED), "false_share"))
    clauses = [certain(f"{lost} wanted publications lost", lost == 0)]
    clauses += [all_below(f"{name}: factor between ours and Table 2", values, _NEAR) for name, values in apart.items()]
    remark = f"With all seven attributes constrained to 4 cells, as printed, {printed:.0%} or more are false."
    return Decision(clauses, ", ".join(ours), remark)


def _factor(ratio: float) -> float:
    """Return how many times as large the larger of two numbers is, from their ratio."""
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def _decide_candidates(rows: Rows) -> Decision:
    apart, single, ours = [], [], []
    for (kind, n), some in grouped(where(rows, reading=_PRINTED), "kind", "n").items():
        paper, counts = _TABLE_3[kind][n // 1_000], per_seed(some, "candidates")
        if paper > 1:
            apart.append(bootstrap([_factor(count / paper) for count in counts]))
        else:
            single.append(bootstrap(counts))
        ours.append(f"{kind} {n // 1_000}K: {bootstrap(counts):.1f}")
    clauses = [
        all_below("Zipf: factor between ours and Table 3", apart, _NEAR),
        all_below("uniform, to evaluate", single, _NEAR),
    ]
    return Decision(
        clauses, ", ".join(ours), "Owners of the start cells of a new subscription's ranges, itself included."
    )


def _decide_range(rows: Rows) -> Decision:
    """Judge each reading alone; the one that comes nearer speaks."""
    spans = {}
    for reading in _WORKLOADS:
        points = grouped(where(rows, reading=reading), "kind", "n")
        shares = sorted((interval(some, "false_share") for some in points.values()), key=lambda share: share.middle)
        spans[reading] = shares[0], shares[-1]
    clauses: dict[str, list[Clause]] = {
        reading: [
            below(f"{reading}: least false share", least, 0.05, ".1%"),
            all_above(f"{reading}: greatest false share", [most], 0.5, ".1%"),
        ]
        for reading, (least, most) in spans.items()
    }
    nearer = max(clauses, key=lambda reading: sum(clause.holds is True for clause in clauses[reading]))
    ours = "; ".join(f"{reading}: {least:.1%} to {most:.1%}" for reading, (least, most) in spans.items())
    return Decision(clauses[nearer], ours, "It is the workload that decides.")


def _made_up() -> Rows:
    """Make up rows that are Table 2 and Table 3; the fitted reading spans 3 to 60 %."""
    rows: list[Row] = []
    for reading in _WORKLOADS:
        for kind in KINDS:
            for thousands in (20, 150):
                sent, false = _TABLE_2[kind][thousands]
                row: Row = {"reading": reading, "kind": kind, "n": 1_000 * thousands, "events": 10_000, "lost": 0}
                row |= {"forwarded": sent, "false_share": false * (1.4 if kind == "uniform" else 1.0)}
                rows += [{**row, "seed": seed, "candidates": _TABLE_3[kind][thousands]} for seed in range(2)]
    return rows


CLAIMS: Final = {
    "M9": Judge(
        rule="In every cell of Table 2 the forwarded publications and the false share are the paper's within a "
        "factor of "
        "1.5, and no wanted publication is lost.",
        reason="As printed the set-up contradicts its numbers (erratum M.3.9), so two parameters are free; with two "
        "free "
        "parameters both columns of all cells must fit. The false share is what the paper's section is about.",
        paper_value="Zipf 5217 to 7502, 5.5 to 2.6 % false; uniform 209 to 1325, 42 to 38 %",
        decide=_decide_traffic,
        passing=_made_up,
        fitted="a side of 2.56 cells on average, and 87 % of the other four attributes open",
        failing={
            "twice the traffic": changed(forwarded=lambda row: 2 * row["forwarded"]),
            "another false share": changed(
                false_share=lambda row: row["false_share"] * (2 if row["kind"] == "zipf" else 1)
            ),
            "a publication that is lost": changed(lost=1),
        },
        history=(
            Change(
                "2026-11-17",
                "forwarded within a factor of 3, and a larger false share for uniform than for Zipf",
                "held",
                "The false share itself was never compared: 12/10/7/7 % against 5.5/3.7/3.2/2.6 % for Zipf.",
            ),
        ),
    ),
    "M10": Judge(
        rule="The mean number of subscriptions to evaluate is that of Table 3 within a factor of 1.5 for Zipf, and "
        "below "
        "1.5 for uniform subscriptions.",
        reason="The set-up of Table 3 is complete; 1.5 is room for the reading of Zipf. A paper's 1 is at most 1.5, "
        "rounded.",
        paper_value="to evaluate: Zipf 64/232/414/600, uniform 1/1/1/1",
        decide=_decide_candidates,
        passing=_made_up,
        failing={
            "twice as many": changed(candidates=lambda row: 2 * row["candidates"]),
            "two uniform ones": changed(candidates=lambda row: max(2, row["candidates"])),
        },
        history=(
            Change(
                "2026-11-17", "the same, but uniform below 2.5", "not held", "A mean that is printed as 1 is below 1.5."
            ),
        ),
    ),
    "M11": Judge(
        rule="Within one reading of the set-up, the false share goes from below 5 % to above 50 %.",
        reason="The paper gives one range for its experiments, 3 % to more than 50 %; one set-up must show both "
        "ends. 5 % "
        "is 3 % with room for the reading.",
        paper_value="between 3 % and more than 50 %",
        decide=_decide_range,
        passing=_made_up,
        failing={
            "never below 10 %": changed(false_share=lambda row: max(0.1, row["false_share"])),
            "never above 50 %": changed(false_share=lambda row: min(0.4, row["false_share"])),
            "an end from each reading": changed(false_share=lambda row: 0.03 if row["reading"] == _FITTED else 0.99),
        },
        history=(
            Change(
                "2026-11-17",
                "the least share of both readings is below 10 %, the greatest above 50 %",
                "held",
                "It took one end from each of two readings; neither alone has both.",
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="m-projection",
    paper="mics",
    figure="Tables 2 and 3",
    set_up="Seven attributes, three of them on the curve, 10,000 publications (small: 1,000); the packed engine says "
    "what is wanted.",
    readings=(
        *READINGS,
        "As printed (4 cells, seven constrained attributes) nothing matches.",
        "Fitted: 2 or 3 cells, 2.56 on average (1 % of the domain), 87 % of the other attributes open.",
    ),
    configs=_configs,
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart(
            "False positives of a projection",
            "n",
            "false_share",
            ("kind",),
            panels="reading",
            x_label="subscriptions",
            y_label="share of forwarded publications",
        ),
    ),
)
