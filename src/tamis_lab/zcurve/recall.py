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
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import bootstrap
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, interval, per_seed, values_of, where
from tamis_lab.timing import seconds
from tamis_lab.verdicts import Change, Clause, Decision, Judge, above, certain

__all__ = ["EXPERIMENT"]

_NAMES: Final = ["x", "y"]
#: A box with more covers than this is found by luck as well: one of many lies deep inside the region.
_FEW: Final = 2
_SPREADS: Final = ("every width", "similar widths")


def _draw(n: int, spread: str, rng: np.random.Generator) -> SubscriptionTable:
    """Draw boxes of two attributes on 0..1, of every width or of similar ones."""
    width = rng.random((n, 2)) if spread == "every width" else 0.3 + 0.1 * rng.random((n, 2))
    lo = rng.random((n, 2)) * (1 - width)
    return SubscriptionTable.from_boxes(_NAMES, lo, lo + width)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Ask both indexes for covers; ``few`` counts the questions with one or two covers, ``few_seen`` those answered."""
    schema = Schema({name: Number(0, 1) for name in _NAMES})
    n, n_questions = config["n"], config["queries"]
    held, questions = _draw(n, config["spread"], rng), _draw(n_questions, config["spread"], rng)
    subscriptions = [questions.box_subscription(i, i) for i in range(n_questions)]
    covers = _count_covers(held, questions)
    approximate = ZCurveIndex(schema, epsilon=config["epsilon"], k=config["k"], capped=False)
    covered, exact_seconds = _ask(DominanceIndex(), held, subscriptions)
    seen, zcurve_seconds = _ask(approximate, held, subscriptions)
    few = (covers > 0) & (covers <= _FEW)
    return [
        {
            "covered": int(covered.sum()),
            "wrong_truth": int((covered != (covers > 0)).sum()),
            "false": int((seen & ~covered).sum()),
            "recall_of_all": float(seen.sum() / max(covered.sum(), 1)),
            "few": int(few.sum()),
            **({"recall": float(seen[few].mean())} if few.any() else {}),
            "cubes": float(approximate.statistics().details["cubes"]) / (n_questions + 1),
            "time_ratio_seconds": zcurve_seconds / exact_seconds,
        }
    ]


def _count_covers(held: SubscriptionTable, questions: SubscriptionTable) -> npt.NDArray[np.int64]:
    """Return how many of the boxes held cover each question: every pair is compared."""
    (lo, hi), (asked_lo, asked_hi) = held.corners(), questions.corners()
    lower, higher = lo[:, None] <= asked_lo[None], hi[:, None] >= asked_hi[None]
    return np.asarray((lower & higher).all(axis=2).sum(axis=0))


def _ask(index: Any, held: SubscriptionTable, questions: list[Subscription]) -> tuple[npt.NDArray[np.bool_], float]:
    """Return whether each question has a cover, and the seconds of a question."""
    index.add_boxes(np.arange(len(held), dtype=np.int32), held)
    index.find_cover(questions[0])  # compile
    covered: list[bool] = []
    spent = seconds(lambda: covered.extend(index.find_cover(each) is not None for each in questions))
    return np.array(covered), spent / len(questions)


def _decide_recall(rows: Rows) -> Decision:
    wide, least, most = where(rows, spread=_SPREADS[0]), min(column(rows, "epsilon")), max(column(rows, "epsilon"))
    false, wrong = sum(column(rows, "false")), sum(column(rows, "wrong_truth"))
    lost = bootstrap(
        [a - b for a, b in zip(*(per_seed(wide, "recall", epsilon=e) for e in (least, most)), strict=False)]
    )
    tells = above(f"recall that is lost from epsilon {least} to {most}", lost, 0)
    clauses = [
        certain(f"{false} covers that are none, {wrong} answers of the exact index that differ", false + wrong == 0),
        Clause(tells.seen, True if tells.holds else None),
        above(f"recall at epsilon {least}", interval(wide, "recall", epsilon=least), 0.5),
    ]
    shown = {
        spread: ", ".join(
            f"{e}: {interval(rows, 'recall', spread=spread, epsilon=e):.2f}" for e in values_of(rows, "epsilon")
        )
        for spread in _SPREADS
    }
    remark = (
        f"With boxes of similar widths covers are close, in the part left out: {shown[_SPREADS[1]]}. Of all covered "
        f"boxes, however many cover them, {interval(wide, 'recall_of_all', epsilon=least):.3f} are found at {least}. "
        "The "
        f"approximate search takes {interval(rows, 'time_ratio_seconds'):.1f}x the time of the exact index."
    )
    return Decision(clauses, shown[_SPREADS[0]], remark)


def _made_up() -> Rows:
    return [
        {"seed": seed, "spread": spread, "epsilon": epsilon, "recall": recall - seed / 100, "recall_of_all": 0.9}
        | {"false": 0, "wrong_truth": 0, "time_ratio_seconds": 5.0}
        for seed in range(3)
        for spread in _SPREADS
        for epsilon, recall in ((0.05, 0.8), (0.5, 0.4))
    ]


CLAIMS: Final = {
    "Z11": Judge(
        rule="Of boxes of every width that one or two others cover, more than half are found to be covered at "
        "epsilon = "
        "0.05; no cover is false. The workload must be able to tell: recall at the largest epsilon is lower.",
        reason="'Most covers' is more than half. A box with dozens of covers is found to be covered at any epsilon, so "
        "only boxes with few covers can show what the part left out costs.",
        paper_value="eps = 0.05: most covers are found if subscriptions are well spread",
        decide=_decide_recall,
        passing=_made_up,
        failing={
            "most are missed": changed(recall=lambda row: row["recall"] / 2),
            "few found at any epsilon": changed(recall=0.2),
            "a false cover": changed(false=1),
            "an exact index that is wrong": changed(wrong_truth=1),
        },
        history=(
            Change(
                "2026-11-17",
                "recall of at least 0.5 among all covered boxes of every width",
                "held",
                "99.5 % of these were covered many times: recall was 0.997 even at epsilon = 0.5, so the workload "
                "could not tell.",
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="z-recall",
    paper="zcurve",
    figure="section 1.1, Problem 2",
    set_up="Random boxes of two attributes ask the Z-curve index (2^k cells to an axis) and the exact index for a "
    "cover.",
    readings=(
        "'Well spread' is read as boxes of every width; boxes of similar widths stand beside them.",
        "Few boxes are held, so that many questions have one or two covers; recall is that of these.",
    ),
    configs=lambda scale: grid(
        spread=_SPREADS,
        epsilon=(0.05, 0.1, 0.2, 0.3, 0.5),
        n=(scale.choose(40, 100, 1_000),),
        queries=(scale.choose(40, 100),),
        k=(scale.choose(6, 8),),
    ),
    run=_run,
    draws=SEEDS,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart("Covers found of boxes with one or two", "epsilon", "recall", ("spread",), x_label="epsilon"),
        Chart(
            "Time of a question",
            "epsilon",
            "time_ratio_seconds",
            ("spread",),
            log_y=True,
            x_label="epsilon, the share left out",
            y_label="time, approximate / exact",
        ),
    ),
)
