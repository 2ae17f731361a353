"""The product's index of balls beside a scan: beyond the paper."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.index.projection import ProjectionIndex
from tamis.model.subscription import Ball, Filter, Subscription
from tamis_bench.workloads.balls import make_balls
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.plots.charts import Chart
from tamis_lab.projection.covering import Floats, covers_each
from tamis_lab.rows import Row, Rows, column, mean
from tamis_lab.timing import seconds

__all__ = ["EXPERIMENT"]

_WAYS: Final = (("auto", "largest"), ("auto", "smallest"), ("scan", "smallest"))


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    work = make_balls(config["radii"], config["n"], config["d"], config["queries"], seed=int(rng.integers(2**31)))
    truth = covers_each(work.centers, work.radii, work.questions, work.question_radii).any(axis=0)
    held = [_ball(center, radius) for center, radius in zip(work.centers, work.radii, strict=True)]
    questions = [_ball(center, radius) for center, radius in zip(work.questions, work.question_radii, strict=True)]
    rows: list[Row] = []
    for way, pick in _WAYS:
        index = ProjectionIndex(way=way, pick=pick)
        for row, ball in enumerate(held):
            index.add(row, ball)
        covered, spent = _ask(index, questions)
        wrong = int((np.array(covered) != truth).sum())
        rows.append({"way": f"{way}, {pick}", "query_seconds": spent, "covered": int(truth.sum()), "wrong": wrong})
    return rows


def _ask(index: ProjectionIndex, questions: list[Subscription]) -> tuple[list[bool], float]:
    """Return whether each question has a cover, and the seconds of a question."""
    index.find_cover(questions[0])  # compile and build
    covered: list[bool] = []
    spent = seconds(lambda: covered.extend(index.find_cover(ball) is not None for ball in questions))
    return covered, spent / len(questions)


def _ball(center: Floats, radius: float) -> Subscription:
    return Subscription(0, (Filter((Ball("look", tuple(center.tolist()), float(radius)),)),))


def _lesson(rows: Rows) -> str:
    wrong, n = sum(column(rows, "wrong")), max(column(rows, "n"))
    scan, auto = (mean(rows, "query_seconds", way=way) for way in ("scan, smallest", "auto, largest"))
    return (
        f"At {n:,} balls the index answers {scan / auto:.1f}x as fast as a scan on average, with {wrong} wrong "
        "answers: every candidate is verified, so the errors above cost time and never an event."
    )


EXPERIMENT: Final = Experiment(
    name="rp-index",
    paper="projection",
    figure="beyond the paper",
    set_up="The product's index of balls, which verifies every candidate, beside a scan: time per question, wrong "
    "answers.",
    configs=lambda scale: grid(
        d=(4, 12, 20), radii=("uniform", "pareto"), n=(scale.choose(2_000, 10_000, 100_000),), queries=(500,)
    ),
    run=_run,
    lesson=_lesson,
    charts=(
        Chart(
            "Time to find a cover",
            "d",
            "query_seconds",
            ("way",),
            panels="radii",
            log_y=True,
            x_label="dimensions",
            y_label="seconds",
        ),
    ),
)
