"""Wrong decisions of peers: old attempts, growth, shrinking too early, silent children, missing values."""

from __future__ import annotations

from tests.planted.bug import Bug

CROSSINGS = "tests/unit/overlay/test_crossings.py"
SPACE = "tests/unit/overlay/test_space.py"
WORLDS = "tests/overlay/test_worlds.py"

BUGS = [
    Bug(
        "nothing_is_past",
        "overlay/protocol/dissemination",
        "An attempt that its publisher has given up, or an event it is done with, is passed on again.",
        "    return seat.events.copies.is_done(message.event) or (copy is not None and copy.attempt > message.attempt)",
        "    return False",
        (f"{CROSSINGS}::test_an_old_attempt_is_answered_by_its_number",),
    ),
    Bug(
        "an_incomplete_copy_is_reported_complete",
        "overlay/protocol/dissemination",
        "A receipt that says an event did not reach all is taken for one that says it did.",
        "        copy.complete &= message.complete\n",
        "        copy.complete |= message.complete\n",
        (f"{CROSSINGS}::test_an_event_is_complete_when_all_children_say_so",),
    ),
    Bug(
        "an_old_word_shrinks_an_mbr",
        "overlay/protocol/bounds",
        "An MBR that was told earlier and comes later replaces the newer one.",
        "    if message.received < level.passed[name] or message.order < level.orders[name]:\n",
        "    if message.received < level.passed[name]:\n",
        (f"{CROSSINGS}::test_an_earlier_word_that_comes_later_does_not_shrink_an_mbr",),
    ),
    Bug(
        "a_farewell_ends_a_later_adoption",
        "overlay/protocol/bounds",
        "A child that was adopted again is forgotten when its older farewell arrives.",
        "    if message.seat != seat.name and level.places.get(message.seat) == message.place:\n",
        "    if message.seat != seat.name and message.seat in level.places:\n",
        (f"{CROSSINGS}::test_a_farewell_does_not_end_a_later_adoption",),
    ),
    Bug(
        "a_free_axis_excludes_the_missing_value",
        "overlay/space",
        "A filter that does not ask for an attribute misses events without it.",
        "FREE: Final = (MISSING, 1.0)",
        "FREE: Final = (0.0, 1.0)",
        (f"{SPACE}::test_a_missing_value_meets_only_who_does_not_ask",),
    ),
    Bug(
        "negative_numbers_are_mirrored",
        "overlay/space",
        "On an axis without a domain -1 lies where 1 lies.",
        "    return 0.5 + rank / 2 if value >= 0 else 0.5 - rank / 2",
        "    return 0.5 + rank / 2",
        (f"{SPACE}::test_places_keep_the_order",),
    ),
    Bug(
        "silent_children_are_kept",
        "overlay/protocol/repair",
        "A child that crashed stays a child for ever.",
        "        for name in [name for name in level.names if level.silent[name] > PATIENCE and name != seat.name]:\n",
        "        for name in [name for name in level.names if level.silent[name] < 0 and name != seat.name]:\n",
        (f"{WORLDS}::test_worlds_heal_and_lose_nothing",),
        costly=True,
    ),
    Bug(
        "finished_events_are_forgotten_at_once",
        "overlay/event_book",
        "The floor of a publisher is one too low, so its last finished event counts as not done.",
        "        return event.id.seq < page.floor\n",
        "        return event.id.seq < page.floor - 1\n",
        (f"{CROSSINGS}::test_what_its_publisher_is_done_with_is_not_delivered_again",),
    ),
]
