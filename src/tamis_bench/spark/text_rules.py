"""How fast rules about text are in Spark: `match` beside statements that users write, all rules in one or in five."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tamis.spark import match
from tamis_bench.spark.papers import timed
from tamis_bench.spark.work import Timing
from tamis_bench.text import RuleWork, text_filters, text_work

__all__ = ["TEXT_RULES"]

#: Rules that are measured; a statement with more is not planned in any time.
_MOST_RULES = 1_000
_EVENTS = 20_000
#: How often `match` is given the events: it is done with them before a job of Spark has begun.
_TIMES = 20
_FIELDS = 8
_STATEMENTS = 5


def _match(spark: SparkSession, n: int, repeat: int) -> Timing:
    work, events = _events(spark, n, _TIMES)
    filters = text_filters(work)
    rules = spark.createDataFrame(pa.table({"id": range(len(filters)), "filter": filters}))
    return _rate("text rules", match(events, rules), work, repeat, "tamis.spark.match", _TIMES * _EVENTS)


def _in_one_statement(spark: SparkSession, n: int, repeat: int) -> Timing:
    work, events = _events(spark, n)
    frame = _fired(events, list(enumerate(text_filters(work))))
    return _rate("text rules in 1 statement", frame, work, repeat, "a CASE for each rule")


def _in_five_statements(spark: SparkSession, n: int, repeat: int) -> Timing:
    work, events = _events(spark, n)
    rules = list(enumerate(text_filters(work)))
    frames = [_fired(events, rules[i::_STATEMENTS]) for i in range(_STATEMENTS)]
    note = f"a CASE for each rule, a {_STATEMENTS}th of them in each statement"
    return _rate(f"text rules in {_STATEMENTS} statements", reduce(DataFrame.unionAll, frames), work, repeat, note)


def _events(spark: SparkSession, n: int, times: int = 1) -> tuple[RuleWork, DataFrame]:
    """Return rules with two patterns each, and events in a Parquet file, each some times."""
    work = text_work(min(n, _MOST_RULES), _FIELDS, _EVENTS)
    file = Path(tempfile.mkdtemp(prefix="tamis-bench-")) / "events.parquet"
    events = pa.concat_tables([work.table] * times)
    numbered = events.append_column("event_id", pa.array(range(len(events))))
    pq.write_table(numbered, file, row_group_size=len(events) // 8)
    return work, spark.read.parquet(str(file))


def _fired(events: DataFrame, rules: Sequence[tuple[int, str]]) -> DataFrame:
    """Return event and rule of each match: the conditions of tamis are conditions of Spark's SQL as well."""
    cases = [F.when(F.expr(text.replace("\\", "\\\\")), F.lit(number)) for number, text in rules]
    fired = F.explode(F.filter(F.array(*cases), lambda number: number.isNotNull()))
    return events.select("event_id", fired.alias("subscription_id"))


def _rate(name: str, frame: DataFrame, work: RuleWork, repeat: int, note: str, n_events: int = _EVENTS) -> Timing:
    timing = timed(name, frame, n_events, repeat, "")
    about = f"{len(work.literals):,} rules of two patterns, {note}"
    return Timing(name, timing.rate, n_events, timing.pairs, about)


#: `match`, and what users write instead.
TEXT_RULES: dict[str, Callable[[SparkSession, int, int], Timing]] = {
    "text rules": _match,
    "text rules in 1 statement": _in_one_statement,
    "text rules in 5 statements": _in_five_statements,
}
