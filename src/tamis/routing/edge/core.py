"""The edge of a broker: checks and translates what clients send, and bounds what they are sent.

`EdgeCore` is a core around `BrokerCore`: messages in, effects out, and types are learned within transactions only. The
driver of `tamis serve` and the simulator run the same class. Messages of neighbours are passed to the broker. Clients
send filters and events as they wrote them:

* an event becomes canonical values, a filter is compiled, and without a configured schema their namespace learns types
  from both, which are persisted with them (`tamis.routing.edge.checks`);
* if checking a message raises, whatever the exception, that one message is refused. An exception that comes later,
  while a checked message is applied, is an error of ours and stops the broker;
* rights come with `Connect`; the policies of the principal and of the namespace are joined to each filter with AND
  (promise S6). An event must match them, too;
* the state of a subscription is *told* (`Tell`), not queued: a client that waits for it need not read its backlog
  first, and a client that misses it asks again;
* a batch of subscriptions enters the routing table in slices, one per step (`tamis.routing.edge.registry`), and so do
  events (`tamis.routing.core.publications`);
* a refused event is told likewise, repeatedly until its publisher must have received it
  (`tamis.routing.edge.refusals`);
* a client that reads too slowly is suspended when its backlog is full (`tamis.routing.edge.backlogs`).

The process around it uses the messages of `tamis.routing.edge.requests`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tamis.errors import RefusedError
from tamis.model.derived.formulas import attributes_of
from tamis.node import records
from tamis.node.content import Content, alternatives_of
from tamis.node.core import LinkFree, LinkFull, LinkUp
from tamis.node.effects import Again, Answer, Attach, Deliver, Effect, Key, Link, Queue, Send, Tell
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Shared
from tamis.routing.core.broker import BrokerCore, client_key, tell_only
from tamis.routing.core.flow import Flow
from tamis.routing.core.publications import Publications
from tamis.routing.early_entries import weight_of
from tamis.routing.edge import requests as r
from tamis.routing.edge.admission import MAX_BACKLOG, Traffic, check_pieces, read_raw, refusal_reason
from tamis.routing.edge.audit import Deed, TokensSeen, Trail, deed
from tamis.routing.edge.backlogs import MAX_BACKLOG_BYTES, Backlogs
from tamis.routing.edge.border import Borders
from tamis.routing.edge.checks import Checks
from tamis.routing.edge.limits import MAX_EVENTS, MAX_SUBSCRIPTIONS_AT_ONCE
from tamis.routing.edge.link_names import is_http_link
from tamis.routing.edge.producers import Producers
from tamis.routing.edge.refusals import Refusals
from tamis.routing.edge.registry import Arrival, Registry
from tamis.routing.edge.rights import Rights
from tamis.routing.link_changes import disconnect_neighbour
from tamis.routing.neighbour_checks import check_message
from tamis.routing.rings import Readmit
from tamis.routing.table_parts import Connected
from tamis.routing.webhooks.registration import PutWebhook

__all__ = ["EdgeCore", "source_of", "source_of_neighbour"]


def source_of(principal: str) -> str:
    """Return the source of a principal's events: events under way of one source do not delay those of another.

    >>> source_of("alice")
    'principal alice'
    """
    return f"principal {principal}"


def source_of_neighbour(link: Link) -> str:
    """Return the source of the events that come over a link.

    >>> source_of_neighbour("east")
    'broker east'
    """
    return f"broker {link}"


class EdgeCore:
    """A broker with its edge.

    ``ends`` are the streams of its links, which its node keeps and this core only reads; ``audited`` is the number of
    the last record of the audit.
    """

    def __init__(
        self,
        broker: BrokerCore,
        content: Content,
        ends: Mapping[Link, StreamEnd],
        *,
        policies: Mapping[str, str] | None = None,
        max_backlog: int = MAX_BACKLOG,
        max_backlog_bytes: int = MAX_BACKLOG_BYTES,
        borders: Mapping[Link, frozenset[str]] | None = None,
        audited: int = 0,
    ) -> None:
        self.broker = broker
        self.checks = Checks(content, policies, broker.events.find_refusal)
        self.registry = Registry(partial(_weigh, content, broker.flow))
        self.publications = Publications(broker.events, weight=self.registry.bytes_of)
        self.backlogs = Backlogs(ends, max_backlog, max_backlog_bytes)
        #: What each connected client may do.
        self.rights: dict[Link, Rights] = {}
        tell_only(broker, self.rights)
        self.producers = Producers()
        self.refusals = Refusals()
        self.trail = Trail(audited)
        self.traffic = Traffic()
        self.borders = Borders(borders or {})
        self._handlers: dict[type, Callable[[Any, Link, float], list[Effect]]] = {
            r.Connect: self._connect,
            r.Disconnect: self._disconnect,
            r.Departed: self._departed,
            r.LearnTypes: self._learn_types,
            r.ForgetTypes: self._forget_types,
            r.Posts: self._posts,
            r.SubscribeFor: self._subscribe_for,
            r.FindProducer: lambda message, sender, now: [Answer(self.producers.last(*message.place))],
            r.UnsubscribeFor: lambda message, sender, now: self._unsubscribe(message.message, sender, now),
            Shared: lambda message, sender, now: self.backlogs.sharing.handle(message.request, now),
            PutWebhook: lambda message, sender, now: self.registry.webhooks.handle(message, self.trail, now),
            Readmit: lambda message, sender, now: self.broker.handle(message, sender=sender, now=now),
            r.ChangeLink: lambda message, sender, now: _change_link(self, message, now),
            Deed: lambda message, sender, now: self.trail.note_all([message]),
            TokensSeen: lambda message, sender, now: self.trail.see_tokens(message, now),
            m.Tick: self._tick,
        }

    # The core

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Handle one message of ``sender``; return all its effects, as one transaction."""
        self.backlogs.begin()
        handler = self._handlers.get(type(message))
        self.trail.actor = getattr(message, "by", None) if handler is not None else self.rights.get(sender)
        if handler is not None:
            effects = self._outgoing(handler(message, sender, now), now)
        elif self.broker.is_neighbour(sender) or isinstance(message, LinkUp | LinkFull | LinkFree):
            crossing = self.borders.crossing(sender, message)
            effects = self._outgoing([] if crossing is None else self._from_broker(crossing, sender, now), now)
        else:
            effects = self._outgoing(self._from_client(message, sender, now), now)
            effects += self._keep_refusals(effects, sender)
        for link, reason in self.broker.flow.rings.take_refused():
            self.trail.note(Deed(round(now * 1e6), link, "link refuse", link, address="process", detail=reason))
        return [*effects, *self._learned(), *self.trail.take()]

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Restore what an earlier life persisted."""
        for part in (self.checks, self.producers, self.refusals, self.trail, self.backlogs, self.registry.webhooks):
            part.restore(stored)
        read: dict[tuple[str, ...], m.Subscribe] = {}
        queues: list[Link] = []
        for (link, key), value in records.INTEREST.items(stored):
            message = None if self.broker.is_neighbour(link) else m.decode(value, link)
            if isinstance(message, m.Subscribe):
                self.registry.add(link, message)
                read[link, key] = message
                if is_http_link(link):
                    queues.append(link)
        self.registry.clients.add(link for (link,), _ in records.LINK.items(stored))
        restored = self.broker.restore(stored, now=now, read=read)
        effects = self._outgoing(restored, now) + self.publications.restore(stored)
        if records.SCHEMA.key() in stored:
            effects += [records.SCHEMA.drop(), *self.checks.take_learned().values()]
        return [Attach(queues), *(effect for effect in effects if not isinstance(effect, Tell))]  # nothing is connected

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every invariant of the state holds."""
        self.broker.check_invariants()

    # Requests of the process around it

    def _connect(self, message: r.Connect, sender: Link, now: float) -> list[Effect]:
        if message.rights is None:
            self.trail.note(Deed(round(now * 1e6), sender, "link up", sender, address="broker"))
            return self.broker.handle(Connected(message.takes_parts), sender=sender, now=now)
        self.rights[sender] = message.rights
        self.registry.clients.add([sender])
        missed = self.refusals.upto(sender, self.backlogs.received(sender))
        types = [notice for name in ("", *self.registry.namespaces_of(sender)) for notice in self.checks.types_of(name)]
        return [Tell(sender, notice) for notice in (*types, *missed)]

    def _disconnect(self, message: r.Disconnect, sender: Link, now: float) -> list[Effect]:
        self.rights.pop(sender, None)
        if self.broker.is_neighbour(sender):
            detail = message.reason
            self.trail.note(Deed(round(now * 1e6), sender, "link down", sender, address="broker", detail=detail))
            return disconnect_neighbour(self.broker, sender)
        return []

    def _departed(self, message: r.Departed, sender: Link, now: float) -> list[Effect]:
        self.rights.pop(sender, None)
        self.registry.clients.drop(sender)
        return [*self.refusals.forget(sender), *self.backlogs.forget(sender)]

    def _learn_types(self, message: r.LearnTypes, sender: Link, now: float) -> list[Effect]:
        self.checks.teach(message.schema, message.namespaces)
        return []

    def _forget_types(self, message: r.ForgetTypes, sender: Link, now: float) -> list[Effect]:
        if self.publications.concerns(message.namespace):
            return [
                Answer(r.Rejection(None, RefusedError(503, "events of the namespace are being delivered; try later")))
            ]
        space = self.checks.content.of(message.namespace)
        subscriptions = (
            subscription
            for subscription in self.registry.subscriptions.values()
            if subscription.namespace == message.namespace
        )
        used = {
            name
            for subscription in subscriptions
            for filter in space.read_filter(subscription.filter)
            for name in attributes_of(filter)
        }
        forgotten = sorted(space.schema.keys() - used) if space.learns else []
        if forgotten:
            self.checks.forget_types(message.namespace, used)
            self.traffic.forget(message.namespace)
        detail = f"{len(forgotten)} attributes"
        self.trail.note(deed(now, message.by, "forget types", namespace=message.namespace, detail=detail))
        return [Answer(forgotten)]

    def _tick(self, message: m.Tick, sender: Link, now: float) -> list[Effect]:
        self.trail.tick(now)
        is_turn_of_events = self.publications.has_waiting and not self.publications.had_turn
        entering = [] if is_turn_of_events else self.registry.next_slice()
        self.publications.had_turn = not entering
        if entering:
            effects = self.broker.subscribe(entering, now, is_on_disk=True)
        else:
            effects = self.publications.advance(now)
        if self.registry.has_waiting or self.publications.has_waiting:
            effects.append(Again())
        return effects + self.backlogs.resume() + self.broker.handle(message, sender=sender, now=now)

    def _posts(self, message: r.Posts, sender: Link, now: float) -> list[Effect]:
        accepted: dict[str, list[m.Published]] = {}
        effects: list[Effect] = []
        verdicts: list[r.Accepted | r.Rejection] = []
        for call in message.calls:
            verdict, events = self._post(call)
            verdicts.append(verdict)
            if events:
                accepted.setdefault(call.by.principal, []).extend(events)
            if events and call.producer:
                effects += self.producers.take(call.by.principal, call.producer, call.epoch, now=now)
        if accepted:
            effects += self._publish(accepted, sender, now)
        return [*effects, Answer(verdicts)]

    def _post(self, call: r.Post) -> tuple[r.Accepted | r.Rejection, list[m.Published]]:
        """Return the verdict on one request, and its events if they are new."""
        payloads: list[bytes] = []
        try:
            with self.checks.tentatively(call.namespace):
                refusals = self._check_events(call, payloads)
        except Exception as error:  # checking is about this one request, whatever is wrong with it
            return r.Rejection(len(payloads), error), []
        events = [
            m.Published(m.EventId(call.publisher, call.epoch, number), call.namespace, payload)
            for number, payload in enumerate(payloads, call.first)
        ]
        ids = tuple(event.id for event in events)
        if call.producer and self.producers.has(call.by.principal, call.producer, call.epoch):
            return r.Accepted(ids, is_new=False), []
        if call.producer and not self.producers.follows(call.by.principal, call.producer, call.after):
            last = self.producers.last(call.by.principal, call.producer)
            problem = f"after: the last number of producer {call.producer!r} is {last}, not {call.after}"
            return r.Rejection(None, RefusedError(409, problem)), []
        refusal = next(filter(None, refusals), None)
        return (r.Accepted(ids), events) if refusal is None else (r.Rejection(None, RefusedError(503, refusal[1])), [])

    def _check_events(self, call: r.Post, payloads: list[bytes]) -> list[tuple[Link, str] | None]:
        """Add the payloads of a request's events, from its draft if that is still valid; return their refusals.

        Many events are never checked within a step: `StaleDraftError` asks for a new draft instead.
        """
        if call.draft is not None and self.checks.takes(call.draft, call.namespace):
            payloads += call.draft.payloads
            return call.draft.refusals
        if call.draft is not None and len(call.events) > self.publications.limits.events:
            raise r.StaleDraftError(call.namespace)
        for raw in call.events:
            payloads.append(self.checks.event(raw, call.namespace, call.by))
        return [self.checks.find_refusal(call.namespace, payload) for payload in payloads]

    def _subscribe_for(self, message: r.SubscribeFor, sender: Link, now: float) -> list[Effect]:
        rejection = self.registry.find_rejection(message)
        if rejection is not None:
            return [Answer(rejection)]
        checked: list[m.Subscribe] = []
        row: int | None = None  # a wrong type in a draft concerns all of its subscriptions
        try:
            with contextlib.ExitStack() as undo:
                for namespace in {request.namespace for _, request in message.requests}:
                    undo.enter_context(self.checks.tentatively(namespace))
                drafts = {name: draft for name, draft in message.drafts.items() if self.checks.takes(draft, name)}
                row = 0
                checked.extend(self._check_requests(message, drafts))
        except Exception as error:  # checking is about this one request, whatever is wrong with it
            return [Answer(r.Rejection(None if row is None else len(checked), error))]
        links = [link for link, _ in message.requests]
        effects = self._subscribe(zip(links, checked, strict=True), message.by.principal, now)
        return [Attach(links), *effects, Answer(tuple(checked))]

    def _check_requests(self, message: r.SubscribeFor, drafts: Mapping[str, r.Draft]) -> Iterator[m.Subscribe]:
        """Yield the subscriptions of a request in the form that the broker stores, from valid drafts where possible."""
        prepared = {name: iter(draft.checked) for name, draft in drafts.items()}
        for _, request in message.requests:
            draft = prepared.get(request.namespace)
            yield self.checks.subscription(request, message.by) if draft is None else next(draft)

    # Messages of neighbours and clients

    def _from_broker(self, message: Any, sender: Link, now: float) -> list[Effect]:
        if not isinstance(message, m.Publish | m.PublishBatch):
            effects = self.broker.handle(message, sender=sender, now=now)
            return self.backlogs.admit_gaps(effects) if isinstance(message, m.LinkGap) else effects
        check_message(message, sender, self.broker.name)
        events = (message.event,) if isinstance(message, m.Publish) else message.events
        self.broker.events.demand_readable(events, sender)
        return self._route({source_of_neighbour(sender): events}, sender, now)

    def _from_client(self, message: Any, sender: Link, now: float) -> list[Effect]:
        rights = self.rights[sender]
        if isinstance(message, m.Publish | m.PublishBatch):
            events = (message.event,) if isinstance(message, m.Publish) else message.events
            check_pieces(sender, "events", len(events), MAX_EVENTS)
            return self._published_by(events, sender, rights, now)
        if isinstance(message, m.Subscribe | m.SubscribeBatch):
            requests = message.subscriptions if isinstance(message, m.SubscribeBatch) else (message,)
            check_pieces(sender, "subscriptions", len(requests), MAX_SUBSCRIPTIONS_AT_ONCE)
            refusals: list[Effect] = []
            arrivals = self._checked(requests, sender, rights, now, refusals)
            return self._subscribe(arrivals, rights.principal, now) + refusals
        if isinstance(message, m.Unsubscribe):
            return self._unsubscribe(message, sender, now)
        name = type(message).__name__
        return [Tell(sender, m.Refusal(name, f"a client may not send {name}"))]

    def _published_by(self, events: Sequence[m.Published], sender: Link, rights: Rights, now: float) -> list[Effect]:
        accepted_events: list[m.Published] = []
        refusals: list[Effect] = []
        publisher, draft = f"{sender}@{self.broker.name}", self.checks.take_message(len(events))
        for row, event in enumerate(events):
            verdict = _verdict(self.checks, event, rights) if draft is None else draft.verdicts[row]
            if isinstance(verdict, Exception):
                subject = f"event {event.id.epoch} {event.id.seq}"
                status = 400 if rights.may_publish and rights.sees(event.namespace) else 403
                refusals.append(Tell(sender, m.Refusal(subject, refusal_reason(verdict), event.id, status=status)))
                self.trail.note_error(now, rights, subject, event.namespace, verdict)
                continue
            payload, refusal = verdict
            accepted = m.Published(m.EventId(publisher, event.id.epoch, event.id.seq), event.namespace, payload)
            if refusal is None:
                accepted_events.append(accepted)
            else:
                refusals.append(self.broker.events.refuse(accepted, sender, *refusal))
        return refusals + (self._publish({rights.principal: accepted_events}, sender, now) if accepted_events else [])

    def _checked(
        self, requests: Iterable[m.Subscribe], sender: Link, rights: Rights, now: float, refusals: list[Effect]
    ) -> Iterator[Arrival]:
        """Yield the accepted subscriptions; each counts before the next is checked. Others add to ``refusals``."""
        for request in requests:
            try:
                self.registry.demand_room(rights, sender, request)
                with self.checks.tentatively(request.namespace):
                    checked = self.checks.drafted_subscription(request, rights)
            except Exception as error:  # checking is about this one message, whatever is wrong with it
                subject = f"subscription {request.id!r}"
                refusals.append(Tell(sender, m.Refusal(subject, refusal_reason(error))))
                self.trail.note_error(now, rights, subject, request.namespace, error)
            else:
                yield sender, checked

    # Checked messages

    def _subscribe(self, arrivals: Iterable[Arrival], principal: str, now: float) -> list[Effect]:
        taken: list[Arrival] = []
        spaces: dict[str, list[m.Subscribe]] = {}
        effects: list[Effect] = []
        for link, message in arrivals:
            if self.registry.add(link, message) and link in self.rights:
                effects += [Tell(link, word) for word in self.checks.types_of(message.namespace)]
            taken.append((link, message))
            spaces.setdefault(message.namespace, []).append(message)
        for first, *others in spaces.values():
            detail = m.about(first).text if not others else f"and {len(others):,} more"
            self.trail.note_subscription(now, "subscribe", first, detail, self.broker.name)
        entering, waiting = self.registry.admit(principal, taken)
        effects += self.broker.subscribe(entering, now)
        for link, message in waiting:  # all are on disk before the first is confirmed
            key = client_key(link, message.namespace, message.id)
            effects.append(records.INTEREST.put(link, key, value=m.encode(message)))
        return [*effects, Again()] if waiting else effects

    def _unsubscribe(self, message: m.Unsubscribe, sender: Link, now: float) -> list[Effect]:
        entering = self.registry.take_waiting(sender, message)
        effects = self.broker.subscribe(entering, now, is_on_disk=True) if entering else []
        return effects + self.broker.handle(message, sender=sender, now=now)

    def _publish(self, arrivals: Mapping[str, Sequence[m.Published]], sender: Link, now: float) -> list[Effect]:
        """Publish accepted events of principals."""
        for events in arrivals.values():
            self.traffic.note_events(now, events)
        return self._route({source_of(principal): events for principal, events in arrivals.items()}, sender, now)

    def _route(self, arrivals: Mapping[str, Sequence[m.Published]], sender: Link, now: float) -> list[Effect]:
        self.broker.story.note(now, sender, {source: f"{len(events)} events" for source, events in arrivals.items()})
        return self.publications.publish(arrivals, sender, now)

    # Outgoing effects

    def _outgoing(self, effects: list[Effect], now: float) -> list[Effect]:
        outgoing: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Send | Queue | Deliver):
                outgoing.append(effect)
            elif isinstance(effect, Queue) or self.broker.is_neighbour(effect.link):
                crossing = self.borders.crossing(effect.link, effect.message)
                if crossing is not None:
                    outgoing.append(replace(effect, message=crossing))
            elif isinstance(effect, Deliver):
                narrowed = self.registry.fields.narrow(effect.link, effect.message)
                delivery = effect if narrowed is effect.message else Deliver(effect.link, narrowed)
                outgoing.append(self._deliver(delivery, now))
            elif isinstance(effect.message, m.Delivery | m.Gap):  # not acknowledged to a former life
                outgoing.append(effect)
            else:
                outgoing += self._tell(effect, now)
        return outgoing

    def _deliver(self, effect: Deliver, now: float) -> Effect:
        admitted = self.backlogs.admit(effect)
        if admitted is effect:
            self.traffic.note_delivery(now, effect.link, effect.message)
        else:
            self.traffic.missed += 1
        return admitted

    def _tell(self, effect: Send, now: float) -> list[Effect]:
        effects: list[Effect] = [Tell(effect.link, effect.message)]
        if isinstance(effect.message, m.Status):
            ended = self.registry.note(effect.link, effect.message)
            if ended is not None:
                kind = "end" if self.trail.actor is None else "unsubscribe"
                self.trail.note_subscription(now, kind, ended, f"owner {m.about(ended).owner}", self.broker.name)
                effects += self.registry.webhooks.forget(effect.link)
        return effects

    def _keep_refusals(self, effects: list[Effect], sender: Link) -> list[Effect]:
        """Remember which events of a client's message were refused; return what to persist."""
        messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.link == sender]
        refused = [message for message in messages if isinstance(message, m.Refusal) and message.event]
        return self.refusals.keep(sender, self.backlogs.received(sender), refused)

    def _learned(self) -> list[Effect]:
        """Persist learned types, and send them to the connected clients of their namespaces."""
        changes = self.checks.take_learned()
        effects = [
            Tell(link, message)
            for link in (sorted(self.rights) if changes else ())
            for name in changes.keys() & self.registry.namespaces_of(link)
            for message in self.checks.types_of(name)
        ]
        return [*changes.values(), *effects]


def _change_link(edge: EdgeCore, message: r.ChangeLink, now: float) -> list[Effect]:
    """Change a link, record it in the audit, and note the namespaces that may cross it."""
    edge.borders.follow(message.change)
    return edge.trail.note_all([message.deed(now)]) + edge.broker.handle(message.change, sender="", now=now)


def _verdict(checks: Checks, event: m.Published, rights: Rights) -> tuple[bytes, tuple[Link, str] | None] | Exception:
    """Return the payload of an event and the full link that refuses it, if any; or the error of its check."""
    try:
        with checks.tentatively(event.namespace):
            payload = checks.event(read_raw(event.payload), event.namespace, rights)
            return payload, checks.find_refusal(event.namespace, payload)
    except Exception as error:  # checking is about this one event, whatever is wrong with it
        return error


def _weigh(content: Content, flow: Flow, message: m.Subscribe) -> int:
    """Return which part of a step a subscription takes when it enters the routing table."""
    space = content.spaces.get(message.namespace, content)
    return weight_of(message.filter, alternatives_of(space, message.filter), is_announced=bool(flow.neighbours))
