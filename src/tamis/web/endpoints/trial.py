"""``POST /v1/trial``: what a filter would have got, if it were a subscription; ``POST /v1/matches``: who gets an event.

A dry run asks the last events that clients published here. It also says which subscription covers the filter and which
ones it covers, so that somebody sees that the question is asked already; ``"covering": false`` leaves that out, for it
takes some seconds the first time where there are a hundred thousand subscriptions. ``covering_complete`` is false where
they were too many to compare all of them: then the filter covers at least so many.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.algebra.evaluate import matches
from tamis.errors import EventError, ModelError, RefusedError
from tamis.model.subscription import DEFAULT_NAMESPACE, Filter, Subscription, id_order
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.web.bodies import read_json
from tamis.web.covering import Around
from tamis.web.server import Server, server_of, shown_event
from tamis.web.views import View

__all__ = ["MOST_SHOWN", "matching", "trial"]

#: Moments and events.
Recent = list[tuple[float, m.Published]]

#: Matching events and covered subscriptions in one answer; all are counted.
MOST_SHOWN = 200


async def trial(request: Request) -> Response:
    """Try a filter on the last events, and compare it with the subscriptions there are."""
    server = server_of(request)
    view, namespace, asked = await _asked(request, server)
    source, covering = asked.get("filter"), asked.get("covering", True)
    if not isinstance(source, str | dict):
        raise ModelError('expected {"filter": "..."}')
    if not isinstance(covering, bool):
        raise ModelError("covering: true or false")
    filters = view.compile(source, namespace)
    held = [(at, one) for at, one in server.broker.traffic.recent_events if one.namespace == namespace]
    # Thousands: publishers need not wait for that.
    recent, found = await asyncio.to_thread(_wanted, view, server, held, filters)
    around = Around()
    if covering:
        async with server.covering.turn:
            if await request.is_disconnected():
                return Response(status_code=HTTPStatus.NO_CONTENT)  # nobody reads the answer
            around = await server.covering.around(Subscription("trial", filters, None, namespace), MOST_SHOWN)
    return JSONResponse(
        {
            "examined": len(recent),
            "matched": len(found),
            "first": round(recent[0][0] * 1e6) if recent else None,
            "last": round(recent[-1][0] * 1e6) if recent else None,
            "moments": [round(at * 1e6) for at, _ in found],
            "events": [shown_event(server, at, one) for at, one in reversed(found[-MOST_SHOWN:])],
            **(around._asdict() if covering else dict.fromkeys(Around._fields)),
        }
    )


async def matching(request: Request) -> Response:
    """Say which subscriptions of this broker an event matches."""
    server = server_of(request)
    _, namespace, asked = await _asked(request, server)
    raw = asked.get("event")
    if not isinstance(raw, dict):
        raise EventError("", raw, "an event is an object")
    broker = server.broker
    readers = broker.readers_of(raw, namespace)
    places = [(link, client_key(link, namespace, one.id)) for link, wanting in readers.items() for one in wanting]
    found = sorted((broker.asked[place] for place in places if place in broker.asked), key=lambda one: id_order(one.id))
    shown = [
        {"id": one.id, "namespace": namespace, "filter": m.about(one).text or one.filter.decode()}
        for one in found[:MOST_SHOWN]
    ]
    return JSONResponse({"subscriptions": shown, "count": len(found)})


async def _asked(request: Request, server: Server) -> tuple[View, str, dict[str, Any]]:
    view, asked = server.view(request), await read_json(request)
    namespace = asked.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str) or not view.rights.sees(namespace):
        raise RefusedError(403, "this namespace is not yours")
    return view, namespace, asked


def _wanted(view: View, server: Server, held: Recent, filters: tuple[Filter, ...]) -> tuple[Recent, Recent]:
    """Return those of the last events that may be seen, and those of them that a filter matches."""
    read = server.broker.read_event
    recent = [(at, one) for at, one in held if view.shows(one)]
    events = ((at, one, read(one.payload)) for at, one in recent)
    return recent, [(at, one) for at, one, event in events if any(matches(event, filter) for filter in filters)]
