"""The stages of a run: timed, watched, and a failure of Spark in one is one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException

from tamis.errors import TableError
from tamis.spark.pipelines.pipeline import _Stages

STORY = """An error occurred while calling o1.parquet: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.class(Some.scala:1)
Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.
 Header: mag, id
\t... 1 more"""


def test_stages_are_watched_and_timed_in_order() -> None:
    seen = []

    @contextmanager
    def watch(name: str) -> Iterator[None]:
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    stages = _Stages("alerts", watch)
    for name in ("read", "match"):
        with stages.timed(name) as stage:
            stage.rows_out = 3
    assert seen == ["read begins", "read ends", "match begins", "match ends"]
    assert [(stage.stage, stage.rows_in, stage.rows_out) for stage in stages.done] == [
        ("read", None, 3),
        ("match", None, 3),
    ]


def fail(error: Exception) -> None:
    with _Stages("alerts", _nothing).timed("match"):
        raise error


@contextmanager
def _nothing(name: str) -> Iterator[None]:
    yield


def test_a_failure_of_spark_is_one_line() -> None:
    with pytest.raises(TableError) as raised:
        fail(PySparkException(STORY))
    assert str(raised.value) == "alerts, stage 'match': Spark failed: CSV header does not conform to the schema."


def test_other_failures_are_left_as_they_are() -> None:
    with pytest.raises(KeyError):
        fail(KeyError("x"))
