"""Wrong decisions about shared queues and their dead letters: who holds a message, how often it was taken."""

from __future__ import annotations

from tests.planted.bug import Bug

WORLD = "tests/simulation/test_consumers.py"
QUEUE = "tests/server/test_consumers.py"
READERS = "tests/simulation/test_failing_readers.py"

BUGS = [
    Bug(
        "a_repeated_take_gets_other_messages",
        "routing/consumers/sharing",
        "A consumer that repeats a request gets other messages; those of the lost answer are hidden for some time.",
        "        if not request.id:\n",
        "        if request.link:\n",
        (f"{WORLD}::test_every_event_is_settled_or_dead",),
        costly=True,
    ),
    Bug(
        "deliveries_are_counted_anew_each_time",
        "routing/consumers/sharing",
        "A message that is taken again counts as taken for the first time.",
        "            holds[number] = Hold(hold.deliveries + 1, request.consumer, until, request=request.id)\n",
        "            holds[number] = Hold(1, request.consumer, until, request=request.id)\n",
        (f"{QUEUE}::test_what_is_taken_too_often_is_a_dead_letter",),
        costly=True,
    ),
    Bug(
        "a_message_is_given_to_two_consumers",
        "routing/consumers/sharing",
        "A message that one consumer holds is given to another.",
        "            if hold.is_done or hold.until > moment:\n                continue\n            size",
        "            if hold.is_done:\n                continue\n            size",
        (f"{WORLD}::test_every_event_is_settled_or_dead",),
        costly=True,
    ),
    Bug(
        "a_consumer_settles_what_another_one_holds",
        "routing/consumers/sharing",
        "A consumer whose time is over acknowledges a message that another one has taken.",
        "if hold is None or hold.is_done or hold.consumer != request.consumer:",
        "if hold is None or hold.is_done:",
        (f"{QUEUE}::test_each_message_goes_to_one_consumer_and_to_another_when_that_dies",),
        costly=True,
    ),
    Bug(
        "a_letter_is_replayed_and_stays",
        "routing/consumers/sharing",
        "A dead letter that was put back into the queue is not removed from the dead letters.",
        "self._finish(request.dead, [number for number, _ in letters])",
        "self._finish(request.dead, [])",
        (f"{WORLD}::test_dead_letters_are_replayed_and_dropped_once",),
        costly=True,
    ),
    Bug(
        "what_is_dead_is_lost",
        "routing/consumers/sharing",
        "A message that leaves its queue does not become a dead letter.",
        "        return [*moved, *dropped, *finished,",
        "        return [*dropped, *finished,",
        (f"{QUEUE}::test_what_is_taken_too_often_is_a_dead_letter",),
        costly=True,
    ),
    Bug(
        "a_message_behind_the_first_is_a_dead_letter",
        "routing/consumers/sharing",
        "A message is a dead letter although its reader may have failed on the one before it.",
        "            if request.is_sure and deliveries >= request.most:",
        "            if deliveries >= request.most:",
        (f"{READERS}::test_a_message_that_was_not_alone_is_not_a_dead_letter",),
        costly=True,
    ),
]
