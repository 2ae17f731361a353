"""The logic of a broker: announces subscriptions to the neighbours that must know them, and routes events.

`BrokerCore.handle` is deterministic: no clock, no socket, no random numbers. Clients and neighbours are links, known by
name. It returns effects; all effects of one call are one transaction.

How a broker handles each message:

* `Subscribe`, `Unsubscribe` of a client change the interests; each other neighbour gets one `Update` with what changes
  for it, or nothing. The client is sent ACCEPTED at once and ACTIVE when all neighbours have confirmed.
* `Update` of a neighbour does the same with the entries of that neighbour, and is confirmed when all others have.
  A large table comes as several `TablePart` messages instead (`tamis.routing.table_parts`).
* `Publish` goes to the neighbours behind which a subscription may match and, one copy each, to the matching clients.
* `LinkUp` means that a neighbour or client has none of our state: it gets the whole table, and all messages that it has
  not acknowledged. A neighbour gets its table only when all *other* neighbours have sent theirs, because until then the
  contents are unknown; a neighbour that waits for its table forwards everything meanwhile.
* `LinkFull` means that the outbox of a link is full, `Pause` that this is so behind a neighbour: events of clients that
  would take that link are refused until `LinkFree` or `Resume` (`tamis.routing.core.flow`). While a link is full its
  neighbour is not sent single changes: it gets the whole table when the link is free.
* `AddLink` and `RemoveLink` of an operator change the neighbours. A new neighbour is treated like one that has none of
  our state. Its table is assembled in slices, one per step. The entries of a removed neighbour are withdrawn in slices,
  too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from tamis.engine.shelf import Merging
from tamis.errors import InvariantError, ModelError, RemoteProtocolError, TamisError
from tamis.node import records
from tamis.node.content import Content
from tamis.node.core import LinkFree, LinkFull, LinkUp, Story
from tamis.node.effects import Again, Effect, Key, Link, LinkKey, Send
from tamis.routing import messages as m
from tamis.routing.core.confirmations import Confirmations
from tamis.routing.core.counters import Counters
from tamis.routing.core.event_routing import EventRouting, client_key
from tamis.routing.core.expiry import Expiry
from tamis.routing.core.flow import Flow
from tamis.routing.core.interest import Interest, NamedInterest, ReadInterests
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.core.routing_table import ALL_NAMESPACES, RoutingTable, fill_summaries
from tamis.routing.core.summary import Changes, Wanted
from tamis.routing.early_entries import EarlyEntries
from tamis.routing.link_changes import link_handlers, restore_rings
from tamis.routing.neighbour_checks import check_message
from tamis.routing.policies import CellOptions, Policy
from tamis.routing.policies.cell_records import read_ranges
from tamis.routing.policies.cell_tables import USUAL_CELLS
from tamis.routing.rings import RingDetector
from tamis.routing.table_parts import OutgoingTables, ReceivedTables

__all__ = ["PATIENCE_SECONDS", "BrokerCore", "client_key", "is_active", "tell_only"]

#: Messages that only neighbours send. They refer to one life of the receiver, so they are never sent again to another.
_OF_BROKERS = m.Update | m.Confirm | m.Pause | m.Resume | m.TablePart | m.PartTaken | EarlyEntries

#: The records that hold ranges of neighbours.
_OF_RANGES = (records.RANGES.name, records.BLOCK.name)

#: Entries of a removed neighbour that are withdrawn in one step, and interests that a new one's summaries take.
CHANGED_AT_ONCE = 256

#: Pending confirmations that are settled, and late subscriptions whose clients are told so, in one step.
SETTLED_AT_ONCE = 1024

#: Seconds after which a client is told which neighbours have not confirmed its subscription.
PATIENCE_SECONDS = 30.0


class BrokerCore:
    """One broker of an acyclic network; ``neighbours`` gives the policy of the link to each of them.

    ``counters`` of an earlier life continue counting. ``cells`` are the cells of ranges that neighbours send, if no
    policy of this broker defines them. ``merging`` runs the merges of the table's indexes. After ``patience`` seconds
    the client of a subscription that is not active is sent the neighbours that have not confirmed it. ``drops`` are the
    links that drop their oldest events while they are full.
    """

    def __init__(
        self,
        name: str,
        neighbours: Mapping[Link, Policy],
        content: Content,
        counters: dict[Link, Counters] | None = None,
        cells: CellOptions = USUAL_CELLS,
        merging: Merging | None = None,
        patience: float = PATIENCE_SECONDS,
        drops: Collection[Link] = (),
    ) -> None:
        self.name = name
        self.counters = counters = {link: Counters() for link in neighbours} if counters is None else counters
        self.table = table = RoutingTable(neighbours, content.schema, counters, cells, merging)
        self._neighbours = dict(neighbours)
        self._content = content
        self._confirmations = Confirmations(neighbours, patience)
        flow = Flow(neighbours, drops, rings=RingDetector(name, neighbours))
        self.events = EventRouting(table, content, self._confirmations, flow, counters)
        self.outgoing = OutgoingTables(table, partial(_document, content=content))
        self.received = ReceivedTables(table, content)
        self.expiry, self.story = Expiry(), Story()
        self._handlers: dict[type, Callable[[Any, Link, float], list[Effect]]] = {
            m.Subscribe: lambda message, sender, now: self.subscribe([(sender, message)], now),
            m.Unsubscribe: self._unsubscribe,
            m.Publish: lambda message, sender, now: self.events.publish((message.event,), sender, now),
            m.PublishBatch: lambda message, sender, now: self.events.publish(message.events, sender, now),
            m.Update: self._update,
            m.TablePart: lambda message, sender, now: _take_part(self, message, sender, now),
            m.PartTaken: lambda message, sender, now: _part_taken(self, message, sender),
            m.Confirm: lambda message, sender, now: self._settle((sender, message.number)),
            m.Pause: lambda message, sender, now: self.flow.pause(sender),
            m.Resume: lambda message, sender, now: self.flow.resume(sender),
            m.LinkGap: lambda message, sender, now: self.events.pass_gap(message, sender),
            SkipLink: lambda message, sender, now: self.events.skip(message) + self._announce() + self._settle(),
            **link_handlers(self),
            LinkUp: self._link_up,
            LinkFull: lambda message, sender, now: self.flow.fill(sender, message),
            LinkFree: self._link_free,
            m.Tick: self._tick,
        }

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Handle one message of ``sender``; return all its effects, as one transaction."""
        self.story.note(now, sender, message)
        handler = self._handlers.get(type(message))
        is_neighbour = sender in self._neighbours
        if handler is None or (not is_neighbour and isinstance(message, _OF_BROKERS | m.LinkGap)):
            raise RemoteProtocolError(sender, f"may not send {type(message).__name__} to a broker")
        if is_neighbour and isinstance(message, m.Message):
            check_message(message, sender, self.name)
        return handler(message, sender, now)

    @property
    def flow(self) -> Flow:
        """The flow control of the links."""
        return self.events.flow

    def progress_of(self, link: Link) -> tuple[bool, bool]:
        """Return whether a neighbour and this broker have sent their tables, and whether all behind it confirmed."""
        has_both = link in self.outgoing.sent and link not in self.table.unspoken
        return has_both, has_both and self._confirmations.confirmed[link] == self._confirmations.sent[link]

    def is_neighbour(self, link: Link) -> bool:
        """Whether a link leads to another broker."""
        return link in self._neighbours

    # Clients

    def subscribe(
        self, requests: Iterable[tuple[Link, m.Subscribe]], now: float, *, is_on_disk: bool = False
    ) -> list[Effect]:
        """Take subscriptions of clients, and announce the changes of all of them in one step.

        ``is_on_disk``: they were persisted when they were accepted.
        """
        arrivals = list(requests)
        interests = [_keyed_interest(client, message, self._content) for client, message in arrivals]
        read = ReadInterests([interest for _, _, interest in interests])
        effects, is_new = list[Effect](), dict[LinkKey, bool]()
        formers: dict[LinkKey, Interest] = {}
        for position, ((client, message), (_, key, interest)) in enumerate(zip(arrivals, interests, strict=True)):
            if message.namespace == ALL_NAMESPACES:
                read.bad[position] = ModelError(f"namespace {ALL_NAMESPACES!r} is not for clients")
            if (error := read.bad.get(position)) is not None:
                if not isinstance(error, TamisError):
                    raise error
                effects.append(Send(client, m.Refusal(f"subscription {message.id!r}", str(error))))
                continue
            # A client that missed the answer sends it again; then it is not new and may have been active for long.
            former = self.table.interests(client).get(key)
            is_new[client, key] = former is None or not former.says_same(interest)
            if former is not None:
                formers[client, key] = former
            if is_new[client, key] and self.events.changed is not None:
                self.events.changed.add(key)
            self.expiry.put((client, key), message.expires)
            if not is_on_disk:
                effects.append(records.INTEREST.put(client, key, value=m.encode(message)))
            effects += _status(self, client, message, m.State.ACCEPTED)
        self.table.put_many(interests, read)
        effects += self._announce()
        _expect(self, is_new, formers, now)
        return effects + self._settle()

    def _unsubscribe(self, message: m.Unsubscribe, sender: Link, now: float) -> list[Effect]:
        key = client_key(sender, message.namespace, message.id)
        effects: list[Effect] = []
        if key in self.table.interests(sender):
            effects = self._cancel(sender, key)
        return [*effects, Send(sender, m.Status(message.id, message.namespace, m.State.CANCELLED))]

    def _cancel(self, client: Link, key: str) -> list[Effect]:
        self.table.drop(client, key)
        self.expiry.put((client, key), None)
        self._confirmations.forget(client, key)
        return [records.INTEREST.drop(client, key), *self._announce()]

    def _tick(self, message: m.Tick, sender: Link, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for client, key in self.expiry.take(now * 1e6):
            ended = self.table.interests(client)[key]
            effects += self._cancel(client, key)
            effects.append(Send(client, m.Status(ended.id, ended.namespace, m.State.CANCELLED)))
        withdrawn = [*_withdraw(self.table), *self.received.drop_stale()]
        was_filling = fill_summaries(self.table, CHANGED_AT_ONCE)
        busy = [
            summary for link in self._neighbours for summary in self.table.summaries[link].values() if summary.is_busy
        ]
        for summary in busy:
            summary.advance()
        changed = self._announce() if busy or withdrawn or was_filling else []
        again = [Again()] if self.table.leaving or self.table.filling else []
        reports = self.flow.rings.tell_due()
        settled = self._settle() if self._confirmations.has_settled else []
        late = self._report_late(now)
        return [*effects, *withdrawn, *reports, *changed, *again, *settled, *late]

    def _report_late(self, now: float) -> list[Effect]:
        """Return messages to clients whose subscriptions are late, with the neighbours that have not confirmed them."""
        effects: list[Effect] = []
        late = self._confirmations.take_late(now, SETTLED_AT_ONCE)
        for client, key in late:
            missing = tuple(self._confirmations.missing(client, key))
            if missing and client not in self._neighbours:
                waiting = self.table.interests(client)[str(key)]
                effects.append(Send(client, m.Delayed(waiting.id, waiting.namespace, missing)))
        return [*effects, Again()] if len(late) == SETTLED_AT_ONCE else effects

    def missing(self, client: Link, key: str) -> list[Link]:
        """Return the neighbours that have not confirmed a subscription yet, sorted."""
        return self._confirmations.missing(client, key)

    # Neighbours

    def _update(self, message: m.Update, sender: Link, now: float) -> list[Effect]:
        effects = self.received.update(message, sender)
        if message.replace:
            self.table.unspoken.discard(sender)
        return [*effects, *_pass_on(self, message.number, sender, now)]

    def _link_up(self, message: LinkUp, sender: Link, now: float) -> list[Effect]:
        # Updates and confirmations sent to its former life are not sent again.
        unacknowledged, overflow = (
            [body for body in bodies if not isinstance(body, _OF_BROKERS)]
            for bodies in (message.unacknowledged, message.overflow)
        )
        if sender not in self._neighbours:
            return [Send(sender, body) for body in unacknowledged]
        self._confirmations.forget(sender)
        self.outgoing.demand(sender)
        spoken: list[Effect] = [records.SPOKEN.put(sender, value=0)] if sender not in self.table.unspoken else []
        greeting = self.flow.rings.greet(sender)
        return [
            *spoken,
            *greeting,
            *self._announce(),
            *self.flow.meet(sender),
            *(Send(sender, body) for body in unacknowledged),
            *self.flow.use_room(sender),
            *(self.flow.send(sender, body) for body in overflow),
        ]

    def _link_free(self, message: LinkFree, sender: Link, now: float) -> list[Effect]:
        self.flow.full.pop(sender, None)
        return [*self._announce(), *self.flow.settle()]

    def _announce(self) -> list[Effect]:
        """Return updates for the neighbours: changes since the last call, or the whole table for those without it."""
        effects: list[Effect] = []
        outgoing, full = self.outgoing, self.flow.full
        for link in self._neighbours:
            changes = self.table.take_changes(link)
            if outgoing.is_under_way(link):
                outgoing.note(link, changes)
            elif changes and link in outgoing.sent and link in full:
                outgoing.demand(link)
            elif changes and link in outgoing.sent:
                effects += self._send_update(link, changes, replace=False)
            if (
                link in outgoing.waiting - full.keys() - self.table.filling.keys()
                and not self.table.unspoken - {link} - self.flow.skipped
            ):
                # It waits for our table, its outbox has room, and all others have sent their tables.
                effects += _send_table(self, link)
            if link not in full:
                effects += _send_parts(self, link)
            if changes.again:
                effects.append(Again())
        return effects

    def _send_update(self, link: Link, changes: Changes, *, replace: bool) -> list[Effect]:
        number = self._confirmations.number_next(link)
        entries = tuple(self.outgoing.entries(changes.announce))
        ranges = tuple(m.Ranges(namespace, plan) for namespace, plan in changes.plans)
        update = m.Update(number, entries, tuple(changes.retract), replace, ranges)
        self.counters[link].count_update(update)
        return [records.NUMBER.put(link, value=number), Send(link, update)]

    def _settle(self, *confirmations: tuple[Link, int]) -> list[Effect]:
        """Apply confirmations; report what all neighbours have confirmed: ACTIVE to clients, `Confirm` to brokers.

        What one step does not settle, the ticks after it do.
        """
        for link, number in confirmations:
            self._confirmations.confirm(link, number)
        confirmed: dict[Link, int] = {}
        effects: list[Effect] = []
        for source, item in self._confirmations.take_settled(SETTLED_AT_ONCE):
            if isinstance(item, int):
                confirmed[source] = item
            elif not self._confirmations.is_changing(source, item):
                effects += _status(self, source, self.table.interests(source)[str(item)], m.State.ACTIVE)
        effects += [self.flow.send(link, m.Confirm(number)) for link, number in confirmed.items()]
        return [*effects, Again()] if self._confirmations.has_settled else effects

    # Life

    def restore(
        self, stored: Mapping[Key, bytes], *, now: float, read: Mapping[tuple[str, ...], m.Subscribe] | None = None
    ) -> list[Effect]:
        """Restore what an earlier life persisted; every neighbour gets its table again, in one step.

        ``read`` are the subscriptions of clients, by source and key, if they were decoded already.
        """
        refused = restore_rings(self, stored, now)
        self.received.restore(self._neighbours.keys(), stored)
        interests = list(self._restored_interests(stored, {} if read is None else read))
        meanings = ReadInterests([interest for _, _, interest in interests])
        for error in meanings.bad.values():
            raise error
        self.table.put_many(interests, meanings)
        changes = _restore_ranges(self.table, self._neighbours, stored)
        for link in self._neighbours:
            self._confirmations.sent[link] = records.NUMBER.find(stored, link) or 0
            if records.SPOKEN.key(link) in stored:
                self.table.unspoken.discard(link)
            # A neighbour of the earlier life has a table of ours whose contents this life does not know.
            if records.LINK.key(link) in stored:
                self.outgoing.demand(link)
        pauses = self.flow.restore(stored)
        for link in self.flow.skipped:
            self._confirmations.excuse(link, True)
        effects = [*changes, *self.received.drop_stale(), *self._announce(), *pauses]
        unserved = self._neighbours.keys() - self.outgoing.sent
        for link in self._neighbours:
            spoken = records.SPOKEN.find(stored, link)
            if spoken is not None:
                self._confirmations.expect(link, spoken, unserved, now=now)
        places = ((client, key) for client in self.table.clients() for key in self.table.interests(client))
        _expect(self, dict.fromkeys(places, False), {}, now)
        return [*refused, *effects, *self._settle()]

    def _restored_interests(
        self, stored: Mapping[Key, bytes], read: Mapping[tuple[str, ...], m.Subscribe]
    ) -> Iterator[tuple[Link, str, Interest]]:
        refused = set(self.flow.rings.refused)
        for (source, key), value in sorted(records.INTEREST.items(stored)):
            if source in refused:
                continue
            if source in self._neighbours:
                yield source, key, self.received.restored(source, key, value)
                continue
            message = read.get((source, key)) or m.decode(value, source)
            if not isinstance(message, m.Subscribe):
                raise InvariantError(f"the disk holds {message!r} as a subscription")
            self.expiry.put((source, key), message.expires)
            yield source, key, _interest(message, self._content.of(message.namespace))

    def check_invariants(self) -> None:
        """Raise `InvariantError`, with the story, unless every neighbour has been sent everything it must know."""
        try:
            self.table.check_invariants()
            self.flow.check_invariants()
        except InvariantError as error:
            raise InvariantError(f"broker {self.name}: {error.broken}", self.story.lines()) from None


def tell_only(core: BrokerCore, connected: Container[Link]) -> None:
    """Tell only connected clients the states of their subscriptions; others learn them when they ask."""
    core._confirmations.tell_only(connected)


def is_active(core: BrokerCore, client: Link, key: str) -> bool:
    """Whether a subscription is known to every broker that must know it."""
    return key in core.table.interests(client) and not core._confirmations.is_waiting(client, key)


def _take_part(core: BrokerCore, message: m.TablePart, sender: Link, now: float) -> list[Effect]:
    effects = core.received.take_part(message, sender)
    if not message.is_last:
        return [*effects, *core._announce()]
    core.table.unspoken.discard(sender)
    return [*effects, *_pass_on(core, message.number, sender, now)]


def _pass_on(core: BrokerCore, number: int, sender: Link, now: float) -> list[Effect]:
    """Announce the changes of a neighbour's update, and confirm it when all others have confirmed those."""
    effects = [records.SPOKEN.put(sender, value=number), *core._announce()]
    core._confirmations.expect(sender, number, core._neighbours.keys() - core.outgoing.sent, now=now)
    return effects + core._settle()


def _part_taken(core: BrokerCore, message: m.PartTaken, sender: Link) -> list[Effect]:
    core.outgoing.take(sender, message)
    return core._announce()


def _send_table(core: BrokerCore, link: Link) -> list[Effect]:
    """Send a neighbour its whole table or begin to; it waits if it is not known to take parts."""
    is_sent_whole = core.outgoing.is_sent_whole(link)
    if is_sent_whole is None:
        return []
    core.outgoing.waiting.discard(link)
    core.outgoing.sent.add(link)
    if is_sent_whole:
        full_table = Changes(list(core.table.contents(link)), [], core.table.cells.snapshots(link))
        return core._send_update(link, full_table, replace=True)
    number = core._confirmations.number_next(link)
    core.outgoing.begin(link, number)
    return [records.NUMBER.put(link, value=number)]


def _send_parts(core: BrokerCore, link: Link) -> list[Effect]:
    parts = core.outgoing.next_parts(link)
    for part in parts:
        core.counters[link].count_update(part)
    return [Send(link, part) for part in parts]


def _expect(core: BrokerCore, is_new: Mapping[LinkKey, bool], formers: Mapping[LinkKey, Interest], now: float) -> None:
    """Let subscriptions wait for confirmations; skip those that need not wait and whose client is not told.

    ``is_new`` tells for each whether it was never active before.
    """
    owed = core._neighbours.keys() - core.outgoing.sent
    is_awaited = core._confirmations.is_awaited(owed)
    for place, is_first in is_new.items():
        if is_awaited or _is_notified(core, place[0]):
            core._confirmations.expect(*place, owed, now=now, is_new=is_first, former=formers.get(place))


def _is_notified(core: BrokerCore, client: Link) -> bool:
    connected = core._confirmations.connected
    return connected is None or client in connected


def _status(core: BrokerCore, client: Link, subscription: Interest | m.Subscribe, state: m.State) -> list[Effect]:
    """Return the message that tells a client the state of its subscription, if the client is connected."""
    if not _is_notified(core, client):
        return []
    return [Send(client, m.Status(subscription.id, subscription.namespace, state))]


def _restore_ranges(
    table: RoutingTable, neighbours: Mapping[Link, Policy], stored: Mapping[Key, bytes]
) -> list[Effect]:
    """Restore the ranges of neighbours; return what to persist of those in an earlier format."""
    changes: list[Effect] = []
    range_records = {key: value for key, value in stored.items() if key[0] in _OF_RANGES and key[1] in neighbours}
    for (link, namespace), ranges in read_ranges(range_records, table.cells.spaces) if range_records else ():
        table.put_ranges(link, namespace, ranges.plan)
        saved = table.cells.take_records(link, namespace)
        if not ranges.is_current:
            changes += [*ranges.stale, *saved]
    return changes


def _keyed_interest(client: Link, message: m.Subscribe, content: Content) -> tuple[Link, str, Interest]:
    """Return the interest of a client with its key."""
    interest = _interest(message, content.of(message.namespace))
    return client, client_key(client, message.namespace, message.id), interest


def _interest(message: m.Subscribe, content: Content) -> Interest:
    return Interest(message.id, message.filter, message.namespace, content, message.expires)


def _document(wanted: Wanted, content: Content) -> bytes:
    """Return a filter in the form that is sent to a neighbour: unchanged if a client or neighbour wrote it."""
    if isinstance(wanted, NamedInterest):
        return wanted.interest.document
    return content.of(wanted.namespace).write_filter(wanted.filters)


def _withdraw(table: RoutingTable) -> list[Effect]:
    """Drop some entries of removed neighbours, so that they are retracted from the others."""
    leaving = ((link, key) for link in sorted(table.leaving) for key in table.interests(link))
    effects: list[Effect] = []
    for link, key in list(islice(leaving, CHANGED_AT_ONCE)):
        table.drop(link, key)
        effects.append(records.INTEREST.drop(link, key))
    return effects
