"""Match: events, batch or stream, against a snapshot or a table of subscriptions; deliveries out."""

from __future__ import annotations

import difflib
import inspect
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tamis.engine import snapshot
from tamis.engine.snapshot import Version
from tamis.engine.snapshot.manifest import Manifest, read_manifest
from tamis.errors import ModelError, TableError
from tamis.model.schema import ALL_STRINGS, Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.model.types import AttributeType, String
from tamis.model.values import moment
from tamis.spark.columns import (
    arrow_form,
    has_path,
    id_kind,
    leaf_names,
    quoted,
    require,
    schema_of,
    value_names,
    values_of,
)
from tamis.spark.matching.matching import EVENT, NAMESPACE, PAYLOAD, MatchTask, check_batches, match_batches
from tamis.spark.matching.scratch import scratch_location
from tamis.spark.running.failures import explaining_workers
from tamis.spark.snapshots.snapshot import write_snapshot
from tamis.spark.subscriptions.compile import compile_subscriptions
from tamis.spark.subscriptions.compiling import LEARNED, Compile, learn_batches
from tamis.spark.tiles.tiles import read_tiles, tiled_deliveries

__all__ = [
    "MatchPlan",
    "check_events",
    "indexed",
    "learned_schema",
    "match",
    "moment_of",
    "payload_of",
    "require_location",
    "require_text",
]

#: Bad subscriptions that an error names.
_NAMED = 10


def match(
    events: DataFrame,
    subscriptions: DataFrame | str | Path,
    *,
    schema: Schema | None = None,
    event_id: str = "event_id",
    namespace: str = DEFAULT_NAMESPACE,
    namespace_column: str | None = None,
    payload: Sequence[str] = (),
    metadata: bool = False,
    now: object = None,
    strict: bool = False,
    work: str | Path | None = None,
) -> DataFrame:
    """Return (event_id, subscription_id) for every subscription that matches an event, once each.

    Parameters
    ----------
    events
        A DataFrame, batch or streaming. Columns that the schema does not name are not looked at.
    subscriptions
        A snapshot: its directory or URI (the newest version) or one version's own; or a DataFrame as
        `compile_subscriptions` takes it, which is indexed at once. A bad one among these is an error.
    schema
        The attributes; that of the snapshot when not given, or what the columns of the events suggest.
    event_id
        The column that names an event. It may hold anything and need not be unique.
    namespace, namespace_column
        Whose subscriptions are asked: one namespace, or for each event the one in a column.
    payload
        Columns of the events that every delivery carries along; ``"*"`` for all of them.
    metadata
        Whether every delivery carries the metadata of its subscription, a map of strings, in a column ``metadata``.
    now
        The moment that decides which subscriptions have ended; the present when not given.
    strict
        An attribute that has no column in the events is missing in every event, as in a table that
        `tamis.Engine.match_table` matches. A warning names such attributes of rules in a DataFrame without ``schema``;
        of a schema or a snapshot, only those that resemble a column. True: they are refused.
    work
        A directory or URI that all executors can read: where the index of a DataFrame lies until this process ends.
        When not given, a temporary directory of this machine, which is enough if the executors run there, too.

    An event whose values do not fit the schema matches nothing; `check_events` tells which and why. A column of a type
    in which no value can fit is an error. The version is fixed here: what is published later is seen by later calls,
    and by `match_stream` as it runs.
    """
    require(events, [event_id], "the table of events")
    payload = payload_of(events, payload, event_id, metadata)
    require(events, [*payload, *([namespace_column] if namespace_column else [])], "the table of events")
    require_location(subscriptions, "the subscriptions")
    require_text(namespace=namespace)
    declared = schema
    if isinstance(subscriptions, DataFrame):
        schema, subscriptions = _indexed_for(events, subscriptions, schema, strict, work)
    version = snapshot.version_at(subscriptions)
    plan = MatchPlan(events, version, schema, event_id, namespace, namespace_column, payload, metadata=metadata)
    if declared is schema:  # otherwise `_indexed_for` looked at what the rules name
        plan.check_absent(strict=strict)
    return plan.deliveries(moment_of(now))


def check_events(events: DataFrame, *, schema: Schema, event_id: str = "event_id") -> DataFrame:
    """Return (event_id, reason) of the events that do not fit the schema and therefore match nothing."""
    require(events, [event_id], "the table of events")
    kind = events.schema[event_id].dataType
    form = T.StructType(
        [
            T.StructField("event_id", kind),
            T.StructField("subscription_id", T.StringType()),
            T.StructField("reason", T.StringType()),
        ]
    )
    names = tuple(value_names(events, schema))
    task = MatchTask("", schema.to_json(), names, None, DEFAULT_NAMESPACE, arrow_form(form, events))
    values = values_of(events, schema, beside=[F.col(quoted(event_id)).alias(EVENT)])
    return values.mapInArrow(partial(check_batches, task=task), form).drop("subscription_id")


