"""The spans that an event has at one broker; those that others stand under have ids that all brokers can compute."""

from __future__ import annotations

from tamis.node.effects import Link
from tamis.node.published import EventId
from tamis.runtime.traces.contexts import is_sampled, span_id_of, threshold_of, trace_id_of
from tamis.runtime.traces.spans import Kind, Span

__all__ = ["EventSpans"]


class EventSpans:
    """Makes the spans of a broker, for a ``share`` of all events."""

    def __init__(self, broker: str, share: float) -> None:
        self._broker = broker
        self._threshold = threshold_of(share)

    def trace_id(self, event: EventId) -> int:
        """Return the trace id of an event; 0: it is not traced."""
        trace_id = trace_id_of(event)
        return trace_id if is_sampled(trace_id, self._threshold) else 0

    def first_id(self, event: EventId) -> int:
        """Return the id of the span under which all others of an event at this broker stand."""
        return span_id_of(event, "broker", self._broker)

    def hop_id(self, event: EventId, sender: str, receiver: str) -> int:
        """Return the id of the span of an event on its way from one broker to the next."""
        return span_id_of(event, "hop", sender, receiver)

    def delivery_id(self, event: EventId, client: Link) -> int:
        """Return the id of the span of an event on its way to a client of this broker."""
        return span_id_of(event, "deliver", self._broker, client)

    def span(self, name: str, kind: Kind, trace_id: int, event: EventId, namespace: str, start: int) -> Span:
        """Return a span that says which event it is about; a namespace that is not known is ``""``."""
        attributes: dict[str, str | int] = {
            "messaging.system": "tamis",
            "tamis.broker": self._broker,
            "tamis.event": f"{event.publisher}:{event.epoch}:{event.seq}",
        }
        if namespace:
            attributes["tamis.namespace"] = namespace
        return Span(name, kind, trace_id, start, attributes)

    def first(self, event: EventId, namespace: str, trace_id: int, start: int) -> Span:
        """Return the span under which all others of an event at this broker stand."""
        span = self.span("publish", "server", trace_id, event, namespace, start)
        span.span_id = self.first_id(event)
        return span

    def hop(self, event: EventId, namespace: str, trace_id: int, link: Link, start: int) -> Span:
        """Return the span of an event on its way to a neighbour."""
        span = self.span("hop", "producer", trace_id, event, namespace, start)
        span.span_id, span.parent = self.hop_id(event, self._broker, link), self.first_id(event)
        span.attributes["tamis.neighbour"] = link
        return span

    def delivery(self, event: EventId, namespace: str, trace_id: int, link: Link, start: int) -> Span:
        """Return the span of an event on its way to a client."""
        span = self.span("deliver", "producer", trace_id, event, namespace, start)
        span.span_id, span.parent = self.delivery_id(event, link), self.first_id(event)
        span.attributes["tamis.client"] = link
        return span
