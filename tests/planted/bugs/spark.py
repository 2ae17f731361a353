"""Wrong decisions under Spark: blocks, tiles, open sides, versions of batches, directories of runs."""

from __future__ import annotations

from tests.planted.bug import Bug

WORKERS = "tests/unit/spark/test_worker_functions.py"
TILING = "tests/unit/spark/test_tiling.py"
DIRECTORY = "tests/unit/spark/test_run_directory.py"

BUGS = [
    Bug(
        "the_last_block_of_matches_is_dropped",
        "spark/matching/matching",
        "Matches that do not fill a whole block are not delivered.",
        "for first in range(0, len(matches), _OUT_ROWS):",
        "for first in range(0, len(matches) - _OUT_ROWS + 1, _OUT_ROWS):",
        (f"{WORKERS}::test_matches_come_in_blocks_and_none_is_missing",),
        costly=True,
    ),
    Bug(
        "events_without_a_namespace_are_lost",
        "spark/matching/matching",
        "An event whose namespace is null is matched with no subscription instead of with the default.",
        "column = column.cast(pa.string()).fill_null(default)",
        'column = column.cast(pa.string()).fill_null("")',
        (f"{WORKERS}::test_an_event_without_a_namespace_is_of_the_default_one",),
        costly=True,
    ),
    Bug(
        "subscriptions_of_a_snapshot_never_end",
        "spark/matching/matching",
        "Workers match subscriptions that have ended.",
        "return Engine.load(mapped(version), clock=lambda: now or 0)",
        "return Engine.load(mapped(version), clock=lambda: 0)",
        (f"{WORKERS}::test_what_has_ended_is_not_matched",),
        costly=True,
    ),
    Bug(
        "every_tile_owns_every_pair",
        "spark/tiles/tile_work",
        "A pair is delivered by every tile that holds both, not by its owner alone.",
        "chosen = np.flatnonzero(owner == tile)",
        "chosen = np.flatnonzero(owner >= 0)",
        (f"{WORKERS}::test_a_pair_is_delivered_by_one_tile",),
        costly=True,
    ),
    Bug(
        "bad_events_are_told_by_every_tile",
        "spark/tiles/tile_work",
        "An event that does not fit the schema is rejected once for each of its tiles.",
        "errors = {row: error for row, error in events.bad.items() if low[row] == tile}",
        "errors = dict(events.bad)",
        (f"{WORKERS}::test_a_bad_event_is_told_by_one_tile",),
        costly=True,
    ),
    Bug(
        "the_owner_is_the_lower_tile",
        "spark/tiles/tiling",
        "A pair is owned by the lower of two tiles, which may not hold both.",
        "return self.number([np.maximum(x, y) for",
        "return self.number([np.minimum(x, y) for",
        (f"{TILING}::test_every_meeting_pair_has_one_owner_that_holds_both",),
    ),
    Bug(
        "a_bound_is_rounded_inward",
        "spark/tiles/tiling",
        "An integer bound that float64 does not hold is rounded to the nearest float, which may lie inside.",
        "return math.nextafter(float(cut[0]), end)",
        "return float(cut[0])",
        (f"{TILING}::test_the_hull_of_a_number",),
    ),
    Bug(
        "the_missing_value_has_no_tile",
        "spark/tiles/tiling",
        "A subscription that accepts a missing value is not in the tile of events without one.",
        "extents.hi[:, number], extents.missing[:, number]\n",
        "extents.hi[:, number], np.zeros(len(extents.lo), np.bool_)\n",
        (f"{TILING}::test_events_without_the_attribute_have_a_tile_of_their_own",),
    ),
    Bug(
        "a_missing_bound_is_zero",
        "spark/subscriptions/typed",
        "A null in a column of bounds means 0 instead of an open side.",
        "return np.asarray(column.fill_null(open_end)) + 0.0",
        "return np.asarray(column.fill_null(0.0)) + 0.0",
        (f"{WORKERS}::test_a_bound_that_is_null_is_open",),
    ),
    Bug(
        "a_batch_begun_before_takes_the_newest_version",
        "spark/streaming/stream",
        "A batch that runs again is matched with the version of now, not with the one it was begun with.",
        "        begin = msgspec.json.decode(data, type=Begin)\n",
        "        begin = msgspec.json.decode(data, type=Begin)\n"
        "        begin = msgspec.structs.replace(begin, version=snapshot.name_of(snapshot.newest(self.directory)))\n",
        (f"{WORKERS}::test_a_batch_that_runs_again_keeps_its_version",),
        costly=True,
    ),
    Bug(
        "the_version_of_the_last_batch_may_be_pruned",
        "spark/streaming/batch_log",
        "The version of the last batch is not in use once the batch has ended, though it may run again.",
        "if batch.batch not in ended or batch.batch == last}",
        "if batch.batch not in ended}",
        (f"{WORKERS}::test_versions_of_open_batches_and_of_the_last_one_are_in_use",),
    ),
    Bug(
        "what_a_killed_run_moved_away_is_lost",
        "spark/pipelines/run_directory",
        "The output of the last run is removed when the next one was killed between two renames.",
        "    if old.exists() and not output.exists():\n        os.rename(old, output)\n",
        "",
        (f"{DIRECTORY}::test_what_killed_runs_left_is_cleared",),
    ),
    Bug(
        "two_runs_write_one_directory",
        "spark/pipelines/run_directory",
        "The lock of a run's directory is shared.",
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        (f"{DIRECTORY}::test_two_runs_at_a_time_are_refused",),
    ),
    Bug(
        "a_lost_event_goes_unnoticed",
        "spark/pipelines/report",
        "Events that never entered the matcher are not missed in the report.",
        "if not whole or self.rows != self.entered + self.unreadable or self.matched_input < 0:",
        "if not whole or self.matched_input < 0:",
        ("tests/spark/test_pipeline.py::test_a_lost_row_is_a_bug_of_ours",),
        costly=True,
    ),
]
