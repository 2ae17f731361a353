"""False positives of events that equally many peers want: claim D4."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis_lab.drtree.trees import READINGS, SPLITS, count_events, draw, grow
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged, rises, value_at, where
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]

_DIMENSIONS: Final = (2, 4, 6)
_EVENTS: Final = 2_500
#: Events with between so many hits and the next, as a share of all peers, are compared.
_BOUNDS: Final = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Events that a mean needs.
_ENOUGH: Final = 10


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
            rows.append({"split": split, "hits_from": _BOUNDS[place], "events": int(inside.sum()), **shares})
    return rows


def _judge_equal_hits(rows: Rows) -> Outcome:
    enough = [row for row in rows if row["events"] >= _ENOUGH]
    compared, rising = 0, 0
    for split in SPLITS:
        for bound in _BOUNDS[:-1]:
            at = where(enough, split=split, hits_from=bound)
            if len(at) == len(_DIMENSIONS) and bound > 0:
                compared += 1
                rising += rises([value_at(at, "false_positives", d=d) for d in _DIMENSIONS])
    most = max(column(enough, "false_positives"))
    return judged(
        0 < compared == rising and most < 0.1,
        "rises with the dimension at equal hits; never 10 %, even for linear",
        f"rises in {rising} of {compared} classes of hits; at most {most:.1%}",
        f"{_EVENTS:,} uniform events by the share of peers that want them, in classes that all of 2, 4 and 6 "
        f"attributes have at least {_ENOUGH} events in.",
    )


EXPERIMENT: Final = Experiment(
    name="dr-equal-hits",
    paper="drtree",
    figure="Fig. 11",
    set_up="The same trees, event by event: false positives by the share of peers that want the event.",
    readings=(*READINGS, "Events are gathered in classes of nearly equal hits; the paper has a point for each."),
    configs=lambda scale: grid(d=_DIMENSIONS, n=(scale.choose(500, 10_000),)),
    run=_run,
    claims={"D4": _judge_equal_hits},
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