class MatchPlan:
    """How the events of a DataFrame meet one version of a snapshot."""

    def __init__(
        self,
        events: DataFrame,
        version: Version,
        schema: Schema | None,
        event_id: str,
        namespace: str = DEFAULT_NAMESPACE,
        namespace_column: str | None = None,
        payload: Sequence[str] = (),
        pins: str | None = None,
        metadata: bool = False,
    ) -> None:
        self._events = events
        self._metadata = metadata
        self._pins = pins
        self._version = version
        self._local = snapshot.opened(version, parts=False)
        self._manifest = read_manifest(self._local)
        self._schema = _schema_for(events, self._manifest, version, schema)
        self._event_id = event_id
        self._namespace = namespace
        self._namespace_column = namespace_column
        self._payload = payload
        self._ids = T.LongType() if id_kind(self._manifest, version) == "long" else T.StringType()

    def check_absent(self, *, strict: bool) -> None:
        """Warn of attributes without a column that resemble a column; refuse all without a column if ``strict``."""
        form = self._events.schema
        absent = [name for name in self._schema if name != ALL_STRINGS and not has_path(form, name)]
        columns = [name for name in leaf_names(form) if name not in self._schema and name != self._event_id]
        near = _resembling(absent, columns)
        if absent and strict:
            names = _listed(absent, near)
            raise TableError(f"attributes without a column in the events: {names}; add them, or leave out strict=True")
        if near:
            _warn_of_absent("the schema has", _listed(list(near), near), "rename the columns")

    def deliveries(self, now: int | None, *, rejects: bool = False) -> DataFrame:
        """Return the deliveries; with ``rejects`` also the bad events, which have a ``reason``.

        ``now`` decides which subscriptions have ended; None, with pins: the moment at which a micro-batch is pinned.
        """
        kinds = self._events.schema
        fields = [
            T.StructField("event_id", kinds[self._event_id].dataType),
            T.StructField("subscription_id", self._ids),
        ]
        fields += [T.StructField(name, kinds[name].dataType) for name in self._payload]
        fields += [T.StructField("metadata", T.MapType(T.StringType(), T.StringType()))] if self._metadata else []
        fields += [T.StructField("reason", T.StringType())] if rejects else []
        form = T.StructType(fields)
        ends = self._pins is not None or any(part.expires for part in self._manifest.parts)
        task = MatchTask(
            str(self._version) if self._pins is None else str(self._version).rpartition("/")[0],
            self._schema.to_json(),
            tuple(value_names(self._events, self._schema)),
            now if ends else None,
            self._namespace,
            arrow_form(form, self._events),
            rejects,
            self._pins,
            tuple(self._events.columns),
            self._metadata,
        )
        values = values_of(self._events, self._schema, beside=list(self._beside()))
        tiles = read_tiles(self._local, self._manifest)
        if tiles is not None and self._namespace_column is None and self._pins is None:
            return tiled_deliveries(values, tiles, task, form)
        return values.mapInArrow(partial(match_batches, task=task), form)

    def _beside(self) -> Sequence[Column]:
        """Return what travels beside the attributes: the id, the payload, the namespace."""
        columns = [F.col(quoted(self._event_id)).alias(EVENT)]
        columns += [F.col(quoted(name)).alias(f"{PAYLOAD}{number}") for number, name in enumerate(self._payload)]
        if self._namespace_column is not None:
            columns.append(F.col(quoted(self._namespace_column)).cast("string").alias(NAMESPACE))
        return columns


def _schema_for(events: DataFrame, manifest: Manifest, version: Version, declared: Schema | None) -> Schema:
    """Return the schema under which events are read: the snapshot's, which a given one must not contradict."""
    saved = manifest.read_schema(version)
    if declared is not None:
        return saved.extended(dict(declared), "the schema given to match")
    if not manifest.learns:
        return saved
    inferred = schema_of(events)
    return saved.extended({name: inferred[name] for name in inferred if name not in saved}, "the events")


def _indexed_for(
    events: DataFrame, rules: DataFrame, schema: Schema | None, strict: bool, work: str | Path | None
) -> tuple[Schema, Version]:
    """Index rules under a schema, or under what the columns of the events suggest.

    A number or boolean that rules ask for its text is read as text then. Attributes without a column have the types
    that rules show, unless ``strict``.
    """
    if schema is not None:
        return schema, indexed(rules, schema, work)
    shown = schema_of(events)
    try:
        return shown, indexed(rules, shown, work)
    except TableError:
        named = learned_schema(shown, rules)
        absent = sorted(name for name in named if name != ALL_STRINGS and not has_path(events.schema, name))
        learned = Schema({name: named[name] for name in named if not strict or name not in absent})
        if learned == shown:
            raise
    version = indexed(rules, learned, work)
    if absent:
        names = _listed(absent, _resembling(absent, list(shown)))
        remedy = "give strict=True to refuse such rules, or a schema that declares the attributes"
        _warn_of_absent("rules name", names, remedy)
    return learned, version


