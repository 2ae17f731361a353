"""A catalogue of bugs: each replaces one decision of the real code by a plausible wrong one.

Nothing in ``src`` knows of them. A plant says what to patch; ``policy`` and ``weather`` say where to look for it, when
it cannot show elsewhere (a merge needs a merging policy, a lost disk a weather in which disks are lost).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from tamis.algebra.evaluate import matches_subscription
from tamis.curves.runs import difference
from tamis.engine.shelf import Shelf
from tamis.index.mics.space import ContentSpace
from tamis.model.subscription import Values
from tamis.node.core import LinkUp
from tamis.node.effects import Attach, Deliver, Persist, Send
from tamis.node.node import _Step
from tamis.node.stream import Quota, StreamEnd, Window, Wire
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.confirmations import Confirmations
from tamis.routing.core.event_routing import EventRouting
from tamis.routing.core.flow import Flow
from tamis.routing.core.publications import Publications
from tamis.routing.core.routing_table import RoutingTable
from tamis.routing.core.routing_table import _Summaries as Summaries
from tamis.routing.core.summary import Changes, Summary
from tamis.routing.edge.audit import Trail
from tamis.routing.edge.backlogs import Backlogs
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.producers import Producers
from tamis.routing.edge.refusals import Refusals
from tamis.routing.policies import merging
from tamis.routing.policies.covering import CoveringStrategy
from tamis.routing.policies.identity import IdentityStrategy
from tamis.routing.policies.subsumption import SubsumptionStrategy
from tamis.routing.policies.two_stage import TwoStageTable
from tamis.routing.table_parts import OutgoingTables, ReceivedTables
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.client.client_link import ClientLink
from tamis.runtime.client.seen_events import SeenEvents
from tamis.runtime.client.session import ClientSession
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.hosts import LIVES
from tests.simulation.world import SCHEMA

FIFO, NOISY, CRASHES, LOST_DISKS = range(4)
#: Outboxes so small that cut links fill them.
SMALL = Quota(3)


@dataclass(frozen=True)
class Plant:
    """A bug: its name, what it replaces, and where it can show."""

    name: str
    target: Any
    attribute: str
    make: Callable[[Any], Any]
    policy: str | None = None
    weather: int | None = None
    quota: Quota | None = None
    backlog: int | None = None
    window: Window | None = None

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Run with the bug in place."""
        with mock.patch.object(self.target, self.attribute, self.make(getattr(self.target, self.attribute))):
            yield


CATALOGUE: list[Plant] = []


