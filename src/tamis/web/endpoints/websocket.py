"""``/v1/connect``: frames over WebSocket, for clients (``?client=NAME``) and for brokers (``?broker=NAME``)."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from starlette.websockets import WebSocket, WebSocketDisconnect

from tamis.errors import ModelError, RefusedError, RemoteProtocolError, TamisError
from tamis.node.cursor import Cursor
from tamis.node.effects import Link
from tamis.node.frames import decode_frame
from tamis.routing import messages as m
from tamis.routing.edge.admission import MAX_NAME
from tamis.routing.edge.checks import Checks, Drafts, adopt_from, checks_apart, holds, prepare, prepare_event
from tamis.routing.edge.core import source_of, source_of_neighbour
from tamis.routing.edge.limits import LONG_FILTER, MAX_EVENTS, MAX_FRAMES, MAX_SUBSCRIPTIONS_AT_ONCE
from tamis.routing.edge.link_names import client_link
from tamis.routing.edge.requests import Draft, MessageDraft, StaleDraftError
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.cut_off import CUT_OFF
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.machine import Connection
from tamis.runtime.links.receiving import take_frame
from tamis.runtime.packets import (
    MAX_PACKET_OF_BROKER,
    SUBPROTOCOL,
    SUBPROTOCOLS_OF_BROKERS,
    TABLE_PARTS,
    check_version,
    join_frames,
    split_frames,
)
from tamis.web.endpoints.events import ATTEMPTS
from tamis.web.port.connection_limits import ALLOW_PACKETS
from tamis.web.server import Server
from tamis.web.work.pacing import Pace

__all__ = ["connect"]

_POLICY_VIOLATION, _TRY_AGAIN_LATER = 1008, 1013

#: The tags of messages that have filters to compile: the second byte of a message.
_SUBSCRIBING = frozenset(m.encode(message)[1:2] for message in (m.Subscribe("", b""), m.SubscribeBatch(())))

_PUBLISHING = m.encode(m.PublishBatch(()))[1:2]

#: Events of one message that are checked in the step that takes them.
FEW_EVENTS = 64

#: Bytes of a packet that only acknowledges.
MAX_ACKNOWLEDGEMENT = 128

_log = logging.getLogger("tamis")


async def connect(socket: WebSocket) -> None:
    """Serve one connection until either side ends it."""
    server: Server = socket.app.state.server
    try:
        link, rights, digest, replay_after = _admit(server, socket)
    except TamisError as error:
        server.note_refusal(socket, "connect", str(error))
        await socket.accept()
        await socket.close(_POLICY_VIOLATION, str(error)[:120])
        return
    subprotocol = _subprotocol(socket, rights)
    await socket.accept(subprotocol)
    if rights is None:
        getattr(socket.state, ALLOW_PACKETS)(MAX_PACKET_OF_BROKER)
    connection = Connection(link, rights, replay_after, takes_parts=subprotocol == TABLE_PARTS)
    if server.broker.disk.is_cut_off:
        await socket.close(_TRY_AGAIN_LATER, CUT_OFF[:120])
        return
    try:
        server.driver.machine.connect(connection)
    except RefusedError as error:  # the broker has failed and is about to stop
        await socket.close(_TRY_AGAIN_LATER, str(error)[:120])
        return
    writer = asyncio.create_task(_write(server.driver, connection, socket))
    try:
        with server.visitors.staying(digest, connection.end_here):
            await _read(server.driver, connection, socket, _pace(server, connection))
    finally:
        connection.close()
        server.driver.machine.disconnect(connection)
        with contextlib.suppress(asyncio.CancelledError):
            await writer


def _admit(server: Server, socket: WebSocket) -> tuple[str, Rights | None, str, int | None]:
    """Return the link of a connection, a client's rights, the digest of its token, and where to replay from."""
    check_version(socket.scope.get("subprotocols", []))
    query = socket.query_params
    if broker := query.get("broker"):
        return broker, None, server.access.broker(socket, broker), None
    rights, name = server.access.rights(socket), query.get("client", "")
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise ModelError(f"a client has a name of 1 to {MAX_NAME} characters: /v1/connect?client=NAME")
    cursor = Cursor.parse(query["after"], "after") if "after" in query else Cursor()
    replay_after = cursor.number if cursor.epoch == server.broker.epoch else None
    link = client_link(rights.principal, name)
    server.driver.machine.demand_name(link)
    return link, rights, rights.digest, replay_after


def _subprotocol(socket: WebSocket, rights: Rights | None) -> str | None:
    """Return the version of the protocol that both ends know; None: the other end offers none."""
    offered = socket.scope.get("subprotocols", [])
    versions = SUBPROTOCOLS_OF_BROKERS if rights is None else (SUBPROTOCOL,)
    return next((name for name in versions if name in offered), None)


