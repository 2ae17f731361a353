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
from tamis.engine.namespace import Namespace, find_records
from tamis.engine.snapshot import Version, version_at
from tamis.engine.stored import Record
from tamis.errors import RefusedError, SnapshotError, TamisError
from tamis.index.paused_collection import paused_collection
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.language.templates.wording import TextDocuments
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.node.content import Content
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.admission import check_namespace
from tamis.routing.edge.checks import Meaning, draft_many
from tamis.routing.edge.limits import MAX_NAME, SLICE_SUBSCRIPTIONS
from tamis.routing.edge.link_names import http_link
from tamis.routing.edge.requests import Draft, LearnTypes, Rejection
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.driver import Driver

__all__ = ["OWNER", "follow_snapshot", "open_snapshot"]

#: Whose the subscriptions of a snapshot are.
OWNER = "snapshot"

#: Subscriptions that are given to the broker together, in one step; others are served in between.
BATCH = SLICE_SUBSCRIPTIONS

#: Seconds between two looks for a newer version, and at most, after one that could not be opened.
LOOK_SECONDS, LONGEST_LOOK = 1.0, 60.0

_RIGHTS = Rights(OWNER, max_subscriptions=sys.maxsize)

_Place = tuple[Link, str]


class _Wanted(NamedTuple):
    """A subscription of a snapshot; compiled, unless its document was made from its text."""

    place: _Place
    message: m.Subscribe
    about: m.About
    compiled: Subscription | None


async def open_snapshot(driver: Driver, location: str | Path) -> Version:
    """Let a broker have exactly the subscriptions of a version, or of the newest at a location; return which."""
    version = await asyncio.to_thread(version_at, location)
    engine = await asyncio.to_thread(Engine.load, version)
    await driver.ask(LearnTypes(engine.schema, tuple(space.name for space in engine.namespaces())))
    mine = {place: one for place, one in driver.view.asked.items() if m.about(one).owner == OWNER}
    kept: set[_Place] = set()
    for space in engine.namespaces():
        for wanted in _subscriptions(engine, space):
            kept.update(one.place for one in wanted)
            changed = [one for one in wanted if not _is_same(mine.get(one.place), one)]
            if changed:
                await _subscribe(driver, version, engine.schema, space.name, changed)
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
        except Exception as error:  # whatever it is, the broker goes on with the version that it has
            logging.getLogger("tamis").error("snapshot: %s", error, exc_info=not isinstance(error, TamisError))
            look = min(2 * look, LONGEST_LOOK)


def _subscriptions(engine: Engine, space: Namespace) -> Iterator[list[_Wanted]]:
    """Yield the subscriptions of a namespace in batches, as if their owner had written them, without those that ended.

    Texts of one shape become documents without being compiled.
    """
    documents, now = TextDocuments(), round(time.time() * 1e6)
    rows = space.ids.live_rows()
    while batch := list(itertools.islice(rows, BATCH)):
        records = find_records(space, batch)
        found = documents.find_many([record[0] if record is not None else "" for record in records])
        wanted: list[_Wanted] = []
        for row, record, document in zip(batch, records, found, strict=True):
            compiled = space.find(row) if record is None or document is None else None
            if record is None or document is None:
                record = None if compiled is None else _described(compiled, engine.schema)
            if record is not None and (record[2] is None or record[2] > now):
                text, id, expires, metadata = record
                about = m.About(OWNER, text, True, now, metadata)
                message = m.Subscribe(id, document or b"", space.name, expires, msgspec.json.encode(about))
                wanted.append(_Wanted(_place(space.name, id), message, about, compiled))
        yield wanted


def _described(one: Subscription, schema: Schema) -> Record:
    """Return what is said about a compiled subscription; a box has no text, so it gets one."""
    text = format_filters(one.filters, schema) if one.text is None else one.text
    return text, one.id, one.expires, dict(one.metadata)


def _place(namespace: str, id: SubscriptionId) -> _Place:
    link = http_link(namespace, id)
    return link, client_key(link, namespace, id)


def _is_same(there: m.Subscribe | None, one: _Wanted) -> bool:
    if there is None:
        return False
    old, new = m.about(there), one.about
    return (there.expires, old.text, old.metadata) == (one.message.expires, new.text, new.metadata)


async def _subscribe(
    driver: Driver, version: Version, compiled_for: Schema, namespace: str, changed: Sequence[_Wanted]
) -> None:
    """Give subscriptions of a namespace to the broker, held to the policies like those of clients (promise S6)."""
    requests: list[tuple[m.Subscribe, Meaning | None]] = []
    checks = driver.view.checks
    try:
        content = checks.content.of(check_namespace(namespace))
    except TamisError as error:  # no subscription is at fault
        raise SnapshotError(str(version), f"namespace {namespace[:MAX_NAME]!r}: {error}") from error
    draft = Draft(content.schema, content.schema)
    try:
        for one in changed:
            there = driver.view.asked.get(one.place)
            if there is not None and m.about(there).owner != OWNER:
                raise RefusedError(409, "the broker has a subscription of this id and another owner")
            requests.append(_request(one, content, compiled_for))
        draft_many(checks, draft, namespace, requests, _RIGHTS)
    except TamisError as error:
        bad = changed[len(draft.checked) if len(requests) == len(changed) else len(requests)].message.id
        raise SnapshotError(str(version), f"subscription {bad!r}: {error}") from error
    pairs = [(one.place[0], message) for one, (message, _) in zip(changed, requests, strict=True)]
    answer = await driver.subscribe(pairs, _RIGHTS, drafts={namespace: draft})
    if isinstance(answer, Rejection):
        culprit = f"namespace {namespace!r}" if answer.row is None else f"subscription {pairs[answer.row][1].id!r}"
        raise SnapshotError(str(version), f"{culprit}: {answer.error}") from answer.error


def _request(one: _Wanted, content: Content, compiled_for: Schema) -> tuple[m.Subscribe, Meaning | None]:
    """Return a subscription with its document, and its meaning if that was compiled under the types of the broker."""
    if one.compiled is None:
        return one.message, None
    filter, meaning = _written(one.compiled, content, compiled_for, one.about.text)
    return msgspec.structs.replace(one.message, filter=filter), meaning


def _written(one: Subscription, content: Content, compiled_for: Schema, text: str) -> tuple[bytes, Meaning | None]:
    """Return the document of a subscription, and its meaning if that is the same under the types of the broker."""
    if _is_typed(one, content.schema, compiled_for):  # what was compiled there need not be parsed here
        return content.write_filter(one.filters), one.filters
    return msgspec.json.encode(to_json(parse(text))), None


def _is_typed(one: Subscription, here: Schema, there: Schema) -> bool:
    """Whether every attribute of a subscription has the same type in two schemas: its meaning is the same."""
    names = {part.attribute for filter in one.filters for part in filter.constraints}
    is_plain = all(filter.rest is None for filter in one.filters)
    return is_plain and all(name in here and here[name] == there.get(name) for name in names)
