"""Which subscriptions a link must forward: claims M4 and M12."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.curves.hilbert import HilbertCurve
from tamis.index.dominance.index import DominanceIndex
from tamis.index.mics.table import RangeTable
from tamis.model.tables import SubscriptionTable
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, grid, judged, not_testable, where
from tamis_lab.mics.drawing import BITS, KINDS, READINGS, Cells, draw_boxes, ranges_of_each
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

#: Cells between two ranges up to which they are announced as one.
_GAP: Final = 16


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    d, n = config["d"], config["n"]
    boxes, curve = draw_boxes(n, d, config["kind"], config["size"], rng), HilbertCurve(d, BITS)
    each = ranges_of_each(curve, boxes)
    forwarded = {"none": n, "covering": _not_covered(boxes)}
    for name, gap in (("subsumption", 0), ("gap", _GAP)):
        table = RangeTable(curve.n_keys, gap=gap)
        forwarded[name] = sum(bool(len(table.add(ranges))) for ranges in each)
    return [{"policy": name, "forwarded": count} for name, count in forwarded.items()]


def _not_covered(boxes: Cells) -> int:
    """Count the boxes that no earlier one covers."""
    n, _, d = boxes.shape
    corners = boxes.astype(float)
    table = SubscriptionTable.from_boxes([f"a{axis}" for axis in range(d)], corners[:, 0], corners[:, 1])
    index = DominanceIndex()
    for row in range(n):
        subscription = table.box_subscription(row, row)
        if index.find_cover(subscription) is None:
            index.add(row, subscription)
    return len(index)


def _judge_order(rows: Rows) -> Outcome:
    told, shares, ordered = [], [], True
    for d in (2, 3, 4):
        at = {row["policy"]: row["forwarded"] for row in where(rows, kind="zipf", d=d)}
        ordered &= at["none"] > at["covering"] > at["subsumption"] >= at["gap"]
        shares.append((at["covering"] - at["subsumption"]) / at["none"])
        told.append(f"{d}-d: {at['none']:,} > {at['covering']:,} > {at['subsumption']:,}")
    return judged(
        ordered and shares[0] > shares[1] > shares[2],
        "none > covering > subsumption; gap larger for small d",
        "; ".join(told),
        f"Subsumption saves {', '.join(f'{share:.1%}' for share in shares)} of all over covering in 2, 3, 4 "
        f"dimensions. Filling gaps of up to {_GAP} cells sends fewer still.",
    )


def _judge_cited(_: Rows) -> Outcome:
    why = "A figure of other systems, cited by the paper; their data are not here. M4 has ours."
    return not_testable("covering and merging save up to 75 % of subscription traffic", why)


EXPERIMENT: Final = Experiment(
    name="m-traffic",
    paper="mics",
    figure="Fig. 7",
    set_up="Subscriptions of 4 cells a side arrive at a link; which of them must be forwarded?",
    readings=READINGS,
    configs=lambda scale: grid(d=(2, 3, 4), kind=KINDS, size=(4,), n=(scale.choose(3_000, 20_000),)),
    run=_run,
    claims={"M4": _judge_order, "M12": _judge_cited},
    charts=(Chart("Subscriptions forwarded", "d", "forwarded", ("policy",), panels="kind", x_label="attributes"),),
)
