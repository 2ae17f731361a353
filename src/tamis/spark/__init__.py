"""The data pipeline on Spark: compile subscriptions, index them, match events, batch or stream.

>>> from tamis.spark import compile_subscriptions, match, session, write_snapshot  # doctest: +SKIP
>>> accepted, rejected = compile_subscriptions(subscriptions, schema=schema)  # doctest: +SKIP
>>> version = write_snapshot(accepted, "snapshots", schema=schema)  # doctest: +SKIP
>>> deliveries = match(events, "snapshots", event_id="id")  # doctest: +SKIP

Nothing here collects or broadcasts events or subscriptions: executors index and write, map the files and match.
"""

from tamis.spark.batch_log import BatchReport, batch_reports
from tamis.spark.compile import compile_subscriptions
from tamis.spark.match import check_events, match
from tamis.spark.session import session
from tamis.spark.snapshot import compact_snapshot, prune_snapshots, read_snapshot, update_snapshot, write_snapshot
from tamis.spark.streaming import match_stream, read_deliveries, read_rejected

__all__ = [
    "BatchReport",
    "batch_reports",
    "check_events",
    "compact_snapshot",
    "compile_subscriptions",
    "match",
    "match_stream",
    "prune_snapshots",
    "read_deliveries",
    "read_rejected",
    "read_snapshot",
    "session",
    "update_snapshot",
    "write_snapshot",
]
