"""Wrong decisions about links: what a full or skipped link was not sent is not told, or crosses a border."""

from __future__ import annotations

from tests.planted.bug import Bug

DROPS = "tests/simulation/test_dropping_links.py"
GAPS = "tests/unit/routing/test_link_gaps.py"
LINKS = "tests/server/test_links.py"

BUGS = [
    Bug(
        "a_gap_counts_its_first_event_only",
        "routing/core/link_gaps",
        "Further events that a link was not sent are not counted.",
        "msgspec.structs.replace(open_gap, count=min(open_gap.count + count, MAX_COUNT))",
        "msgspec.structs.replace(open_gap, count=min(open_gap.count, MAX_COUNT))",
        (f"{GAPS}::test_a_gap_has_the_first_event_and_the_count_of_each_namespace",),
    ),
    Bug(
        "a_gap_is_not_on_disk",
        "routing/core/link_gaps",
        "A broker that is killed forgets what its links were not sent.",
        "            if link in neighbours:\n",
        "            if link not in neighbours:\n",
        (f"{GAPS}::test_a_gap_is_told_after_a_crash_and_before_the_next_event",),
    ),
    Bug(
        "a_gap_ends_with_the_neighbour",
        "routing/core/event_routing",
        "A broker does not tell its own neighbours of a gap.",
        "                effects.append(Send(link, gap))\n",
        "                effects += []\n",
        (f"{DROPS}::test_what_full_links_drop_is_reported_as_a_gap",),
    ),
    Bug(
        "clients_are_not_told_of_a_gap",
        "routing/core/event_routing",
        "A broker passes a gap on and tells none of its clients.",
        "Send(client, m.Gap(gap.first, gap.count))\n            for client in sorted(self.table.clients())",
        "Send(client, m.Gap(gap.first, gap.count))\n            for client in sorted(self.table.clients())[:0]",
        (
            f"{DROPS}::test_what_full_links_drop_is_reported_as_a_gap",
            f"{DROPS}::test_what_skipped_links_are_not_sent_is_reported_as_a_gap",
        ),
    ),
    Bug(
        "events_overtake_a_gap",
        "routing/core/flow",
        "A link that drops sends again before its gap is told.",
        "(link in self.full or link in self.gaps.links)",
        "link in self.full",
        (f"{GAPS}::test_a_gap_is_told_after_a_crash_and_before_the_next_event",),
    ),
    Bug(
        "a_link_that_is_taken_back_is_not_told",
        "routing/core/flow",
        "A link that is taken back is not told what it was not sent.",
        "return [records.SKIPPED.drop(link), *self.close_gaps(), *self.settle()]",
        "return [records.SKIPPED.drop(link), *self.settle()]",
        (f"{GAPS}::test_a_skipped_link_stays_skipped_after_a_crash_and_is_told_when_it_is_taken_back",),
    ),
    Bug(
        "a_restart_takes_a_skipped_link_back",
        "routing/core/flow",
        "A broker that starts again sends over a link that is skipped.",
        "if records.SKIPPED.find(stored, link)}",
        "if not records.SKIPPED}",
        (f"{GAPS}::test_a_skipped_link_stays_skipped_after_a_crash_and_is_told_when_it_is_taken_back",),
    ),
    Bug(
        "events_of_other_namespaces_cross_in_a_batch",
        "routing/edge/border",
        "A batch of events crosses a border whole.",
        "events = tuple(event for event in message.events if event.namespace in allowed)",
        "events = message.events",
        (f"{LINKS}::test_other_namespaces_cross_a_link_in_neither_direction",),
    ),
    Bug(
        "subscriptions_of_other_namespaces_cross",
        "routing/edge/border",
        "An update crosses a border with the subscriptions of all namespaces.",
        "announce=tuple(entry for entry in message.announce if entry.namespace in allowed)",
        "announce=message.announce",
        (f"{LINKS}::test_other_namespaces_cross_a_link_in_neither_direction",),
    ),
]
