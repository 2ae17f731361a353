"""Cleans up after absent clients: subscriptions that are not durable end after a minute, empty queues after a day."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tamis.errors import TamisError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.registry import Registry
from tamis.runtime.broker.driver import Driver

__all__ = ["GRACE_SECONDS", "end_sessions"]

#: How long a client may be away before its subscriptions end.
GRACE_SECONDS = 60.0

LOOK_SECONDS = 5.0


#: Links that are looked at before other tasks of the event loop have a turn; they take less than a millisecond.
LINKS_AT_ONCE = 10_000


async def end_sessions(
    driver: Driver, retention: float, grace: float = GRACE_SECONDS, look: float = LOOK_SECONDS
) -> None:
    """End the sessions of absent clients for as long as the broker runs."""
    absent: dict[Link, float] = {}
    while True:
        await asyncio.sleep(look)
        now = time.monotonic()
        absent = {link: absent.get(link, now) for link in await _passing(driver) if not driver.is_attended(link)}
        with contextlib.suppress(TamisError):  # a full disk: it is tried again
            await _withdraw(driver, [link for link, since in absent.items() if now - since >= grace])
            await _forget(driver, [link for link, since in absent.items() if now - since >= max(grace, retention)])


async def _passing(driver: Driver) -> list[Link]:
    """Return the clients that have no subscriptions, or subscriptions that are not durable; others are left alone.

    A broker may have a million links; other tasks run in between.
    """
    registry, links = _registry(driver), list(driver.view.links)
    passing = list(registry.passing_links)
    for first in range(0, len(links), LINKS_AT_ONCE):
        passing += registry.without_subscriptions(links[first : first + LINKS_AT_ONCE])
        await asyncio.sleep(0)
    return [link for link in passing if not driver.view.is_neighbour(link)]


async def _withdraw(driver: Driver, links: list[Link]) -> None:
    """End the subscriptions of these clients that are not durable."""
    for link in links:
        for subscription in _registry(driver).passing_of(link):
            if driver.is_attended(link):
                break
            await driver.unsubscribe(m.Unsubscribe(subscription.id, subscription.namespace), link)


async def _forget(driver: Driver, links: list[Link]) -> None:
    """Remove those of these clients that are not connected and have no subscriptions."""
    for link in _registry(driver).without_subscriptions(links):
        if not driver.is_attended(link):
            await driver.forget(link)


def _registry(driver: Driver) -> Registry:
    return driver.machine.node.core.registry
