"""Subscriptions of a snapshot as standing subscriptions of a broker.

A pipeline compiles subscriptions and publishes them as a snapshot (`tamis.spark.write_snapshot`); a broker that opens
it has each of them as if it had been posted, durable, with a queue of its own. They belong to the owner ``snapshot``: a
newer version adds what is new, changes what changed and ends what is gone, and touches no other subscription.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tamis.engine import Engine
from tamis.engine.snapshot import Version, version_at
from tamis.engine.text_batch import paused_collection
from tamis.errors import SnapshotError, TamisError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.language.templates.wording import TextDocuments
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Subscription, SubscriptionId
from tamis.node.content import Content
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.link_names import http_link
from tamis.routing.edge.requests import LearnTypes, Rejection
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.driver import Driver

__all__ = ["OWNER", "follow_snapshot", "open_snapshot"]

#: Whose the subscriptions of a snapshot are.
OWNER = "snapshot"

#: Subscriptions that are given to the broker together; others are served in between.
BATCH = 500

#: Seconds between two looks for a newer version, and at most, after one that could not be opened.
LOOK_SECONDS, LONGEST_LOOK = 1.0, 60.0

_RIGHTS = Rights(OWNER, max_subscriptions=sys.maxsize)

_Place = tuple[Link, str]


class _Wanted(NamedTuple):
    """A subscription of a snapshot; compiled, unless its document was made from its text."""

    place: _Place
    message: m.Subscribe
    compiled: Subscription | None


async def open_snapshot(driver: Driver, location: str | Path) -> Version:
    """Let a broker have exactly the subscriptions of a version, or of the newest at a location; return which."""
    version = await asyncio.to_thread(version_at, location)
    engine = await asyncio.to_thread(Engine.load, version)
    await driver.ask(LearnTypes(engine.schema, tuple(space.name for space in engine.namespaces())))
    mine = {place: one for place, one in driver.view.asked.items() if m.about(one).owner == OWNER}
    kept: set[_Place] = set()
    subscriptions = _subscriptions(engine)
    while wanted := list(itertools.islice(subscriptions, BATCH)):
        kept.update(one.place for one in wanted)
        changed = [one for one in wanted if not _is_same(mine.get(one.place), one.message)]
        await _subscribe(driver, version, engine.schema, changed)
    for place, one in mine.items():
        if place not in kept:
            await driver.unsubscribe(m.Unsubscribe(one.id, one.namespace), place[0], _RIGHTS)
    return version


async def follow_snapshot(driver: Driver, location: str | Path, version: Version) -> None:
    """Open newer versions as they appear, for ever; a failure is reported, and the version is tried again later."""
    look = LOOK_SECONDS
    while True:
        await asyncio.sleep(look)
        try:
            found = await asyncio.to_thread(version_at, location)
            if found != version:
                with paused_collection():
                    version = await open_snapshot(driver, found)
            look = LOOK_SECONDS
        except TamisError as error:
            logging.getLogger("tamis").error("snapshot: %s", error)
            look = min(2 * look, LONGEST_LOOK)


def _subscriptions(engine: Engine) -> Iterator[_Wanted]:
    """Yield the subscriptions of an engine as if their owner had written them; those that have ended are left out.

    Texts of one shape become documents without being compiled.
    """
    documents, now = TextDocuments(), round(time.time() * 1e6)
    for space in engine.namespaces():
        for row in space.ids.live_rows():
            record = space.find_record(row)
            document = None if record is None else documents.find(record[0])
            compiled = space.find(row) if record is None or document is None else None
            if record is not None and document is not None:
                text, id, expires, metadata = record
            elif compiled is not None:  # a box has no text, so it gets one
                text = format_filters(compiled.filters, engine.schema) if compiled.text is None else compiled.text
                id, expires, metadata = compiled.id, compiled.expires, dict(compiled.metadata)
            else:
                continue
            if expires is None or expires > now:
                about = msgspec.json.encode(m.About(OWNER, text, True, now, metadata))
                message = m.Subscribe(id, document or b"", space.name, expires, about)
                yield _Wanted(_place(space.name, id), message, compiled)


def _place(namespace: str, id: SubscriptionId) -> _Place:
    link = http_link(namespace, id)
    return link, client_key(link, namespace, id)


def _is_same(there: m.Subscribe | None, one: m.Subscribe) -> bool:
    if there is None:
        return False
    old, new = m.about(there), m.about(one)
    return (there.expires, old.text, old.metadata) == (one.expires, new.text, new.metadata)


async def _subscribe(driver: Driver, version: Version, compiled_for: Schema, changed: Sequence[_Wanted]) -> None:
    """Give subscriptions to the broker, held to the policies like those of clients (promise S6)."""
    requests: list[tuple[Link, m.Subscribe]] = []
    meanings: list[tuple[Filter, ...] | None] = []
    content = driver.view.checks.content
    for place, message, compiled in changed:
        there = driver.view.asked.get(place)
        if there is not None and m.about(there).owner != OWNER:
            raise SnapshotError(str(version), f"the broker has a subscription {message.id!r} of another owner")
        meaning = None
        if compiled is not None:
            try:
                filter, meaning = _written(compiled, content.of(message.namespace), compiled_for, message)
            except TamisError as error:
                raise SnapshotError(str(version), f"subscription {message.id!r}: {error}") from error
            message = msgspec.structs.replace(message, filter=filter)
        requests.append((place[0], message))
        meanings.append(meaning)
    answer = await driver.subscribe(requests, _RIGHTS, meanings=meanings)
    if isinstance(answer, Rejection):
        id = requests[answer.row][1].id if answer.row is not None else ""
        raise SnapshotError(str(version), f"subscription {id!r}: {answer.error}") from answer.error


def _written(
    one: Subscription, content: Content, compiled_for: Schema, message: m.Subscribe
) -> tuple[bytes, tuple[Filter, ...] | None]:
    """Return the document of a subscription, and its meaning if that is the same under the types of the broker."""
    if _is_typed(one, content.schema, compiled_for):  # what was compiled there need not be parsed here
        return content.write_filter(one.filters), one.filters
    return msgspec.json.encode(to_json(parse(m.about(message).text))), None


def _is_typed(one: Subscription, here: Schema, there: Schema) -> bool:
    """Whether every attribute of a subscription has the same type in two schemas: its meaning is the same."""
    names = {part.attribute for filter in one.filters for part in filter.constraints}
    is_plain = all(filter.rest is None for filter in one.filters)
    return is_plain and all(name in here and here[name] == there.get(name) for name in names)
