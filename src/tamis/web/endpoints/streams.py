"""``GET /v1/subscriptions/{id}/events``: the messages of a subscription as server-sent events.

The ``id:`` of a message is its cursor. A reader that comes back with ``Last-Event-ID`` goes on behind it, within
retention, and that acknowledges everything up to it: the header proves that the message arrived. A reader without one
begins with the first message that is not acknowledged.

Reading alone acknowledges nothing. Bytes that were written to a socket may never arrive, and a page, a prefetch or a
crawler may send a GET without its user's knowledge. With ``?ack=auto`` each message that was written counts as
acknowledged, which suits a live display. Other readers use ``POST .../acknowledge``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tamis.errors import ModelError
from tamis.node.cursor import Cursor
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.web.bodies import whole_number
from tamis.web.endpoints.subscriptions import demand_owner, find
from tamis.web.server import Server, event_id, server_of

__all__ = ["stream"]

#: Seconds after which a silent stream sends a comment, and checks that its subscription still exists.
HEARTBEAT = 2.0

#: Messages that are read from the disk at once.
PAGE = 256

#: The largest ``limit`` of a stream.
MOST_MESSAGES = 1_000_000_000


async def stream(request: Request) -> Response:
    """Send the waiting deliveries, then new ones as they come."""
    server, query = server_of(request), request.query_params
    rights = server.rights(request)
    link, key = find(server, rights, request)
    demand_owner(rights, server.broker.subscriptions[link, key])
    if query.get("ack", "auto") != "auto":
        raise ModelError(f"ack: expected 'auto' or no ack parameter, got {query['ack'][:40]!r}")
    limit, last = query.get("limit"), request.headers.get("last-event-id")
    count = None if limit is None else whole_number(limit, "limit", MOST_MESSAGES)
    cursor = last or query.get("after")
    queue = server.broker.stream(link)
    after = _cursor(server, cursor, queue.acknowledged) if cursor else queue.acknowledged
    if last:
        server.driver.acknowledge(link, min(after, queue.last))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    body = _Stream(server, rights, link, key, count, acknowledges="ack" in query).messages(after)
    return _Closing(body, media_type="text/event-stream", headers=headers)


class _Closing(StreamingResponse):
    """A response that closes its generator when it ends, also when its reader was disconnected.

    Left to the garbage collector, the generator of an aborted connection would go on watching its subscription.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert isinstance(self.body_iterator, AsyncGenerator)
        async with contextlib.aclosing(self.body_iterator):
            await super().__call__(scope, receive, send)


class _Stream:
    """One reader."""

    def __init__(
        self, server: Server, rights: Rights, link: Link, key: str, count: int | None, *, acknowledges: bool
    ) -> None:
        self._server = server
        self._rights = rights
        self._link = link
        self._key = key
        self._remaining = count
        self._acknowledges = acknowledges
        self._news = server.driver.watch(link)
        #: Why the reader may not stay, "" as long as it may.
        self._ended = ""

    async def messages(self, after: int) -> AsyncGenerator[bytes]:
        """Yield messages behind a cursor; ends when the subscription does or its reader may not stay."""
        try:
            with self._server.visitors.staying(self._rights.digest, self._end):
                yield b"retry: 1000\n\n"
                while self._remaining != 0 and self._may_stay():
                    self._news.clear()
                    page = self._page(after)
                    for number, body in page:
                        if self._ended:  # a slow reader may take a page for long
                            return
                        yield self._message(number, body)
                        after = number
                    if page and self._acknowledges:
                        self._server.driver.acknowledge(self._link, after)
                    if not page and not await self._wait(self._news):
                        if (self._link, self._key) not in self._server.broker.subscriptions:
                            return
                        yield b": alive\n\n"
        finally:
            self._server.driver.unwatch(self._link, self._news)

    def _page(self, after: int) -> list[tuple[int, bytes]]:
        """Return the next messages that are on disk, and count them."""
        page = self._server.broker.stream(self._link).read(after, PAGE)[: self._remaining]
        self._remaining = None if self._remaining is None else self._remaining - len(page)
        return page

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._news.set()

    async def _wait(self, news: asyncio.Event) -> bool:
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await news.wait()
        except TimeoutError:
            return False

    def _may_stay(self) -> bool:
        digest = self._rights.digest
        return not self._ended and (not digest or self._server.access.is_live(digest))

    def _message(self, number: int, body: bytes) -> bytes:
        cursor = Cursor(self._server.broker.epoch, number)
        message = m.decode(body, self._link)
        if isinstance(message, m.Gap):
            gap = msgspec.json.encode({"gap": {"first": event_id(message.first), "count": message.count}}).decode()
            return f"id: {cursor}\nevent: gap\ndata: {gap}\n\n".encode()
        if not isinstance(message, m.Delivery):
            raise ModelError(f"the queue of {self._link!r} holds a {type(message).__name__}")
        data: dict[str, object] = {
            "id": event_id(message.event.id),
            "event": self._server.broker.event_as_json(message.event),
            "subscriptions": list(message.subscriptions),
        }
        return f"id: {cursor}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


def _cursor(server: Server, text: str, acknowledged: int) -> int:
    """Return the number in a cursor; for a cursor of a former epoch, the last acknowledged number."""
    cursor = Cursor.parse(text, "Last-Event-ID")
    is_of_this_epoch = cursor.epoch == server.broker.epoch or cursor == Cursor()  # 0-0 is the beginning of any epoch
    return cursor.number if is_of_this_epoch else acknowledged
