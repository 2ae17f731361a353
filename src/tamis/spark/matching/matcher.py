"""One verb for batch and stream: a matcher holds the rules, and every DataFrame of events goes through it.

>>> m = matcher("s3://bucket/rules", event_id="id")  # doctest: +SKIP
>>> deliveries = events.transform(m.match)  # doctest: +SKIP
>>> deliveries, quarantine = m.split(events)  # doctest: +SKIP
>>> marked = events.withColumn("subscribers", m.ids())  # doctest: +SKIP
>>> m.register(spark, "alerts")  # doctest: +SKIP
>>> spark.sql("SELECT * FROM alerts(TABLE(events))")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine import snapshot
from tamis.engine.snapshot.manifest import Manifest, read_manifest
from tamis.errors import SnapshotError, TableError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.columns import arrow_function, id_kind, require, require_places
from tamis.spark.matching.column_functions import Lookup, explained, matching_ids, table_function
from tamis.spark.matching.match import (
    MatchPlan,
    check_events,
    indexed,
    moment_of,
    payload_of,
    require_location,
    require_text,
)
from tamis.spark.matching.pins import PINS
from tamis.spark.running.small_files import absolute_location

__all__ = ["Matcher", "matcher"]


def matcher(
    rules: DataFrame | str | Path,
    *,
    event_id: str = "event_id",
    payload: Sequence[str] = (),
    metadata: bool = False,
    namespace: str = DEFAULT_NAMESPACE,
    namespace_column: str | None = None,
    schema: Schema | None = None,
    now: object = None,
    pins: str | Path | None = None,
    metrics: str | None = None,
    strict: bool = False,
    work: str | Path | None = None,
) -> Matcher:
    """Return a matcher for subscriptions in a snapshot, a DataFrame or a table.

    Parameters
    ----------
    rules
        A snapshot's directory or URI, for its newest version (in a stream the newest at each micro-batch), or that of
        one version. A DataFrame of subscriptions, or the name of a table in the active session, is indexed now; it
        needs ``schema``, and a bad row in it is an error.
    event_id, payload, metadata, namespace, namespace_column
        As in `match`.
    schema
        The attributes; that of the snapshot when not given.
    now
        The moment that decides which subscriptions have ended; when not given, the time of each call. A micro-batch is
        pinned to the moment as to its version, so that it gives the same rows when it runs again.
    pins
        A directory or URI where micro-batches write which version they used; beside the versions when not given.
        All executors must be able to write there.
    metrics
        A name under which `Matcher.match` counts ``rows``, the observed metrics ``NAME_events`` and ``NAME_deliveries``
        that listeners and ``StreamingQuery.lastProgress`` show. Matchers in one query need different names.
    strict
        As in `match`.
    work
        Where the index of a DataFrame or a table lies, as in `match`.
    """
    require_location(rules, "rules")
    require_text(event_id=event_id, namespace=namespace, namespace_column=namespace_column, metrics=metrics)
    if not isinstance(payload, Iterable):
        raise TableError(f"payload: expected names of columns or '*', got {type(payload).__name__}")
    chosen = payload if isinstance(payload, str) else tuple(payload)
    if pins is not None:
        require_places(pins=pins)
    pinned_at = None if pins is None else absolute_location(pins)
    settings = Matcher(
        "", event_id, chosen, namespace, namespace_column, schema, now, pinned_at, metrics, metadata, strict
    )
    if isinstance(rules, DataFrame):
        return settings.at(indexed(rules, _demanded(schema, "a DataFrame"), work))
    if isinstance(rules, str) and _is_table(rules):
        table = SparkSession.active().table(rules)
        return settings.at(indexed(table, _demanded(schema, f"the table {rules}"), work))
    try:
        snapshot.version_at(rules)  # says at once what is missing
    except SnapshotError as error:
        if "/" in str(rules):
            raise
        raise SnapshotError(error.path, f"{error.problem}, and the session has no table {str(rules)!r}") from None
    return settings.at(rules)


@dataclass(frozen=True)
class Matcher:
    """Subscriptions, and the settings with which events are matched; made by `matcher`."""

    location: str
    event_id: str
    payload: tuple[str, ...] | str
    namespace: str
    namespace_column: str | None
    schema: Schema | None
    now: object
    pins: str | None
    metrics: str | None = None
    metadata: bool = False
    strict: bool = False

    def at(self, location: str | Path) -> Matcher:
        """Return the matcher for the rules at a location."""
        return replace(self, location=str(location))

    def match(self, events: DataFrame) -> DataFrame:
        """Return (event_id, subscription_id), payload and metadata for every subscription that matches an event.

        On a stream each micro-batch meets one version, the newest when it is first run, and the same one when it runs
        again. An event whose values do not fit the schema matches nothing; `split` tells which. A column of a type in
        which no value can fit is an error; an attribute without a column is missing in every event.
        """
        named = [self.namespace_column] if self.namespace_column else []
        require(events, [self.event_id], "the table of events")
        payload = payload_of(events, self.payload, self.event_id, self.metadata)
        require(events, [*payload, *named], "the table of events")
        version = snapshot.version_at(self.location)
        pins = self._pins(version) if events.isStreaming and self._follows(version) else None
        namespaces = (self.namespace, self.namespace_column)
        counted = self._counted(events, "events")
        plan = MatchPlan(counted, version, self.schema, self.event_id, *namespaces, payload, pins, self.metadata)
        plan.check_absent(strict=self.strict)
        now = None if pins is not None and self.now is None else moment_of(self.now)
        return self._counted(plan.deliveries(now), "deliveries")

    def split(self, events: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Return (deliveries, quarantine): what `match` gives, and (event_id, reason) of events that do not fit."""
        version, manifest = self._manifest()
        saved_schema = manifest.read_schema(version)
        wanted = (
            saved_schema
            if self.schema is None
            else saved_schema.extended(dict(self.schema), "the schema given to matcher")
        )
        return self.match(events), check_events(events, schema=wanted, event_id=self.event_id)

    def ids(self, *columns: str) -> Column:
        """Return a column with the ids of the subscriptions that match each row, sorted; null for a row that is bad.

        The attributes are read from the columns named here, or from all; ``namespace_column`` is read in any case. A
        column of Spark's type GEOMETRY or VARIANT has to be cast first (``ST_AsBinary``, ``CAST(... AS STRING)``).
        """
        lookup, kind = self._lookup()
        item = T.LongType() if kind == "long" else T.StringType()
        function = arrow_function(matching_ids(lookup, kind), T.ArrayType(item))
        return function(self._struct(columns))

    def explain(self, subscription_id: str | int | Column, *columns: str) -> Column:
        """Return a column that says why each row matches a subscription or does not; null if there is no such id."""
        if not isinstance(subscription_id, str | int | Column):
            kind = type(subscription_id).__name__
            raise TableError(f"subscription_id: expected a string, a whole number or a column of ids, got {kind}")
        lookup, _ = self._lookup()
        id = subscription_id if isinstance(subscription_id, Column) else F.lit(subscription_id)
        function = arrow_function(explained(lookup), T.StringType())
        return function(self._struct(columns), id)

    def register(self, spark: SparkSession, name: str, *, event_id_type: str = "string") -> None:
        """Make the matcher a table function of SQL: ``SELECT * FROM name(TABLE(events))``.

        Its columns are event_id, which is cast to ``event_id_type``, and subscription_id. A batch query is matched with
        the version and the moment of this call, a micro-batch with those to which it is pinned.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise TableError(f"name: expected a name that SQL calls without quotes, such as alerts; got {name!r}")
        lookup, kind = self._lookup()
        handler = table_function(lookup, self.event_id, event_id_type, kind)
        make: Any = F.arrow_udtf
        spark.udtf.register(name, make(handler, returnType=f"event_id {event_id_type}, subscription_id {kind}"))

    def _struct(self, columns: Sequence[str]) -> Column:
        """Return the named columns as one, with the column of namespaces; without names all columns."""
        beside = [self.namespace_column] if columns and self.namespace_column not in (None, *columns) else []
        return F.struct(*(columns or ("*",)), *beside)

    def _counted(self, rows: DataFrame, name: str) -> DataFrame:
        """Return the rows, which are counted as they pass if the matcher has metrics."""
        if self.metrics is None:
            return rows
        return rows.observe(f"{self.metrics}_{name}", F.count(F.lit(1)).alias("rows"))

    def _manifest(self) -> tuple[snapshot.Version, Manifest]:
        version = snapshot.version_at(self.location)
        return version, read_manifest(snapshot.opened(version, parts=False))

    def _lookup(self) -> tuple[Lookup, str]:
        """Return what workers need to open the rules, and the type of the ids."""
        version, manifest = self._manifest()
        follows = self._follows(version)
        where = str(version).rpartition("/")[0] if follows else str(version)
        pins = self._pins(version) if follows else None
        described = None if self.schema is None else self.schema.to_json()
        now = moment_of(self.now)
        moments, namespaces = (now, None if self.now is None else now), (self.namespace, self.namespace_column)
        lookup = Lookup(where, str(version), pins, *moments, *namespaces, described)
        return lookup, id_kind(manifest, version)

    def _follows(self, version: snapshot.Version) -> bool:
        """Whether newer versions are used: the location is not that of one version."""
        return snapshot.name_of(self.location.rstrip("/")) != snapshot.name_of(version)

    def _pins(self, version: snapshot.Version) -> str:
        return self.pins or f"{str(version).rpartition('/')[0]}/{PINS}"


def _is_table(name: str) -> bool:
    """Whether a name means a table: it looks like no path, and the active session knows it."""
    spark = SparkSession.getActiveSession()
    return "/" not in name and spark is not None and not Path(name).exists() and spark.catalog.tableExists(name)


def _demanded(schema: Schema | None, source: str) -> Schema:
    if schema is None:
        raise TableError(
            f"rules from {source} need schema=, the attributes that events carry (of Sigma rules: tamis import sigma "
            "--schema FILE); tamis.spark.match(events, rules) takes them from the events"
        )
    return schema
