"""`tamis.connect`: publish to a broker and subscribe at it, from Python.

One task keeps the connection: it writes what waits, hands out what comes, and connects again with growing pauses when
the wire breaks. Nothing that was published or asked for is forgotten meanwhile, and nothing is delivered twice: the
link is numbered in both directions (`client_link`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tamis.errors import ConnectionLostError, RefusedError, TamisError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.routing import messages as m
from tamis.runtime.broker.neighbours import FIRST_PAUSE, LONGEST_PAUSE, websocket_url
from tamis.runtime.client.clear_text import check_encrypted
from tamis.runtime.client.client_link import ClientLink, Cursor, Outgoing
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.client.deliveries import ClientSubscription, Missed
from tamis.runtime.client.publishing import Publishing
from tamis.runtime.extra import demand_server
from tamis.runtime.packets import MAX_PACKET, SUBPROTOCOL

__all__ = ["Client"]

#: Events that may wait before `publish` waits, too; and subscriptions of one message.
MAX_WAITING, AT_ONCE = 16_384, 100

_GONE_FOR_GOOD = 1008


class Client:
    """A connection to a broker that mends itself; made by `tamis.connect`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        client: str | None = None,
        cursor_file: str | os.PathLike[str] | None = None,
        replay_after: str | None = None,
        timeout: float = 10.0,
        ssl: ssl.SSLContext | None = None,
        insecure: bool = False,
    ) -> None:
        demand_server("tamis.connect")
        check_encrypted(url, token, insecure=insecure)
        self.url = url
        self.name = client or f"client-{secrets.token_hex(8)}"
        #: The types of attributes, as the broker knows them.
        self.schema = Schema()
        self._token = token
        self._timeout = timeout
        self._ssl = ssl
        self._file = None if cursor_file is None else Path(cursor_file)
        kept = self._file.read_text() if self._file is not None and self._file.exists() else ""
        self._link = ClientLink(self.name, Cursor.parse(replay_after or kept))
        self._replay_after = replay_after
        self._publishing = Publishing()
        self._subscriptions: dict[tuple[str, SubscriptionId], ClientSubscription] = {}
        self._unclaimed: list[tuple[int, m.Delivery]] = []
        self._news = asyncio.Event()
        self._room = asyncio.Condition()
        self._closed = False
        #: Why the connection ended for good; every later call raises it.
        self._ended: TamisError | None = None

    # Life

    async def open(self) -> Client:
        """Connect; raises `ConnectionLostError` or `RefusedError` when that is not possible."""
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep_connected())
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(self._first)
        except TimeoutError:
            self._first.cancel()
            await self.close()
            raise ConnectionLostError(self.url, f"no broker answered within {self._timeout:g} s") from None
        return self

    async def close(self) -> None:
        """End the connection; what was published and not confirmed is given up."""
        self._closed = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._give_up(ConnectionLostError(self.url, "the client was closed"))

    async def until_ended(self) -> None:
        """Wait until the connection has ended for good, and raise the reason."""
        await asyncio.wait([self._task])
        self._demand_open()

    # What users do

    @property
    def cursor(self) -> str:
        """How far everything was acknowledged; `tamis.connect(replay_after=...)` goes on from there."""
        return str(self._link.cursor)

    async def publish(
        self, events: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Publish an event, or several in order; returns when the broker has them on disk.

        Events that several tasks publish at the same time travel together. `RefusedError` says why one was not taken;
        `ConnectionLostError` that the client was closed before it knew.
        """
        given = [events] if isinstance(events, Mapping) else list(events)
        payloads = [encode_event(one) for one in given]
        async with self._room:
            await self._room.wait_for(lambda: len(self._publishing) < MAX_WAITING)
            self._demand_open()
            done = self._publishing.add(namespace, payloads)
        self._news.set()
        try:
            await done
        finally:
            async with self._room:
                self._room.notify_all()

    async def subscribe(
        self,
        filter: str | Mapping[str, Any],
        *,
        id: SubscriptionId | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        durable: bool = False,
        expires: float | None = None,
        metadata: Mapping[str, str] | None = None,
        wait: m.State = m.State.ACTIVE,
    ) -> ClientSubscription:
        """Ask for events; returns an iterator of deliveries when every broker that must know of it does.

        A ``durable`` subscription lives on when the client is gone, and what matches waits for it: come back with the
        same ``client`` name, ``id`` and filter. Others end when the client has been away for a minute. ``expires`` is
        in seconds from now.
        """
        given = secrets.token_hex(8) if id is None else id
        message = _asking(given, filter, namespace, durable, expires, metadata)
        self._say(message)
        (found,) = await self._all_reached([message], wait)
        return found

    async def subscribe_many(
        self,
        filters: Mapping[SubscriptionId, str | Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        durable: bool = False,
        expires: float | None = None,
        wait: m.State = m.State.ACTIVE,
    ) -> list[ClientSubscription]:
        """Ask for many things at once, filters by id; returns their iterators in this order.

        They travel together, and the broker takes each message of them in one step. `RefusedError` says why one was
        not taken; the others that were taken stay, so the same call may be made again.
        """
        messages = [_asking(id, one, namespace, durable, expires, None) for id, one in filters.items()]
        for start in range(0, len(messages), AT_ONCE):
            self._say(m.SubscribeBatch(tuple(messages[start : start + AT_ONCE])))
        return await self._all_reached(messages, wait)

    async def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Ask no longer; returns when the broker knows."""
        found = self._subscriptions.get((namespace, id))
        if found is None:
            found = self._subscriptions[namespace, id] = ClientSubscription(self, m.Subscribe(id, b"", namespace))
        self._say(found.end())
        await found.reached(m.State.CANCELLED)
        self._subscriptions.pop((namespace, id), None)

    def acknowledge(self, number: int) -> None:
        """Take note that one reader is done with a message; `Delivery.ack` calls it."""
        if self._link.acknowledge(number):
            self._news.set()

    # Inside

    async def _all_reached(self, messages: Sequence[m.Subscribe], wait: m.State) -> list[ClientSubscription]:
        """Have a reader for each subscription, and wait until all have come so far; none is kept otherwise."""
        many = {(one.namespace, one.id): ClientSubscription(self, one) for one in messages}
        self._subscriptions |= many
        self._claim()
        try:
            for found in many.values():
                await found.reached(wait)
        except BaseException:
            for place in many:
                self._subscriptions.pop(place, None)
            raise
        return list(many.values())

    def _demand_open(self) -> None:
        """Raise why the connection ended, if it did: a call would wait for an answer that cannot come."""
        if self._ended is not None:
            raise self._ended

    def _say(self, message: m.Message) -> None:
        self._demand_open()
        self._link.unsent.append(Outgoing(m.encode(message), lambda: None))
        self._news.set()

    async def _keep_connected(self) -> None:
        pause = FIRST_PAUSE
        lost: tuple[type[Exception], ...] = (OSError, TimeoutError, TamisError, *_socket_errors())
        while not self._closed:
            try:
                await self._converse()
                pause = FIRST_PAUSE
            except RefusedError as error:
                self._give_up(error)
                return
            except lost:  # the wire broke; that is what this loop is for
                pass
            self._link.lost()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _converse(self) -> None:
        """Speak with the broker as long as one wire lasts."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed

        asked = {"client": self.name} | ({"after": self._replay_after} if self._replay_after else {})
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        async with connect(
            f"{websocket_url(self.url)}?{urlencode(asked, quote_via=quote)}",
            additional_headers=headers,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            max_size=MAX_PACKET,
            compression=None,
            open_timeout=self._timeout,
            proxy=None,
            ssl=self._ssl,
        ) as socket:
            writer = asyncio.create_task(self._write(socket))
            try:
                await socket.send(self._link.greeting())
                async for packet in socket:
                    self._take(packet if isinstance(packet, bytes) else packet.encode())
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code == _GONE_FOR_GOOD:
                    raise RefusedError(403, error.rcvd.reason) from None
                raise
            finally:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, *_socket_errors()):
                    await writer

    async def _write(self, socket: Any) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._pack_events()
            self._keep_cursor()
            while (packet := self._link.packet()) is not None:
                await socket.send(packet)
                self._pack_events()

    def _pack_events(self) -> None:
        """Put waiting events into messages, as long as few are on their way."""
        while len(self._link.unsent) < 2 and (message := self._publishing.pack()) is not None:
            self._link.unsent.append(message)

    def _take(self, packet: bytes) -> None:
        was_up, broker = self._link.is_up, self._link.broker
        for number, message in self._link.take(packet):
            if isinstance(message, m.Delivery):
                self._unclaimed.append((number, message))
            elif isinstance(message, m.Gap):
                self._link.hand_out(number, 0)
                for one in self._subscriptions.values():
                    one.put(Missed(message.count, message.first))
            elif isinstance(message, m.Status):
                self._status(message)
            elif isinstance(message, m.Refusal):
                self._refused(message)
            elif isinstance(message, m.Types):
                self.schema = Schema.from_json(message.schema)
        self._link.settle()
        self._claim()
        if self._link.unsent or len(self._publishing):  # an acknowledgement may have made room in the window
            self._news.set()
        if self._link.is_up and not was_up:
            self._came_up(is_new=bool(broker) and broker != self._link.broker)

    def _came_up(self, *, is_new: bool) -> None:
        """Say again what the broker may not know: all it was asked if it lost its disk, else what is open."""
        waiting = {one.body for one in self._link.unsent}
        for one in self._subscriptions.values():
            body = m.encode(one.message)
            if (is_new or one.is_open) and body not in waiting:
                self._link.unsent.insert(0, Outgoing(body, lambda: None))
        if not self._first.done():
            self._first.set_result(None)
        self._news.set()

    def _claim(self) -> None:
        """Hand deliveries to the subscriptions they are for; what nobody asks for yet waits."""
        waiting, self._unclaimed = self._unclaimed, []
        for number, delivery in waiting:
            places = [(delivery.event.namespace, id) for id in delivery.subscriptions]
            readers = [self._subscriptions[place] for place in places if place in self._subscriptions]
            if readers:
                self._link.hand_out(number, len(readers))
                for one in readers:
                    one.deliver(number, delivery)
            else:
                self._link.unread.setdefault(number, 1)
                self._unclaimed.append((number, delivery))

    def _status(self, message: m.Status) -> None:
        found = self._subscriptions.get((message.namespace, message.id))
        if found is not None:
            found.came_to(message.state)

    def _refused(self, message: m.Refusal) -> None:
        kind, _, rest = message.subject.partition(" ")
        error = RefusedError(503 if message.is_temporary else message.status, message.reason)
        if message.event is not None:
            self._publishing.refuse(message.event, error)
        for one in self._subscriptions.values():
            if kind == "subscription" and repr(one.id) == rest:
                one.fail(error)

    def _keep_cursor(self) -> None:
        if self._file is not None and self._link.cursor.number:
            draft = self._file.with_name(self._file.name + ".new")
            draft.write_text(str(self._link.cursor))
            os.replace(draft, self._file)

    def _give_up(self, error: TamisError) -> None:
        self._closed, self._ended = True, self._ended or error
        if not self._first.done():
            self._first.set_exception(error)
        self._publishing.give_up(error)
        for one in self._subscriptions.values():
            one.fail(error)


def _asking(
    id: SubscriptionId,
    filter: str | Mapping[str, Any],
    namespace: str,
    durable: bool,
    expires: float | None,
    metadata: Mapping[str, str] | None,
) -> m.Subscribe:
    """Return what a client says to subscribe; a filter that is none raises."""
    text, now = filter if isinstance(filter, str) else msgspec.json.encode(filter).decode(), time.time()
    about = m.About("", text, durable, round(now * 1e6), dict(metadata or {}))
    until = None if expires is None else round((now + expires) * 1e6)
    return m.Subscribe(id, msgspec.json.encode(to_json(parse(filter))), namespace, until, msgspec.json.encode(about))


def _socket_errors() -> tuple[type[Exception], ...]:
    from websockets.exceptions import WebSocketException

    return (WebSocketException,)
