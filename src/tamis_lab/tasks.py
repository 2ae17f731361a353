"""Independent pieces of work as Spark tasks: text in, text out, answers as they come.

Pieces are rows of a DataFrame, a partition of it for each job, and jobs are started from as many threads as the session
has cores. Answers arrive job by job, so that a run that is stopped keeps what it has; where pieces are many, a job
takes several of them. Works on a classic session and on Spark Connect alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

__all__ = ["run_tasks"]

_UNTOLD: Final = 4
#: Jobs that pieces are shared out to, where there are more pieces: starting one takes some 50 ms.
_JOBS: Final = 200


def run_tasks(
    session: SparkSession, work: Callable[[str], str], pieces: Sequence[str], at_once: int | None = None
) -> Iterator[tuple[int, str]]:
    """Yield ``(place, answer)`` for each piece of work as it is done; the first failure stops the rest.

    ``work`` must be importable by the workers: a function of an installed module. ``at_once`` is what the session
    has room for, unless given.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answers = [work(piece) for piece in batch.column("piece").to_pylist()]
            yield pa.RecordBatch.from_pydict({"answer": pa.array(answers, pa.string())})

    def run(places: range) -> list[tuple[int, str]]:
        frame: DataFrame = session.createDataFrame([(pieces[place],) for place in places], "piece string").coalesce(1)
        answers = frame.mapInArrow(task, "answer string").collect()
        return [(place, row["answer"]) for place, row in zip(places, answers, strict=True)]

    with ThreadPoolExecutor(at_once or _room(session), "tamis-task") as pool:
        some = -(-len(pieces) // _JOBS) or 1
        waiting = [pool.submit(run, range(len(pieces))[at : at + some]) for at in range(0, len(pieces), some)]
        try:
            for done in as_completed(waiting):
                yield from done.result()
        finally:
            for future in waiting:
                future.cancel()


def _room(session: SparkSession) -> int:
    """Return how many tasks a session runs at once; a few where it does not tell (Spark Connect)."""
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except PySparkException:
        return _UNTOLD
