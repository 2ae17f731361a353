"""Wrong decisions in the engine and its snapshots: unchecked files, leases, rows that left, expiry, merges."""

from __future__ import annotations

from tests.planted.bug import Bug

SNAPSHOT = "tests/unit/engine/test_snapshot.py"
PARTS = "tests/unit/engine/test_snapshot_parts.py"

BUGS = [
    Bug(
        "files_are_not_checked",
        "engine/snapshot/manifest",
        "A version is opened without a look at sizes and checksums.",
        "    for part in manifest.parts:\n        home = version.parent / part.home",
        "    return\n    for part in manifest.parts:\n        home = version.parent / part.home",
        (f"{SNAPSHOT}::test_a_flipped_bit",),
    ),
    Bug(
        "only_sizes_are_checked",
        "engine/snapshot/manifest",
        "A damaged file of the right size is opened.",
        "    if _checksum(path) != file.crc32:\n",
        "    if _checksum(path) != file.crc32 and size != file.bytes:\n",
        (f"{SNAPSHOT}::test_a_flipped_bit",),
    ),
    Bug(
        "the_manifest_is_not_checked",
        "engine/snapshot/manifest",
        "A manifest with a changed letter is believed.",
        "        if zlib.crc32(envelope.contents) != envelope.crc32:\n",
        "        if not envelope.contents:\n",
        (f"{SNAPSHOT}::test_a_flipped_letter_in_the_manifest",),
    ),
    Bug(
        "a_name_may_lead_out_of_the_directory",
        "engine/snapshot/manifest",
        "A manifest may name a file such as ../../secret.",
        "        if not _FILE.fullmatch(name):\n",
        "        if not _FILE.search(name):\n",
        (f"{PARTS}::test_a_manifest_that_leads_out_of_its_directory",),
    ),
    Bug(
        "prune_ignores_leases",
        "engine/snapshot/versions",
        "A version that a process reads is removed.",
        "        if version.name in kept or not _is_idle(version):\n",
        "        if version.name in kept:\n",
        (f"{PARTS}::test_pruning_keeps_what_is_built_upon_and_what_is_read",),
    ),
    Bug(
        "prune_forgets_what_is_built_upon",
        "engine/snapshot/versions",
        "A version whose files a newer one names is removed.",
        "            kept |= {version.name} | read_manifest(version).homes()\n",
        "            kept |= {version.name}\n",
        (f"{PARTS}::test_pruning_keeps_what_is_built_upon_and_what_is_read",),
    ),
    Bug(
        "prune_keeps_one_too_few",
        "engine/snapshot/versions",
        "Of the newest versions one less is kept than was asked for.",
        "kept = {one.name for one in found[-keep:]} | set(needed)",
        "kept = {one.name for one in found[1 - keep :]} | set(needed)",
        (f"{PARTS}::test_pruning_keeps_what_is_built_upon_and_what_is_read",),
    ),
    Bug(
        "versions_are_sorted_as_text",
        "engine/snapshot/versions",
        "Version 1000000 comes before version 999999.",
        "sorted((m for m in found if m), key=lambda m: int(m[1]))",
        "sorted((m for m in found if m), key=lambda m: m[1])",
        (f"{SNAPSHOT}::test_the_newest_version_is_the_one_with_the_greatest_number",),
    ),
    Bug(
        "a_version_is_not_synced",
        "engine/snapshot/versions",
        "A version is published before its files are on the disk.",
        "    for file in (*place.iterdir(), place):\n        _sync(file)\n",
        "",
        (f"{SNAPSHOT}::test_a_version_is_synced_before_it_is_published",),
    ),
    Bug(
        "rows_that_left_come_back",
        "engine/snapshot/__init__",
        "Rows that a later version took from a part are there again after loading.",
        "    for row in saved.removed.tolist():\n        space.remove_row(first + row)\n",
        "",
        (f"{PARTS}::test_a_version_that_builds_upon_another",),
    ),
    Bug(
        "the_second_part_counts_its_rows_from_zero",
        "engine/snapshot/__init__",
        "Rows that left the second part are taken from the first.",
        "        space.remove_row(first + row)\n",
        "        space.remove_row(row)\n",
        (f"{PARTS}::test_rows_leave_the_part_that_they_are_in",),
    ),
    Bug(
        "a_merge_keeps_the_dead",
        "index/packed/merge",
        "Boxes that were removed before a merge are in the merged segment.",
        "        self._alive = [segment.alive.copy() for segment in sources]\n",
        "        self._alive = [np.full_like(segment.alive, 255) for segment in sources]\n",
        ("tests/unit/index_packed/test_box_index.py::test_everything_removed_then_merged",),
        costly=True,
    ),
    Bug(
        "what_is_due_now_lives_on",
        "engine/namespace",
        "A subscription whose end is this moment is still matched.",
        "        while self._ends and self._ends[0][0] <= now:\n",
        "        while self._ends and self._ends[0][0] < now:\n",
        ("tests/unit/engine/test_engine.py::TestExpiry::test_an_expired_id_is_free",),
        costly=True,
    ),
    Bug(
        "an_id_that_returned_inherits_the_old_end",
        "engine/namespace",
        "The end of a subscription that was cancelled ends the next one of the same id.",
        "one is not None and one.expires == moment and one.id in self.ids and self.ids.row(one.id) == row:",
        "one is not None and one.id in self.ids:",
        ("tests/unit/engine/test_engine.py::TestExpiry::test_an_id_that_returned_does_not_inherit_the_old_end",),
        costly=True,
    ),
]
