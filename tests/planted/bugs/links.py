"""Wrong decisions about links: what a link drops is not told, what waits is lost, or what crosses a border must not."""

from __future__ import annotations

from tests.planted.bug import Bug

DROPS = "tests/simulation/test_dropping_links.py"
GAPS = "tests/unit/routing/test_link_gaps.py"
LINKS = "tests/server/test_links.py"
OVERFLOWS = "tests/unit/node/test_overflow.py"

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
        (f"{GAPS}::test_a_gap_is_told_after_a_crash_and_before_what_waits",),
    ),
    Bug(
        "a_gap_ends_with_the_neighbour",
        "routing/core/event_routing",
        "A broker does not tell its own neighbours of a gap.",
        "                effects.append(self.flow.send(link, gap))\n",
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
        "What waits behind an outbox is sent before the gap in front of it.",
        "return [*self.gaps.close(link), *([Refill(link)] if link in self.drops else [])]",
        "return [*([Refill(link)] if link in self.drops else []), *self.gaps.close(link)]",
        (f"{GAPS}::test_a_gap_is_told_after_a_crash_and_before_what_waits",),
    ),
    Bug(
        "a_link_that_is_taken_back_is_not_told",
        "routing/core/flow",
        "A link that is taken back is not told what it was not sent.",
        "return [records.SKIPPED.drop(link), *self.use_room(link), *self.settle()]",
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
        "dropped_events_are_not_counted",
        "node/node",
        "The core is not told which messages an overflow dropped.",
        "            self.node._handle(self, Dropped(self._decoded(bodies, link)), link)\n",
        "",
        (
            f"{OVERFLOWS}::test_the_newest_survive_and_the_oldest_are_dropped_with_the_gap_before_the_others",
            f"{DROPS}::test_what_full_links_drop_is_reported_as_a_gap",
        ),
    ),
    Bug(
        "an_overflow_is_not_on_disk",
        "node/overflow",
        "A message that waits behind an outbox is in memory only.",
        "return [records.OVERFLOW.put(self.link, str(self.outbox.append(body)), value=body)]",
        "return [records.OVERFLOW.drop(self.link, str(self.outbox.append(body)))][:0]",
        (f"{OVERFLOWS}::test_a_restart_goes_on_with_what_waits",),
    ),
    Bug(
        "a_message_is_numbered_twice",
        "node/overflow",
        "A message stays in the overflow when it moves to the outbox.",
        "changes += [*end.append(body), *overflow.acknowledge(overflow.acknowledged + 1)]",
        "changes += end.append(body)",
        (f"{OVERFLOWS}::test_a_restart_goes_on_with_what_waits",),
    ),
    Bug(
        "events_pass_those_that_wait",
        "node/overflow",
        "An event goes into the outbox as soon as it has room, and others wait behind it.",
        "return self._has_room(end) and not self.waiting(end.link)",
        "return self._has_room(end)",
        (f"{OVERFLOWS}::test_nothing_passes_what_waits",),
    ),
    Bug(
        "what_waited_at_a_backup_is_sent_twice",
        "node/node",
        "A restored broker sends what waited behind its outbox again, although the other end may have it.",
        "            if frame.ack > former.sent:\n",
        "            if frame.ack > 2 * former.sent + 9:\n",
        (f"{OVERFLOWS}::test_what_waited_at_a_backup_is_sent_unless_the_other_end_may_have_it",),
    ),
    Bug(
        "confirmations_overtake_events",
        "routing/core/broker",
        "A confirmation is sent before events that wait, so a subscription is active too early and has a hole (R12).",
        "[self.flow.send(link, m.Confirm(number)) for link, number in confirmed.items()]",
        "[Send(link, m.Confirm(number)) for link, number in confirmed.items()]",
        (f"{DROPS}::test_what_full_links_drop_is_reported_as_a_gap",),
    ),
    Bug(
        "a_new_life_is_sent_old_confirmations",
        "routing/core/broker",
        "Confirmations that waited for a former life of a neighbour are sent to its new one.",
        "            for bodies in (message.unacknowledged, message.overflow)\n        )\n",
        "            for bodies in (message.unacknowledged, message.overflow)\n        )\n"
        "        overflow = list(message.overflow)\n",
        (f"{GAPS}::test_a_new_life_of_a_neighbour_gets_the_gap_then_what_waited_and_no_old_confirmation",),
    ),
    Bug(
        "what_waits_stays_behind_when_a_link_no_longer_drops",
        "routing/core/flow",
        "A link that dropped in an earlier life and now refuses leaves what waited where it is.",
        "[*self.gaps.close(link), Refill(link, is_all=True)]",
        "self.gaps.close(link)",
        (f"{GAPS}::test_what_waits_gets_numbers_when_the_link_no_longer_drops",),
    ),
    Bug(
        "what_leaves_an_overflow_stays_on_disk",
        "runtime/stores/tables",
        "Dropped messages stay for the retention of messages, so a dead link fills the disk.",
        "            if not kind.is_retained:\n",
        "            if kind.is_retained:\n",
        ("tests/server/test_store.py::test_what_leaves_an_overflow_is_deleted_at_once",),
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
