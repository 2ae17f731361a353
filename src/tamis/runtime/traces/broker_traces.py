"""Spans of what a broker's steps take in and cause: one trace for each event, through all brokers.

At each broker an event has one span under which the others stand: *publish* where a client published it, *receive*
where a neighbour sent it; both end when the event is on disk. Under it are *commit*, *match*, and one *hop* or
*deliver* for each link it was put on; these end when the other end has acknowledged it. A *receive* stands under the
*hop* of the broker before. The cores do not take part: `TracedEdge` records what went into a step and what came out
of it, and the commit of the step gives the time when that was durable.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.node.core import Dropped
from tamis.node.effects import Answer, Deliver, Effect, Key, Link, Persist, Queue, Send, Tell
from tamis.node.frames import Frame
from tamis.node.overflow import link_of
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.edge.requests import Accepted, Disconnect, Post, Posts, Rejection, StaleDraftError
from tamis.runtime.traces.contexts import PublisherSpan, format_traceparent, read_traceparent
from tamis.runtime.traces.event_spans import EventSpans
from tamis.runtime.traces.spans import Span, SpanSink

__all__ = ["BrokerTraces", "TracedCall"]

#: Spans that wait for an acknowledgement, and nanoseconds after which one is exported without it.
MOST_WAITING, WAIT_NANOSECONDS = 10_000, 60 * 10**9

#: Bytes of a word that names spans: more than a client sends about the events of one message.
MOST_ORIGIN_BYTES = 64 * 1024

#: Decoders of the records of gaps, for the first event of each.
_first_decoders: dict[str, msgspec.msgpack.Decoder[m.Gap] | msgspec.msgpack.Decoder[m.LinkGap]] = {
    records.GAP.name: msgspec.msgpack.Decoder(m.Gap),
    records.LINK_GAP.name: msgspec.msgpack.Decoder(m.LinkGap),
}

#: As `tamis.runtime.broker.machine.Commit`.
_Commit = Callable[[list[Persist], Callable[[], None]], None]


@dataclass(frozen=True)
class TracedCall:
    """One call of the core: what it took, of whom, what followed, and its time in nanoseconds."""

    message: Any
    sender: Link
    effects: Sequence[Effect]
    start: int
    end: int
    #: Whether the sender is another broker; and the streams of all links before the effects are carried out.
    is_from_broker: bool
    ends: Mapping[Link, StreamEnd]

    @property
    def events(self) -> Sequence[m.Published]:
        """The events of a message that came over a link."""
        if isinstance(self.message, m.Publish):
            return (self.message.event,)
        return self.message.events if isinstance(self.message, m.PublishBatch) else ()

    @property
    def is_whole(self) -> bool:
        """Whether no accepted event was left for a later step."""
        return not any(isinstance(effect, Persist) and effect.key[0] == records.SLICE.name for effect in self.effects)


class _Readers:
    """The readers of an event in one step: how many subscriptions match, and the links that the event was put on."""

    def __init__(self, event: m.Published) -> None:
        self.event = event
        self.subscriptions = 0
        self.links: list[Link] = []


class _Body(NamedTuple):
    """A message that was queued for a link; the number that it will have is not known yet."""

    link: Link
    body: bytes


class _Waiting:
    """Spans of messages that wait for an acknowledgement, by the record of the message, the oldest first."""

    def __init__(self) -> None:
        self._spans: dict[Key | _Body, list[Span]] = {}
        #: Messages that wait in overflows, by their records there.
        self._overflow: dict[Key, _Body] = {}
        self._count = 0

    def put(self, key: Key | _Body, spans: list[Span]) -> None:
        """Let the spans of a message wait; one that is queued is known by its body until it has a number."""
        if spans:
            self._spans[key] = spans
            self._count += len(spans)

    def take_settled(self, changes: Sequence[Persist]) -> list[tuple[Span, str]]:
        """Return the spans of messages that changes remove, each with its outcome."""
        if not self._spans:
            return []
        removed = {change.key[1] for change in changes if change.value is None and change.key[0] == records.LINK.name}
        settled: list[tuple[Span, str]] = []
        for change in changes:
            if change.value is not None:
                self._follow(change.key, change.value)
                continue
            body = self._overflow.pop(change.key, None)
            if body is not None and body in self._spans:
                for span in self._take(body):
                    span.is_error = True
                    settled.append((span, "dropped"))
            elif change.key in self._spans:
                outcome = "dropped" if change.key[1] in removed else "acknowledged"
                settled += [(span, outcome) for span in self._take(change.key)]
        return settled

    def _follow(self, key: Key, value: bytes) -> None:
        """Note where a queued message is now: in an overflow, or numbered in the outbox."""
        if key[0] == records.OVERFLOW.name:
            body = _Body(link_of(key[1]), value)
            if body in self._spans:
                self._overflow[key] = body
        elif key[0] == records.OUT.name and (spans := self._spans.pop(_Body(key[1], value), None)) is not None:
            self._spans[key] = spans

    def take_old(self, before: int) -> list[Span]:
        """Return spans that began before a moment, and the oldest of too many."""
        old: list[Span] = []
        while self._spans:
            key, spans = next(iter(self._spans.items()))
            if spans[0].start >= before and self._count <= MOST_WAITING:
                break
            old += self._take(key)
        return old

    def _take(self, key: Key | _Body) -> list[Span]:
        spans = self._spans.pop(key)
        self._count -= len(spans)
        return spans


class BrokerTraces:
    """The spans of one broker; a ``share`` of events is traced, the same ones at each broker with the same share."""

    def __init__(self, broker: str, sink: SpanSink, share: float = 1.0) -> None:
        self._broker = broker
        self._sink = sink
        self._make = EventSpans(broker, share)
        #: Arrival times of requests whose events are not in a step yet, and the spans that published them.
        self._posts: dict[tuple[str, int, int], tuple[int, PublisherSpan | None]] = {}
        #: The spans that publish the events of the clients' next messages, as the clients named them.
        self._origins: dict[Link, m.Origins] = {}
        #: Events of the step under way, which are not on disk yet.
        self._taken: list[Span] = []
        self._waiting = _Waiting()
        #: The first event of each open gap.
        self._gaps: dict[Key, m.EventId] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """``trace_spans`` that were made, and ``trace_spans_dropped`` among them that did not reach the collector."""
        return self._sink.counts

    # Called by the process around the core

    def note_post(self, post: Post, origin: PublisherSpan | None) -> None:
        """Note a request that waits for a step; ``origin`` is the span that published it."""
        self._posts[post.publisher, post.epoch, post.first] = (time.time_ns(), origin)

    def note_word(self, link: Link, frame: Frame) -> None:
        """Note a client's frame if it names the spans that publish what comes next; other words are ignored."""
        if frame.seq or not 0 < len(frame.body) <= MOST_ORIGIN_BYTES:
            return
        with contextlib.suppress(RemoteProtocolError):  # as with all words: one of a later release is ignored
            word = m.decode(frame.body, link)
            if isinstance(word, m.Origins):
                self._origins[link] = word

    def traced(self, commit: _Commit) -> _Commit:
        """Return a commit that ends the spans of a step when it is durable."""

        def commit_traced(changes: list[Persist], then: Callable[[], None]) -> None:
            taken, self._taken = self._taken, []
            settled = self._waiting.take_settled(changes)
            start = time.time_ns()

            def release() -> None:
                end = time.time_ns()
                for span in taken:
                    self._sink.add(span.finish(end, "accepted"))
                    self._sink.add(_child(span, "commit", start, end))
                for span, outcome in settled:
                    self._sink.add(span.finish(end, outcome))
                then()

            commit(changes, release if taken or settled else then)

        return commit_traced

    def traceparent(self, event: m.EventId, link: Link) -> str | None:
        """Return the ``traceparent`` of the delivery of an event to a client; None: the event is not traced."""
        trace_id = self._make.trace_id(event)
        return format_traceparent(trace_id, self._make.delivery_id(event, link)) if trace_id else None

    def note_request(self, link: Link, host: str, bodies: Sequence[tuple[int, bytes]], start: int, status: int) -> None:
        """Note a request of a webhook, with the status of its answer; 0: there was none."""
        end = time.time_ns()
        for message in (m.decode(body, link) for _, body in bodies):
            if isinstance(message, m.Delivery) and (trace_id := self._make.trace_id(message.event.id)):
                span = self._make.span("webhook", "client", trace_id, message.event.id, message.event.namespace, start)
                span.parent = self._make.delivery_id(message.event.id, link)
                span.attributes |= {"server.address": host, "http.response.status_code": status}
                span.is_error = not 200 <= status < 300
                self._sink.add(span.finish(end, "failed" if span.is_error else "accepted"))

    def close(self) -> None:
        """Export what waits for an acknowledgement, as waiting, and end."""
        now = time.time_ns()
        self._expire(now, before=now + 1)
        self._sink.close()

    # Steps of the core

    def note_step(self, step: TracedCall) -> None:
        """Note a step; its spans end when it is committed."""
        arrivals = list(self._arrivals(step))
        readers: dict[m.EventId, _Readers] = {}
        numbers: dict[Link, int] = {}
        for effect in step.effects:
            if isinstance(effect, Send | Deliver):
                end = step.ends.get(effect.link)
                numbers[effect.link] = numbers.get(effect.link, 0 if end is None else end.sent) + 1
                key = records.OUT.key(effect.link, str(numbers[effect.link]))
                self._waiting.put(key, self._spans_of(effect, step.end, readers))
            elif isinstance(effect, Queue):
                body = _Body(effect.link, m.encode(effect.message))
                self._waiting.put(body, self._spans_of(effect, step.end, readers))
            elif isinstance(effect, Persist) and effect.key[0] in _first_decoders:
                self._note_gap(effect, step.end, has_span=isinstance(step.message, Dropped))
        if arrivals and step.is_whole:  # events that no subscription matches were matched, too
            for event, _ in arrivals:
                readers.setdefault(event.id, _Readers(event))
        for event_readers in readers.values():
            self._note_match(event_readers, step)
        self._taken += [span for _, span in arrivals]
        self._expire(step.end, before=step.end - WAIT_NANOSECONDS)

    def forget_step(self) -> None:
        """Forget a step that was not taken: the sender broke the protocol."""
        self._taken = []

    def _arrivals(self, step: TracedCall) -> Iterator[tuple[m.Published, Span]]:
        """Yield the events that a step took, each with its first span at this broker."""
        if isinstance(step.message, Posts):
            yield from self._posted(step.message, step)
        if isinstance(step.message, Disconnect):
            self._origins.pop(step.sender, None)
        events = step.events
        origins = _spans_of(self._origins.pop(step.sender, None), events) if events else {}
        refused = _refused(step.effects) if events and not step.is_from_broker else {}
        for event in events:
            id = event.id
            if not step.is_from_broker:  # a client's event is published under the name that the broker has for it
                id = m.EventId(f"{step.sender}@{self._broker}", id.epoch, id.seq)
            trace_id = self._make.trace_id(id)
            if not trace_id:
                continue
            span = self._make.first(id, event.namespace, trace_id, step.start)
            span.origin = origins.get(event.id)
            if step.is_from_broker:
                span.name, span.kind = "receive", "consumer"
                span.parent = self._make.hop_id(id, step.sender, self._broker)
                span.attributes["tamis.neighbour"] = step.sender
            if (id.epoch, id.seq) in refused:
                self._refuse(span, step.end, refused[id.epoch, id.seq])
            else:
                yield m.Published(id, event.namespace, b""), span

    def _posted(self, posts: Posts, step: TracedCall) -> Iterator[tuple[m.Published, Span]]:
        verdicts: Sequence[Accepted | Rejection] = next(
            (effect.value for effect in step.effects if isinstance(effect, Answer)), ()
        )
        for post, verdict in zip(posts.calls, verdicts, strict=True):
            start, origin = self._posts.pop((post.publisher, post.epoch, post.first), (step.start, None))
            if isinstance(verdict, Accepted):
                ids = verdict.ids if verdict.is_new else ()
            elif isinstance(verdict.error, StaleDraftError):  # it is tried again
                ids = ()
            else:
                ids = (m.EventId(post.publisher, post.epoch, post.first),)
            for id in ids:
                if trace_id := self._make.trace_id(id):
                    span = self._make.first(id, post.namespace, trace_id, start)
                    span.origin = origin
                    if isinstance(verdict, Rejection):
                        self._refuse(span, step.end, type(verdict.error).__name__)
                    else:
                        yield m.Published(id, post.namespace, b""), span

    def _spans_of(self, effect: Send | Queue | Deliver, start: int, readers: dict[m.EventId, _Readers]) -> list[Span]:
        """Return the new spans of a message that was put on a link, one for each event."""
        message, link = effect.message, effect.link
        if isinstance(message, m.Delivery):
            events: Sequence[m.Published] = (message.event,)
        elif isinstance(message, m.Publish | m.PublishBatch):
            events = (message.event,) if isinstance(message, m.Publish) else message.events
        else:
            return []
        spans = []
        for event in events:
            if not (trace_id := self._make.trace_id(event.id)):
                continue
            event_readers = readers.setdefault(event.id, _Readers(event))
            if isinstance(message, m.Delivery):
                span = self._make.delivery(event.id, event.namespace, trace_id, link, start)
                span.attributes["tamis.subscriptions"] = len(message.subscriptions)
                event_readers.subscriptions += len(message.subscriptions)
            else:
                span = self._make.hop(event.id, event.namespace, trace_id, link, start)
                event_readers.links.append(link)
            spans.append(span)
        return spans

    def _note_match(self, readers: _Readers, step: TracedCall) -> None:
        event, n_subscriptions, links = readers.event, readers.subscriptions, readers.links
        if trace_id := self._make.trace_id(event.id):
            span = self._make.span("match", "internal", trace_id, event.id, event.namespace, step.start)
            span.parent = self._make.first_id(event.id)
            span.attributes |= {"tamis.subscriptions": n_subscriptions, "tamis.neighbours": ", ".join(links)}
            self._sink.add(span.finish(step.end, "matched" if n_subscriptions or links else "no reader"))

    def _note_gap(self, record: Persist, moment: int, *, has_span: bool) -> None:
        """Note the first event that a suspended client or a skipped link misses; later ones are only counted.

        Events that were dropped from an overflow have spans already.
        """
        kind, link, *namespace = record.key
        if record.value is None:
            self._gaps.pop(record.key, None)
            return
        first = _first_decoders[kind].decode(record.value).first
        if self._gaps.get(record.key) == first:
            return
        self._gaps[record.key] = first
        if not has_span and (trace_id := self._make.trace_id(first)):
            is_client = kind == records.GAP.name
            make = self._make.delivery if is_client else self._make.hop
            span = make(first, "".join(namespace), trace_id, link, moment)
            span.is_error = True
            self._sink.add(span.finish(moment, "suspended" if is_client else "dropped"))

    def _expire(self, now: int, before: int) -> None:
        for span in self._waiting.take_old(before):
            self._sink.add(span.finish(now, "waiting"))

    def _refuse(self, span: Span, end: int, why: str) -> None:
        span.is_error = True
        span.attributes["error.type"] = why
        self._sink.add(span.finish(end, "refused"))


