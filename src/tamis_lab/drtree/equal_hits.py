"""False positives of events that equally many peers want: claim D4."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, count_events, draw, grow
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import bootstrap
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, grouped
from tamis_lab.verdicts import Change, Clause, Decision, Judge, all_above, certain

__all__ = ["EXPERIMENT"]

_DIMENSIONS: Final = (2, 4, 6)
_EVENTS: Final = 500
#: Bounds of classes of events by their hits, as a share of all peers; events of one class are compared.
_BOUNDS: Final = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Seeds in which a class needs events for it to be compared.
_ENOUGH: Final = 10
#: The share of peers that no event reaches in vain.
_NEVER: Final = 0.1


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    n, d = config["n"], config["d"]
    lo, hi = draw("zipf-25:75", n, d, rng)
    events = rng.random((_EVENTS, d))
    rows: list[Row] = []
    for split in SPLITS:
        wanted, needless = count_events(grow(lo, hi, split), events).T / n
        places = np.searchsorted(_BOUNDS, wanted, side="right") - 1
        for place in np.unique(places).tolist():
            inside = places == place
            shares = {"hits": float(wanted[inside].mean()), "false_positives": float(needless[inside].mean())}
            shares["most_false_positives"] = float(needless[inside].max())
            rows.append({"split": split, "hits_from": _BOUNDS[place], "events": int(inside.sum()), **shares})
    return rows


def _decide_equal_hits(rows: Rows) -> Decision:
    steps = []
    for (_, bound), some in grouped(rows, "split", "hits_from").items():
        by_d = {d: {row["seed"]: row["false_positives"] for row in some if row["d"] == d} for d in _DIMENSIONS}
        for less, more in pairwise(_DIMENSIONS):
            shared = sorted(by_d[less].keys() & by_d[more].keys())
            if bound > 0 and len(shared) >= min(_ENOUGH, len({row["seed"] for row in rows})):
                steps.append(bootstrap([by_d[more][seed] - by_d[less][seed] for seed in shared]))
    most = max(column(rows, "most_false_positives"))
    rises = all_above("rise to the next number of attributes", steps, 0, ".2%") if steps else Clause("no class", None)
    clauses = [rises, certain(f"greatest share of a single event {most:.1%} < {_NEVER:.0%}", most < _NEVER)]
    rising = sum(step.low > 0 for step in steps)
    ours = f"surely rises in {rising} of {len(steps)} steps at equal hits; {most:.1%} for a single event"
    remark = f"The greatest mean of a class is {max(column(rows, 'false_positives')):.1%}."
    return Decision(clauses, ours, remark)


def _made_up() -> Rows:
    return [
        {
            "seed": seed,
            "d": d,
            "split": split,
            "hits_from": bound,
            "false_positives": share,
            "most_false_positives": 2 * share,
        }
        for seed in range(3)
        for d in _DIMENSIONS
        for split in SPLITS
        for bound in (0.001, 0.01)
        for share in (d / 200 + seed / 1_000,)
    ]


CLAIMS: Final = {
    "D4": Judge(
        rule="Among events that equally many peers want, the mean share of peers reached in vain rises from 2 to 4 "
        "to 6 "
        "attributes in every class of hits and for every split; for no single event is it 10 % or more.",
        reason="Fig. 11 has a point for each event, and 'never' is about single events; a mean of a class hides the "
        "worst.",
        paper_value="rises with the dimension at equal hits; never 10 %, even for linear",
        decide=_decide_equal_hits,
        passing=_made_up,
        failing={
            "falling with the dimension": changed(false_positives=lambda row: 0.05 - row["d"] / 200),
            "one event of 12 %": changed(most_false_positives=lambda row: 0.12 if row["d"] == 6 else 0.01),
        },
        history=(
            Change(
                "2026-11-17", "the mean of every class is below 10 %", "held (3.8 %)", "'Never' is about single events."
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="dr-equal-hits",
    paper="drtree",
    figure="Fig. 11",
    set_up="The same trees, event by event: false positives by the share of peers that want the event.",
    readings=(*READINGS, "Events are gathered in classes of nearly equal hits; the paper has a point for each."),
    configs=lambda scale: grid(d=_DIMENSIONS, n=(scale.choose(150, 10_000),), seed=range(SEEDS)),
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart(
            "False positives at equal hits",
            "hits",
            "false_positives",
            ("d",),
            panels="split",
            log_x=True,
            x_label="share of peers that want it, where any does",
            y_label="share in vain",
        ),
    ),
)
