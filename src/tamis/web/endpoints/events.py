"""``POST /v1/events``: events come in, and are confirmed when they are on disk."""

from __future__ import annotations

import itertools

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import EventError, ModelError, RefusedError, TamisError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.routing.edge.admission import MAX_NAME, check_namespace
from tamis.routing.edge.requests import Accepted, Rejection
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
    draft, pace = server.broker.checks.begin_events(check_namespace(namespace)), Pace()
    for row, event in enumerate(events):
        try:
            server.broker.checks.draft_event(draft, event, namespace, rights)
        except TamisError as error:
            raise _rejected(Rejection(row, error), len(events)) from None
        await pace.breathe()
    more: dict[str, bool] = {}
    if "producer" in request.query_params:
        producer, number = _batch(request)
        verdict = await server.driver.publish_once(events, namespace, rights, producer, number, draft)
        more["duplicate"] = isinstance(verdict, Accepted) and not verdict.is_new
    else:
        verdict = await server.driver.publish(events, namespace, rights, f"http:{rights.principal}", draft)
    if isinstance(verdict, Rejection):
        raise _rejected(verdict, len(events))
    ids = [event_id(id) for id in verdict.ids]
    return JSONResponse({"accepted": len(ids), "ids": ids, **more})


def _rejected(rejection: Rejection, n: int) -> Exception:
    """Return the error of a request whose events were not accepted; it names the row."""
    error, row = rejection.error, rejection.row
    if isinstance(error, EventError):
        return EventError(error.attribute, error.value, error.problem, row if n > 1 else None)
    if isinstance(error, TamisError) and row is not None:
        return RefusedError(status_of(error), f"event {row}: {error}")
    return error


def _batch(request: Request) -> tuple[str, int]:
    """Return the producer of a numbered batch, and its number."""
    query = request.query_params
    producer, number = query["producer"], query.get("number", "")
    if not producer or len(producer) > MAX_NAME or not producer.isprintable():
        raise ModelError(f"producer: expected a name of 1 to {MAX_NAME} characters")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise ModelError(f"number: a batch of a producer has a whole number below 10^18, got {number[:40]!r}")
    return producer, int(number)


async def recent_events(request: Request) -> Response:
    """Show the last events that clients published here, the newest first: those that a subscription would get."""
    server = server_of(request)
    view = server.view(request)
    limit = whole_number(request.query_params.get("limit", "200"), "limit", MAX_PAGE)
    seen = ((at, event) for at, event in reversed(server.broker.traffic.recent_events) if view.shows(event))
    shown = [shown_event(server, at, event) for at, event in itertools.islice(seen, limit)]
    return JSONResponse({"events": shown})


async def recent_deliveries(request: Request) -> Response:
    """Show the last copies that went out to clients, the newest first, with the subscriptions that matched."""
    server = server_of(request)
    view = server.view(request)
    limit = whole_number(request.query_params.get("limit", "50"), "limit", MAX_PAGE)
    seen = (one for one in reversed(server.broker.traffic.recent_deliveries) if view.shows(one[2].event))
    shown = [
        {
            **shown_event(server, at, delivery.event),
            "client": link if view.names(link) else None,
            "subscriptions": list(delivery.subscriptions),
        }
        for at, link, delivery in itertools.islice(seen, limit)
    ]
    return JSONResponse({"deliveries": shown})