def _child(parent: Span, name: str, start: int, end: int) -> Span:
    """Return a span under another, about the same event."""
    attributes = {key: value for key, value in parent.attributes.items() if key != "tamis.outcome"}
    return Span(name, "internal", parent.trace_id, start, attributes, max(start, end), parent=parent.span_id)


def _spans_of(word: m.Origins | None, events: Sequence[m.Published]) -> dict[m.EventId, PublisherSpan]:
    """Return the spans that publish events, as far as a client has named them."""
    if word is None:
        return {}
    firsts = [first for first, _, _ in word.spans]
    if firsts != sorted(firsts):  # no client of ours sends that
        return {}
    parents = [read_traceparent([text]) for _, _, text in word.spans]
    origins: dict[m.EventId, PublisherSpan] = {}
    for event in events:
        at = bisect_right(firsts, event.id.seq) - 1
        parent = parents[at] if at >= 0 and event.id.seq < firsts[at] + word.spans[at][1] else None
        if parent is not None and event.id.epoch == word.epoch:
            origins[event.id] = parent
    return origins


def _refused(effects: Sequence[Effect]) -> dict[tuple[int, int], str]:
    """Return why events of a client were refused, by the epoch and the number that the client gave them."""
    words = [effect.message for effect in effects if isinstance(effect, Tell) and isinstance(effect.message, m.Refusal)]
    return {(word.event.epoch, word.event.seq): f"{word.status}" for word in words if word.event is not None}