def _resembling(names: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Return the names that resemble a column, each with that column."""
    folded = {column.casefold(): column for column in columns}
    near = {name: difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.8) for name in names}
    return {name: folded[matches[0]] for name, matches in near.items() if matches}


def _listed(names: Sequence[str], near: Mapping[str, str]) -> str:
    """Return names for a message; one that resembles a column may be a typing error and comes first."""
    likely = sorted(names, key=lambda name: name not in near)  # stable
    shown = [f"{name!r} (did you mean {near[name]!r}?)" if name in near else repr(name) for name in likely[:_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _warn_of_absent(source: str, names: str, remedy: str) -> None:
    """Warn of attributes that no event has."""
    warnings.warn(
        f"{source} attributes without a column in the events, which count as missing in every event: {names}; {remedy}",
        UserWarning,
        stacklevel=_calls_here(),
    )


def _calls_here() -> int:
    """Return the ``stacklevel`` at which a warning of the caller names the line outside of this package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].startswith("tamis.spark."):
        frame, level = frame.f_back, level + 1
    return level


def learned_schema(schema: Schema, rules: DataFrame) -> Schema:
    """Return a schema with the attributes that rules name besides; one that is only asked whether it is there is text.

    An attribute that rules ask for the text of any value becomes a string that reads any value. Of other types that
    rules give an attribute the first by name is taken; `match` says which rule does not fit.
    """
    task = Compile(schema.to_json(), None)
    texts = rules.select(F.col("filter").cast("string").alias("filter"))
    named = texts.mapInArrow(partial(learn_batches, task=task), LEARNED).distinct()
    types: dict[str, AttributeType] = {}
    for row in sorted(named.collect(), key=lambda row: (row.attribute, row.type is None, row.type)):  # attributes
        kind = String() if row.type is None else Schema.from_json(row.type)[row.attribute]
        if row.attribute not in types or kind == String(coerce=True):
            types[row.attribute] = kind
    return Schema({**schema, **types})


def indexed(subscriptions: DataFrame, schema: Schema, work: str | Path | None = None) -> Version:
    """Index a table of subscriptions below ``work``, at a location that is removed when this process ends."""
    compiled = compile_subscriptions(subscriptions, schema=schema)
    accepted, rejected = compiled
    try:
        with explaining_workers():
            rejected_rows = rejected.limit(_NAMED + 1).collect()  # at most eleven rows, for the message
        if rejected_rows:
            named = "\n".join(f"  {row['id']!r}: {row['reason']}" for row in rejected_rows[:_NAMED])
            more = "\n  and more; compile_subscriptions gives them all" if len(rejected_rows) > _NAMED else ""
            raise TableError(f"subscriptions that cannot be used:\n{named}{more}")
        return write_snapshot(accepted, scratch_location(work), schema=schema)
    finally:
        compiled.release()


def payload_of(events: DataFrame, payload: Sequence[str], event_id: str, metadata: bool) -> tuple[str, ...]:
    """Return the columns that deliveries carry along: the given ones, or all for ``"*"``."""
    if isinstance(payload, str):
        names = tuple(name for name in events.columns if name != event_id) if payload == "*" else (payload,)
    else:
        names = tuple(payload)
    reserved = {"event_id", "subscription_id", *(["metadata"] if metadata else [])}
    twice = [name for index, name in enumerate(names) if name in reserved or name in names[:index]]
    if twice:
        raise TableError(f"payload: a delivery has a column {twice[0]!r} already; rename that of the events")
    return names


def require_location(rules: object, name: str) -> None:
    """Raise `TableError` unless rules are a DataFrame or the location of a snapshot."""
    if not isinstance(rules, DataFrame | str | Path):
        hint = "give a DataFrame, the name of a table, or the location of a snapshot"
        raise TableError(f"{name}: got {type(rules).__name__}; {hint}")


def require_text(**settings: object) -> None:
    """Raise `TableError` for a setting that is neither text nor None."""
    for name, value in settings.items():
        if value is not None and not isinstance(value, str):
            raise TableError(f"{name}: expected a string, got {type(value).__name__}")


def moment_of(now: object) -> int:
    """Return a moment in microseconds since 1970, the present for None."""
    if now is None:
        return time.time_ns() // 1000
    try:
        return moment(now)
    except ValueError as error:
        raise ModelError(f"now: {error}") from None
