"""``/v1/subscriptions/{id}/dead``: messages that reached readers as often as they may and were never acknowledged.

They can be read as often as needed, put back behind what waits in the queue (``replay``), or dropped. The subscriptions
of a client share a queue: a request sees and changes the letters of the one that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError
from tamis.files.fields import read_fields
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Drop, Replay
from tamis.routing.edge.limits import MAX_PAGE_BYTES
from tamis.routing.edge.link_names import client_of, dead_letters_link
from tamis.runtime.broker.view import StreamView
from tamis.web.bodies import MAX_PAGE, read_json, whole_number
from tamis.web.endpoints.delivery_log import PAGE, Log
from tamis.web.endpoints.groups.consumers import queue
from tamis.web.endpoints.groups.letters import Owners, bodies_of, owners_of
from tamis.web.intake import principal_of
from tamis.web.server import Server, server_of
from tamis.web.work.pacing import Pace
from tamis.web.work.rows import JsonRows

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
    rows = JsonRows(_pace(request))
    for number, body in log.read(after, limit):
        is_shown = not stream.is_settled(number) and _is_for(owners_of(body, dead), link, subscription)
        if is_shown and not await rows.add(log.shown(number, body)):
            break
        after = number
    present = [number for number in range(log.acknowledged + 1, log.last + 1) if not stream.is_settled(number)]
    count = len(await _letters_of(request, stream, link, subscription, present))
    return rows.response("letters", {"next": log.cursor(after) if after < log.last else None, "count": count})


async def replay(request: Request) -> Response:
    """Put dead letters back behind what waits in their queue; each counts as never taken.

    One step moves `MAX_PAGE_BYTES` of them, and others are served before the next.
    """
    server, link, stream, numbers = await _chosen(request)
    count = 0
    server.driver.demand_room()
    for letters in () if stream is None else _steps(bodies_of(stream, numbers)):
        settled = await server.driver.ask(Replay(link, dead_letters_link(link), letters))
        count += settled.count
    return JSONResponse({"replayed": count})


def _steps(letters: Iterable[tuple[int, bytes]]) -> Iterator[tuple[tuple[int, bytes], ...]]:
    """Yield letters in groups of at most `MAX_PAGE_BYTES`, or of one."""
    group, size = list[tuple[int, bytes]](), 0
    for number, body in letters:
        if group and size + len(body) > MAX_PAGE_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append((number, body))
        size += len(body)
    if group:
        yield tuple(group)


async def drop(request: Request) -> Response:
    """Forget dead letters."""
    server, link, _, numbers = await _chosen(request)
    settled = await server.driver.ask(Drop(dead_letters_link(link), numbers))
    return JSONResponse({"dropped": settled.count})


async def _chosen(request: Request) -> tuple[Server, Link, StreamView | None, tuple[int, ...]]:
    """Return a queue, its dead letters if it has any, and the numbers of those that a request names: at most a page."""
    server_of(request).rights(request)
    server, link, subscription = await queue(request)
    chosen = read_fields(await read_json(request), Chosen)
    if bool(chosen.cursors) == (chosen.upto is not None):
        raise ModelError('expected {"cursors": ["...", ...]} or {"upto": "..."}')
    dead = dead_letters_link(link)
    if dead not in server.broker.links:
        return server, link, None, ()
    log = Log(server, dead)
    if chosen.upto is None:
        numbers: Sequence[int] = list(dict.fromkeys(log.place("cursors", text) for text in chosen.cursors))
    else:
        numbers = range(log.acknowledged + 1, min(log.place("upto", chosen.upto), log.last) + 1)
    stream = server.broker.stream(dead)
    letters = await _letters_of(request, stream, link, subscription, numbers)
    return server, link, stream, tuple(letters[:MAX_PAGE])


async def _letters_of(
    request: Request, stream: StreamView, link: Link, subscription: m.Subscribe, numbers: Sequence[int]
) -> Sequence[int]:
    """Return those of some dead letters that are of one subscription."""
    if client_of(link) is None:  # the only one of its queue
        return numbers
    owners = await server_of(request).letters.read(stream, numbers, _pace(request))
    return [number for number in numbers if number in owners and _is_for(owners[number], link, subscription)]


def _is_for(owners: Owners, link: Link, subscription: m.Subscribe) -> bool:
    if client_of(link) is None or owners is None:
        return True
    namespace, ids = owners
    return subscription.id in ids and subscription.namespace == namespace


def _pace(request: Request) -> Pace:
    pace = server_of(request).pace(principal_of(request))
    pace.begin_small()
    return pace
