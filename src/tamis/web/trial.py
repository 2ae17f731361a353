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
from tamis.model.language.compiler import compile_node
from tamis.model.language.parse import parse
from tamis.model.subscription import DEFAULT_NAMESPACE, Filter, Subscription, id_order
from tamis.routing import messages as m
from tamis.routing.broker import client_key
from tamis.web.bodies import read_json
from tamis.web.covering import Around
from tamis.web.server import Server, server_of, shown_event

__all__ = ["MOST_SHOWN", "matching", "trial"]

#: Matching events and covered subscriptions in one answer; all are counted.
MOST_SHOWN = 200


async def trial(request: Request) -> Response:
    """Try a filter on the last events, and compare it with the subscriptions there are."""
    server = server_of(request)
    namespace, asked = await _asked(request, server)
    source = asked.get("filter")
    if not isinstance(source, str | dict):
        raise ModelError('expected {"filter": "..."}')
    filters = _compile(server, source)
    recent = [(at, one) for at, one in server.driver.edge.recent.events if one.namespace == namespace]
    found = await asyncio.to_thread(_wanted, server, recent, filters)  # thousands: publishers need not wait for that
    covering = asked.get("covering", True)
    if not isinstance(covering, bool):
        raise ModelError("covering: true or false")
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
    namespace, asked = await _asked(request, server)
    raw = asked.get("event")
    if not isinstance(raw, dict):
        raise EventError("", raw, "an event is an object")
    edge, content = server.driver.edge, server.driver.edge.content
    readers = edge.broker.table.readers(content.schema.event(raw), namespace)
    places = [(link, client_key(link, namespace, one.id)) for link, wanting in readers.items() for one in wanting]
    found = sorted((edge.asked[place] for place in places if place in edge.asked), key=lambda one: id_order(one.id))
    shown = [
        {"id": one.id, "namespace": namespace, "filter": m.about(one).text or one.filter.decode()}
        for one in found[:MOST_SHOWN]
    ]
    return JSONResponse({"subscriptions": shown, "count": len(found)})


async def _asked(request: Request, server: Server) -> tuple[str, dict[str, Any]]:
    rights, asked = server.rights(request), await read_json(request)
    namespace = asked.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str) or not rights.sees(namespace):
        raise RefusedError(403, "this namespace is not yours")
    return namespace, asked


def _compile(server: Server, source: str | dict[str, Any]) -> tuple[Filter, ...]:
    """Compile a filter without teaching the broker its types: a trial leaves nothing behind."""
    content = server.driver.edge.content
    text = source if isinstance(source, str) else None
    return compile_node(parse(source), content.schema, text, open=content.learns)


def _wanted(
    server: Server, recent: list[tuple[float, m.Published]], filters: tuple[Filter, ...]
) -> list[tuple[float, m.Published]]:
    """Return those of the last events that a filter matches."""
    read = server.driver.edge.content.read_event
    events = ((at, one, read(one.payload)) for at, one in recent)
    return [(at, one) for at, one, event in events if any(matches(event, filter) for filter in filters)]
