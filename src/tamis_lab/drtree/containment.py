"""The root that a containment tree would need: claim D7."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.peers.containment import containment_boxes
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, interval
from tamis_lab.uncovered import count_uncovered
from tamis_lab.verdicts import Change, Clause, Decision, Judge, between

__all__ = ["EXPERIMENT"]


#: The number of subscriptions in the paper's comparison.
_PAPER_SIZE: Final = 10_000


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    seed, side = int(rng.integers(2**31)), config["largest_side"]
    boxes = np.stack(containment_boxes("zipf-25:75", config["n"], seed=seed, largest=side), axis=1)
    children = count_uncovered(boxes)
    return [{"children": children, "share": children / config["n"]}]


def _decide_root(rows: Rows) -> Decision:
    share = {side: interval(rows, "share", largest_side=side) for side in (400, 1_000)}
    clause = between("share of subscriptions below the root", share[1_000], 0.16, 0.25, ".1%")
    n = max(column(rows, "n"))
    clauses = [clause if n == _PAPER_SIZE else Clause(f"{clause.seen}, with {n:,} subscriptions", None)]
    ours = f"{share[1_000]:.1%}; with sides of at most 400: {share[400]:.1%}"
    remark = "With sides of at most 400 it would be *fitted*: the paper does not say how long sides are."
    return Decision(clauses, ours, remark)


def _made_up() -> Rows:
    return [
        {"seed": seed, "n": _PAPER_SIZE, "largest_side": side, "share": 0.2 + seed / 1_000}
        for seed in range(3)
        for side in (400, 1_000)
    ]


CLAIMS: Final = {
    "D7": Judge(
        rule="Of 10,000 subscriptions with sides as long as the domain allows, 16 to 25 % are contained in no other; "
        "another number of subscriptions decides nothing.",
        reason="About 2000 of 10,000 is 20 %; the limits are a factor of 1.25. The share falls as subscriptions are "
        "added, so it is judged at the paper's number. Shorter sides are not judged: their length would be chosen to "
        "fit.",
        paper_value="about 2000 of 10,000 (20 %)",
        decide=_decide_root,
        passing=_made_up,
        failing={
            "half as many": changed(share=lambda row: row["share"] / 2),
            "with short sides only": changed(share=lambda row: 0.2 if row["largest_side"] == 400 else 0.1),
        },
        history=(
            Change(
                "2026-11-17",
                "the same with any number of subscriptions",
                "held with 1,000 subscriptions, which scale small has",
                "The share falls with the number, so 1,000 subscriptions say nothing about the paper's 10,000.",
            ),
            Change(
                "2026-11-17", "the same, as the mean of five draws", "not held", "Twenty draws, and their interval."
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="dr-containment",
    paper="drtree",
    figure="section 5, comparison with a containment tree",
    set_up="Zipf-25:75 subscriptions of four attributes: how many stand in no other one, below a virtual root?",
    readings=READINGS,
    configs=lambda scale: grid(largest_side=(400, 1_000), n=(scale.choose(1_000, _PAPER_SIZE),), seed=range(SEEDS)),
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(Chart("Children of the virtual root", "largest_side", "share", y_label="share of subscriptions"),),
)
