"""`tamis.connect`: publish and subscribe at a broker, from Python.

One task keeps the connection: it sends waiting messages, delivers received ones, and reconnects with growing pauses
when the wire breaks. Events and subscriptions that wait are not lost meanwhile, and nothing is delivered twice: the
link is numbered in both directions (`tamis.runtime.client.session`).
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tamis.errors import ConnectionLostError, ModelError, RefusedError, TamisError, UnknownSubscriptionError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.node.cursor import Cursor
from tamis.routing import messages as m
from tamis.runtime.broker_addresses import BrokerAddresses
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.client.deliveries import ClientSubscription
from tamis.runtime.client.session import ClientSession, Reader
from tamis.runtime.dialling import (
    ATTEMPT_SECONDS,
    BEAT,
    FIRST_PAUSE,
    dial,
    longer_pause,
    socket_errors,
    websocket_url,
    words_of_failure,
)
from tamis.runtime.extra import demand_server
from tamis.runtime.packets import MAX_PACKET
from tamis.runtime.traces.contexts import current_traceparent, read_traceparent

__all__ = ["Client"]

#: The number of unconfirmed events at which `publish` blocks; and the most subscriptions of one message.
MAX_WAITING, AT_ONCE = 16_384, 100

_GONE_FOR_GOOD = 1008


@dataclass(frozen=True)
class _Door:
    """The addresses of a broker, and how to connect; ``timeout`` is in seconds."""

    addresses: BrokerAddresses
    token: str | None
    timeout: float
    ssl: ssl.SSLContext | None


class _CursorFile:
    """A file that says how far a client has read; it is always replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored = Cursor()

    def read(self) -> Cursor | None:
        """Return the stored cursor; None if there is none."""
        text = self._path.read_text().strip() if self._path.exists() else ""
        return Cursor.parse(text, str(self._path)) if text else None

    def keep(self, cursor: Cursor) -> None:
        """Store a cursor, unless it was stored last."""
        if cursor.number and cursor != self._stored:
            draft = self._path.with_name(self._path.name + ".new")
            with draft.open("w") as file:
                file.write(str(cursor))
                file.flush()
                os.fsync(file.fileno())  # without it, a power cut may leave the new name without its contents
            os.replace(draft, self._path)
            self._stored = cursor


