"""``POST /v1/events``: events come in, and are confirmed when they are on disk."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import EventError, RefusedError, TamisError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.web.bodies import read_events
from tamis.web.failures import status_of
from tamis.web.server import event_id, server_of

__all__ = ["publish", "recent_events"]


async def publish(request: Request) -> Response:
    """Publish the events of a request: all of them, or none and the reason."""
    server = server_of(request)
    rights, namespace = server.rights(request), request.query_params.get("namespace", DEFAULT_NAMESPACE)
    rights.demand("publish", namespace)
    server.driver.demand_room()
    events = await read_events(request)
    pairs = []
    for row, event in enumerate(events):
        try:
            pairs.append((namespace, server.driver.edge.write_event(event, namespace, rights)))
        except EventError as error:
            raise EventError(error.attribute, error.value, error.problem, row if len(events) > 1 else None) from None
        except TamisError as error:
            raise RefusedError(status_of(error), f"event {row}: {error}") from None
    ids = [event_id(id) for id in await server.driver.publish(pairs, f"http:{rights.principal}")]
    server.recent.extend((namespace, id, event) for id, event in zip(ids, events, strict=True))
    return JSONResponse({"accepted": len(ids), "ids": ids})


async def recent_events(request: Request) -> Response:
    """Show the last events that were published over HTTP here, the newest first."""
    server = server_of(request)
    rights = server.rights(request)
    shown = [
        {"id": id, "namespace": namespace, "event": event}
        for namespace, id, event in reversed(server.recent)
        if rights.sees(namespace)
    ]
    return JSONResponse({"events": shown})
