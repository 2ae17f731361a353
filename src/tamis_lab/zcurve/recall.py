"""How many covers an approximate search finds, beside the product's exact index: claim Z11."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tamis.index.dominance.index import DominanceIndex
from tamis.index.zcurve.index import ZCurveIndex
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, where
from tamis_lab.plots.charts import Chart
from tamis_lab.timing import seconds

__all__ = ["EXPERIMENT"]

_NAMES: Final = ["x", "y"]


def _draw(n: int, spread: str, rng: np.random.Generator) -> SubscriptionTable:
    """Draw boxes of two attributes on 0..1, of every width or of similar ones."""
    width = rng.random((n, 2)) if spread == "every width" else 0.3 + 0.1 * rng.random((n, 2))
    lo = rng.random((n, 2)) * (1 - width)
    return SubscriptionTable.from_boxes(_NAMES, lo, lo + width)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    schema = Schema({name: Number(0, 1) for name in _NAMES})
    n, asked = config["n"], config["queries"]
    held, questions = _draw(n, config["spread"], rng), _draw(asked, config["spread"], rng)
    subscriptions = [questions.box_subscription(i, i) for i in range(asked)]
    approximate = ZCurveIndex(schema, epsilon=config["epsilon"], k=10, capped=False)
    covered, exact_seconds = _ask(DominanceIndex(), held, subscriptions)
    seen, zcurve_seconds = _ask(approximate, held, subscriptions)
    return [
        {
            "covered": int(covered.sum()),
            "found": int(seen.sum()),
            "false": int((seen & ~covered).sum()),
            "recall": float(seen.sum() / max(covered.sum(), 1)),
            "cubes": float(approximate.statistics().details["cubes"]) / (asked + 1),
            "exact_seconds": exact_seconds,
            "zcurve_seconds": zcurve_seconds,
        }
    ]


def _ask(index: Any, held: SubscriptionTable, asked: list[Subscription]) -> tuple[npt.NDArray[np.bool_], float]:
    """Return which questions found a cover, and the seconds that one took."""
    index.add_boxes(np.arange(len(held), dtype=np.int32), held)
    index.find_cover(asked[0])  # compile
    found: list[bool] = []
    spent = seconds(lambda: found.extend(index.find_cover(each) is not None for each in asked))
    return np.array(found), spent / len(asked)


def _judge_recall(rows: Rows) -> Outcome:
    false, wide = sum(column(rows, "false")), where(rows, spread="every width")
    near = ", ".join(f"{row['recall']:.3f}" for row in where(rows, spread="similar widths"))
    ratio = np.median([row["zcurve_seconds"] / row["exact_seconds"] for row in rows])
    return judged(
        false == 0 and all(row["recall"] >= 0.5 for row in wide if row["epsilon"] <= 0.05),
        "eps = 0.05: most covers are found",
        ", ".join(f"eps {row['epsilon']}: {row['recall']:.3f}" for row in wide),
        f"Of well spread boxes most covers lie deep inside the region. With boxes of similar widths covers are "
        f"close, in the part left out, and recall is {near}. False covers: {false}. The product's exact index finds "
        f"all of them; the approximate search took {ratio:.1f}x its time (median, from Python).",
    )


EXPERIMENT: Final = Experiment(
    name="z-recall",
    paper="zcurve",
    figure="section 1.1, Problem 2",
    set_up="Random boxes of two attributes ask the Z-curve index (k = 10) and the exact index for a cover.",
    readings=("'Well spread' is read as boxes of every width; boxes of similar widths stand beside them.",),
    configs=lambda scale: grid(
        spread=("every width", "similar widths"),
        epsilon=(0.05, 0.1, 0.2, 0.3, 0.5),
        n=(scale.choose(2_000, 10_000, 100_000),),
        queries=(scale.choose(100, 1_000),),
    ),
    run=_run,
    claims={"Z11": _judge_recall},
    charts=(
        Chart("Covers found", "epsilon", "recall", ("spread",), x_label="epsilon, the share left out"),
        Chart(
            "Time of a question",
            "epsilon",
            "zcurve_seconds",
            ("spread",),
            beside=("exact_seconds",),
            log_y=True,
            x_label="epsilon, the share left out",
            y_label="seconds",
        ),
    ),
)
