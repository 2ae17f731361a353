"""``GET /v1/subscriptions/{id}/events``: what a subscription gets, as server-sent events.

The ``id:`` of a message is its cursor. Who comes back with it as ``Last-Event-ID`` goes on behind it, within retention;
who comes without one goes on behind what was sent last. A message counts as read when it was written to the socket:
server-sent events know no other acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.errors import ModelError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.rights import Rights
from tamis.web.server import Server, event_id, server_of
from tamis.web.subscriptions import demand_owner, find

__all__ = ["stream"]

#: Seconds after which a silent stream says that it is alive, and looks whether its reader may stay.
HEARTBEAT = 2.0

#: Messages that are read from the disk at once.
PAGE = 256


async def stream(request: Request) -> Response:
    """Send deliveries as they come, and those that waited first."""
    server = server_of(request)
    rights = server.rights(request)
    link, key = find(server, rights, request)
    demand_owner(rights, server.driver.edge.asked[link, key])
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    limit = request.query_params.get("limit")
    after = _cursor(server, given) if given else _floor(server, link)
    count = int(limit) if limit and limit.isdecimal() and len(limit) < 10 else None
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    body = _Stream(server, rights, link, key, count).messages(after)
    return StreamingResponse(body, media_type="text/event-stream", headers=headers)


class _Stream:
    """One reader."""

    def __init__(self, server: Server, rights: Rights, link: Link, key: str, count: int | None) -> None:
        self._server = server
        self._rights = rights
        self._link = link
        self._key = key
        self._left = count

    async def messages(self, after: int) -> AsyncIterator[bytes]:
        """Yield messages behind a cursor; ends when the subscription does or its reader may not stay."""
        driver, news = self._server.driver, self._server.driver.watch(self._link)
        try:
            yield b"retry: 1000\n\n"
            while self._left != 0:
                news.clear()
                page = [one for one in driver.store.read_outbox(self._link, after, PAGE) if one[0] <= self._committed()]
                for number, body in page[: self._left]:
                    yield self._message(number, body)
                    after = number
                    self._left = None if self._left is None else self._left - 1
                if page:
                    driver.acknowledge(self._link, after)
                elif not await self._wait(news):
                    if not self._may_stay():
                        break
                    yield b": alive\n\n"
        finally:
            driver.unwatch(self._link, news)

    def _committed(self) -> int:
        return self._server.driver.committed(self._link).sent

    async def _wait(self, news: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await news.wait()
        except TimeoutError:
            return False

    def _may_stay(self) -> bool:
        return (self._link, self._key) in self._server.driver.edge.asked and self._server.access.is_live(
            self._rights.principal
        )

    def _message(self, number: int, body: bytes) -> bytes:
        cursor = f"{self._server.driver.node.epoch}-{number}"
        message = m.decode(body, self._link)
        if isinstance(message, m.Gap):
            gap = msgspec.json.encode({"gap": {"first": event_id(message.first), "count": message.count}}).decode()
            return f"id: {cursor}\nevent: gap\ndata: {gap}\n\n".encode()
        if not isinstance(message, m.Delivery):
            raise ModelError(f"the queue of {self._link!r} holds a {type(message).__name__}")
        data: dict[str, object] = {
            "id": event_id(message.event.id),
            "event": self._server.event_as_json(message.event.payload),
            "subscriptions": list(message.subscriptions),
        }
        return f"id: {cursor}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


def _cursor(server: Server, text: str) -> int:
    """Return the number in a cursor; one of a former life of the broker is behind everything."""
    epoch, _, number = text.partition("-")
    if not (epoch.isdecimal() and number.isdecimal() and text.isascii() and len(text) < 40):
        raise ModelError(f"Last-Event-ID: expected the id of a message of this stream, got {text[:60]!r}")
    return int(number) if int(epoch) == server.driver.node.epoch else 0


def _floor(server: Server, link: Link) -> int:
    end = server.driver.node.ends[link]
    return next(iter(end.outbox), end.sent + 1) - 1
