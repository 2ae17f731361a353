"""Requests of a webhook: CloudEvents 1.0 in JSON, or one CloudEvent in headers, signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.webhooks.registration import Webhook
from tamis.routing.webhooks.schedule import Attempt
from tamis.routing.webhooks.signature import signatures
from tamis.runtime.broker.view import BrokerView
from tamis.runtime.traces.broker_traces import BrokerTraces

__all__ = ["MAX_BODY", "Request", "write_request"]

#: Bytes of messages in one request, unless a single one is larger.
MAX_BODY = 1024 * 1024

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """The headers of a request, without those of HTTP itself, and its body."""

    headers: Headers
    body: bytes


def write_request(
    view: BrokerView,
    link: Link,
    hook: Webhook,
    attempt: Attempt,
    bodies: Sequence[tuple[int, bytes]],
    moment: float,
    traces: BrokerTraces | None = None,
) -> Request:
    """Return the request of an attempt, signed at a moment; ``bodies`` are its messages as they are on disk.

    An event that is traced has the attribute ``traceparent`` of CloudEvents; a request with one event has the header.
    """
    events = [_cloud_event(view, link, number, body, traces) for number, body in bodies]
    if hook.format == "binary":
        [event] = events
        content: Headers = [(f"ce-{name}", quote(str(value), safe=_PLAIN)) for name, value in event.items()][:-2]
        headers, body = [("content-type", "application/json"), *content], msgspec.json.encode(event["data"])
    elif hook.batch == 1:
        headers, body = [("content-type", "application/cloudevents+json")], msgspec.json.encode(events[0])
    else:
        headers, body = [("content-type", "application/cloudevents-batch+json")], msgspec.json.encode(events)
    id, seconds = f"{hook.name}_{view.epoch}-{attempt.first}-{attempt.last}", int(moment)
    signed = signatures(hook.live_keys(round(moment * 1e6)), id, seconds, body)
    about = [("webhook-id", id), ("webhook-timestamp", str(seconds)), ("webhook-signature", signed)]
    parents = [event["traceparent"] for event in events if "traceparent" in event]
    traced = [("traceparent", parents[0])] if parents and len(events) == 1 else []
    return Request([*headers, *about, *traced], body)


#: What the HTTP binding of CloudEvents leaves as it is in a header.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def _cloud_event(view: BrokerView, link: Link, number: int, body: bytes, traces: BrokerTraces | None) -> dict[str, Any]:
    """Return a message as a CloudEvent; ``datacontenttype`` and ``data`` are the last of its attributes."""
    message = m.decode(body, link)
    cursor = view.stream(link).cursor(number)
    common = {"specversion": "1.0", "cursor": cursor}
    if isinstance(message, m.Gap):
        first = message.first
        data: dict[str, Any] = {"first": f"{first.publisher}:{first.epoch}:{first.seq}", "count": message.count}
        common |= {"id": f"gap-{cursor}", "source": f"/{quote(view.name)}", "type": "tamis.gap"}
        return {**common, "datacontenttype": "application/json", "data": data}
    if not isinstance(message, m.Delivery):
        raise TypeError(f"the queue of {link!r} holds a {type(message).__name__}")
    event = message.event
    common |= {
        "id": f"{event.id.publisher}:{event.id.epoch}:{event.id.seq}",
        "source": f"/{quote(view.name)}/{quote(event.namespace, safe='')}",
        "type": "tamis.event",
        "subject": str(message.subscriptions[0]),
    }
    if traces is not None and (parent := traces.traceparent(event.id, link)):
        common["traceparent"] = parent
    return {**common, "datacontenttype": "application/json", "data": view.event_as_json(event)}