async def _read(driver: Driver, connection: Connection, socket: WebSocket, pace: Pace) -> None:
    while True:
        try:
            received = await socket.receive()
        except RuntimeError:  # it was closed here
            return
        if received["type"] == "websocket.disconnect":
            return
        packet = received.get("bytes")
        if packet is None:
            connection.close("binary frames only: this connection has no text frames")
            return
        if connection.closed:  # its token ended, or another connection took its place: nothing more is taken from it
            return
        try:
            if _acknowledges_only(packet, connection.link):
                pace.begin_small()
            else:
                await pace.begin()
            await _take(driver, connection, packet, pace)
        except RemoteProtocolError as error:
            _log.warning("%s", error)
            connection.close(str(error))
            return
        except TamisError as error:  # a full disk, types that change: nothing was taken, the other end sends it again
            connection.close_for_now(str(error))
            return


def _acknowledges_only(packet: bytes, link: Link) -> bool:
    """Whether no frame of a packet has a message; longer packets have one."""
    if len(packet) > MAX_ACKNOWLEDGEMENT:
        return False
    return not any(decode_frame(frame, link).body for frame in split_frames(packet, link))


def _pace(server: Server, connection: Connection) -> Pace:
    return server.pace(_principal(connection), is_neighbour=connection.rights is None)


def _principal(connection: Connection) -> str:
    """Return who shares the event loop with others: the principal of a client, each neighbour by itself."""
    return f"broker {connection.link}" if connection.rights is None else connection.rights.principal


async def _take(driver: Driver, connection: Connection, packet: bytes, pace: Pace) -> None:
    """Take a packet frame by frame; others are served in between, and while what is in a frame is checked.

    A client whose events have steps left is not read until these are done: what waits for steps is bounded by that.
    """
    checks, rights = driver.view.checks, connection.rights
    most = None if rights is None else MAX_FRAMES
    source = source_of_neighbour(connection.link) if rights is None else source_of(rights.principal)
    for frame in split_frames(packet, connection.link, most):
        drafts: Drafts = {}
        message: MessageDraft | None = None
        if rights is not None:
            for subscription in _subscriptions_in(frame, connection.link):
                drafts[subscription, rights] = await _prepared(checks, subscription, rights, pace)
                await pace.breathe()
            message = await _drafted(driver, frame, connection, pace)
        if connection.closed:
            return
        if rights is None:
            await take_frame(driver, connection, frame, pace.breathe)
        else:
            with checks.prepared(drafts, message):
                driver.receive(connection, join_frames([frame]))
        await pace.breathe()
        if await driver.wait_while(lambda edge: edge.publications.is_waiting(source) and not connection.closed):
            await pace.begin()  # only then: frames add up until the next breath


async def _prepared(checks: Checks, message: m.Subscribe, rights: Rights, pace: Pace) -> Draft | Exception:
    """Return the draft of a subscription or why it is refused; a long filter is compiled beside the event loop."""
    try:
        apart = checks_apart(checks, message.namespace) if len(message.filter) > LONG_FILTER else None
    except TamisError as error:
        return error
    if apart is None:
        return prepare(checks, message, rights)
    draft = await pace.beside(lambda: prepare(apart, message, rights))
    adopt_from(checks, apart, message.namespace)
    return draft


async def _drafted(driver: Driver, data: bytes, connection: Connection, pace: Pace) -> MessageDraft | None:
    """Return the events of a client's message as they are published; None when they are few or none."""
    checks, rights = driver.view.checks, connection.rights
    body = decode_frame(data, connection.link).body
    batch = m.decode(body, connection.link) if body[1:2] == _PUBLISHING else None
    if rights is None or not isinstance(batch, m.PublishBatch) or not FEW_EVENTS < len(batch.events) <= MAX_EVENTS:
        return None
    for _ in range(ATTEMPTS):
        draft = MessageDraft()
        for event in batch.events:
            prepare_event(checks, draft, event, rights)
            await pace.breathe()
        if holds(checks, draft):
            return draft
    raise StaleDraftError(batch.events[0].namespace)


def _subscriptions_in(data: bytes, link: Link) -> tuple[m.Subscribe, ...]:
    """Return the subscriptions that a client's frame asks for, as far as they are taken."""
    body = decode_frame(data, link).body
    if body[1:2] not in _SUBSCRIBING:
        return ()
    message = m.decode(body, link)
    if isinstance(message, m.SubscribeBatch):
        subscriptions = message.subscriptions
        return (
            subscriptions if len(subscriptions) <= MAX_SUBSCRIPTIONS_AT_ONCE else ()
        )  # more than that ends the connection
    return (message,) if isinstance(message, m.Subscribe) else ()


async def _write(driver: Driver, connection: Connection, socket: WebSocket) -> None:
    try:
        while (packet := await driver.next_packet(connection)) is not None:
            await socket.send_bytes(packet)  # who does not read is cut off below: `tamis.web.port.write_deadline`
        code = _TRY_AGAIN_LATER if connection.may_return else _POLICY_VIOLATION
        await socket.close(code, connection.closed[:120])
    except (RuntimeError, WebSocketDisconnect):
        connection.close("the other end is gone, or did not read")
