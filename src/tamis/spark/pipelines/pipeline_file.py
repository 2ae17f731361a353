"""A pipeline as data: what a TOML file says, checked, with every path made whole.

Paths are relative to the file, so that a folder with its pipeline can be moved and run from anywhere.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tamis.engine.snapshot.object_store import check_slashes
from tamis.errors import ModelError, SchemaError
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.spark.sinks.registry import SINKS
from tamis.spark.snapshots.snapshot import PART_SIZE
from tamis.spark.sources.formats import FORMATS

__all__ = ["EXAMPLE", "DeliverySink", "EventSource", "Options", "Pipeline", "ReduceOptions", "SubscriptionSource"]

EXAMPLE = """\
# A pipeline of tamis: run it with `tamis pipeline run FILE`. Paths are relative to this file.
# A line that starts with # shows a key that may be left out.

# name = "my-pipeline"             # what the run is called; the file's name otherwise
# output = "output"                # deliveries, quarantine and report.json; replaced as a whole by each run
# snapshot = "snapshots"           # the indexed subscriptions; a new version only when they changed

[subscriptions]
path = "subscriptions.jsonl"       # a file, a directory, or a pattern such as "subscriptions/*.parquet"
# format = "jsonl"                 # parquet, geoparquet, jsonl, csv, delta, iceberg, table (of the catalog)
# id = "id"                        # the columns: whose question it is (a string or a whole number) ...
# filter = "filter"                # ... and the question, in CQL2: mag >= 5 AND depth < 70
# namespace = "team"               # columns with the namespace, the end and a map of strings beside it
# expires = "until"
# metadata = "labels"

# [subscriptions.bounds]           # instead of a filter: by attribute, columns with its bounds or its value
# mag = ["mag_from", "mag_to"]     # "" leaves a side open
# place = "place"

[events]
path = "events.jsonl"
# format = "jsonl"
# id = "event_id"                  # the column that names an event in the deliveries
# payload = ["place", "at"]        # columns that every delivery carries along
# namespace = "team"               # the column that says whose subscriptions are asked
# variant = "body"                 # a VARIANT or JSON column that holds whole events; needs [schema]

# [deliveries]                     # write the deliveries somewhere else as well, in the place of what is there
# format = "delta"                 # parquet, jsonl, csv, delta, iceberg, table (of the catalog) or console
# path = "alerts"

# [schema]                         # attributes whose type their columns do not show; the others are learned
# mag = "number"                   # number, string, boolean, timestamp, region (WKT or WKB)
# at = { type = "timestamp", zone = "Europe/Berlin" }
# look = { type = "vector", n = 384 }

# [reduce]                         # also work out what links have to carry, and keep it beside the snapshot
# merge = true                     # whether subscriptions that one filter can say are merged
# tile_by = ["lon", "lat"]         # for sets that one worker cannot hold: how to cut them; chosen otherwise
# tiles = 64

# [options]
# master = "local[*]"              # where Spark runs
# namespace = "default"            # whose subscriptions are asked when [events] names no column
# now = 2026-01-01T00:00:00Z       # decides which subscriptions have ended; the present otherwise
# part_size = 1_000_000            # subscriptions indexed together by one task
# spark = { "spark.driver.memory" = "2g" }
"""


class SubscriptionSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where subscriptions come from, and which columns say what.

    A namespace, an end or metadata that is not named here is taken from the column of that name, if there is one.
    """

    path: str
    format: str | None = None
    id: str = "id"
    filter: str = "filter"
    namespace: str | None = None
    expires: str | None = None
    metadata: str | None = None
    #: Instead of a filter: an attribute's lower and upper bound ("" is open), or the column it must equal.
    bounds: dict[str, str | tuple[str, str]] = {}

    def columns(self) -> list[tuple[str, str]]:
        """Return the columns that the table must have, each after the key that names it."""
        keys = [] if self.bounds else ["filter"]
        keys += [key for key in ("namespace", "expires", "metadata") if getattr(self, key) is not None]
        return [(f"subscriptions.{key}", getattr(self, key)) for key in ("id", *keys)]

    @property
    def typed_columns(self) -> dict[str, str | tuple[str | None, str | None]] | None:
        """The bounds as `compile_subscriptions` takes them; None when there is a filter."""
        if not self.bounds:
            return None
        return {
            name: source if isinstance(source, str) else (source[0] or None, source[1] or None)
            for name, source in self.bounds.items()
        }


class EventSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where events come from, and which columns say what."""

    path: str
    format: str | None = None
    id: str = "event_id"
    payload: tuple[str, ...] = ()
    namespace: str | None = None
    variant: str | None = None

    def columns(self) -> list[tuple[str, str]]:
        """Return the columns that the table must have, each after the key that names it."""
        named = [("events.id", self.id), *(("events.payload", name) for name in self.payload)]
        return named if self.namespace is None else [*named, ("events.namespace", self.namespace)]


class DeliverySink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where deliveries go besides the output; ``format`` is one of `tamis.spark.sinks.registry.SINKS`."""

    format: str
    path: str


class ReduceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the routing summary is made; see `reduce_subscriptions`."""

    merge: bool = True
    tile_by: tuple[str, ...] = ()
    tiles: int = 64


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a pipeline runs."""

    master: str | None = None
    part_size: int = PART_SIZE
    namespace: str = DEFAULT_NAMESPACE
    now: dt.datetime | None = None
    spark: dict[str, str | int | float | bool] = {}


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pipeline: read, compile, reduce, snapshot, match, deliver.

    ``schema`` names attributes whose type the events' columns do not show; the others are learned.
    """

    subscriptions: SubscriptionSource
    events: EventSource
    name: str = ""
    snapshot: str = "snapshots"
    output: str = "output"
    schema: dict[str, str | dict[str, Any]] = {}
    #: When given, the routing summary is made, too.
    reduce: ReduceOptions | None = None
    deliveries: DeliverySink | None = None
    options: Options = Options()

    @classmethod
    def from_file(cls, path: str | Path) -> Pipeline:
        """Read a TOML file; a `ModelError` names the file and the key that is wrong."""
        if "://" in str(path):
            raise ModelError(f"{path}: the file of a pipeline is on this machine; give its path")
        check_slashes(path)
        path = Path(path)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: not TOML: {error}") from None
        try:
            pipeline = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise ModelError(f"{path}: {_in_words(str(error))}") from None
        try:
            pipeline.check()
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        return pipeline.below(path.absolute().parent, path.stem)

    def check(self) -> None:
        """Raise `ModelError` for what no type can say: an unknown format, an empty path, a bad schema."""
        for section, source in (("subscriptions", self.subscriptions), ("events", self.events)):
            if not source.path:
                raise ModelError(f"{section}.path: a path is not empty")
            if source.format is not None and source.format not in FORMATS:
                names = ", ".join(FORMATS)
                raise ModelError(f"{section}.format: there is no format {source.format!r}; choose from {names}")
        if self.deliveries is not None:
            _check_sink(self.deliveries)
        if self.options.part_size < 1:
            raise ModelError(f"options.part_size: {self.options.part_size} is not a size; a part holds at least one")
        if self.reduce is not None and self.reduce.tiles < 2:
            raise ModelError(f"reduce.tiles: {self.reduce.tiles} tiles; two is the least")
        if self.options.now is not None and self.options.now.tzinfo is None:
            raise ModelError("options.now: a time without a zone; write it as 2026-01-01T00:00:00Z")
        if self.events.variant is not None and not self.schema:
            raise ModelError("events.variant: whole events in one column need their attributes in [schema]")
        self.declared()

    def declared(self) -> Schema:
        """Return the attributes that the pipeline itself names."""
        described = {
            name: {"type": described_type} if isinstance(described_type, str) else described_type
            for name, described_type in self.schema.items()
        }
        try:
            return Schema.from_json(msgspec.json.encode({"attributes": described}))
        except SchemaError as error:
            raise SchemaError(f"schema.{error.attribute}", error.problem) from None

    def below(self, folder: Path, name: str) -> Pipeline:
        """Return the pipeline with its paths placed in a folder, called ``name`` if it has no name."""
        change = msgspec.structs.replace
        return change(
            self,
            name=self.name or name,
            subscriptions=_with_place(self.subscriptions, folder),
            events=_with_place(self.events, folder),
            deliveries=None if self.deliveries is None else _with_place(self.deliveries, folder),
            snapshot=_placed(self.snapshot, folder),
            output=_placed(self.output, folder),
        )


Described = TypeVar("Described", SubscriptionSource, EventSource, DeliverySink)


def _with_place(described: Described, folder: Path) -> Described:
    """Return a source or a sink with its path placed in a folder; the names of tables and titles stay."""
    if described.format in ("table", "iceberg", "console"):
        return described
    return msgspec.structs.replace(described, path=_placed(described.path, folder))


def _check_sink(sink: DeliverySink) -> None:
    if sink.format not in SINKS or sink.format == "kafka":  # a topic is added to, and a run replaces
        names = ", ".join(name for name in SINKS if name != "kafka")
        raise ModelError(f"deliveries.format: there is no sink {sink.format!r} for a run; choose from {names}")
    SINKS[sink.format].resolve(sink.path)


def _placed(path: str, folder: Path) -> str:
    check_slashes(path)
    return path if "://" in path else str(folder / Path(path).expanduser())


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": Pipeline,
    "subscriptions": SubscriptionSource,
    "events": EventSource,
    "reduce": ReduceOptions,
    "deliveries": DeliverySink,
    "options": Options,
}


def _in_words(problem: str) -> str:
    """Say what msgspec says in the words of a TOML file.

    >>> _in_words("Object contains unknown field `fromat` - at `$.events`")
    "[events] has no key 'fromat' (did you mean 'format'?); it has path, format, id, payload, namespace, variant"
    >>> _in_words("Object missing required field `path` - at `$.events`")
    "[events] needs the key 'path'"
    >>> _in_words("Expected `str`, got `int` - at `$.events.path`")
    'events.path: expected str, got int'
    """
    message, _, location = problem.partition(" - at ")
    section = location.strip("`").removeprefix("$").removeprefix(".")
    named = re.search(r"field `(.*)`$", message)
    if named is None:
        return f"{section}: {message[:1].lower()}{message[1:].replace('`', '')}"
    where = f"[{section}]" if section else "the file"
    if "missing" in message:
        return f"{where} needs the {'key' if section else 'table'} {named[1]!r}"
    fields = _SECTIONS[section].__struct_fields__ if section in _SECTIONS else ()
    return f"{where} has no key {named[1]!r}{_near(named[1], fields)}; it has {', '.join(fields)}"


def _near(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""