class Client:
    """A connection to a broker that reconnects by itself; made by `tamis.connect`."""

    def __init__(
        self,
        url: str | Sequence[str],
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
        addresses = BrokerAddresses(url)
        addresses.check(token, insecure=insecure)
        self.name = client or f"client-{secrets.token_hex(8)}"
        self._door = _Door(addresses, token, timeout, ssl)
        self._file = None if cursor_file is None else _CursorFile(Path(cursor_file))
        self._is_replay = replay_after is not None
        cursor = self._file.read() if self._file is not None else None
        if replay_after is not None:
            cursor = Cursor.parse(replay_after, "replay_after")
        self._session = ClientSession(self.name, cursor, round(time.time() * 1e6))
        #: Why the last attempt failed.
        self._trouble = ""
        self._news = asyncio.Event()
        self._room = asyncio.Condition()
        #: Why the connection ended for good; every later call raises it.
        self._ended: TamisError | None = None

    # Opening and closing

    async def open(self) -> Client:
        """Connect; raises `ConnectionLostError` or `RefusedError` if that fails."""
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep_connected())
        try:
            async with asyncio.timeout(self._door.timeout):
                await asyncio.shield(self._first)
        except TimeoutError:
            self._first.cancel()
            await self.close()
            trouble = f": {self._trouble}" if self._trouble else ""
            problem = f"no broker answered within {self._door.timeout:g} s{trouble}"
            raise ConnectionLostError(self.url, problem) from None
        return self

    async def close(self) -> None:
        """Close the connection; events that are not confirmed are given up."""
        error = ConnectionLostError(self.url, "the client was closed")
        # A connection that breaks just now may absorb the cancellation; then this ends the task.
        self._ended = self._ended or error
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._give_up(error)

    async def until_ended(self) -> None:
        """Wait until the connection has ended for good, and raise the reason."""
        await asyncio.wait([self._task])
        self._demand_open()

    # The public interface

    @property
    def url(self) -> str:
        """Where the broker is: the address that was tried last."""
        return self._door.addresses.current

    @property
    def cursor(self) -> str:
        """The position up to which everything is acknowledged, for `tamis.connect(replay_after=...)`."""
        return str(self._session.link.cursor)

    def schema_of(self, namespace: str = DEFAULT_NAMESPACE) -> Schema:
        """Return the types of attributes in a namespace, as the broker sent them to its subscribers."""
        return self._session.schema_of(namespace)

    async def publish(
        self,
        events: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        traceparent: str | None = None,
    ) -> None:
        """Publish an event, or several in order; returns when the broker has them on disk.

        Events that several tasks publish at the same time are sent together. Raises `RefusedError` if the broker
        refuses an event, and `ConnectionLostError` if the client is closed before the broker has answered.

        ``traceparent`` (W3C Trace Context) names the span that publishes them, for brokers with traces; by default it
        is the current span of OpenTelemetry, if the program uses it.
        """
        parent = current_traceparent() if traceparent is None else traceparent
        if parent and read_traceparent([parent]) is None:
            parent = ""  # as over HTTP: a header that is not well-formed is ignored
        batch = [events] if isinstance(events, Mapping) else list(events)
        payloads = [encode_event(event) for event in batch]
        async with self._room:
            await self._room.wait_for(lambda: len(self._session.publishing) < MAX_WAITING)
            self._demand_open()
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._session.publish(namespace, payloads, partial(_resolve, done), parent)
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
        fields: Sequence[str] = (),
        max_deliveries: int = 0,
        wait: m.State = m.State.ACTIVE,
    ) -> ClientSubscription:
        """Make a subscription; returns an iterator of deliveries once every broker that needs the subscription has it.

        If neighbours of the broker have not confirmed it in time, `RefusedError` (504) names them; the subscription
        stays, and becomes active when they do. ``wait="accepted"`` returns as soon as it is on the broker's disk.

        A ``durable`` subscription stays when the client disconnects, and matching events wait for it: reconnect with
        the same ``client`` name, ``id`` and filter. Others end when the client has been disconnected for a minute.
        ``expires`` is in seconds from now. With ``fields`` deliveries carry these attributes only. An event that was
        the first unacknowledged one at the end of ``max_deliveries`` connections goes to the dead letters. After the
        first of these it is sent alone: the next ones follow when it is acknowledged, or after 30 seconds.
        """
        chosen_id = secrets.token_hex(8) if id is None else id
        message = _subscribe_message(chosen_id, filter, namespace, durable, expires, metadata, fields, max_deliveries)
        self._say(message)
        (subscription,) = await _all_reached(self, self._session, [message], wait)
        return subscription

    async def subscribe_many(
        self,
        filters: Mapping[SubscriptionId, str | Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        durable: bool = False,
        expires: float | None = None,
        wait: m.State = m.State.ACTIVE,
    ) -> list[ClientSubscription]:
        """Make many subscriptions at once, filters by id; returns their iterators in this order.

        They are sent together, and the broker accepts each message of up to `AT_ONCE` in one step. Raises
        `RefusedError` if a subscription is refused; those that were accepted stay, so the call can be repeated.
        """
        messages = [_subscribe_message(id, filter, namespace, durable, expires, None) for id, filter in filters.items()]
        for start in range(0, len(messages), AT_ONCE):
            self._say(m.SubscribeBatch(tuple(messages[start : start + AT_ONCE])))
        return await _all_reached(self, self._session, messages, wait)

    async def update(
        self,
        id: SubscriptionId,
        filter: str | Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        expires: float | None = None,
        metadata: Mapping[str, str] | None = None,
        wait: m.State = m.State.ACTIVE,
    ) -> None:
        """Change the filter of a subscription in one step; returns once every broker that needs the change has it.

        Its iterator continues. Events that match the old and the new filter come without a gap, those that match only
        the new one come once the change is active. Raises `RefusedError` if the broker refuses the change; the
        subscription then stays as it was. ``expires`` and ``metadata`` stay as they are unless they are passed.
        """
        reader = self._session.readers.get((namespace, id))
        if not isinstance(reader, ClientSubscription):
            raise UnknownSubscriptionError(id)
        message = _subscribe_message(id, filter, namespace, reader.is_durable, expires, metadata)
        async with reader.changing:
            if not isinstance(reader.message, m.Subscribe):
                raise UnknownSubscriptionError(id)
            self._demand_open()
            change = self._session.change(reader, _update_message(reader.message, message, expires, metadata))
            self._news.set()
            await reader.changed(change, wait)

    async def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """End a subscription; returns when the broker has ended it."""
        reader = self._session.readers.get((namespace, id))
        if not isinstance(reader, ClientSubscription):
            reader = ClientSubscription(self, m.Subscribe(id, b"", namespace))
            self._session.follow(reader)
        reader.message = m.Unsubscribe(id, namespace)
        self._say(reader.message)
        await reader.reached(m.State.CANCELLED)
        self._session.leave(reader.place)
        self._news.set()

    def acknowledge(self, reader: Reader, cursor: Cursor) -> None:
        """Note that a reader has finished with a message; `ClientDelivery.ack` calls it."""
        if self._session.acknowledge(reader, cursor):
            self._news.set()

    # Internals

    def _demand_open(self) -> None:
        """Raise the reason if the connection has ended: a call would wait for an answer that cannot come."""
        if self._ended is not None:
            raise self._ended

    def _say(self, message: m.Message) -> None:
        self._demand_open()
        self._session.say(message)
        self._news.set()

    async def _keep_connected(self) -> None:
        pause = FIRST_PAUSE
        wire_errors: tuple[type[Exception], ...] = (OSError, TimeoutError, TamisError, *socket_errors())
        while self._ended is None:
            try:
                await self._converse()
                pause = FIRST_PAUSE
            except RefusedError as error:
                self._give_up(error)
                return
            except wire_errors as error:  # the wire broke: connect again
                self._trouble = words_of_failure(error)
            self._session.link.lost()
            self._door.addresses.leave(self.url)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = longer_pause(pause, len(self._door.addresses))

    async def _converse(self) -> None:
        """Exchange messages with the broker until the wire breaks."""
        from websockets.exceptions import ConnectionClosed

        query = {"client": self.name} | ({"after": self.cursor} if self._is_replay else {})
        url = f"{websocket_url(self.url)}?{urlencode(query, quote_via=quote)}"
        door = self._door
        timeout = min(door.timeout, ATTEMPT_SECONDS) if door.addresses.has_others else door.timeout
        beat = BEAT if door.addresses.has_others else None
        async with dial(url, door.token, max_size=MAX_PACKET, timeout=timeout, ssl=door.ssl, beat=beat) as socket:
            writer = asyncio.create_task(self._write(socket))
            try:
                await socket.send(self._session.link.greeting())
                async for packet in socket:
                    self._take(packet if isinstance(packet, bytes) else packet.encode())
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code == _GONE_FOR_GOOD:
                    raise RefusedError(403, error.rcvd.reason) from None
                raise
            finally:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, *socket_errors()):
                    await writer

    async def _write(self, socket: Any) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._file is not None:
                self._file.keep(self._session.link.cursor)
            while (packet := self._session.next_packet()) is not None:
                await socket.send(packet)

    def _take(self, packet: bytes) -> None:
        self._session.take(packet)
        if self._session.link.is_up and not self._first.done():
            self._first.set_result(None)
        self._news.set()  # the cursor may have moved, or an acknowledgement made room in the window

    def _give_up(self, error: TamisError) -> None:
        self._ended = self._ended or error
        if not self._first.done():
            self._first.set_exception(error)
        self._session.give_up(error)


