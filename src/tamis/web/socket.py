"""``/v1/connect``: frames over WebSocket, for clients (``?client=NAME``) and for brokers (``?broker=NAME``)."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from starlette.websockets import WebSocket, WebSocketDisconnect

from tamis.errors import ModelError, RemoteProtocolError, TamisError
from tamis.routing.admission import MAX_NAME
from tamis.routing.rights import Rights
from tamis.runtime.connections import Connection
from tamis.runtime.driver import Driver
from tamis.runtime.packets import MAX_PACKET, SUBPROTOCOL
from tamis.web.server import Server

__all__ = ["connect"]

#: Seconds between two looks whether a client may stay (S4).
LOOK_SECONDS = 2.0

#: Digits of each number of a cursor: both have 63 bits.
MAX_DIGITS = 19

_POLICY_VIOLATION, _TRY_AGAIN_LATER = 1008, 1013

_log = logging.getLogger("tamis")


async def connect(socket: WebSocket) -> None:
    """Serve one connection until either side ends it."""
    server: Server = socket.app.state.server
    try:
        link, rights, replay_after = _admit(server, socket)
    except TamisError as error:
        server.note_refusal(socket, "connect", str(error))
        await socket.accept()
        await socket.close(_POLICY_VIOLATION, str(error)[:120])
        return
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    connection = server.driver.connect(link, rights, replay_after=replay_after)
    writer = asyncio.create_task(_write(server.driver, connection, socket))
    watcher = asyncio.create_task(_watch(server, connection, rights))
    try:
        await _read(server.driver, connection, socket)
    finally:
        watcher.cancel()
        connection.close()
        server.driver.disconnect(connection)
        with contextlib.suppress(asyncio.CancelledError):
            await writer


def _admit(server: Server, socket: WebSocket) -> tuple[str, Rights | None, int | None]:
    query = socket.query_params
    if broker := query.get("broker"):
        server.access.broker(socket, broker)
        return broker, None, None
    rights, name = server.access.rights(socket), query.get("client", "")
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise ModelError(f"a client has a name of 1 to {MAX_NAME} characters: /v1/connect?client=NAME")
    epoch, _, number = query.get("after", "").partition("-")
    is_number = epoch.isdecimal() and number.isdecimal() and max(len(epoch), len(number)) <= MAX_DIGITS
    is_cursor = is_number and int(epoch) == server.driver.node.epoch
    return f"c:{rights.principal}:{name}", rights, int(number) if is_cursor else None


async def _read(driver: Driver, connection: Connection, socket: WebSocket) -> None:
    while True:
        try:
            packet = await socket.receive_bytes()
        except (WebSocketDisconnect, KeyError, RuntimeError):  # gone; or it sent text
            return
        if not driver.edge.broker.is_neighbour(connection.link) and len(packet) > MAX_PACKET:
            connection.close("the packet is too large")
            return
        try:
            driver.demand_room()
            driver.receive(connection, packet)
        except RemoteProtocolError as error:
            _log.warning("%s", error)
            connection.close(str(error))
            return
        except TamisError as error:  # a full disk: nothing was taken, the other end sends it again
            connection.close_for_now(str(error))
            return


async def _write(driver: Driver, connection: Connection, socket: WebSocket) -> None:
    try:
        while (packet := await driver.next_packet(connection)) is not None:
            await socket.send_bytes(packet)  # who does not read is cut off below: `tamis.web.write_deadline`
        code = _TRY_AGAIN_LATER if connection.may_return else _POLICY_VIOLATION
        await socket.close(code, connection.closed[:120])
    except (RuntimeError, WebSocketDisconnect):
        connection.close("the other end is gone, or did not read")


async def _watch(server: Server, connection: Connection, rights: Rights | None) -> None:
    while rights is not None:
        await asyncio.sleep(LOOK_SECONDS)
        if not server.access.is_live(rights.principal):
            connection.close("the token was revoked or has expired")
