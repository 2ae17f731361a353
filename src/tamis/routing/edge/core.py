"""The edge of a broker: what clients say is checked and put into the broker's words; what they hear is bounded.

`EdgeCore` is a core around `BrokerCore`, so that a driver and the simulator know no difference. Neighbours pass
through. Of clients it takes filters and events as they wrote them:

* an event becomes canonical values, a filter is compiled, and without a configured schema both teach their types, which
  are persisted with them;
* what cannot be read is refused as that one message, whatever checking raised. An exception that comes later, while a
  checked message is applied, is an error of ours and stops the broker;
* rights are checked, and the policies of the principal and of the namespace are joined to each filter with AND
  (promise S6). An event must match them, too;
* how a subscription fares is *told* (`take_told`), not queued: a client that waits for it need not read its backlog
  first, and who misses it asks again;
* a refused event is told likewise, and again until its publisher must have heard of it (`tamis.routing.edge.refusals`);
* a client that reads too slowly is suspended when its backlog is full. What it misses is counted, and it is told by one
  `Gap` when it has caught up (G17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tamis.algebra.evaluate import matches
from tamis.errors import LimitError, RefusedError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import MAX_ATTRIBUTES, Schema
from tamis.model.subscription import Filter
from tamis.model.types import Region
from tamis.node import records
from tamis.node.content import Content
from tamis.node.core import LinkFree, LinkFull, LinkUp
from tamis.node.effects import Again, Deliver, Effect, Key, Link, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.edge.admission import (
    MAX_ABOUT,
    MAX_BACKLOG,
    MAX_EVENT,
    MAX_EVENT_WITH_REGION,
    Admitted,
    AdmittedMany,
    Departed,
    EdgeCounts,
    Recent,
    check_namespace,
    read_raw,
    refusal_reason,
    subscription_id,
)
from tamis.routing.edge.audit import Deed, TokensSeen, Trail, deed
from tamis.routing.edge.border import cut_message
from tamis.routing.edge.producers import Once, Producers
from tamis.routing.edge.refusals import Refusals
from tamis.routing.edge.rights import Rights

__all__ = ["EdgeCore"]

#: Namespaces of which it is remembered who was let through last.
MAX_GATES = 1_024


class EdgeCore:
    """A broker with its edge. ``backlog`` tells how many messages wait for a link, ``received`` how many it gave."""

    def __init__(
        self,
        broker: BrokerCore,
        content: Content,
        *,
        policies: Mapping[str, str] | None = None,
        max_backlog: int = MAX_BACKLOG,
        borders: Mapping[Link, frozenset[str]] | None = None,
    ) -> None:
        self.broker = broker
        self.content = content
        self.max_backlog = max_backlog
        self.backlog: Callable[[Link], int] = lambda link: 0
        #: The number of the last message taken from a link.
        self.received: Callable[[Link], int] = lambda link: 0
        #: What each connected client may do.
        self.rights: dict[Link, Rights] = {}
        #: ``{(link, key): subscribe}``: every subscription of a client, with what its owner said about it.
        self.asked: dict[tuple[Link, str], m.Subscribe] = {}
        #: How far each of them has come.
        self.states: dict[tuple[Link, str], m.State] = {}
        #: What suspended clients have missed so far.
        self.gaps: dict[Link, m.Gap] = {}
        self.counts = EdgeCounts()
        self.producers = Producers()
        self.refusals = Refusals()
        self.trail = Trail()
        #: Who wants what is being done; None: the broker itself.
        self._by: Rights | None = None
        self.recent = Recent()
        self._policies = dict(policies or {})
        #: The namespaces that may cross a link; a link that is not here lets all cross.
        self._borders = dict(borders or {})
        self._kept_schema = content.schema
        #: Who was let through last into a namespace, and the policies there.
        self._gates: dict[str, tuple[Rights, list[str]]] = {}
        self._compiled: dict[str, tuple[Filter, ...]] = {}
        self._told: list[tuple[Link, m.Message]] = []
        #: Deliveries of the call under way, by client: they are not in its backlog yet.
        self._added: dict[Link, int] = {}
        #: How many subscriptions each principal has.
        self._counts: dict[Link, int] = {}

    # The core

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Take one message of ``sender``; return everything that follows from it, as one transaction."""
        already_told = len(self._told)
        self._by = message.by if isinstance(message, Admitted | AdmittedMany) else self.rights.get(sender)
        if isinstance(message, Admitted):
            effects = self._admitted(message.message, sender, now)
        elif isinstance(message, AdmittedMany):
            effects = self._subscribe(message.asked, now)
        elif isinstance(message, Once):
            effects = self._once(message, sender, now)
        elif isinstance(message, Departed):
            self.rights.pop(sender, None)
            effects = self.refusals.forget(sender)
        elif isinstance(message, Deed):
            self.trail.note(message)
            effects = []
        elif isinstance(message, TokensSeen):
            effects = self.trail.see_tokens(message, now)
        elif self.broker.is_neighbour(sender) or isinstance(message, LinkUp | LinkFull | LinkFree | m.Tick):
            crossing = self._crossing(sender, message)
            effects = [] if crossing is None else self.broker.handle(crossing, sender=sender, now=now)
        else:
            effects = self._from_client(message, sender, now)
        if isinstance(message, m.Tick):
            self.trail.tick(now)
            effects = self._resume() + effects
        found = self._outgoing(effects, now)
        found += self._keep_refusals(sender, already_told)
        if self.content.learns and self.content.schema is not self._kept_schema:
            self._kept_schema = self.content.schema
            found.append(records.SCHEMA.put(value=self.content.schema.to_json().encode()))
        return [*found, *self.trail.take()]

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Take back what an earlier life persisted."""
        learned = records.SCHEMA.find(stored)
        if self.content.learns and learned is not None:
            self.content.schema = self._kept_schema = Schema.from_json(learned)
        self.producers.restore(stored)
        self.refusals.restore(stored)
        self.trail.restore(stored)
        for (link, key), value in records.INTEREST.items(stored):
            message = None if self.broker.is_neighbour(link) else m.decode(value, link)
            if isinstance(message, m.Subscribe):
                self._note(link, key, message)
        for (link,), value in records.GAP.items(stored):
            self.gaps[link] = msgspec.msgpack.decode(value, type=m.Gap)
        found = self._outgoing(self.broker.restore(stored, now=now), now)
        self._told.clear()
        return found

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless every sentence about the state holds."""
        self.broker.check_invariants()

    # What others ask

    def take_told(self) -> list[tuple[Link, m.Message]]:
        """Return what clients are to be told at once, outside their queues."""
        told, self._told = self._told, []
        return told

    def write_event(self, raw: Mapping[str, Any], namespace: str, rights: Rights) -> bytes:
        """Return the payload of an event that may be published; raises a `TamisError` that says why it may not."""
        policies = self._gate(namespace, rights)
        if len(raw) > MAX_ATTRIBUTES:
            raise LimitError("attributes of an event", len(raw), MAX_ATTRIBUTES)
        payload = self.content.write_event(raw)
        if len(payload) > MAX_EVENT:
            has_region = any(isinstance(self.content.schema.get(name), Region) for name in raw)
            limit = MAX_EVENT_WITH_REGION if has_region else MAX_EVENT
            if len(payload) > limit:
                raise LimitError("bytes of an event", len(payload), limit)
        for policy in policies:
            event = self.content.read_event(payload)
            if policy not in self._compiled:
                self._compiled[policy] = self.content.compile(policy)
            if not any(matches(event, one) for one in self._compiled[policy]):
                raise RefusedError(403, f"the policy of {rights.principal!r} does not allow this event")
        return payload

    def write_subscription(
        self, message: m.Subscribe, link: Link, rights: Rights, meaning: tuple[Filter, ...] | None = None
    ) -> m.Subscribe:
        """Return a subscription as the broker takes it: compiled, and joined to the policies.

        ``meaning`` is what its filter was compiled to under this schema already, if it was.
        """
        rights.demand("subscribe", check_namespace(message.namespace))
        subscription_id(message.id)
        if len(message.about) > MAX_ABOUT:
            raise LimitError("bytes of what is said about a subscription", len(message.about), MAX_ABOUT)
        key = client_key(link, message.namespace, message.id)
        if (link, key) not in self.asked and self._counts.get(rights.principal, 0) >= rights.max_subscriptions:
            raise LimitError("subscriptions", self._counts[rights.principal] + 1, rights.max_subscriptions)
        policies = self.policies_of(message.namespace, rights)
        if policies:
            parts = [*(to_json(parse(one)) for one in policies), msgspec.json.decode(message.filter)]
            message = msgspec.structs.replace(message, filter=msgspec.json.encode({"op": "and", "args": parts}))
        if meaning is None or policies:
            meaning = self.content.compile(msgspec.json.decode(message.filter))
        about = msgspec.structs.replace(m.about(message), owner=rights.principal)
        return msgspec.structs.replace(
            message, filter=self.content.write_filter(meaning), about=msgspec.json.encode(about)
        )

    def find_refusal(self, events: Iterable[m.Published]) -> str | None:
        """Return why one of some events cannot be accepted now, because a link it must take is full; else None."""
        flow = self.broker.flow
        if flow.is_open:
            return None
        for event in events:
            links = self.broker.table.next_hops(self.content.read_event(event.payload), event.namespace, "")
            if (refusal := flow.find_refusal(links)) is not None:
                return refusal[1]
        return None

    def count_of(self, principal: str) -> int:
        """Return how many subscriptions somebody has."""
        return self._counts.get(principal, 0)

    def policies_of(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that hold for a principal in a namespace: the tenant's and its own, as CQL2 text."""
        return [one for one in (self._policies.get(namespace), rights.policy) if one]

    def is_suspended(self, link: Link) -> bool:
        """Whether a client misses events now because it read too slowly."""
        return link in self.gaps

    # Inside

    def _from_client(self, message: Any, sender: Link, now: float) -> list[Effect]:
        rights = self.rights[sender]
        if isinstance(message, m.Publish | m.PublishBatch):
            events = (message.event,) if isinstance(message, m.Publish) else message.events
            return self._publish(events, sender, rights, now)
        if isinstance(message, m.Subscribe | m.SubscribeBatch):
            many = message.subscriptions if isinstance(message, m.SubscribeBatch) else (message,)
            return self._subscribe(self._checked(many, sender, rights, now), now)
        if isinstance(message, m.Unsubscribe):
            return self._admitted(message, sender, now)
        self._told.append((sender, m.Refusal(type(message).__name__, "a client does not say that to a broker")))
        return []

    def _keep_refusals(self, sender: Link, already_told: int) -> list[Effect]:
        """Keep which events of a client's message were refused; return what to persist."""
        if sender not in self.rights:
            return []
        refused = [word for _, word in self._told[already_told:] if isinstance(word, m.Refusal) and word.event]
        return self.refusals.keep(sender, self.received(sender), refused)

    def _checked(
        self, many: Iterable[m.Subscribe], sender: Link, rights: Rights, now: float
    ) -> Iterator[tuple[Link, m.Subscribe]]:
        """Yield what of a client's subscriptions may be, others are refused; each counts before the next is read."""
        for one in many:
            try:
                yield sender, self.write_subscription(one, sender, rights)
            except Exception as error:  # checking is about this one message, whatever is wrong with it
                subject = f"subscription {one.id!r}"
                self._told.append((sender, m.Refusal(subject, refusal_reason(error))))
                self.trail.note_error(now, rights, subject, one.namespace, error)

    def _subscribe(self, asked: Iterable[tuple[Link, m.Subscribe]], now: float) -> list[Effect]:
        taken: list[tuple[Link, m.Subscribe]] = []
        spaces: dict[str, list[m.Subscribe]] = {}
        for link, message in asked:
            self._note(link, client_key(link, message.namespace, message.id), message)
            taken.append((link, message))
            spaces.setdefault(message.namespace, []).append(message)
        for first, *others in spaces.values():
            self._audit(now, "subscribe", first, m.about(first).text if not others else f"and {len(others):,} more")
        return self.broker.subscribe(taken, now)

    def _publish(self, events: tuple[m.Published, ...], sender: Link, rights: Rights, now: float) -> list[Effect]:
        good: list[m.Published] = []
        publisher = f"{sender}@{self.broker.name}"
        for event in events:
            try:
                payload = self.write_event(read_raw(event.payload), event.namespace, rights)
            except Exception as error:  # checking is about this one event, whatever is wrong with it
                subject = f"event {event.id.epoch} {event.id.seq}"
                status = 400 if rights.may_publish and rights.sees(event.namespace) else 403
                self._told.append((sender, m.Refusal(subject, refusal_reason(error), event.id, status=status)))
                self.trail.note_error(now, rights, subject, event.namespace, error)
            else:
                id = m.EventId(publisher, event.id.epoch, event.id.seq)
                good.append(m.Published(id, event.namespace, payload))
        return self._admitted(m.PublishBatch(tuple(good)), sender, now) if good else []

    def _admitted(self, message: m.Message, sender: Link, now: float) -> list[Effect]:
        if isinstance(message, m.PublishBatch):
            self.counts.events += len(message.events)
            self.recent.events.extend((now, event) for event in message.events)
        if isinstance(message, m.Subscribe):
            return self._subscribe([(sender, message)], now)
        return self.broker.handle(message, sender=sender, now=now)

    def _once(self, batch: Once, sender: Link, now: float) -> list[Effect]:
        if self.producers.has(batch):
            return []
        return [*self.producers.take(batch, now=now), *self._admitted(batch.message, sender, now)]

    def _note(self, link: Link, key: str, message: m.Subscribe) -> None:
        if (link, key) not in self.asked:
            owner = m.about(message).owner
            self._counts[owner] = self._counts.get(owner, 0) + 1
        self.asked[link, key] = message

    def _outgoing(self, effects: list[Effect], now: float) -> list[Effect]:
        found: list[Effect] = []
        self._added.clear()
        for effect in effects:
            if isinstance(effect, Persist | Again):
                found.append(effect)
            elif self.broker.is_neighbour(effect.link):
                crossing = self._crossing(effect.link, effect.message)
                if crossing is not None:
                    found.append(Send(effect.link, crossing))
            elif isinstance(effect, Deliver):
                found.extend(self._deliver(effect, now))
            elif isinstance(effect.message, m.Delivery | m.Gap):  # what a former life had not acknowledged
                found.append(effect)
            else:
                self._tell(effect.link, effect.message, now)
        return found

    def _audit(self, now: float, what: str, asked: m.Subscribe, detail: str) -> None:
        name = self.broker.name
        subject, namespace = str(asked.id), asked.namespace
        self.trail.note(deed(now, self._by, what, subject=subject, namespace=namespace, detail=detail, broker=name))

    def _tell(self, link: Link, message: m.Message, now: float) -> None:
        self._told.append((link, message))
        if isinstance(message, m.Status):
            place = (link, client_key(link, message.namespace, message.id))
            self.states[place] = message.state
            if message.state is m.State.CANCELLED:
                del self.states[place]
                gone = self.asked.pop(place, None)
                if gone is not None:
                    owner = m.about(gone).owner
                    self._counts[owner] -= 1
                    self._audit(now, "end" if self._by is None else "unsubscribe", gone, f"owner {owner}")

    def _deliver(self, effect: Deliver, now: float) -> list[Effect]:
        link = effect.link
        gap = self.gaps.get(link)
        added = self._added.get(link, 0)
        if gap is None and self.backlog(link) + added < self.max_backlog:
            self._added[link] = added + 1
            self.counts.deliveries += 1
            self.recent.deliveries.append((now, link, effect.message))
            return [effect]
        self.counts.missed += 1
        first = effect.message.event.id if gap is None else gap.first
        self.gaps[link] = m.Gap(first, 1 if gap is None else gap.count + 1)
        return [records.GAP.put(link, value=msgspec.msgpack.encode(self.gaps[link]))]

    def _resume(self) -> list[Effect]:
        """Tell clients that have caught up what they missed, and deliver again."""
        ready = [link for link in self.gaps if self.backlog(link) <= self.max_backlog // 2]
        effects: list[Effect] = []
        for link in sorted(ready):
            effects += [records.GAP.drop(link), Send(link, self.gaps.pop(link))]
        return effects

    def _crossing(self, link: Link, message: Any) -> Any:
        """Return what of a message may cross a link (promise S5); None: nothing."""
        allowed = self._borders.get(link)
        return message if allowed is None else cut_message(message, allowed)

    def _gate(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that hold for events of a namespace; raises unless somebody may publish there."""
        known = self._gates.get(namespace)
        if known is None or known[0] is not rights:
            rights.demand("publish", check_namespace(namespace))
            if len(self._gates) >= MAX_GATES:
                self._gates.clear()
            known = self._gates[namespace] = (rights, self.policies_of(namespace, rights))
        return known[1]
