"""``/v1/subscriptions/{id}/dead``: messages that reached readers as often as they may and were never acknowledged.

They can be read as often as needed, put back behind what waits in the queue (``replay``), or dropped. The subscriptions
of a client share a queue: a request sees and changes the letters of the one that it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError
from tamis.files.fields import read_fields
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Drop, Replay
from tamis.routing.edge.link_names import client_of, dead_letters_link
from tamis.web.bodies import MAX_PAGE, read_json, whole_number
from tamis.web.endpoints.delivery_log import PAGE, Log
from tamis.web.endpoints.groups.consumers import bodies_of, queue
from tamis.web.server import Server, server_of

__all__ = ["drop", "listing", "replay"]


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters: some by their cursors, or everything up to a cursor."""

    cursors: Annotated[list[str], msgspec.Meta(max_length=MAX_PAGE)] = []
    upto: str | None = None


async def listing(request: Request) -> Response:
    """Show a page of dead letters, the oldest first."""
    server, link, subscription = await queue(request)
    query, dead = request.query_params, dead_letters_link(link)
    limit = whole_number(query.get("limit", str(PAGE)), "limit", MAX_PAGE)
    if dead not in server.broker.links:  # nothing was ever put there
        return JSONResponse({"letters": [], "next": None, "count": 0})
    log, stream = Log(server, dead), server.broker.stream(dead)
    after = max(log.place("after", query["after"]) if "after" in query else 0, log.acknowledged)
    page = log.read(after, limit)
    letters = [
        log.shown(*letter)
        for letter in page
        if not stream.is_settled(letter[0]) and _is_for(letter[1], link, subscription)
    ]
    after = page[-1][0] if page else after
    present = [number for number in range(log.acknowledged + 1, log.last + 1) if not stream.is_settled(number)]
    count = len(_letters_of(server, link, subscription, present))
    return JSONResponse({"letters": letters, "next": log.cursor(after) if after < log.last else None, "count": count})


async def replay(request: Request) -> Response:
    """Put dead letters back behind what waits in their queue; each counts as never taken."""
    server, link, numbers = await _chosen(request)
    dead = dead_letters_link(link)
    server.driver.demand_room()
    letters = tuple(bodies_of(server, dead, numbers).items()) if numbers else ()
    settled = await server.driver.ask(Replay(link, dead, letters))
    return JSONResponse({"replayed": settled.count})


async def drop(request: Request) -> Response:
    """Forget dead letters."""
    server, link, numbers = await _chosen(request)
    settled = await server.driver.ask(Drop(dead_letters_link(link), numbers))
    return JSONResponse({"dropped": settled.count})


async def _chosen(request: Request) -> tuple[Server, Link, tuple[int, ...]]:
    """Return the numbers of the dead letters that a request names; at most a page of them."""
    server_of(request).rights(request)
    server, link, subscription = await queue(request)
    chosen = read_fields(await read_json(request), Chosen)
    if bool(chosen.cursors) == (chosen.upto is not None):
        raise ModelError('expected {"cursors": ["...", ...]} or {"upto": "..."}')
    dead = dead_letters_link(link)
    if dead not in server.broker.links:
        return server, link, ()
    log = Log(server, dead)
    if chosen.upto is None:
        numbers: Sequence[int] = list(dict.fromkeys(log.place("cursors", text) for text in chosen.cursors))
    else:
        numbers = range(log.acknowledged + 1, min(log.place("upto", chosen.upto), log.last) + 1)
    return server, link, tuple(_letters_of(server, link, subscription, numbers)[:MAX_PAGE])


def _letters_of(server: Server, link: Link, subscription: m.Subscribe, numbers: Sequence[int]) -> Sequence[int]:
    """Return those of some dead letters that are of one subscription."""
    if client_of(link) is None:  # the only one of its queue
        return numbers
    bodies = bodies_of(server, dead_letters_link(link), numbers)
    return [number for number in numbers if number in bodies and _is_for(bodies[number], link, subscription)]


def _is_for(body: bytes, link: Link, subscription: m.Subscribe) -> bool:
    message = m.decode(body, link)
    if client_of(link) is None or not isinstance(message, m.Delivery):
        return True
    return subscription.id in message.subscriptions and subscription.namespace == message.event.namespace
