"""A broker that its store does not answer sends its clients to the other addresses: a standby may have taken over.

Such a broker can confirm nothing, and it cannot know whether PostgreSQL is restarted or the network is cut. It keeps
its state and waits. When the store answers and the lease is still its own, clients come back; else it stops.
"""

from __future__ import annotations

import asyncio
import logging

from tamis.runtime.broker.driver import Driver

__all__ = ["CUT_OFF", "send_clients_away"]

#: What clients are told.
CUT_OFF = "the store of this broker does not answer; try its other addresses, or this one again later"

LOOK_SECONDS = 0.25

_log = logging.getLogger("tamis")


async def send_clients_away(driver: Driver) -> None:
    """Close all connections while the store does not answer, for as long as the broker runs."""
    was_cut_off = False
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        is_cut_off = driver.view.disk.is_cut_off
        if is_cut_off and not was_cut_off:
            _log.warning("%s", CUT_OFF)
        was_cut_off = is_cut_off
        for connection in list(driver.machine.connections.values()) if is_cut_off else ():
            connection.close_for_now(CUT_OFF)
