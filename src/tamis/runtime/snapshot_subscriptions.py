"""Subscriptions of a snapshot as standing subscriptions of a broker.

A pipeline compiles subscriptions and publishes them as a snapshot (`tamis.spark.write_snapshot`); a broker that opens
it has each of them as if it had been posted, durable, with a queue of its own. They belong to the owner ``snapshot``: a
newer version adds what is new, changes what changed and ends what is gone, and touches nobody else's.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tamis.engine import Engine
from tamis.engine.snapshot import version_at
from tamis.errors import SnapshotError, TamisError
from tamis.model.subscription import Subscription
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.broker import client_key
from tamis.runtime.client_links import http_link
from tamis.runtime.driver import Driver

__all__ = ["OWNER", "follow_snapshot", "open_snapshot"]

#: Whose the subscriptions of a snapshot are.
OWNER = "snapshot"

#: Subscriptions that are given to the broker together, and seconds between two looks for a newer version.
BATCH, LOOK_SECONDS = 1_000, 1.0

_Place = tuple[Link, str]


async def open_snapshot(driver: Driver, path: Path) -> Path:
    """Let a broker have exactly the subscriptions of a version, or of the newest in a directory; return which."""
    version = version_at(path)
    engine = await asyncio.to_thread(Engine.load, version)
    content = driver.edge.content
    if content.learns and not content.schema:
        content.schema = engine.schema
    mine = {place: asked for place, asked in driver.edge.asked.items() if m.about(asked).owner == OWNER}
    wanted = dict(_wanted(driver, engine, version))
    gone = [(place, m.Unsubscribe(one.id, one.namespace)) for place, one in mine.items() if place not in wanted]
    await _submit(driver, gone)
    changed = ((place, one) for place, one in wanted.items() if not _is_same(mine.get(place), one))
    await _submit(driver, changed)
    return version


async def follow_snapshot(driver: Driver, path: Path, version: Path) -> None:
    """Open newer versions as they appear, for ever; one that cannot be opened is told and left alone."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            found = version_at(path)
            if found != version:
                version = found
                await open_snapshot(driver, found)
        except TamisError as error:
            logging.getLogger("tamis").error("snapshot: %s", error)


def _wanted(driver: Driver, engine: Engine, version: Path) -> Iterator[tuple[_Place, m.Subscribe]]:
    now = round(time.time() * 1e6)
    for one in engine:
        link = http_link(one.namespace, one.id)
        place = (link, client_key(link, one.namespace, one.id))
        there = driver.edge.asked.get(place)
        if there is not None and m.about(there).owner != OWNER:
            raise SnapshotError(str(version), f"subscription {one.id!r} is at the broker already, and somebody else's")
        yield place, _message(driver, one, version, now)


def _message(driver: Driver, one: Subscription, version: Path, now: int) -> m.Subscribe:
    content = driver.edge.content
    try:
        filters = content.compile(one.text) if one.text is not None else one.filters
        text = one.text or content.write_filter(filters).decode()
        about = m.About(OWNER, text, True, now, dict(one.metadata))
        filter = content.write_filter(filters)
    except TamisError as error:
        raise SnapshotError(str(version), f"subscription {one.id!r}: {error}") from error
    return m.Subscribe(one.id, filter, one.namespace, one.expires, msgspec.json.encode(about))


def _is_same(there: m.Subscribe | None, one: m.Subscribe) -> bool:
    if there is None:
        return False
    old, new = m.about(there), m.about(one)
    kept = (there.filter, there.expires, old.metadata, old.text)
    return kept == (one.filter, one.expires, new.metadata, new.text)


async def _submit(driver: Driver, messages: Iterable[tuple[_Place, m.Message]]) -> None:
    rest = iter(messages)
    while batch := list(itertools.islice(rest, BATCH)):
        await asyncio.gather(*(driver.submit(message, link) for (link, _), message in batch))
