"""Rules that live in a table: `sync_snapshot` publishes the difference between the table and the newest version.

Only rules that differ are compiled and indexed: as parts of their own beside those of the version, which lose the rows
that left. `differences` finds them, `parts_to_merge` says when small parts become one. See decision 0059.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tamis.engine import snapshot
from tamis.engine.snapshot import Version
from tamis.engine.snapshot.manifest import Manifest, read_manifest
from tamis.engine.snapshot.parts import read_removed
from tamis.errors import SchemaError, SnapshotConflictError, TableError
from tamis.model.schema import Schema
from tamis.spark.columns import arrow_form, id_kind, id_type, require_filters
from tamis.spark.running.progress import named_jobs
from tamis.spark.snapshots.differences import (
    among,
    changed_buckets,
    differing_rules,
    entering,
    fetched,
    given_among,
    known_rules,
    states_of,
)
from tamis.spark.snapshots.few_rules import DELETED, decide
from tamis.spark.snapshots.snapshot import (
    PART_SIZE,
    index_version,
    new_state,
    publish_changes,
    renew_snapshot,
    unless_overtaken,
)
from tamis.spark.snapshots.summary import SUMMARY
from tamis.spark.subscriptions.compile import (
    Compiled,
    compile_subscriptions,
    compiled_form,
    no_rejected,
    prepared_rules,
)
from tamis.spark.subscriptions.compiling import Compile
from tamis.spark.tiles.tiles import TILES, read_tiles
from tamis.spark.tiles.tiling import Tiling

__all__ = ["SyncReport", "apply_changes", "first_version", "parts_to_merge", "sync_snapshot", "tidied"]

#: Small parts of a namespace up to which nothing is merged; each part makes every match slower.
_MOST_PARTS = 8
#: Living rows from which a part is large enough for ever.
_LARGE = PART_SIZE // 2
#: Dead rows of a part that are never worth a version of their own.
_FEW_DEAD = 1000


@dataclass(frozen=True)
class SyncReport:
    """What a synchronisation did; ``quarantine`` are the rejected rows with ``reason`` and ``position``."""

    #: The newest version afterwards; the one before when nothing differed.
    version: Version
    added: int
    changed: int
    #: Rules that left: their row is gone, or says something now that cannot be compiled.
    removed: int
    unchanged: int
    rejected: int
    quarantine: DataFrame
    #: Files beside the version before that the new one lacks: ``tiles.json``, ``summary.json``.
    dropped: tuple[str, ...] = ()
    _tiling: Tiling | None = None
    _releases: tuple[Callable[[], object], ...] = ()

    def release(self) -> None:
        """Give back what Spark keeps of the rows that differed; the quarantine must be read before."""
        for release in self._releases:
            release()


def sync_snapshot(
    rules: DataFrame, directory: str | Path, *, schema: Schema | None = None, rebuild: bool = True
) -> SyncReport:
    """Publish the smallest update that makes the newest version hold the rules of a table; return what it did.

    Parameters
    ----------
    rules
        As `compile_subscriptions` takes them: ``id``, ``filter``, optionally ``namespace``, ``expires``, ``metadata``.
    directory
        A directory or URI of versions. When it has none, all rules are indexed.
    schema
        The attributes; that of the newest version when not given. Another one than that version has is refused,
        because rules that did not change would not be compiled with it.
    rebuild
        Build tiles and the routing summary again, if the version before had them, in a version that follows the update
        at once; else the new version has none.

    The version holds afterwards what `write_snapshot` would make of the accepted rows: a rule that is changed to
    something that cannot be compiled leaves. When nothing differs no version is written. When another writer
    publishes a version meanwhile, the difference is found again. Call ``release()`` on the report in the end.
    """
    require_filters(rules, ["id", "filter"], "the table of rules", variant=True)
    if rules.isStreaming:
        raise TableError("sync_snapshot needs a table that is complete; use sync_stream for a stream of changes")

    def sync() -> SyncReport:
        base = snapshot.find_newest(directory)
        if base is None:
            return first_version(rules, directory, schema)
        return apply_changes(rules.withColumn(DELETED, F.lit(False)), base, schema, whole=True)

    with named_jobs(f"tamis sync {directory}"):
        return tidied(rules.sparkSession, unless_overtaken(sync), rebuild=rebuild)


def first_version(rules: DataFrame, directory: str | Path, schema: Schema | None) -> SyncReport:
    """Index all rules as the first version, and report it; `SnapshotConflictError` when there is one meanwhile."""
    if schema is None:
        raise SchemaError("", f"{directory} has no version yet: name the attributes of events with schema=")
    compiled = compile_subscriptions(rules, schema=schema)
    accepted, rejected = compiled
    try:
        with snapshot.building(directory) as place:
            version = index_version(accepted, place, new_state(schema), after=snapshot.before_all(directory))
    except BaseException:
        compiled.release()
        raise
    counts = (accepted.count(), 0, 0, 0, rejected.count())
    return SyncReport(version, *counts, rejected, _releases=(compiled.release,))


def apply_changes(changes: DataFrame, base: Version, schema: Schema | None, *, whole: bool) -> SyncReport:
    """Publish the version after ``base`` with the changes, unless there are none; rows with `DELETED` leave.

    With ``whole`` the changes are all rules: what is not among them leaves, too. Raises `SnapshotConflictError` when
    another version follows the base already.
    """
    local = snapshot.opened(base, parts=False)
    manifest = read_manifest(local)
    known_schema, kind = _checked_schema(base, manifest, schema), _checked_kind(changes, base, manifest)
    # Spark would answer an equal plan from what it kept of an earlier call: see compile_subscriptions.
    marked = changes.withColumn("__tamis_call", F.lit(uuid.uuid4().hex))
    table = prepared_rules(marked, kind, ("filter", DELETED))
    changed = changed_buckets(table, base, manifest, whole=whole)
    if not len(changed.numbers):
        return SyncReport(base, 0, 0, 0, changed.unchanged, 0, no_rejected(changes.sparkSession, kind))
    rules, saved = given_among(table, changed), known_rules(changes.sparkSession, base, manifest, kind, changed)
    if changed.is_few:
        report = _apply_few(base, known_schema, rules, saved, whole=whole)
        return _finished(replace(report, unchanged=report.unchanged + changed.unchanged), base, local, manifest)
    rules, counter = rules.persist(), Observation()
    differing = differing_rules(rules, saved, counter, whole=whole).persist()
    wanted = among(rules.where(~F.col(DELETED)), differing.where("given > 0")).drop(DELETED)
    compiled = compile_subscriptions(wanted, schema=known_schema)
    releases = (rules.unpersist, differing.unpersist, compiled.release)
    try:
        version, counts = _publish(base, differing, compiled)
        unchanged = counts["unchanged"] + (counter.get["unchanged"] or 0) + changed.unchanged
        numbers = (counts["added"], counts["changed"], counts["removed"], unchanged, compiled[1].count())
    except BaseException:
        for release in releases:
            release()
        raise
    return _finished(SyncReport(version, *numbers, compiled[1], _releases=releases), base, local, manifest)


def _apply_few(base: Version, schema: Schema, rules: DataFrame, saved: DataFrame, *, whole: bool) -> SyncReport:
    """Publish what the given rules change in the known ones, decided in this process."""
    kind = id_type(rules, "id")
    task, form = Compile(schema.to_json(), None), arrow_form(compiled_form(kind), rules)
    few = decide(fetched(rules), fetched(saved), task, form, whole=whole)
    counts, version = few.counts, base
    if few.leaving or few.entering:
        version = publish_changes(base, few.leaving, few.entering if few.entering else None)
    spark = rules.sparkSession
    rejected = spark.createDataFrame(few.rejected) if few.rejected else no_rejected(spark, kind)
    numbers = (counts["added"], counts["changed"], counts["removed"], counts["unchanged"], len(few.rejected))
    return SyncReport(version, *numbers, rejected)


def _publish(base: Version, differing: DataFrame, compiled: Compiled) -> tuple[Version, dict[str, int]]:
    """Publish the version that follows ``base`` if a rule is added, changed or removed; count the rules by state."""
    states = states_of(differing, compiled)
    counts = _counted(states)
    if not (counts["added"] or counts["changed"] or counts["removed"]):
        return base, counts
    leaving = states.where("state IN ('changed', 'removed')").select("part", "row")
    return publish_changes(base, leaving, entering(compiled, states)), counts


def _finished(report: SyncReport, base: Version, local: Path, manifest: Manifest) -> SyncReport:
    """Return the report with what a new version lacks that the version before had beside its parts."""
    if report.version == base:
        return report
    tiles, dropped = read_tiles(local, manifest), sorted(manifest.beside.keys() & {TILES, SUMMARY})
    return replace(report, dropped=tuple(dropped), _tiling=None if tiles is None else tiles.tiling)


def tidied(spark: SparkSession, report: SyncReport, *, rebuild: bool = True) -> SyncReport:
    """Merge small parts and parts with many dead rows, and rebuild what the update dropped, in a next version."""
    if not report.added and not report.changed and not report.removed:
        return report
    local = snapshot.opened(report.version, parts=False)
    parts = read_manifest(local).parts
    merge = parts_to_merge([(part.namespace, part.n_rows, len(read_removed(local, part))) for part in parts])
    needs_rebuild = rebuild and bool(report.dropped)
    if not merge and not needs_rebuild:
        return report
    tiling, summary = (report._tiling, SUMMARY in report.dropped) if needs_rebuild else (None, False)
    try:
        version = renew_snapshot(spark, report.version, merge=merge, tiling=tiling, summary=summary)
    except SnapshotConflictError:  # another writer's version is the newest now; its own update or the next one tidies
        return report
    return replace(report, version=version, dropped=() if needs_rebuild else report.dropped)


def parts_to_merge(parts: Sequence[tuple[str, int, int]]) -> list[int]:
    """Return the numbers of the parts that become one, of the (namespace, rows, dead rows) of each.

    Parts that are mostly dead are written again. When a namespace has many parts that are not large, the smallest ones
    are merged up to the first that is more than twice as large as all of them together: so each rule is written again a
    few times only.

    >>> parts_to_merge([("a", 10_000, 6_000), ("a", 500, 0), ("a", 9, 9)])
    [0]
    >>> parts_to_merge([("a", 1000, 0), *[("a", 10, 0)] * 8])
    [1, 2, 3, 4, 5, 6, 7, 8]
    >>> parts_to_merge([("a", 1_000_000, 0)] * 20 + [("a", 10, 0)] * 8)
    []
    """
    chosen = {number for number, (_, rows, dead) in enumerate(parts) if 2 * dead > rows and dead > _FEW_DEAD}
    for namespace in {namespace for namespace, _, _ in parts}:
        sizes = ((rows - dead, i) for i, (name, rows, dead) in enumerate(parts) if name == namespace)
        living, total = sorted(pair for pair in sizes if pair[0] < _LARGE), 0
        for index, (size, number) in enumerate(living if len(living) > _MOST_PARTS else ()):
            if index > 1 and size > 2 * total:
                break
            chosen.add(number)
            total += size
    return sorted(chosen)


def _checked_schema(base: Version, manifest: Manifest, expected: Schema | None) -> Schema:
    saved = manifest.read_schema(base)
    if expected is not None and expected != saved:
        hint = "write a version with the new schema first (compile_subscriptions, write_snapshot)"
        raise SchemaError("", f"the schema is not that of {base}; {hint}")
    return saved


def _checked_kind(rules: DataFrame, base: Version, manifest: Manifest) -> str:
    kind = id_type(rules, "id")
    if any(part.id_kind != "none" for part in manifest.parts) and kind != id_kind(manifest, base):
        raise TableError(f"ids of type {kind}, but those of {base} are of type {id_kind(manifest, base)}")
    return kind


def _counted(states: DataFrame) -> dict[str, int]:
    """Return how many rules are in each state."""
    zeros = dict.fromkeys(("added", "changed", "removed", "unchanged"), 0)
    counts = states.where("state IS NOT NULL").groupBy("state").count()
    return zeros | {row["state"]: row["count"] for row in counts.collect()}
