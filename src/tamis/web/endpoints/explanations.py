"""``POST /v1/explain``: why an event matches a subscription or not, and why a subscription was not forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError, UnknownSubscriptionError
from tamis.node.effects import Link, LinkKey
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.link_names import client_link, http_link
from tamis.web.bodies import read_json
from tamis.web.endpoints.trial import demand_namespace
from tamis.web.server import Server, server_of
from tamis.web.views import View, shown_key

__all__ = ["explain_event"]


#: The bodies of a request.
EXPECTED = 'expected {"event": {...}, "filter": "..."} or {"event": {...}, "id": "..."}'


async def explain_event(request: Request) -> Response:
    """Explain an event against a filter or a subscription, and to which neighbours a subscription was forwarded."""
    server = server_of(request)
    view, body = server.view(request), await read_json(request)
    text, id, client = body.get("filter"), body.get("id"), body.get("client")
    if id is None and "event" not in body:
        raise ModelError(EXPECTED)
    if client is not None and not isinstance(client, str):
        raise ModelError("client: expected text")
    namespace, rights = demand_namespace(view, body), view.rights
    shown: dict[str, Any] = {}
    if id is not None:
        key = await _find_key(server, namespace, id, client, rights.principal)
        text = m.about(server.broker.subscriptions[key]).text
        shown["links"] = _links(server, *key, with_names=rights.is_admin)
    if "event" in body:
        shown |= await _explained(server, view, namespace, text, body["event"], id)
    return JSONResponse(shown)


async def _find_key(server: Server, namespace: str, id: object, client: str | None, principal: str) -> LinkKey:
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise ModelError("an id must be a string or an integer")
    link = client_link(principal, client) if client is not None else http_link(namespace, id)
    key, subscriptions = (link, client_key(link, namespace, id)), server.broker.subscriptions
    if key in subscriptions:
        return key
    # The console shows the id, not the client. The search reads all subscriptions, so it runs in a thread.
    keys = await asyncio.to_thread(_keys_of, dict(subscriptions), str(id), namespace)
    if client is not None or not keys:
        raise UnknownSubscriptionError(id)
    if len(keys) > 1:
        raise ModelError(f'{len(keys)} clients have a subscription {id!r}: set "client" to the name of one')
    return keys[0]


def _keys_of(subscriptions: Mapping[LinkKey, m.Subscribe], id: str, namespace: str) -> list[LinkKey]:
    return [key for key, message in subscriptions.items() if (str(message.id), message.namespace) == (id, namespace)]


async def _explained(
    server: Server, view: View, namespace: str, text: object, raw: object, id: object
) -> dict[str, Any]:
    if text is None:
        raise ModelError(EXPECTED)
    if not isinstance(text, str) or not isinstance(raw, dict):
        raise ModelError("a filter must be CQL2 text, and an event an object")
    name = id if isinstance(id, str | int) else "filter"
    arguments = server.content_for_worker(namespace) | {"filter": text, "event": raw, "name": name}
    explanation: dict[str, Any] = await server.pool.run(view.rights.principal, "explain", arguments)
    return explanation


def _links(server: Server, link: Link, key: str, *, with_names: bool) -> list[dict[str, Any]]:
    """Return for each neighbour whether a subscription was announced to it, or which announced ones cover it.

    Their keys hold the names of clients; without names their ids are shown.
    """
    shown: list[dict[str, Any]] = []
    for neighbour in (name for name in server.links.all if not server.broker.link(name).ring):
        stand_in = server.broker.stand_ins(neighbour, (link, key))
        forwarded, named = not stand_in, stand_in if with_names else [shown_key(cover) for cover in stand_in]
        covers = ", ".join(map(shown_key, stand_in))
        reason = "forwarded" if forwarded else f"not forwarded because covered by {covers}"
        shown.append({"link": neighbour, "forwarded": forwarded, "covered_by": named, "reason": reason})
    return shown
