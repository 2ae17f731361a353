"""All matchers on one workload: the packed default beside those of the papers."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.engine.engine import Engine
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis_bench.workloads.boxes import BoxWork, make_boxes
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, column, where
from tamis_lab.timing import seconds

__all__ = ["EXPERIMENT"]

#: The most subscriptions that a matcher is asked to hold: beyond, a run would take hours and show nothing new.
_MOST: Final = {"packed": 1_000_000, "mics": 100_000, "counting": 10_000, "linear": 1_000}
_EVENTS: Final = 100


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    work = make_boxes(config["work"], config["n"], _EVENTS, seed=int(rng.integers(2**31)))
    chosen = [matcher for matcher, most in _MOST.items() if config["n"] <= most]
    rows: list[Row] = [{"matcher": matcher, **_measure(matcher, work)} for matcher in chosen]
    return [{**row, "same": row["matched"] == rows[0]["matched"]} for row in rows]


def _measure(matcher: str, work: BoxWork) -> Row:
    """Load a matcher, match all events once to compile, then once by the clock."""
    engine = Engine(Schema({name: Number(0, 1_000) for name in work.names}), matcher=matcher)
    loading = seconds(lambda: engine.subscribe_boxes(list(work.names), work.lo, work.hi))
    matches = engine.match_table(work.events)
    spent = seconds(lambda: engine.match_table(work.events))
    return {"load_seconds": loading, "match_seconds": spent / _EVENTS, "matched": int(matches.offsets[-1])}


def _lesson(rows: Rows) -> str:
    by_size = []
    for n in sorted(set(column(rows, "n"))):
        at = where(rows, n=n)
        packed = np.mean(column(where(at, matcher="packed"), "match_seconds"))
        others = {name: column(where(at, matcher=name), "match_seconds") for name in _MOST if name != "packed"}
        ratios = [f"{name} {np.mean(times) / packed:,.0f}x" for name, times in others.items() if times]
        if ratios:
            by_size.append(f"{n:,}: {', '.join(ratios)}")
    same = "the same answers" if all(column(rows, "same")) else "DIFFERENT answers"
    return f"All matchers gave {same}. Time for an event relative to the packed matcher, by size: {'; '.join(by_size)}."


EXPERIMENT: Final = Experiment(
    name="b-matchers",
    paper="beyond",
    figure="packed, MICS, counting and a scan",
    readings=("Counting and the scan stop at sizes where a run would take hours.",),
    set_up="Boxes of four ranges, uniform and crowded near 0, and 100 events as a table, through the engine with each "
    "of its matchers.",
    configs=lambda scale: grid(
        work=("uniform4", "zipf4"),
        n=scale.choose((1_000, 10_000), (1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000)),
    ),
    run=_run,
    lesson=_lesson,
    charts=(
        Chart(
            "Time of an event",
            "n",
            "match_seconds",
            ("matcher",),
            panels="work",
            log_x=True,
            log_y=True,
            x_label="subscriptions",
            y_label="seconds",
        ),
        Chart(
            "Time to load",
            "n",
            "load_seconds",
            ("matcher",),
            panels="work",
            log_x=True,
            log_y=True,
            x_label="subscriptions",
            y_label="seconds",
        ),
    ),
)
