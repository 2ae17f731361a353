"""The data pipeline on Spark: compile subscriptions, index them, match events, batch or stream.

>>> from tamis.spark import compile_subscriptions, match, session, write_snapshot  # doctest: +SKIP
>>> accepted, rejected = compile_subscriptions(subscriptions, schema=schema)  # doctest: +SKIP
>>> version = write_snapshot(accepted, "snapshots", schema=schema)  # doctest: +SKIP
>>> deliveries = match(events, "snapshots", event_id="id")  # doctest: +SKIP

Nothing here collects or broadcasts events or subscriptions: executors index and write, map the files and match.
"""

from tamis.errors import MissingExtraError

try:
    import pyspark as _pyspark  # noqa: F401  (first, so that its absence is told in our words)
except ImportError:
    raise MissingExtraError("tamis.spark", "spark") from None

from tamis.spark.batch_log import BatchReport, batch_reports
from tamis.spark.broker import register_broker
from tamis.spark.compile import Compiled, compile_subscriptions
from tamis.spark.formats import read_events, read_subscriptions
from tamis.spark.match import check_events, match
from tamis.spark.pipeline import run_pipeline
from tamis.spark.pipeline_file import Pipeline
from tamis.spark.reduce import Reduced, ReductionCounts, reduce_subscriptions
from tamis.spark.session import session
from tamis.spark.snapshot import compact_snapshot, prune_snapshots, read_snapshot, update_snapshot, write_snapshot
from tamis.spark.streaming import match_stream, read_deliveries, read_rejected
from tamis.spark.summary import read_summary

__all__ = [
    "BatchReport",
    "Compiled",
    "Pipeline",
    "Reduced",
    "ReductionCounts",
    "batch_reports",
    "check_events",
    "compact_snapshot",
    "compile_subscriptions",
    "match",
    "match_stream",
    "prune_snapshots",
    "read_deliveries",
    "read_events",
    "read_rejected",
    "read_snapshot",
    "read_subscriptions",
    "read_summary",
    "reduce_subscriptions",
    "register_broker",
    "run_pipeline",
    "session",
    "update_snapshot",
    "write_snapshot",
]