def plant(
    target: Any,
    attribute: str,
    *,
    policy: str | None = None,
    weather: int | None = None,
    quota: Quota | None = None,
    backlog: int | None = None,
    window: Window | None = None,
) -> Callable[..., Any]:
    """Put a bug into the catalogue: the function gets what it replaces and returns the replacement."""

    def enter(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CATALOGUE.append(Plant(make.__name__, target, attribute, make, policy, weather, quota, backlog, window))
        return make

    return enter


# The link protocol


@plant(StreamEnd, "accept", weather=NOISY)
def skip_the_sequence_check(real: Any) -> Any:
    def accept(self: StreamEnd, frame: Any) -> bool:
        self.received = max(self.received, frame.seq)
        return True

    return accept


@plant(StreamEnd, "accept", weather=NOISY)
def accept_the_last_one_again(real: Any) -> Any:
    def accept(self: StreamEnd, frame: Any) -> bool:
        fits = frame.seq in (self.received, self.received + 1)
        self.received = frame.seq if fits else self.received
        return fits

    return accept


@plant(Wire, "of", weather=NOISY)
def never_send_again(real: Any) -> Any:
    return staticmethod(lambda end, replay_after=None: Wire((end.epoch, end.peer_epoch), end.sent))


@plant(StreamEnd, "acknowledge", weather=NOISY)
def acknowledge_one_too_many(real: Any) -> Any:
    return lambda self, ack: real(self, ack + 1)


@plant(StreamEnd, "acknowledge", weather=CRASHES)
def leave_acknowledged_messages_on_the_disk(real: Any) -> Any:
    def acknowledge(self: StreamEnd, ack: int) -> list[Persist]:
        real(self, ack)
        return []

    return acknowledge


@plant(StreamEnd, "append", weather=CRASHES)
def keep_the_outbox_in_memory_only(real: Any) -> Any:
    def append(self: StreamEnd, body: bytes) -> list[Persist]:
        real(self, body)
        return []

    return append


@plant(StreamEnd, "cursor", weather=CRASHES)
def keep_the_cursor_in_memory_only(real: Any) -> Any:
    return lambda self: Persist(("nowhere",), None)


@plant(StreamEnd, "restore", weather=CRASHES)
def restore_no_outbox(real: Any) -> Any:
    def restore(self: StreamEnd, cursor: Any, backlog: Any) -> None:
        real(self, cursor, None)

    return restore


@plant(StreamEnd, "meet", weather=LOST_DISKS)
def forget_what_a_former_life_did_not_acknowledge(real: Any) -> Any:
    def meet(self: StreamEnd, epoch: int, *rest: Any) -> Any:
        return [], real(self, epoch, *rest)[1]

    return meet


@plant(StreamEnd, "meet", weather=LOST_DISKS)
def go_on_counting_what_a_former_life_sent(real: Any) -> Any:
    def meet(self: StreamEnd, epoch: int, *rest: Any) -> Any:
        received = self.received
        result = real(self, epoch, *rest)
        self.received = received
        return result

    return meet


@plant(StreamEnd, "meet", weather=LOST_DISKS)
def go_on_numbering_for_a_new_life(real: Any) -> Any:
    def meet(self: StreamEnd, epoch: int, *rest: Any) -> Any:
        sent = self.sent
        result = real(self, epoch, *rest)
        self.outbox.renumber(sent)
        return result

    return meet


@plant(StreamEnd, "is_for_me", weather=LOST_DISKS)
def listen_to_what_was_meant_for_a_former_life(real: Any) -> Any:
    return lambda self, frame: frame.epoch == self.peer_epoch


@plant(BrokerSimulator, "start", weather=LOST_DISKS)
def take_a_new_life_for_the_old_one(real: Any) -> Any:
    def start(self: BrokerSimulator, host: Any) -> None:
        if not host.disk.state and host.epoch and host.machine is None:
            host.epoch -= LIVES
        real(self, host)

    return start


@plant(BrokerMachine, "committed", weather=CRASHES)
def send_before_the_disk_has_it(real: Any) -> Any:
    return lambda self, link: self.node.ends[link].mark


@plant(BrokerSimulator, "_flush", weather=CRASHES)
def commit_half_a_transaction(real: Any) -> Any:
    def flush(self: BrokerSimulator, host: Any, machine: BrokerMachine) -> None:
        if host.machine is not machine or not self.happens(self.faults.crash):
            real(self, host, machine)
            return
        changes = [change for changes, _ in host.commits for change in changes]
        host.disk.commit(changes[len(changes) // 2 :])  # what comes first can be done again, this cannot
        self._crash(host, machine)

    return flush


@plant(_Step, "meet", weather=LOST_DISKS)
def take_no_notice_of_a_new_life(real: Any) -> Any:
    def meet(self: Any, end: StreamEnd, epoch: int) -> None:
        end.peer_epoch = epoch

    return meet


# What neighbours are told


@plant(BrokerCore, "_send_update")
def retract_before_announcing(real: Any) -> Any:
    def send_update(self: Any, link: str, changes: Changes, *, replace: bool) -> Any:
        if replace or not changes.retract:
            return real(self, link, changes, replace=replace)
        first = real(self, link, Changes([], changes.retract), replace=False)
        return first + (real(self, link, Changes(changes.announce), replace=False) if changes.announce else [])

    return send_update


@plant(RoutingTable, "_others", policy="covering")
def suppress_toward_the_supplier(real: Any) -> Any:
    return lambda self, source: iter(self._neighbours)


@plant(RoutingTable, "_others")
def tell_only_the_first_neighbour(real: Any) -> Any:
    return lambda self, source: iter(list(real(self, source))[:1])


@plant(Summary, "_dissolve", policy="covering")
def forget_the_passive_list(real: Any) -> Any:
    def dissolve(self: Any, group: Any) -> None:
        _close(self, group)
        for origin in list(group.members):
            self.members[origin].homes = ()

    return dissolve


def _close(summary: Any, group: Any) -> None:
    """End a group at once, whatever subscriptions it holds."""
    key = str(group.content.id)
    summary._before.setdefault(key, group.content)
    del summary._groups[key]
    group.is_open = False
    summary._strategy.closed(group.content)


@plant(Summary, "take_changes", policy="covering")
def retract_a_cover_before_its_last_slice(real: Any) -> Any:
    def take_changes(self: Any) -> Changes:
        changes = real(self)
        changes.retract += [key for key, group in self._groups.items() if not group.is_open]
        return changes

    return take_changes


@plant(Summary, "take_changes", policy="covering")
def forget_the_later_slices(real: Any) -> Any:
    def take_changes(self: Any) -> Changes:
        changes = real(self)
        changes.again = False
        return changes

    return take_changes


@plant(Summary, "_dissolve", policy="covering")
def announce_again_only_the_first_that_was_hidden(real: Any) -> Any:
    def dissolve(self: Any, group: Any) -> None:
        for origin in sorted(group.members)[1:]:
            self._leave(origin)
        real(self, group)

    return dissolve


@plant(Summary, "remove", policy="merging")
def keep_a_merge_when_a_part_leaves(real: Any) -> Any:
    def remove(self: Any, origin: Any) -> None:
        for key in self._leave(origin):
            if not self._groups[key].members:
                _close(self, self._groups[key])

    return remove


@plant(Summary, "remove", policy="merging")
def end_a_merge_with_its_first_part(real: Any) -> Any:
    def remove(self: Any, origin: Any) -> None:
        for key in self._leave(origin):
            if origin in self._groups[key].contributors:
                _close(self, self._groups[key])

    return remove


@plant(Summary, "_begin", policy="merging")
def count_only_the_newest_part_of_a_merge(real: Any) -> Any:
    def begin(self: Any, origin: Any, content: Any, *others: Any) -> None:
        real(self, origin, content, *others)
        self._groups[str(content.id)].contributors = {origin}

    return begin


@plant(Summary, "_absorb", policy="covering")
def lose_the_members_of_what_is_absorbed(real: Any) -> Any:
    def absorb(self: Any, group: Any, part: Any) -> None:
        real(self, group, part)
        for origin in part.members:
            del group.members[origin]

    return absorb


@plant(Summary, "take_changes")
def never_retract(real: Any) -> Any:
    def take_changes(self: Summary) -> Changes:
        return Changes(real(self).announce)

    return take_changes


@plant(Summary, "take_changes")
def never_announce_and_retract_together(real: Any) -> Any:
    def take_changes(self: Summary) -> Changes:
        changes = real(self)
        return Changes([], changes.retract) if changes.retract else changes

    return take_changes


@plant(Summary, "take_changes", policy="merging")
def retract_a_key_that_was_announced_again(real: Any) -> Any:
    def take_changes(self: Any) -> Changes:
        touched = [key for key, old in self._before.items() if old is not None]
        changes = real(self)
        return Changes(changes.announce, touched)

    return take_changes


@plant(CoveringStrategy, "find_homes", policy="covering")
def take_the_covered_for_the_cover(real: Any) -> Any:
    def find_homes(self: CoveringStrategy, subscription: Any) -> Any:
        return self.covered(subscription)[:1] or None

    return find_homes


@plant(CoveringStrategy, "find_homes", policy="covering")
def trust_a_candidate_without_a_proof(real: Any) -> Any:
    def find_homes(self: Any, subscription: Any) -> Any:
        homes = real(self, subscription)
        if homes is None and self._keys and len(subscription.filters) == 1 and len(self._keys) > 2:
            return (min(self._keys.values()),)
        return homes

    return find_homes


@plant(IdentityStrategy, "find_homes", policy="identity")
def take_equal_attributes_for_equal_filters(real: Any) -> Any:
    def find_homes(self: Any, subscription: Any) -> Any:
        names = [filter.attributes for filter in subscription.filters]
        return next(
            ((key,) for filters, key in self._keys.items() if [filter.attributes for filter in filters] == names), None
        )

    return find_homes


@plant(SubsumptionStrategy, "find_homes", policy="subsumption")
def note_only_one_of_those_that_cover_together(real: Any) -> Any:
    def find_homes(self: SubsumptionStrategy, subscription: Any) -> Any:
        homes = real(self, subscription)
        return None if homes is None else homes[:1]

    return find_homes


@plant(Summary, "_dissolve", policy="subsumption")
def do_not_recheck_what_was_covered_together(real: Any) -> Any:
    def dissolve(self: Any, group: Any) -> None:
        for origin in list(group.members):
            member = self.members[origin]
            if len(member.homes) > 1:
                member.homes = tuple(home for home in member.homes if home != str(group.content.id))
                del group.members[origin]
        real(self, group)

    return dissolve


@plant(merging, "join_filters", policy="merging")
def merge_into_the_first_of_two(real: Any) -> Any:
    return lambda a, b, fill=None: None if real(a, b, fill) is None else b


@plant(merging, "join_filters", policy="merging")
def merge_without_the_missing_value(real: Any) -> Any:
    def join(a: Any, b: Any, fill: Any = None) -> Any:
        joined = real(a, b, fill)
        if joined is None:
            return None
        present = [
            replace(constraint, allowed=replace(constraint.allowed, missing=False))
            if isinstance(constraint, Values)
            else constraint
            for constraint in joined.constraints
        ]
        return replace(joined, constraints=tuple(present))

    return join


@plant(merging, "_filled", policy="gap")
def end_a_filled_range_one_too_early(real: Any) -> Any:
    def filled(allowed: Any, gap: float) -> Any:
        filled_values = real(allowed, gap)
        return (
            replace(filled_values, cuts=(*filled_values.cuts[:-1], (filled_values.cuts[-1][0], 0)))
            if filled_values != allowed
            else filled_values
        )

    return filled


@plant(merging, "_named", policy="merging")
def name_merges_without_their_namespace(real: Any) -> Any:
    return lambda filter, namespace: replace(real(filter, ""), namespace=namespace)


@plant(Summaries, "__missing__")
def cover_across_namespaces(real: Any) -> Any:
    def missing(self: Any, namespace: str) -> Any:
        summary = self[namespace] = next(iter(self.values()), None) or real(self, namespace)
        return summary

    return missing


@plant(RoutingTable, "put_many")
def a_table_has_room_for_four(real: Any) -> Any:
    def put_many(self: RoutingTable, interests: Any, read: Any = None) -> None:
        for source, key, subscription in interests:
            if len(self.interests(source)) < 4:
                real(self, [(source, key, subscription)])

    return put_many


@plant(RoutingTable, "drop")
def keep_what_was_retracted_in_the_matcher(real: Any) -> Any:
    def drop(self: Any, source: str, key: str) -> None:
        with mock.patch.object(Shelf, "remove"):
            real(self, source, key)

    return drop


# What a broker does with an update


def _changed_update(change: Callable[[m.Update], m.Update]) -> Callable[[Any], Any]:
    def make(real: Any) -> Any:
        return lambda self, message, sender, now: real(self, change(message), sender, now)

    return make


@plant(BrokerCore, "_update", weather=CRASHES)
def add_a_whole_table_to_the_old_one(real: Any) -> Any:
    def update(self: Any, message: m.Update, sender: str, now: float) -> Any:
        if message.replace and sender not in self.table.unspoken:
            message = m.Update(message.number, message.announce)
        return real(self, message, sender, now)

    return update


@plant(BrokerCore, "_update")
def ignore_the_last_entry(real: Any) -> Any:
    return _changed_update(
        lambda update: m.Update(update.number, update.announce[:-1], update.retract, update.replace)
    )(real)


@plant(BrokerCore, "_update")
def ignore_retractions(real: Any) -> Any:
    return _changed_update(lambda update: m.Update(update.number, update.announce, (), update.replace))(real)


def _without_persisting(real: Any, is_lost: Callable[[Persist], bool]) -> Any:
    def handle(*arguments: Any, **named: Any) -> Any:
        effects = real(*arguments, **named)
        return [effect for effect in effects if not (isinstance(effect, Persist) and is_lost(effect))]

    return handle


@plant(BrokerCore, "_update", weather=CRASHES)
def do_not_persist_entries(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "interest")


@plant(BrokerCore, "_update", weather=CRASHES)
def do_not_persist_retractions(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "interest" and effect.value is None)


@plant(BrokerCore, "subscribe", weather=CRASHES)
def do_not_persist_subscriptions(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "interest")


@plant(BrokerCore, "_cancel", weather=CRASHES)
def do_not_persist_cancellations(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "interest")


@plant(BrokerCore, "_update", weather=CRASHES)
def do_not_persist_that_a_neighbour_has_spoken(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "spoken")


@plant(BrokerCore, "_send_update", weather=CRASHES)
def count_updates_from_the_start_after_a_crash(real: Any) -> Any:
    return _without_persisting(real, lambda effect: effect.key[0] == "number")


@plant(BrokerCore, "_cancel")
def tell_nobody_of_a_cancellation(real: Any) -> Any:
    def cancel(self: Any, client: str, key: str) -> Any:
        return [effect for effect in real(self, client, key) if not isinstance(effect, Send)]

    return cancel


@plant(BrokerCore, "_unsubscribe")
def say_cancelled_and_go_on(real: Any) -> Any:
    return lambda self, message, sender, now: [Send(sender, m.Status(message.id, message.namespace, m.State.CANCELLED))]


# Lives


@plant(BrokerCore, "_announce", weather=LOST_DISKS)
def send_a_table_before_the_others_have_spoken(real: Any) -> Any:
    def announce(self: Any) -> Any:
        with mock.patch.object(self.table, "unspoken", frozenset()):
            return real(self)

    return announce


@plant(RoutingTable, "next_hops", weather=LOST_DISKS)
def send_nothing_to_who_has_not_spoken(real: Any) -> Any:
    def next_hops(self: Any, *request: Any) -> Any:
        return [link for link in real(self, *request) if link not in self.unspoken]

    return next_hops


@plant(BrokerCore, "_link_up", weather=LOST_DISKS)
def send_no_table_to_a_new_life(real: Any) -> Any:
    def link_up(self: Any, message: LinkUp, sender: str, now: float) -> Any:
        return [] if sender in self.outgoing.sent else real(self, message, sender, now)

    return link_up


@plant(BrokerCore, "_link_up", weather=LOST_DISKS)
def send_no_events_again_to_a_new_life(real: Any) -> Any:
    return lambda self, message, sender, now: real(self, LinkUp(), sender, now)


@plant(BrokerCore, "_restored_interests", weather=CRASHES)
def restore_no_subscriptions_of_clients(real: Any) -> Any:
    def restore(self: Any, stored: Any, read: Any) -> Any:
        return (interest for interest in real(self, stored, read) if interest[0] in self._neighbours)

    return restore


@plant(BrokerCore, "_restored_interests", weather=CRASHES)
def restore_no_entries_of_neighbours(real: Any) -> Any:
    def restore(self: Any, stored: Any, read: Any) -> Any:
        return (interest for interest in real(self, stored, read) if interest[0] not in self._neighbours)

    return restore


@plant(BrokerCore, "restore", weather=CRASHES)
def believe_that_neighbours_hold_what_a_rebuild_says(real: Any) -> Any:
    def restore(self: Any, stored: Any, *, now: float, read: Any = None) -> Any:
        effects = real(self, stored, now=now, read=read)
        return [effect for effect in effects if not isinstance(effect, Send)]

    return restore


@plant(ClientSession, "_came_up", weather=LOST_DISKS)
def a_client_does_not_ask_again(real: Any) -> Any:
    return lambda self, *, is_new: real(self, is_new=False) if not is_new else None


# Tables in parts


@plant(OutgoingTables, "note", weather=CRASHES)
def forget_what_changed_while_a_table_was_under_way(real: Any) -> Any:
    return lambda self, link, changes: None


@plant(ReceivedTables, "take_part", weather=CRASHES)
def drop_what_a_part_retracts_before_the_last_part(real: Any) -> Any:
    def take_part(self: ReceivedTables, message: m.TablePart, sender: str) -> Any:
        effects = real(self, message, sender)
        for key in set(message.retract) & self._table.interests(sender).keys():
            self._of(sender).stale.pop(key, None)
            effects.append(self._drop(sender, key))
        return effects

    return take_part


@plant(ReceivedTables, "take_part", weather=CRASHES)
def drop_the_former_table_when_a_new_one_begins(real: Any) -> Any:
    def take_part(self: ReceivedTables, message: m.TablePart, sender: str) -> Any:
        former = set(self._table.interests(sender)) if message.index == 0 else set()
        effects = real(self, message, sender)
        for key in former & self._of(sender).stale.keys():
            del self._of(sender).stale[key]
            effects.append(self._drop(sender, key))
        return effects

    return take_part


@plant(ReceivedTables, "drop_stale", weather=CRASHES)
def keep_the_former_table_for_ever(real: Any) -> Any:
    return lambda self: []


@plant(ReceivedTables, "restored", weather=CRASHES)
def forget_in_a_crash_which_entries_are_stale(real: Any) -> Any:
    def restored(self: ReceivedTables, source: str, key: str, value: bytes) -> Any:
        interest = real(self, source, key, value)
        self._of(source).stale.pop(key, None)
        return interest

    return restored


# Confirmations


@plant(Confirmations, "take_settled")
def everything_is_active_at_once(real: Any) -> Any:
    def take_settled(self: Any, limit: int) -> Any:
        _settle(
            self,
            [
                confirmation
                for waiting in self._waiting.values()
                for several in waiting.values()
                for confirmation in several
            ],
        )
        return real(self, limit)

    return take_settled


def _settle(confirmations: Any, waiting: list[Any]) -> None:
    """Let something wait no longer, whatever links have confirmed."""
    for confirmation in waiting:
        confirmation.needed = dict.fromkeys(confirmation.needed, 0)
        confirmation.n_missing = 0
        confirmations._settled.append(confirmation)
        confirmations._remove(confirmation)


@plant(Confirmations, "expect", policy="covering", weather=NOISY)
def what_is_covered_is_active_at_once(real: Any) -> Any:
    def expect(self: Any, source: str, what: Any, owed: Any, **named: Any) -> None:
        real(self, source, what, owed, **named)
        if getattr(self, "last", None) == self.sent:  # nothing had to be announced
            _settle(self, self._waiting.get(source, {}).get(what, [])[-1:])
        self.last = dict(self.sent)

    return expect


@plant(Confirmations, "confirm", weather=NOISY)
def one_confirmation_is_enough_for_all(real: Any) -> Any:
    def confirm(self: Any, link: str, number: int) -> None:
        real(self, link, self.sent[link])

    return confirm


@plant(BrokerCore, "_update", weather=NOISY)
def confirm_an_update_before_others_have(real: Any) -> Any:
    def update(self: Any, message: m.Update, sender: str, now: float) -> Any:
        return [*real(self, message, sender, now), Send(sender, m.Confirm(message.number))]

    return update


@plant(Confirmations, "early_for", weather=NOISY)
def deliver_before_the_link_has_confirmed(real: Any) -> Any:
    return lambda self, source, what, link: []


# Events


@plant(RoutingTable, "next_hops")
def send_events_back_where_they_came_from(real: Any) -> Any:
    return lambda self, event, namespace, came_from, *part: real(self, event, namespace, "", *part)


@plant(RoutingTable, "next_hops")
def send_events_to_one_neighbour_only(real: Any) -> Any:
    return lambda self, *request: real(self, *request)[:1]


@plant(RoutingTable, "_wanted_by")
def send_only_the_first_event_of_a_batch_on(real: Any) -> Any:
    def wanted_by(self: Any, link: str, batch: Any) -> Any:
        is_wanted = real(self, link, batch)
        is_wanted[1:] = False
        return is_wanted

    return wanted_by


@plant(RoutingTable, "matching_of_batch")
def deliver_across_namespaces(real: Any) -> Any:
    def matching_of_batch(self: Any, batch: Any, most: int | None = None) -> Any:
        lists: list[list[Any]] = [[] for _ in batch.events]
        for namespace in list(self._namespaces):
            elsewhere = copy.copy(batch)
            elsewhere.namespace = namespace
            for keys, more in zip(lists, real(self, elsewhere), strict=True):
                keys += more
        return lists

    return matching_of_batch


@plant(RoutingTable, "group")
def deliver_for_the_first_subscription_only(real: Any) -> Any:
    return lambda self, keys: {client: interests[:1] for client, interests in real(self, keys).items()}


@plant(EventRouting, "deliver")
def one_copy_per_subscription(real: Any) -> Any:
    def deliver(self: Any, *arguments: Any) -> Any:
        return [
            Deliver(effect.link, m.Delivery(effect.message.event, (id,)))
            for effect in real(self, *arguments)
            for id in effect.message.subscriptions
        ]

    return deliver


@plant(Publications, "publish")
def pass_on_only_the_first_of_a_batch(real: Any) -> Any:
    def publish(self: Any, arrivals: Any, sender: str, now: float) -> Any:
        return real(self, {source: events[:1] for source, events in arrivals.items()}, sender, now)

    return publish


@plant(Publications, "publish")
def turn_a_batch_around(real: Any) -> Any:
    def publish(self: Any, arrivals: Any, sender: str, now: float) -> Any:
        return real(self, {source: events[::-1] for source, events in arrivals.items()}, sender, now)

    return publish


@plant(Publications, "publish")
def rewrite_the_payload(real: Any) -> Any:
    def publish(self: Any, arrivals: Any, sender: str, now: float) -> Any:
        changed = {
            source: [m.Published(events[0].id, events[0].namespace, b"\x80"), *events[1:]]
            for source, events in arrivals.items()
            if events
        }
        return real(self, changed, sender, now)

    return publish


# Tables in two stages


@plant(TwoStageTable, "matches_any", policy="two-stage")
def ask_only_the_first_filter_that_cells_propose(real: Any) -> Any:
    def matches_any(self: TwoStageTable, event: Any) -> bool:
        proposed = self.candidates(event).tolist()
        return any(matches_subscription(event, self._subscriptions[row]) for row in proposed[:1])

    return matches_any


@plant(TwoStageTable, "remove", policy="two-stage")
def leave_filters_in_the_cells_that_have_ended(real: Any) -> Any:
    def remove(self: TwoStageTable, row: int) -> None:
        del self._subscriptions[row]

    return remove


@plant(CoveringStrategy, "find_homes", policy="two-stage")
def let_cells_say_what_covers(real: Any) -> Any:
    """Erratum M.3.7: filters in the same cells are not the same."""

    def find_homes(self: CoveringStrategy, subscription: Any) -> tuple[str, ...] | None:
        space = coarse_space()
        mine = space.ranges_of(subscription)
        for key, content in self._contents.items():
            if not len(difference(mine, space.ranges_of(content))):
                return (key,)
        return None

    return find_homes


@functools.cache
def coarse_space() -> ContentSpace:
    """Return cells of which each has several values."""
    return ContentSpace.from_schema(SCHEMA, bits=2)


# Quotas


@plant(EventRouting, "refuse", weather=NOISY, quota=SMALL)
def drop_instead_of_refusing(real: Any) -> Any:
    return lambda self, event, client, link, why: Attach([])


@plant(EventRouting, "refuse", weather=NOISY, quota=SMALL)
def refuse_and_forward_all_the_same(real: Any) -> Any:
    def refuse(self: EventRouting, event: m.Published, client: str, link: str, why: str) -> Any:
        return Send(link, m.Publish(event))

    return refuse


@plant(EventRouting, "refuse", weather=NOISY, quota=SMALL)
def refuse_without_saying_what(real: Any) -> Any:
    def refuse(self: EventRouting, event: m.Published, client: str, link: str, why: str) -> Any:
        return Send(client, m.Refusal("an event", "not now"))

    return refuse


@plant(StreamEnd, "take_crossing", weather=NOISY, quota=SMALL)
def take_events_beyond_the_quota(real: Any) -> Any:
    return lambda self, quota: None


@plant(StreamEnd, "take_crossing", weather=NOISY, quota=Quota(bytes=600))
def count_messages_and_not_their_bytes(real: Any) -> Any:
    return lambda self, quota: real(self, Quota(quota.messages))


@plant(StreamEnd, "acknowledge", weather=NOISY, quota=Quota(bytes=600))
def count_bytes_that_are_gone(real: Any) -> Any:
    def acknowledge(self: StreamEnd, ack: int) -> list[Persist]:
        before = self.outbox.bytes
        changes: list[Persist] = real(self, ack)
        self.outbox.bytes = before
        return changes

    return acknowledge


@plant(BrokerCore, "_link_free", weather=NOISY, quota=SMALL)
def stay_full_for_ever(real: Any) -> Any:
    return lambda self, message, sender, now: []


@plant(BrokerCore, "_link_free", weather=NOISY, quota=SMALL)
def forget_what_changed_while_a_link_was_full(real: Any) -> Any:
    def link_free(self: BrokerCore, message: Any, sender: str, now: float) -> list[Any]:
        if sender in self.outgoing.waiting:
            self.outgoing.waiting.discard(sender)
            self.outgoing.sent.add(sender)
        return list(real(self, message, sender, now))

    return link_free


@plant(Flow, "settle", weather=NOISY, quota=SMALL)
def pause_and_never_resume(real: Any) -> Any:
    return lambda self: [
        effect for effect in real(self) if not (isinstance(effect, Send) and isinstance(effect.message, m.Resume))
    ]


@plant(Flow, "restore", weather=CRASHES, quota=Quota(6))
def forget_in_a_crash_who_was_paused(real: Any) -> Any:
    def restore(self: Flow, stored: Any) -> list[Any]:
        return list(real(self, {key: value for key, value in stored.items() if key[0] != "pausing"}))

    return restore


@plant(Flow, "meet", weather=LOST_DISKS, quota=SMALL)
def stay_paused_for_a_life_that_ended(real: Any) -> Any:
    return lambda self, link: []


# The edge, wires and clients

#: A backlog that a slow reader fills, and a window that a burst fills.
SHORT, NARROW = 3, Window(3, 400)


@plant(BrokerCore, "subscribe", weather=NOISY)
def take_a_repeated_subscription_for_a_new_one(real: Any) -> Any:
    """A subscription that is active misses events of neighbours when its client says it again."""

    def subscribe(self: BrokerCore, requests: Any, now: float, *, is_on_disk: bool = False) -> Any:
        expect = self._confirmations.expect
        with mock.patch.object(
            self._confirmations, "expect", lambda *a, **k: expect(*a, **(k | {"is_new": True, "former": None}))
        ):
            return real(self, requests, now, is_on_disk=is_on_disk)

    return subscribe


@plant(Wire, "_bytes_under_way", weather=NOISY, window=NARROW)
def a_window_that_ignores_bytes(real: Any) -> Any:
    return lambda self, acknowledged: 0


@plant(Wire, "take", weather=LOST_DISKS)
def go_on_writing_where_a_former_life_was(real: Any) -> Any:
    def take(self: Wire, end: StreamEnd, mark: Any, *rest: Any) -> Any:
        self.lives = (mark.epoch, mark.peer_epoch)
        return real(self, end, mark, *rest)

    return take


@plant(StreamEnd, "spill", weather=NOISY)
def what_is_left_to_the_disk_counts_as_acknowledged(real: Any) -> Any:
    return lambda self, upto, **bounds: self.outbox.acknowledge(upto)


@plant(ClientLink, "_go_on", weather=NOISY)
def a_client_sends_confirmed_messages_again(real: Any) -> Any:
    def go_on(self: ClientLink, frame: Any) -> None:
        before = list(self._sent.values())
        real(self, frame)
        self.unsent[:0] = [message for message in before if message not in self._sent.values()]
        self._acknowledged.clear()

    return go_on


@plant(SeenEvents, "add", weather=LOST_DISKS)
def hand_out_what_came_before(real: Any) -> Any:
    return lambda self, id: True


@plant(Backlogs, "admit", weather=NOISY, backlog=SHORT)
def a_gap_that_is_not_counted(real: Any) -> Any:
    def admit(self: Backlogs, delivery: Deliver) -> Any:
        before = self.gaps.get(delivery.link)
        admitted = real(self, delivery)
        if before is not None:
            self.gaps[delivery.link] = before
        return admitted

    return admit


@plant(Backlogs, "resume", weather=NOISY, backlog=SHORT)
def a_gap_that_nobody_is_told(real: Any) -> Any:
    return lambda self: [effect for effect in real(self) if not isinstance(effect, Send)]


@plant(Backlogs, "restore", weather=CRASHES, backlog=SHORT)
def a_gap_that_a_restart_forgets(real: Any) -> Any:
    return lambda self, stored: None


@plant(Producers, "has", weather=NOISY)
def a_batch_is_taken_twice(real: Any) -> Any:
    return lambda self, principal, producer, number: False


@plant(Producers, "restore", weather=CRASHES)
def a_restart_forgets_which_batches_were_taken(real: Any) -> Any:
    return lambda self, stored: None


@plant(EdgeCore, "_connect", weather=NOISY)
def rights_outlive_their_revocation(real: Any) -> Any:
    def connect(self: EdgeCore, message: Any, sender: str, now: float) -> Any:
        first = self.__dict__.setdefault("first_rights", {}).setdefault(sender, message.rights)
        return real(self, replace(message, rights=first), sender, now)

    return connect


@plant(Refusals, "upto", weather=NOISY, quota=SMALL)
def a_refusal_is_lost_with_its_connection(real: Any) -> Any:
    return lambda self, client, number: []


@plant(Trail, "note_subscription", weather=NOISY)
def the_audit_does_not_note_who_unsubscribed(real: Any) -> Any:
    def note(self: Trail, now: float, what: str, *rest: Any) -> None:
        if what != "unsubscribe":
            real(self, now, what, *rest)

    return note
