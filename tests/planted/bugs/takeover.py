"""Wrong decisions when a broker takes over: who may write, what was committed, which address is called."""

from __future__ import annotations

from tests.planted.bug import Bug

STORE = "tests/server/test_postgres_store.py"
CALLS = "tests/unit/runtime/test_broker_addresses.py"

BUGS = [
    Bug(
        "a_broker_that_was_replaced_writes",
        "runtime/stores/postgres_connections",
        "A transaction begins with the fence of the database instead of its own.",
        'self.db.execute("UPDATE lease SET writer = %s", [self.lease.fence])',
        'self.db.execute("UPDATE lease SET writer = fence")',
        (f"{STORE}::test_a_broker_that_was_replaced_cannot_write",),
        costly=True,
    ),
    Bug(
        "a_broker_that_was_replaced_takes_the_lease_back",
        "runtime/stores/lease",
        "A new connection gets a new fence, although another broker holds the lease.",
        "writer = fence + 1 FROM alive WHERE holder = %s RETURNING fence",
        "writer = fence + 1 FROM alive WHERE holder <> '' OR holder = %s RETURNING fence",
        (f"{STORE}::test_a_broker_that_was_replaced_cannot_write",),
        costly=True,
    ),
    Bug(
        "a_heartbeat_is_never_sent",
        "runtime/stores/lease",
        "A broker that serves does not renew its lease.",
        "while not self._stopped.wait(BEAT_SECONDS):",
        "while not self._stopped.wait(100 * BEAT_SECONDS):",
        ("tests/server/test_store.py::test_one_directory_is_for_one_process",),
        costly=True,
    ),
    Bug(
        "a_heartbeat_of_another_broker_counts",
        "runtime/stores/lease",
        "A broker keeps the lease of the broker that has replaced it alive, and goes on.",
        '"UPDATE alive SET at = clock_timestamp() WHERE holder = %s"',
        "\"UPDATE alive SET at = clock_timestamp() WHERE holder <> '' OR holder = %s\"",
        (f"{STORE}::test_a_broker_notices_that_it_was_replaced",),
        costly=True,
    ),
    Bug(
        "a_commit_of_unknown_outcome_is_made_again",
        "runtime/stores/postgres_store",
        "A commit whose answer was lost is written a second time.",
        "            if last == number + 1:\n                break  # it was durable when the connection broke\n",
        "",
        (f"{STORE}::test_a_commit_whose_outcome_is_unknown_is_looked_up",),
        costly=True,
    ),
    Bug(
        "a_commit_of_unknown_outcome_is_taken_for_durable",
        "runtime/stores/postgres_store",
        "A commit whose answer was lost is confirmed without a look.",
        "            if last == number + 1:\n",
        "            if last >= number:\n",
        (f"{STORE}::test_a_commit_whose_outcome_is_unknown_is_looked_up",),
        costly=True,
    ),
    Bug(
        "only_one_address_is_called",
        "runtime/client/http_calls",
        "A call fails although another address of the broker was not tried yet.",
        "            if len(problems) < len(self.addresses):\n",
        "            if len(problems) < 1:\n",
        (f"{CALLS}::test_a_call_goes_to_the_address_that_serves_and_stays_there",),
    ),
    Bug(
        "a_call_that_may_have_been_carried_out_is_repeated",
        "runtime/client/http_calls",
        "A change that must not happen twice is sent to the standby after its answer was lost.",
        "if error.is_uncertain and not may_repeat:",
        "if error.is_uncertain and self.patience < 0:",
        (f"{CALLS}::test_what_must_not_be_done_twice_is_not_repeated_once_it_may_be_done",),
    ),
]
