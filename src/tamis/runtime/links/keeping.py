"""Links to other brokers that this one dials: connected again, with growing pauses, whenever they break."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tamis.errors import RemoteProtocolError, TamisError
from tamis.routing.edge.core import source_of_neighbour
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.machine import Connection
from tamis.runtime.dialling import (
    ATTEMPT_SECONDS,
    BEAT,
    FIRST_PAUSE,
    dial,
    longer_pause,
    socket_errors,
    websocket_url,
)
from tamis.runtime.links.receiving import take_frame
from tamis.runtime.packets import (
    MAX_PACKET_OF_BROKER,
    SUBPROTOCOL,
    SUBPROTOCOLS_OF_BROKERS,
    TABLE_PARTS,
    split_frames,
)

if TYPE_CHECKING:
    from tamis.runtime.broker.driver import Driver

__all__ = ["keep_linked"]

_log = logging.getLogger("tamis")

#: Seconds within which a packet must be written.
WRITE_DEADLINE = 10.0


async def keep_linked(driver: Driver, config: BrokerConfig, link: LinkConfig) -> None:
    """Stay connected to one neighbour, for ever: at one of its addresses, the next one whenever the wire breaks."""
    pause, trouble = FIRST_PAUSE, ""
    unreachable: tuple[type[Exception], ...] = (OSError, TamisError, TimeoutError, *socket_errors())
    for url in cycle(link.urls):
        try:
            await _serve(driver, config, link, url)
            pause, trouble = FIRST_PAUSE, ""
        except RemoteProtocolError as error:
            _log.warning("%s", error)
        except unreachable as error:  # it is down, or we are full: that is what this loop is for
            if str(error) != trouble:  # once for each kind of trouble, not for each attempt
                _log.warning("link %s: %s", link.name, error)
            trouble = str(error)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = longer_pause(pause, len(link.urls))


async def _serve(driver: Driver, config: BrokerConfig, link: LinkConfig, url: str) -> None:
    url = f"{websocket_url(url)}?broker={quote(config.name)}"
    tls = ssl.create_default_context(cafile=link.ca_file) if link.ca_file else None
    timeout, beat = (ATTEMPT_SECONDS, BEAT) if link.standbys else (5.0, None)
    async with dial(
        url,
        config.token_of(link),
        max_size=MAX_PACKET_OF_BROKER,
        timeout=timeout,
        ssl=tls,
        beat=beat,
        subprotocols=SUBPROTOCOLS_OF_BROKERS,
    ) as socket:
        if socket.subprotocol not in SUBPROTOCOLS_OF_BROKERS:
            raise RemoteProtocolError(link.name, f"it does not speak {SUBPROTOCOL}: upgrade the older of the two")
        connection = Connection(link.name, takes_parts=socket.subprotocol == TABLE_PARTS)
        driver.machine.connect(connection)
        writer = asyncio.create_task(_write(driver, connection, socket))
        try:
            async for packet in socket:
                if isinstance(packet, str):
                    raise RemoteProtocolError(link.name, "it sent text")
                await _take(driver, connection, packet)
        finally:
            connection.close("the link is down")
            driver.machine.disconnect(connection)
            await writer


async def _take(driver: Driver, connection: Connection, packet: bytes) -> None:
    """Take a packet frame by frame; others are served in between, and while events of the neighbour have steps left."""
    source = source_of_neighbour(connection.link)
    for frame in split_frames(packet, connection.link):
        await take_frame(driver, connection, frame, _breathe)
        await asyncio.sleep(0)
        await driver.wait_while(lambda edge: edge.publications.is_waiting(source) and not connection.closed)
        if connection.closed:
            return


async def _breathe() -> None:
    """Let others run."""
    await asyncio.sleep(0)


async def _write(driver: Driver, connection: Connection, socket: Any) -> None:
    with contextlib.suppress(TimeoutError, *socket_errors()):
        while (packet := await driver.next_packet(connection)) is not None:
            async with asyncio.timeout(WRITE_DEADLINE):
                await socket.send(packet)
    await socket.close()