async def _all_reached(
    client: Client, session: ClientSession, messages: Sequence[m.Subscribe], wait: m.State
) -> list[ClientSubscription]:
    """Make a reader for each subscription, and wait until all have this state; after an error none is kept."""
    readers = [ClientSubscription(client, message) for message in messages]
    for reader in readers:
        session.follow(reader)
    try:
        for reader in readers:
            await reader.reached(wait)
    except BaseException:
        for reader in readers:
            session.readers.pop(reader.place, None)
        raise
    return readers


def _resolve(done: asyncio.Future[None], error: TamisError | None) -> None:
    if not done.done():
        done.set_result(None) if error is None else done.set_exception(error)


def _subscribe_message(
    id: SubscriptionId,
    filter: str | Mapping[str, Any],
    namespace: str,
    durable: bool,
    expires: float | None,
    metadata: Mapping[str, str] | None,
    fields: Sequence[str] = (),
    max_deliveries: int = 0,
) -> m.Subscribe:
    """Return the message that makes a subscription; an invalid filter raises."""
    text, now = filter if isinstance(filter, str) else msgspec.json.encode(filter).decode(), time.time()
    if isinstance(fields, str):
        raise ModelError(f"fields: a list of names, not the text {fields!r}")
    about = m.About("", text, durable, round(now * 1e6), dict(metadata or {}), tuple(fields), max_deliveries)
    until = None if expires is None else round((now + expires) * 1e6)
    return m.Subscribe(id, msgspec.json.encode(to_json(parse(filter))), namespace, until, msgspec.json.encode(about))


def _update_message(
    former: m.Subscribe, message: m.Subscribe, expires: float | None, metadata: Mapping[str, str] | None
) -> m.Subscribe:
    """Return the message that changes a subscription; fields that it does not name stay as they were."""
    former_about, about = m.about(former), m.about(message)
    about = msgspec.structs.replace(
        about,
        created=former_about.created,
        fields=former_about.fields,
        metadata=former_about.metadata if metadata is None else about.metadata,
        max_deliveries=former_about.max_deliveries,
    )
    until = former.expires if expires is None else message.expires
    return msgspec.structs.replace(message, expires=until, about=msgspec.json.encode(about))
