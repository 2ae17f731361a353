"""Subscriptions that are not durable end when nobody has attended to them for a while."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tamis.errors import TamisError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.runtime.driver import Driver

__all__ = ["GRACE_SECONDS", "end_sessions"]

#: How long a client may be away before its subscriptions end.
GRACE_SECONDS = 60.0

LOOK_SECONDS = 5.0


async def end_sessions(driver: Driver, grace: float = GRACE_SECONDS, look: float = LOOK_SECONDS) -> None:
    """Withdraw, for ever, what was not durable and is attended by nobody."""
    absent: dict[Link, float] = {}
    while True:
        await asyncio.sleep(look)
        now = time.monotonic()
        passing = [(link, one) for (link, _), one in driver.edge.asked.items() if not m.about(one).durable]
        away = {link for link, _ in passing if not driver.is_attended(link)}
        absent = {link: absent.get(link, now) for link in away}
        for link, one in passing:
            if link in absent and now - absent[link] >= grace:
                with contextlib.suppress(TamisError):  # a full disk: it is tried again
                    await driver.submit(m.Unsubscribe(one.id, one.namespace), link)
