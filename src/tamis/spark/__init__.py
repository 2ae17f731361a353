"""The data pipeline on Spark: compile subscriptions, index them, match events, batch or stream.

>>> from tamis.spark import compile_subscriptions, match, session, write_snapshot  # doctest: +SKIP
>>> accepted, rejected = compile_subscriptions(subscriptions, schema=schema)  # doctest: +SKIP
>>> version = write_snapshot(accepted, "snapshots", schema=schema)  # doctest: +SKIP
>>> deliveries = match(events, "snapshots", event_id="id")  # doctest: +SKIP

Nothing here collects or broadcasts events or subscriptions: executors index and write, map the files and match.

Each name is imported when it is first used. Python workers import this package, too, and need none of the plans.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from tamis.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from tamis.spark.broker.data_source import register_broker
    from tamis.spark.functions.register import register_functions
    from tamis.spark.joins.balls import ball_join
    from tamis.spark.joins.covers import covers_join, find_covers
    from tamis.spark.joins.overlay import OverlayPlan, overlay_plan
    from tamis.spark.joins.ranges import hilbert_keys, hilbert_ranges, range_join
    from tamis.spark.joins.regions import relation_join
    from tamis.spark.matching.backtest import backtest
    from tamis.spark.matching.match import check_events, match
    from tamis.spark.matching.matcher import Matcher, matcher
    from tamis.spark.pipelines.pipeline import run_pipeline
    from tamis.spark.pipelines.pipeline_file import Pipeline
    from tamis.spark.reduction.reduce import Reduced, ReductionCounts, reduce_subscriptions
    from tamis.spark.running.session import session
    from tamis.spark.sinks.registry import write_rows
    from tamis.spark.snapshots.snapshot import (
        compact_snapshot,
        prune_snapshots,
        read_snapshot,
        update_snapshot,
        write_snapshot,
    )
    from tamis.spark.snapshots.summary import read_summary
    from tamis.spark.snapshots.sync import SyncReport, sync_snapshot
    from tamis.spark.sources.formats import read_events, read_subscriptions
    from tamis.spark.streaming.batch_log import BatchReport, batch_reports
    from tamis.spark.streaming.stream import match_stream, read_deliveries, read_rejected
    from tamis.spark.streaming.sync_stream import SyncedBatch, read_quarantine, sync_reports, sync_stream
    from tamis.spark.subscriptions.compile import Compiled, compile_subscriptions

if importlib.util.find_spec("pyspark") is None:
    raise MissingExtraError("tamis.spark", "spark")

__all__ = [
    "BatchReport",
    "Compiled",
    "Matcher",
    "OverlayPlan",
    "Pipeline",
    "Reduced",
    "ReductionCounts",
    "SyncReport",
    "SyncedBatch",
    "backtest",
    "ball_join",
    "batch_reports",
    "check_events",
    "compact_snapshot",
    "compile_subscriptions",
    "covers_join",
    "find_covers",
    "hilbert_keys",
    "hilbert_ranges",
    "match",
    "match_stream",
    "matcher",
    "overlay_plan",
    "prune_snapshots",
    "range_join",
    "read_deliveries",
    "read_events",
    "read_quarantine",
    "read_rejected",
    "read_snapshot",
    "read_subscriptions",
    "read_summary",
    "reduce_subscriptions",
    "register_broker",
    "register_functions",
    "relation_join",
    "run_pipeline",
    "session",
    "sync_reports",
    "sync_snapshot",
    "sync_stream",
    "update_snapshot",
    "write_rows",
    "write_snapshot",
]

#: Where each public name lives.
_HOMES = {
    "broker.data_source": ["register_broker"],
    "functions.register": ["register_functions"],
    "joins.balls": ["ball_join"],
    "joins.covers": ["covers_join", "find_covers"],
    "joins.overlay": ["OverlayPlan", "overlay_plan"],
    "joins.ranges": ["hilbert_keys", "hilbert_ranges", "range_join"],
    "joins.regions": ["relation_join"],
    "matching.backtest": ["backtest"],
    "matching.match": ["check_events", "match"],
    "matching.matcher": ["Matcher", "matcher"],
    "pipelines.pipeline": ["run_pipeline"],
    "pipelines.pipeline_file": ["Pipeline"],
    "reduction.reduce": ["Reduced", "ReductionCounts", "reduce_subscriptions"],
    "running.session": ["session"],
    "sinks.registry": ["write_rows"],
    "snapshots.snapshot": [
        "compact_snapshot",
        "prune_snapshots",
        "read_snapshot",
        "update_snapshot",
        "write_snapshot",
    ],
    "snapshots.summary": ["read_summary"],
    "snapshots.sync": ["SyncReport", "sync_snapshot"],
    "sources.formats": ["read_events", "read_subscriptions"],
    "streaming.batch_log": ["BatchReport", "batch_reports"],
    "streaming.stream": ["match_stream", "read_deliveries", "read_rejected"],
    "streaming.sync_stream": ["SyncedBatch", "read_quarantine", "sync_reports", "sync_stream"],
    "subscriptions.compile": ["Compiled", "compile_subscriptions"],
}
#: The first Spark with Arrow functions of columns and Arrow table functions.
_OLDEST = (4, 1)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tamis.spark' has no attribute {name!r}")
    _check_version()
    value = getattr(importlib.import_module(f"tamis.spark.{home}"), name)
    globals()[name] = value
    return value


def _check_version() -> None:
    """Refuse a Spark that lacks Arrow functions, before an import somewhere fails for want of them."""
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise ModelError(
            f"tamis.spark needs PySpark {needed} or newer, this is {pyspark.__version__}: "
            f"pip install 'pyspark>={needed}'"
        )


def __dir__() -> list[str]:
    return __all__
