"""Cleans up after absent clients: subscriptions that are not durable end after a minute, empty queues after a day."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tamis.errors import TamisError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.link_names import queue_of
from tamis.runtime.broker.driver import Driver

__all__ = ["GRACE_SECONDS", "end_sessions"]

#: How long a client may be away before its subscriptions end.
GRACE_SECONDS = 60.0

LOOK_SECONDS = 5.0


async def end_sessions(
    driver: Driver, retention: float, grace: float = GRACE_SECONDS, look: float = LOOK_SECONDS
) -> None:
    """End the sessions of absent clients for as long as the broker runs."""
    absent: dict[Link, float] = {}
    while True:
        await asyncio.sleep(look)
        now = time.monotonic()
        away = [
            link for link in driver.view.links if not driver.view.is_neighbour(link) and not driver.is_attended(link)
        ]
        absent = {link: absent.get(link, now) for link in away}
        with contextlib.suppress(TamisError):  # a full disk: it is tried again
            await _withdraw(driver, {link for link, since in absent.items() if now - since >= grace})
            await _forget(driver, {link for link, since in absent.items() if now - since >= max(grace, retention)})


async def _withdraw(driver: Driver, links: set[Link]) -> None:
    """End the subscriptions of these clients that are not durable."""
    ended = [
        (link, subscription)
        for (link, _), subscription in driver.view.subscriptions.items()
        if link in links and not m.about(subscription).durable
    ]
    for link, subscription in ended:
        await driver.unsubscribe(m.Unsubscribe(subscription.id, subscription.namespace), link)


async def _forget(driver: Driver, links: set[Link]) -> None:
    """Remove those of these clients that are not connected and have no subscriptions."""
    subscribed = {link for link, _ in driver.view.subscriptions}
    for link in links:
        if queue_of(link) not in subscribed and not driver.is_attended(link):
            await driver.forget(link)
