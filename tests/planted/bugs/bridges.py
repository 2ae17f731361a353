"""Wrong decisions of bridges: what follows what, what the broker has, when a message is acknowledged."""

from __future__ import annotations

from tests.planted.bug import Bug

LANES = "tests/unit/runtime/test_bridge_lanes.py"

BUGS = [
    Bug(
        "a_lost_message_is_skipped",
        "runtime/bridges/lanes",
        "What was read before a rewind is published behind a hole.",
        "            if message.after == last:\n",
        "            if message.after >= last:\n",
        (f"{LANES}::test_a_lost_message_stops_the_lane",),
    ),
    Bug(
        "what_the_broker_has_is_published_again",
        "runtime/bridges/lanes",
        "The last message that the broker has taken counts as a new one.",
        "message.number <= self.taken",
        "message.number < self.taken",
        (f"{LANES}::test_what_the_broker_has_is_settled_and_not_published",),
    ),
    Bug(
        "a_batch_does_not_say_what_it_follows",
        "runtime/bridges/intake",
        "A second bridge of the same name skips or repeats messages.",
        "number=number, after=lane.taken)",
        "number=number, after=None)",
        (f"{LANES}::test_a_bridge_that_was_overtaken_reads_again_from_where_the_broker_is",),
    ),
    Bug(
        "a_bridge_that_was_overtaken_goes_on",
        "runtime/bridges/intake",
        "After another bridge of its name has published, a bridge does not read again from where the broker is.",
        "        await self._system.rewind(name, number)\n",
        "",
        (f"{LANES}::test_a_bridge_that_was_overtaken_reads_again_from_where_the_broker_is",),
    ),
    Bug(
        "messages_overtake_one_that_was_refused_for_now",
        "runtime/bridges/intake",
        "A batch is published although the one before it was refused for now.",
        "            if problem is not None and not is_for_good(problem):\n                return",
        "            if problem is not None and not is_for_good(problem) and not stack:\n                return",
        (f"{LANES}::test_the_second_half_of_a_batch_waits_for_the_first",),
    ),
    Bug(
        "a_message_is_acknowledged_before_the_broker_has_it",
        "runtime/bridges/running",
        "A message that is refused for now is acknowledged at the other system.",
        "                later.append(message)\n",
        "                later.append(message)\n                done.append(message)\n",
        (f"{LANES}::test_a_message_is_settled_when_the_broker_has_it_and_not_before",),
    ),
    Bug(
        "one_bad_message_refuses_its_batch",
        "runtime/bridges/intake",
        "All messages of a batch are dead letters when one of them is not an event.",
        "            if problem is not None and len(part) > 1 and is_for_good(problem):\n",
        "            if problem is not None and len(part) > 10_000 and is_for_good(problem):\n",
        (f"{LANES}::test_bad_ones_are_isolated_and_the_rest_is_published_in_order",),
    ),
]
