"""How far Spark is with what it works on, and its end: what a command line needs to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["named_jobs", "own_session", "task_counts"]


def task_counts() -> tuple[int, int]:
    """Return (tasks done, tasks in all) of the stages that run now; (0, 0) when none does or Spark is elsewhere."""
    context = SparkContext._active_spark_context
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    infos = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in infos), sum(stage.numTasks for stage in infos)


@contextmanager
def named_jobs(name: str) -> Iterator[None]:
    """Name the jobs that are started inside, for Spark's pages and its event log; Connect has no such thing."""
    context, key = SparkContext._active_spark_context, "spark.job.description"
    before = None if context is None else context.getLocalProperty(key)
    if context is not None:
        context.setLocalProperty(key, name)
    try:
        yield
    finally:
        if context is not None:
            context.setLocalProperty(key, before)  # type: ignore[arg-type]  # None takes it away


@contextmanager
def own_session() -> Iterator[None]:
    """Stop at the end what was started inside, Spark's processes with it; a session that ran before goes on."""
    before = SparkSession.getActiveSession()
    try:
        yield
    finally:
        running = SparkSession.getActiveSession()
        if before is None and running is not None:
            running.stop()
