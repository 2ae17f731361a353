"""Consumers that share one subscription: each message goes to one of them, and to another if it is not settled in time.

``POST .../take`` gives messages to a consumer for some seconds, ``POST .../settle`` acknowledges them in any order or
gives them back. Messages of a consumer that died go to the others when the time is over.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError, RefusedError
from tamis.files.fields import read_fields
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Settle, Take, Taken
from tamis.routing.edge.limits import MAX_NAME
from tamis.routing.edge.link_names import client_of, dead_letters_link
from tamis.web.bodies import read_json
from tamis.web.endpoints.delivery_log import Log
from tamis.web.endpoints.groups.letters import bodies_of
from tamis.web.endpoints.subscriptions import demand_owner, find
from tamis.web.intake import principal_of
from tamis.web.server import Server, server_of
from tamis.web.work.rows import JsonRows

__all__ = ["queue", "settle", "take"]

#: Messages of one request, and seconds that they may be held and waited for.
MOST_TAKEN, MOST_SECONDS, MOST_WAIT = 256, 3_600.0, 20.0

#: Seconds between two looks for messages whose time is over.
LOOK = 1.0

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class TakeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a consumer posts to get messages."""

    consumer: _Name
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_TAKEN)] = 1
    #: How long the messages are the consumer's own.
    seconds: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)] = 30.0
    #: How long to wait when there is nothing to take.
    wait: Annotated[float, msgspec.Meta(ge=0, le=MOST_WAIT)] = 0.0
    #: A new id for each request; one that is sent again with the same id returns the same messages.
    request_id: Annotated[str, msgspec.Meta(max_length=MAX_NAME)] = ""


class SettleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a consumer posts about messages that it holds, by their cursors."""

    consumer: _Name
    acknowledge: Annotated[list[str], msgspec.Meta(max_length=4 * MOST_TAKEN)] = []
    release: Annotated[list[str], msgspec.Meta(max_length=4 * MOST_TAKEN)] = []


async def take(request: Request) -> Response:
    """Give a consumer messages that no other holds; with ``wait`` the request waits until there is one."""
    server, link, subscription = await queue(request)
    _demand_shareable(link, subscription)
    body = read_fields(await read_json(request), TakeRequest)
    if link in server.webhooks.all:
        raise RefusedError(409, f"subscription {subscription.id!r} is read by its webhook; remove the webhook first")
    most, end = m.about(subscription).max_deliveries, time.monotonic() + body.wait
    news = server.driver.watch(link)
    try:
        while True:
            news.clear()
            taken = await _take(server, link, body, most)
            seconds_left = end - time.monotonic()
            if taken.numbers or seconds_left <= 0 or await request.is_disconnected():
                break
            try:
                async with asyncio.timeout(min(seconds_left, LOOK)):
                    await news.wait()
            except TimeoutError:
                pass  # messages of another consumer may be free now
            server.access.demand_live(server.rights(request))
    finally:
        server.driver.unwatch(link, news)
    log, rows = Log(server, link), JsonRows(server.pace(principal_of(request)), most_bytes=None)  # `Take` bounds them
    for number, message in bodies_of(server.broker.stream(link), list(taken.numbers)):
        await rows.add(log.shown(number, message) | {"deliveries": taken.numbers[number]})
    return rows.response("messages")


async def settle(request: Request) -> Response:
    """Acknowledge messages that a consumer holds, in any order, or give them back; ``late`` are those it lost."""
    server, link, subscription = await queue(request)
    _demand_shareable(link, subscription)
    body = read_fields(await read_json(request), SettleRequest)
    log = Log(server, link)
    acknowledged = tuple(log.place("acknowledge", text) for text in body.acknowledge)
    released = tuple(log.place("release", text) for text in body.release)
    if both := sorted({*acknowledged} & {*released}):
        raise ModelError(f"{log.cursor(both[0])} is in acknowledge and in release")
    settled = await server.driver.ask(Settle(link, body.consumer, acknowledged, released))
    return JSONResponse({"settled": settled.count, "late": [log.cursor(number) for number in settled.late]})


async def queue(request: Request) -> tuple[Server, Link, m.Subscribe]:
    """Return the queue that a request names; it must be durable and the caller's own."""
    server = server_of(request)
    rights = server.rights(request)
    link, key = find(server, rights, request)
    subscription = server.broker.subscriptions[link, key]
    demand_owner(rights, subscription)
    if not m.about(subscription).durable:
        raise RefusedError(409, f"subscription {subscription.id!r} is not durable; only a durable one can be shared")
    return server, link, subscription


def _demand_shareable(link: Link, subscription: m.Subscribe) -> None:
    if client_of(link) is not None:
        raise RefusedError(
            409, f"subscription {subscription.id!r} belongs to a connected client, which alone reads its queue"
        )


async def _take(server: Server, link: Link, body: TakeRequest, most: int) -> Taken:
    """Take messages; those that were taken too often go to the dead letters first."""
    while True:
        taken: Taken = await server.driver.ask(
            Take(link, body.consumer, body.limit, body.seconds, most, id=body.request_id)
        )
        if not taken.worn:
            return taken
        server.driver.demand_room()  # dead letters are copies
        letters = tuple(bodies_of(server.broker.stream(link), taken.worn))
        await server.driver.ask(Bury(link, dead_letters_link(link), letters, most))
        if taken.numbers:
            return taken
