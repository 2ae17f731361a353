"""``POST /v1/trial``: the events that a filter would have matched; ``POST /v1/matches``: the subscriptions of an event.

A dry run matches the last events that clients published here. It also says which subscription covers the filter and
which it covers, so that a user sees that such a subscription exists already. An attribute that no event or subscription
has named yet is refused; with ``"learn": true`` it counts as missing in all events. ``"covering": false`` leaves the
covers out: with a hundred thousand subscriptions the first answer takes seconds. ``covering_complete`` is false when
there were too many subscriptions to compare: then the filter covers at least the number in the answer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import EventError, ModelError, RefusedError, shorten
from tamis.model.subscription import DEFAULT_NAMESPACE, Subscription, id_order
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.core.routing_table import Readers
from tamis.web.bodies import read_json
from tamis.web.covering import CoverRelations
from tamis.web.server import Server, server_of, shown_event
from tamis.web.views import View
from tamis.web.work.rows import JsonRows

__all__ = ["MOST_SHOWN", "demand_namespace", "matching", "trial"]

#: Moments and events.
Recent = list[tuple[float, m.Published]]

#: Matching events and subscriptions in one answer, if they have no more bytes than a page; all are counted.
MOST_SHOWN = 200


async def trial(request: Request) -> Response:
    """Try a filter on the last events, and compare it with the subscriptions of the broker."""
    server = server_of(request)
    view, namespace, body = await _read_request(request, server)
    source, covering, learn = body.get("filter"), body.get("covering", True), body.get("learn", False)
    if not isinstance(source, str | dict):
        raise ModelError('expected {"filter": "..."}')
    if not isinstance(covering, bool) or not isinstance(learn, bool):
        raise ModelError("covering, learn: expected true or false")
    recent, matched = await _tried(server, view, namespace, source, learn)
    around = CoverRelations()
    if covering:
        async with server.covering.queue.turn(view.rights.principal):
            if await request.is_disconnected():
                return Response(status_code=HTTPStatus.NO_CONTENT)  # no client reads the answer
            filters = await asyncio.to_thread(view.compile, source, namespace)  # up to 60 ms
            around = await server.covering.around(Subscription("trial", filters, None, namespace), MOST_SHOWN)
    rows = JsonRows(server.pace(view.rights.principal))
    for at, event in reversed(matched[-MOST_SHOWN:]):
        if not await rows.add(shown_event(server, at, event)):
            break
    return rows.response(
        "events",
        {
            "examined": len(recent),
            "matched": len(matched),
            "first": round(recent[0][0] * 1e6) if recent else None,
            "last": round(recent[-1][0] * 1e6) if recent else None,
            "moments": [round(at * 1e6) for at, _ in matched],
            **(around._asdict() if covering else dict.fromkeys(CoverRelations._fields)),
        },
    )


async def matching(request: Request) -> Response:
    """List the subscriptions of this broker that an event matches."""
    server = server_of(request)
    view, namespace, body = await _read_request(request, server)
    raw = body.get("event")
    if not isinstance(raw, dict):
        raise EventError("", raw, "an event must be an object")
    async with server.searches.turn(view.rights.principal):
        readers = await server.broker.readers_of(raw, namespace)
    # A wide event matches all subscriptions; to name the first of a hundred thousand takes 0.2 s.
    first, count = await asyncio.to_thread(_first_of, server.broker.subscriptions, readers, namespace)
    rows = JsonRows(server.pace(view.rights.principal))
    for message in first:
        text = m.about(message).text or message.filter.decode()
        if not await rows.add({"id": message.id, "namespace": namespace, "filter": text}):
            break
    return rows.response("subscriptions", {"count": count})


def _first_of(
    subscriptions: Mapping[tuple[Link, str], m.Subscribe], readers: Readers, namespace: str
) -> tuple[list[m.Subscribe], int]:
    """Return the first subscriptions by id of those that match, and how many do; one may have ended meanwhile."""
    keys = ((link, client_key(link, namespace, reader.id)) for link, wanting in readers.items() for reader in wanting)
    messages = [message for key in keys if (message := subscriptions.get(key)) is not None]
    return heapq.nsmallest(MOST_SHOWN, messages, key=lambda message: id_order(message.id)), len(messages)


async def _read_request(request: Request, server: Server) -> tuple[View, str, dict[str, Any]]:
    view, body = server.view(request), await read_json(request)
    return view, demand_namespace(view, body), body


def demand_namespace(view: View, body: dict[str, Any]) -> str:
    """Return the namespace of a question; `RefusedError` if the client may not read it."""
    namespace = body.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str):
        raise ModelError("namespace: expected text")
    if not view.rights.sees(namespace):
        raise RefusedError(403, f"no access to the namespace {shorten(namespace)}")
    return namespace


async def _tried(
    server: Server, view: View, namespace: str, source: str | dict[str, Any], learn: bool
) -> tuple[Recent, Recent]:
    """Return those of the last events that may be seen, and those of them that a filter matches."""
    recent = [(at, event) for at, event in server.broker.traffic.recent_events if event.namespace == namespace]
    payloads = server.recent_payloads([event for _, event in recent])
    recent = recent[len(recent) - len(payloads) :]
    policies = view.policies_of(namespace)
    arguments = server.content_for_worker(namespace) | {"filter": source, "policies": policies, "learn": learn}
    shown, matched = await server.pool.run(view.rights.principal, "try", arguments, payloads)
    return [recent[index] for index in shown], [recent[index] for index in matched]
