"""``/v1/subscriptions/{id}/log``: the messages of a subscription by cursor, and their acknowledgement.

Reading changes nothing: the same cursors give the same messages (promises G10, P1) as long as they are retained.
An acknowledged message is deleted when its retention is over. This endpoint is for readers that store their own
position, such as Spark with its checkpoint.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError, RefusedError
from tamis.node.cursor import Cursor
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.web.bodies import MAX_PAGE, read_json, whole_number
from tamis.web.endpoints.subscriptions import demand_owner, find
from tamis.web.intake import principal_of
from tamis.web.server import Server, event_id, server_of
from tamis.web.work.rows import JsonRows

__all__ = ["Log", "acknowledge", "read_log"]

#: Default number of messages of one page.
PAGE = 256


async def read_log(request: Request) -> Response:
    """Return the messages behind ``after``, up to ``upto``, and where the log begins and ends."""
    server = server_of(request)
    rights, query = server.rights(request), request.query_params
    link, key = find(server, rights, request)
    demand_owner(rights, server.broker.subscriptions[link, key])
    log = Log(server, link)
    after = log.place("after", query["after"]) if "after" in query else log.first
    upto = min(log.place("upto", query["upto"]) if "upto" in query else log.last, log.last)
    if after < log.first:
        raise RefusedError(
            410, f"after: {query['after']} is beyond retention; the log begins behind {log.cursor(log.first)}"
        )
    limit = whole_number(query.get("limit", str(PAGE)), "limit", MAX_PAGE)
    rows = JsonRows(server.pace(principal_of(request)))
    for number, body in log.read(after, limit, upto):
        if not await rows.add(log.shown(number, body)):
            break
        after = number
    bounds = {name: log.cursor(getattr(log, name)) for name in ("first", "acknowledged", "last")}
    return rows.response("messages", bounds | {"next": log.cursor(after)})


async def acknowledge(request: Request) -> Response:
    """Acknowledge all messages up to a cursor."""
    server = server_of(request)
    rights, body = server.rights(request), await read_json(request)
    link, key = find(server, rights, request)
    demand_owner(rights, server.broker.subscriptions[link, key])
    if body.keys() != {"cursor"} or not isinstance(body["cursor"], str):
        raise ModelError('expected {"cursor": "..."}')
    log = Log(server, link)
    number = log.place("cursor", body["cursor"])
    if number > log.last:
        raise ModelError(f"cursor: the log ends at {log.cursor(log.last)}")
    server.driver.acknowledge(link, number)
    return JSONResponse({"cursor": body["cursor"]})


class Log:
    """The messages of one link, by number: ``first`` is behind what is gone, ``last`` is on disk."""

    def __init__(self, server: Server, link: Link) -> None:
        self._server = server
        self._link = link
        self._queue = server.broker.stream(link)
        self.cursor, self.read = self._queue.cursor, self._queue.read
        self.last, self.acknowledged, self.first = self._queue.last, self._queue.acknowledged, self._queue.first

    def place(self, name: str, text: str) -> int:
        """Return the number in a cursor; 410 when it is of an epoch whose messages are gone."""
        cursor = Cursor.parse(text, name)
        if cursor.epoch != self._queue.epoch:
            raise RefusedError(
                410,
                f"{name}: {text} is of epoch {cursor.epoch}, but the log is of epoch {self._queue.epoch}: "
                "an epoch ends when a broker loses its disk; without a cursor you begin with the oldest message",
            )
        return cursor.number

    def shown(self, number: int, body: bytes) -> dict[str, Any]:
        """Return a message as JSON, with its cursor."""
        message = m.decode(body, self._link)
        if isinstance(message, m.Gap):
            gap = {"first": event_id(message.first), "count": message.count}
            return {"cursor": self.cursor(number), "gap": gap}
        if not isinstance(message, m.Delivery):
            raise ModelError(f"the queue of {self._link!r} holds a {type(message).__name__}")
        return {
            "cursor": self.cursor(number),
            "id": event_id(message.event.id),
            "event": self._server.broker.event_as_json(message.event),
            "subscriptions": list(message.subscriptions),
        }
