"""The edge of a broker: what clients say is checked and put into the broker's words; what they hear is bounded.

`EdgeCore` is a core around `BrokerCore`: messages in, effects out, and nothing learned outside a transaction. The
driver of `tamis serve` and the simulator run the same class. Neighbours pass through. Of clients it takes filters and
events as they wrote them:

* an event becomes canonical values, a filter is compiled, and without a configured schema both teach their types, which
  are persisted with them (`tamis.routing.edge.checks`);
* what cannot be read is refused as that one message, whatever checking raised. An exception that comes later, while a
  checked message is applied, is an error of ours and stops the broker;
* rights come with `Connect`; the policies of the principal and of the namespace are joined to each filter with AND
  (promise S6). An event must match them, too;
* how a subscription fares is *told* (`Tell`), not queued: a client that waits for it need not read its backlog first,
  and a client that misses it asks again;
* a refused event is told likewise, and again until its publisher must have heard of it (`tamis.routing.edge.refusals`);
* a client that reads too slowly is suspended when its backlog is full (`tamis.routing.edge.backlogs`).

The process around it speaks in the messages of `tamis.routing.edge.requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tamis.errors import DuplicateSubscriptionError, LimitError, RefusedError
from tamis.node import records
from tamis.node.content import Content
from tamis.node.core import LinkFree, LinkFull, LinkUp
from tamis.node.effects import Again, Answer, Deliver, Effect, Key, Link, Persist, Send, Tell
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.edge import requests as r
from tamis.routing.edge.admission import MAX_BACKLOG, Traffic, check_pieces, read_raw, refusal_reason
from tamis.routing.edge.audit import Deed, TokensSeen, Trail
from tamis.routing.edge.backlogs import MAX_BACKLOG_BYTES, Backlogs
from tamis.routing.edge.border import cut_message
from tamis.routing.edge.checks import Checks
from tamis.routing.edge.limits import MAX_EVENTS, MAX_SUBSCRIPTIONS_AT_ONCE
from tamis.routing.edge.producers import Producers
from tamis.routing.edge.refusals import Refusals
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.rights import Rights

__all__ = ["EdgeCore"]


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
        self.checks = Checks(content, policies)
        self.registry = Registry()
        self.backlogs = Backlogs(ends, max_backlog, max_backlog_bytes)
        #: What each connected client may do.
        self.rights: dict[Link, Rights] = {}
        self.producers = Producers()
        self.refusals = Refusals()
        self.trail = Trail(audited)
        self.traffic = Traffic()
        self._ends = ends
        #: The namespaces that may cross a link; a link that is not here lets all cross.
        self._borders = dict(borders or {})
        self._handlers: dict[type, Callable[[Any, Link, float], list[Effect]]] = {
            r.Connect: self._connect,
            r.Disconnect: self._disconnect,
            r.Departed: self._departed,
            r.LearnTypes: self._learn_types,
            r.Posts: self._posts,
            r.SubscribeFor: self._subscribe_for,
            r.UnsubscribeFor: lambda message, sender, now: broker.handle(message.message, sender=sender, now=now),
            Deed: self._note,
            TokensSeen: lambda message, sender, now: self.trail.see_tokens(message, now),
            m.Tick: self._tick,
        }

    # The core

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Take one message of ``sender``; return everything that follows from it, as one transaction."""
        self.backlogs.begin()
        handler = self._handlers.get(type(message))
        self.trail.actor = getattr(message, "by", None) if handler is not None else self.rights.get(sender)
        if handler is not None:
            effects = self._outgoing(handler(message, sender, now), now)
        elif self.broker.is_neighbour(sender) or isinstance(message, LinkUp | LinkFull | LinkFree):
            crossing = self._crossing(sender, message)
            effects = [] if crossing is None else self.broker.handle(crossing, sender=sender, now=now)
            effects = self._outgoing(effects, now)
        else:
            effects = self._outgoing(self._from_client(message, sender, now), now)
            effects += self._keep_refusals(effects, sender)
        return [*effects, *self._learned(), *self.trail.take()]

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Take back what an earlier life persisted."""
        for part in (self.checks, self.producers, self.refusals, self.trail, self.backlogs):
            part.restore(stored)
        for (link, _), value in records.INTEREST.items(stored):
            message = None if self.broker.is_neighbour(link) else m.decode(value, link)
            if isinstance(message, m.Subscribe):
                self.registry.add(link, message)
        effects = self._outgoing(self.broker.restore(stored, now=now), now)
        return [effect for effect in effects if not isinstance(effect, Tell)]  # nothing is connected yet

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every sentence about the state holds."""
        self.broker.check_invariants()

    # What the process around it asks

    def _connect(self, message: r.Connect, sender: Link, now: float) -> list[Effect]:
        if message.rights is None:
            self.trail.note(Deed(round(now * 1e6), sender, "link up", sender, address="broker"))
            return []
        self.rights[sender] = message.rights
        missed = self.refusals.upto(sender, self._ends[sender].received)
        return [Tell(sender, word) for word in (*self._types(), *missed)]

    def _disconnect(self, message: r.Disconnect, sender: Link, now: float) -> list[Effect]:
        self.rights.pop(sender, None)
        if self.broker.is_neighbour(sender):
            detail = message.reason
            self.trail.note(Deed(round(now * 1e6), sender, "link down", sender, address="broker", detail=detail))
        return []

    def _departed(self, message: r.Departed, sender: Link, now: float) -> list[Effect]:
        self.rights.pop(sender, None)
        return [*self.refusals.forget(sender), *self.backlogs.forget(sender)]

    def _note(self, message: Deed, sender: Link, now: float) -> list[Effect]:
        self.trail.note(message)
        return []

    def _learn_types(self, message: r.LearnTypes, sender: Link, now: float) -> list[Effect]:
        content = self.checks.content
        if content.learns and not content.schema:
            content.schema = message.schema
        return []

    def _tick(self, message: m.Tick, sender: Link, now: float) -> list[Effect]:
        self.trail.tick(now)
        return self.backlogs.resume() + self.broker.handle(message, sender=sender, now=now)

    def _posts(self, message: r.Posts, sender: Link, now: float) -> list[Effect]:
        accepted: list[m.Published] = []
        effects: list[Effect] = []
        verdicts: list[r.Accepted | r.Rejection] = []
        for call in message.calls:
            verdict, events = self._post(call)
            verdicts.append(verdict)
            accepted += events
            if events and call.producer:
                effects += self.producers.take(call.by.principal, call.producer, call.epoch, now=now)
        if accepted:
            effects += self._publish(accepted, sender, now)
        return [*effects, Answer(verdicts)]

    def _post(self, call: r.Post) -> tuple[r.Accepted | r.Rejection, list[m.Published]]:
        """Return the verdict on one request, and its events when they are new."""
        payloads: list[bytes] = []
        try:
            with self.checks.tentatively():
                self._check_events(call, payloads)
        except Exception as error:  # checking is about this one request, whatever is wrong with it
            return r.Rejection(len(payloads), error), []
        events = [
            m.Published(m.EventId(call.publisher, call.epoch, number), call.namespace, payload)
            for number, payload in enumerate(payloads, call.first)
        ]
        ids = tuple(event.id for event in events)
        if call.producer and self.producers.has(call.by.principal, call.producer, call.epoch):
            return r.Accepted(ids, is_new=False), []
        refusal = self._find_refusal(events)
        return (r.Accepted(ids), events) if refusal is None else (r.Rejection(None, RefusedError(503, refusal)), [])

    def _check_events(self, call: r.Post, payloads: list[bytes]) -> None:
        """Add the payloads of a request's events, from its draft where that still holds."""
        draft, content = call.draft, self.checks.content
        if draft is not None and draft.base is content.schema:
            content.schema = draft.learned
            payloads += draft.payloads
            return
        for raw in call.events:
            payloads.append(self.checks.event(raw, call.namespace, call.by))

    def _find_refusal(self, events: Iterable[m.Published]) -> str | None:
        """Return why one of some events cannot be accepted now, because a link it must take is full; else None."""
        flow = self.broker.flow
        if flow.is_open:
            return None
        for event in events:
            values = self.checks.content.read_event(event.payload)
            refusal = flow.find_refusal(self.broker.table.next_hops(values, event.namespace, ""))
            if refusal is not None:
                return refusal[1]
        return None

    def _subscribe_for(self, message: r.SubscribeFor, sender: Link, now: float) -> list[Effect]:
        rejection = self._find_rejection(message)
        if rejection is not None:
            return [Answer(rejection)]
        draft, content = message.draft, self.checks.content
        if draft is not None and draft.base is content.schema:
            content.schema = draft.learned
            checked = list(draft.checked)
        else:
            meanings = message.meanings or (None,) * len(message.requests)
            checked = []
            try:
                with self.checks.tentatively():
                    for (_, request), meaning in zip(message.requests, meanings, strict=True):
                        checked.append(self.checks.subscription(request, message.by, meaning))
            except Exception as error:  # checking is about this one request, whatever is wrong with it
                return [Answer(r.Rejection(len(checked), error))]
        pairs = [(link, request) for (link, _), request in zip(message.requests, checked, strict=True)]
        return [*self._subscribe(pairs, now), Answer(tuple(checked))]

    def _find_rejection(self, message: r.SubscribeFor) -> r.Rejection | None:
        """Return why subscriptions cannot be accepted because of those that exist, or are in the same request."""
        asked, new = self.registry.asked, set[tuple[Link, str]]()
        for row, (link, request) in enumerate(message.requests):
            place = (link, client_key(link, request.namespace, request.id))
            if message.must_be_new and (place in asked or place in new):
                return r.Rejection(row, DuplicateSubscriptionError(request.id))
            if place not in asked:
                new.add(place)
        wanted, most = self.registry.count_of(message.by.principal) + len(new), message.by.max_subscriptions
        if new and wanted > most:
            return r.Rejection(None, LimitError("subscriptions", wanted, most))
        return None

    # What clients say

    def _from_client(self, message: Any, sender: Link, now: float) -> list[Effect]:
        rights = self.rights[sender]
        if isinstance(message, m.Publish | m.PublishBatch):
            events = (message.event,) if isinstance(message, m.Publish) else message.events
            check_pieces(sender, "events", len(events), MAX_EVENTS)
            return self._published_by(events, sender, rights, now)
        if isinstance(message, m.Subscribe | m.SubscribeBatch):
            many = message.subscriptions if isinstance(message, m.SubscribeBatch) else (message,)
            check_pieces(sender, "subscriptions", len(many), MAX_SUBSCRIPTIONS_AT_ONCE)
            refusals: list[Effect] = []
            return self._subscribe(self._checked(many, sender, rights, now, refusals), now) + refusals
        if isinstance(message, m.Unsubscribe):
            return self.broker.handle(message, sender=sender, now=now)
        name = type(message).__name__
        return [Tell(sender, m.Refusal(name, f"a client may not send {name}"))]

    def _published_by(self, events: Sequence[m.Published], sender: Link, rights: Rights, now: float) -> list[Effect]:
        good: list[m.Published] = []
        refusals: list[Effect] = []
        publisher = f"{sender}@{self.broker.name}"
        for event in events:
            try:
                with self.checks.tentatively():
                    payload = self.checks.event(read_raw(event.payload), event.namespace, rights)
            except Exception as error:  # checking is about this one event, whatever is wrong with it
                subject = f"event {event.id.epoch} {event.id.seq}"
                status = 400 if rights.may_publish and rights.sees(event.namespace) else 403
                refusals.append(Tell(sender, m.Refusal(subject, refusal_reason(error), event.id, status=status)))
                self.trail.note_error(now, rights, subject, event.namespace, error)
            else:
                good.append(m.Published(m.EventId(publisher, event.id.epoch, event.id.seq), event.namespace, payload))
        return refusals + (self._publish(good, sender, now) if good else [])

    def _checked(
        self, many: Iterable[m.Subscribe], sender: Link, rights: Rights, now: float, refusals: list[Effect]
    ) -> Iterator[tuple[Link, m.Subscribe]]:
        """Yield the subscriptions that may be; each counts before the next is read. Others add to ``refusals``."""
        for request in many:
            try:
                self.registry.demand_room(rights, sender, request)
                with self.checks.tentatively():
                    checked = self.checks.subscription(self.checks.described(request), rights)
            except Exception as error:  # checking is about this one message, whatever is wrong with it
                subject = f"subscription {request.id!r}"
                refusals.append(Tell(sender, m.Refusal(subject, refusal_reason(error))))
                self.trail.note_error(now, rights, subject, request.namespace, error)
            else:
                yield sender, checked

    # What the broker does with what was checked

    def _subscribe(self, requests: Iterable[tuple[Link, m.Subscribe]], now: float) -> list[Effect]:
        taken: list[tuple[Link, m.Subscribe]] = []
        spaces: dict[str, list[m.Subscribe]] = {}
        for link, message in requests:
            self.registry.add(link, message)
            taken.append((link, message))
            spaces.setdefault(message.namespace, []).append(message)
        for first, *others in spaces.values():
            detail = m.about(first).text if not others else f"and {len(others):,} more"
            self.trail.note_subscription(now, "subscribe", first, detail, self.broker.name)
        return self.broker.subscribe(taken, now)

    def _publish(self, events: Sequence[m.Published], sender: Link, now: float) -> list[Effect]:
        self.traffic.note_events(now, events)
        return self.broker.handle(m.PublishBatch(tuple(events)), sender=sender, now=now)

    # What leaves

    def _outgoing(self, effects: list[Effect], now: float) -> list[Effect]:
        outgoing: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Persist | Answer | Tell | Again):
                outgoing.append(effect)
            elif self.broker.is_neighbour(effect.link):
                crossing = self._crossing(effect.link, effect.message)
                if crossing is not None:
                    outgoing.append(Send(effect.link, crossing))
            elif isinstance(effect, Deliver):
                outgoing.append(self._deliver(effect, now))
            elif isinstance(effect.message, m.Delivery | m.Gap):  # what a former life had not acknowledged
                outgoing.append(effect)
            else:
                outgoing.append(self._told(effect, now))
        return outgoing

    def _deliver(self, effect: Deliver, now: float) -> Effect:
        admitted = self.backlogs.admit(effect)
        if admitted is effect:
            self.traffic.note_delivery(now, effect.link, effect.message)
        else:
            self.traffic.missed += 1
        return admitted

    def _told(self, effect: Send, now: float) -> Effect:
        if isinstance(effect.message, m.Status):
            ended = self.registry.note(effect.link, effect.message)
            if ended is not None:
                what = "end" if self.trail.actor is None else "unsubscribe"
                self.trail.note_subscription(now, what, ended, f"owner {m.about(ended).owner}", self.broker.name)
        return Tell(effect.link, effect.message)

    def _keep_refusals(self, effects: list[Effect], sender: Link) -> list[Effect]:
        """Keep which events of a client's message were refused; return what to persist."""
        words = [effect.message for effect in effects if isinstance(effect, Tell) and effect.link == sender]
        refused = [word for word in words if isinstance(word, m.Refusal) and word.event]
        return self.refusals.keep(sender, self._ends[sender].received, refused)

    def _learned(self) -> list[Effect]:
        """Persist types that were learned, and tell them to the clients that are connected."""
        changes = self.checks.take_learned()
        words = [Tell(link, word) for link in sorted(self.rights) for word in self._types()] if changes else []
        return [*changes, *words]

    def _types(self) -> list[m.Types]:
        schema = self.checks.content.schema
        return [m.Types(schema.to_json().encode())] if schema else []

    def _crossing(self, link: Link, message: Any) -> Any:
        """Return what of a message may cross a link (promise S5); None: nothing."""
        allowed = self._borders.get(link)
        return message if allowed is None else cut_message(message, allowed)
