"""The data pipeline on Spark: compile subscriptions, index them, match events, batch or stream.

>>> from tamis.spark import compile_subscriptions, match, session, write_snapshot  # doctest: +SKIP
>>> accepted, rejected = compile_subscriptions(subscriptions, schema=schema)  # doctest: +SKIP
>>> version = write_snapshot(accepted, "snapshots", schema=schema)  # doctest: +SKIP
>>> deliveries = match(events, "snapshots", event_id="id")  # doctest: +SKIP

Nothing here collects or broadcasts events or subscriptions: executors index and write, map the files and match.
"""

from tamis.spark.compile import compile_subscriptions
from tamis.spark.match import check_events, match
from tamis.spark.session import session
from tamis.spark.snapshot import write_snapshot

__all__ = ["check_events", "compile_subscriptions", "match", "session", "write_snapshot"]
