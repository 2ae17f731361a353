"""Wrong decisions about what is on disk: confirmed too early, kept too long, checked too little."""

from __future__ import annotations

from tests.planted.bug import Bug

STORE = "tests/server/test_store.py"
COMMITTER = "tests/unit/runtime/test_committer.py"

BUGS = [
    Bug(
        "the_head_is_not_written",
        "runtime/stores/sqlite_store",
        "A commit is not noted beside the database, so a log that lost its end goes unnoticed.",
        "        batch.settle()\n        self._head.write(self.tables.books.number)",
        "        batch.settle()",
        (f"{STORE}::test_a_log_that_lost_its_end_is_noticed",),
    ),
    Bug(
        "records_are_not_checked",
        "runtime/stores/books",
        "A damaged record is read as it is.",
        "            if not isinstance(value, bytes) or crc != zlib.crc32(value, zlib.crc32(key)):\n"
        '                raise StoreError(self._path, f"the record {key!r} is damaged")\n',
        "",
        (f"{STORE}::test_damage_that_the_engine_does_not_see_is_refused",),
    ),
    Bug(
        "messages_are_not_checked",
        "runtime/stores/messages",
        "A damaged message is sent as it is.",
        'return zlib.crc32(body, zlib.crc32(f"{number} {at} {link}".encode()))',
        'return zlib.crc32(f"{number} {at} {link}".encode())',
        (f"{STORE}::test_damage_that_the_engine_does_not_see_is_refused",),
    ),
    Bug(
        "trimming_takes_one_message_too_many",
        "runtime/stores/retention",
        "The first message that was not acknowledged is deleted with those that were.",
        'DELETE FROM outbox WHERE link = ? AND number <= ?"',
        'DELETE FROM outbox WHERE link = ? AND number <= ? + 1"',
        (f"{STORE}::test_acknowledged_messages_can_be_read_until_they_are_trimmed",),
    ),
    Bug(
        "a_new_stream_keeps_the_old_numbers",
        "runtime/stores/tables",
        "Messages of a stream that ended are read as part of the stream that began again.",
        "                self.restarted.add(link)\n",
        "",
        (f"{STORE}::test_a_stream_that_begins_again_forgets_its_old_numbers",),
    ),
    Bug(
        "two_processes_share_a_directory",
        "runtime/disk/lock",
        "The lock of the data directory is shared.",
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        (f"{STORE}::test_one_directory_is_for_one_process",),
    ),
    Bug(
        "a_commit_is_not_flushed",
        "runtime/stores/sqlite_store",
        "A commit returns before its log is flushed to the disk.",
        '"synchronous=FULL"',
        '"synchronous=NORMAL"',
        (f"{STORE}::test_no_power_cut_loses_what_was_acknowledged",),
    ),
    Bug(
        "a_replay_begins_with_the_last_one_seen",
        "runtime/stores/messages",
        "Reading after message 1 returns message 1 again.",
        "WHERE link = ? AND number > ? ORDER BY number LIMIT ?",
        "WHERE link = ? AND number >= ? ORDER BY number LIMIT ?",
        (f"{STORE}::test_acknowledged_messages_can_be_read_until_they_are_trimmed",),
    ),
    Bug(
        "confirmed_before_it_is_durable",
        "runtime/broker/committer",
        "Callers are told that their changes are durable before the commit begins.",
        "        try:\n            if changes:\n",
        "        self._call(lambda: self._releases.add(group))\n        try:\n            if changes:\n",
        (
            f"{COMMITTER}::test_no_confirmation_comes_while_the_disk_is_busy",
            f"{COMMITTER}::test_nothing_is_confirmed_before_it_is_durable",
        ),
    ),
    Bug(
        "a_full_disk_counts_as_written",
        "runtime/broker/committer",
        "Changes that found the disk full are given up and confirmed.",
        "                if self._stopped.wait(RETRY_SECONDS):\n                    raise\n",
        "                if self._stopped.wait(RETRY_SECONDS):\n                    raise\n"
        "                return self._call(lambda: self._releases.add([work]))\n",
        (f"{COMMITTER}::test_a_full_disk_is_tried_again_and_nothing_is_confirmed_meanwhile",),
    ),
    Bug(
        "the_first_of_a_group_is_confirmed_alone",
        "runtime/broker/committer",
        "Of the calls that share a transaction only the first is notified.",
        "self._durable.extend(group)",
        "self._durable.extend(group[:1])",
        (f"{COMMITTER}::test_what_gathers_during_a_commit_shares_the_next_one_in_order",),
    ),
    Bug(
        "stopping_drops_the_group_under_way",
        "runtime/broker/committer",
        "When the committer is stopped, changes that were put just before are not written.",
        "        if group:\n            self._commit(",
        "        if group and not self._stopped.is_set():\n            self._commit(",
        (f"{COMMITTER}::test_stopping_commits_what_was_put",),
    ),
]
