"""False positives by the number of subscriptions: claim D1."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, draw, grow
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.peers.tree_statistics import reach_of, tree_statistics
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, grouped, interval, ratio, steps, values_of
from tamis_lab.verdicts import Change, Decision, Judge, all_below, certain

__all__ = ["EXPERIMENT"]

_EVENTS: Final = 500


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], 4, rng)
    events = rng.random((_EVENTS, 4))
    rows: list[Row] = []
    for split in SPLITS:
        seats = grow(lo, hi, split)
        tree, reach = tree_statistics(seats), reach_of(seats, events)
        shares = {"false_positives": tree.false_positive_ratio, "sampled": reach.false_positives, "hits": reach.hits}
        rows.append({"split": split, **shares, "height": tree.height})
    return rows


def _decide_sizes(rows: Rows) -> Decision:
    sizes = values_of(rows, "n")
    shares = [interval(some, "false_positives") for some in grouped(rows, "split", "n").values()]
    ends = {"top": {"n": sizes[-1]}, "bottom": {"n": sizes[0]}}
    overall = [ratio(rows, "false_positives", **ends, split=split) for split in SPLITS]
    every = (len(sizes) - 1) * len(SPLITS)
    rising = [
        step
        for split in SPLITS
        for step in steps(rows, "false_positives", by="n", at_once=every, split=split)
        if step.low > 1
    ]
    best = [
        ratio(rows, "false_positives", top={"split": "r*"}, bottom={"split": split}, n=n)
        for n in sizes
        for split in SPLITS[:2]
    ]
    clauses = [
        all_below("false positives", shares, 0.05, ".2%"),
        all_below("at the largest over the smallest size", overall, 1),
        certain(f"{len(rising)} of {every} steps that surely rise", not rising),
        all_below("R* over another split", best, 1),
    ]
    at_last = ", ".join(
        f"{split} {interval(rows, 'false_positives', split=split, n=sizes[-1]):.2%}" for split in SPLITS
    )
    apart = max(abs(row["sampled"] - row["false_positives"]) for row in rows)
    remark = f"Closed form; {_EVENTS:,} sampled events of a seed differ by {apart:.3%} at most."
    return Decision(clauses, f"at {sizes[-1]:,}: {at_last}", remark)


def _made_up() -> Rows:
    return [
        {"seed": seed, "n": n, "split": split, "false_positives": share, "sampled": share}
        for seed in range(3)
        for n in (1_000, 5_000, 50_000)
        for split, base in zip(SPLITS, (0.04, 0.03, 0.02), strict=True)
        for share in (base * (1_000 / n) ** 0.1 * (1 + seed / 100),)
    ]


CLAIMS: Final = {
    "D1": Judge(
        rule="Fewer than 5 % of peers receive an event in vain at every size and split; at the largest size fewer "
        "than at the smallest, for every split, and no step between surely rises (all steps read together); R* has "
        "the fewest at every size.",
        reason="'Slightly falling' is a fall over the whole range without a rise that chance does not explain. Of 15 "
        "steps that do not rise one in three draws would show one that does, if each was read alone.",
        paper_value="< 5 % for all sizes, slightly falling with them; R* best",
        decide=_decide_sizes,
        passing=_made_up,
        failing={
            "more than 5 %": changed(false_positives=lambda row: 3 * row["false_positives"]),
            "rising with the size": changed(false_positives=lambda row: row["false_positives"] * row["n"] ** 0.2 / 20),
            "a step that rises": changed(
                false_positives=lambda row: row["false_positives"] * (1.2 if row["n"] == 5_000 else 1)
            ),
            "R* not best": changed(
                false_positives=lambda row: row["false_positives"] * (2 if row["split"] == "r*" else 1)
            ),
        },
        history=(
            Change(
                "2026-11-17",
                "falling, where a step may rise by a tenth",
                "held, although the linear split rises from 1.39 to 1.50 %",
                "A rise is one that the interval over seeds excludes from chance.",
            ),
            Change(
                "2026-11-20",
                "the same, with a 95 % interval for each step",
                "undecided, at a smaller scale than the paper's",
                "Each of 15 steps that do not rise is said to with 2.5 %, so that a run with another seed would often "
                "change the verdict. The intervals are now wide enough for all steps together.",
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="dr-sizes",
    paper="drtree",
    figure="Fig. 7",
    set_up="Zipf-25:75 subscriptions of four attributes join one after another, 5 to 10 children per node; who "
    "receives a uniform event in vain?",
    readings=READINGS,
    configs=lambda scale: grid(
        n=scale.choose((50, 100, 200), (1_000, 2_500, 5_000, 10_000, 25_000, 50_000)), seed=range(SEEDS)
    ),
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart(
            "False positives by the number of subscriptions",
            "n",
            "false_positives",
            ("split",),
            log_x=True,
            x_label="subscriptions",
            y_label="share of peers",
        ),
    ),
)
