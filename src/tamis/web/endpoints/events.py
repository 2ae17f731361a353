"""``POST /v1/events``: events come in, and are confirmed when they are on disk."""

from __future__ import annotations

import itertools

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import EventError, ModelError, RefusedError, TamisError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.routing import messages as m
from tamis.routing.edge.admission import MAX_NAME
from tamis.routing.edge.producers import Once
from tamis.web.bodies import MAX_PAGE, read_events, whole_number
from tamis.web.failures import status_of
from tamis.web.server import event_id, server_of, shown_event
from tamis.web.work.pacing import Pace

__all__ = ["publish", "recent_deliveries", "recent_events"]


async def publish(request: Request) -> Response:
    """Publish the events of a request: all of them, or none and the reason."""
    server = server_of(request)
    rights, namespace = server.rights(request), request.query_params.get("namespace", DEFAULT_NAMESPACE)
    rights.demand("publish", namespace)
    server.driver.demand_room()
    events = await read_events(request)
    server.access.demand_live(rights)
    pairs, pace = [], Pace()
    for row, event in enumerate(events):
        try:
            pairs.append((namespace, server.driver.edge.write_event(event, namespace, rights)))
        except EventError as error:
            raise EventError(error.attribute, error.value, error.problem, row if len(events) > 1 else None) from None
        except TamisError as error:
            raise RefusedError(status_of(error), f"event {row}: {error}") from None
        await pace.breathe()
    more: dict[str, bool] = {}
    if "producer" in request.query_params:
        found, is_new = await _publish_once(request, rights.principal, pairs)
        more["duplicate"] = not is_new
    else:
        found = await server.driver.publish(pairs, f"http:{rights.principal}")
    ids = [event_id(id) for id in found]
    return JSONResponse({"accepted": len(ids), "ids": ids, **more})


async def _publish_once(
    request: Request, principal: str, pairs: list[tuple[str, bytes]]
) -> tuple[list[m.EventId], bool]:
    """Publish a numbered batch of a producer; return its ids, the same for the same batch, and whether it is new."""
    server, query = server_of(request), request.query_params
    producer, number = query["producer"], query.get("number", "")
    if not producer or len(producer) > MAX_NAME or not producer.isprintable():
        raise ModelError(f"producer: expected a name of 1 to {MAX_NAME} characters")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise ModelError(f"number: a batch of a producer has a whole number below 10^18, got {number[:40]!r}")
    publisher = f"once:{principal}:{producer}@{server.driver.edge.broker.name}"
    ids = [m.EventId(publisher, int(number), place) for place in range(1, len(pairs) + 1)]
    events = tuple(m.Published(id, *pair) for id, pair in zip(ids, pairs, strict=True))
    return ids, await server.driver.publish_once(Once(m.PublishBatch(events), principal, producer, int(number)))


async def recent_events(request: Request) -> Response:
    """Show the last events that clients published here, the newest first: those that a subscription would get."""
    server = server_of(request)
    view = server.view(request)
    limit = whole_number(request.query_params.get("limit", "200"), "limit", MAX_PAGE)
    seen = ((at, event) for at, event in reversed(server.driver.edge.recent.events) if view.shows(event))
    shown = [shown_event(server, at, event) for at, event in itertools.islice(seen, limit)]
    return JSONResponse({"events": shown})


async def recent_deliveries(request: Request) -> Response:
    """Show the last copies that went out to clients, the newest first, with the subscriptions that matched."""
    server = server_of(request)
    view = server.view(request)
    limit = whole_number(request.query_params.get("limit", "50"), "limit", MAX_PAGE)
    seen = (one for one in reversed(server.driver.edge.recent.deliveries) if view.shows(one[2].event))
    shown = [
        {
            **shown_event(server, at, delivery.event),
            "client": link if view.names(link) else None,
            "subscriptions": list(delivery.subscriptions),
        }
        for at, link, delivery in itertools.islice(seen, limit)
    ]
    return JSONResponse({"deliveries": shown})
