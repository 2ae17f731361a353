"""Subscriptions of a snapshot as standing subscriptions of a broker.

A pipeline compiles subscriptions and publishes them as a snapshot (`tamis.spark.write_snapshot`); a broker that opens
it has each of them as if it had been posted, durable, with a queue of its own. They belong to the owner ``snapshot``: a
newer version adds, changes and ends subscriptions of this owner, and no others.
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

#: The owner of the subscriptions of a snapshot.
OWNER = "snapshot"

#: Subscriptions that the broker takes in one step; it serves other clients between two steps.
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
    """Open a version, or the newest at a location: the broker then has its subscriptions. Return the version."""
    version = await asyncio.to_thread(version_at, location)
    engine = await asyncio.to_thread(Engine.load, version)
    await driver.ask(LearnTypes(engine.schema, tuple(space.name for space in engine.namespaces())))
    former = {
        place: subscription
        for place, subscription in driver.view.subscriptions.items()
        if m.about(subscription).owner == OWNER
    }
    kept: set[_Place] = set()
    for space in engine.namespaces():
        for wanted in _subscriptions(engine, space):
            kept.update(entry.place for entry in wanted)
            changed = [entry for entry in wanted if not _is_same(former.get(entry.place), entry)]
            if changed:
                await _subscribe(driver, version, engine.schema, space.name, changed)
    for place, subscription in former.items():
        if place not in kept:
            await driver.unsubscribe(m.Unsubscribe(subscription.id, subscription.namespace), place[0], _RIGHTS)
    return version


async def follow_snapshot(driver: Driver, location: str | Path, version: Version) -> None:
    """Open newer versions as they appear, for ever; a failure is reported, and the version is tried again later."""
    look = LOOK_SECONDS
    while True:
        await asyncio.sleep(look)
        try:
            newest = await asyncio.to_thread(version_at, location)
            if newest != version:
                with paused_collection():
                    version = await open_snapshot(driver, newest)
            look = LOOK_SECONDS
        except Exception as error:  # the broker keeps the version that it has after any error
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
        row_documents = documents.find_many([record[0] if record is not None else "" for record in records])
        wanted: list[_Wanted] = []
        for row, record, document in zip(batch, records, row_documents, strict=True):
            compiled = space.find(row) if record is None or document is None else None
            if record is None or document is None:
                record = None if compiled is None else _described(compiled, engine.schema)
            if record is not None and (record[2] is None or record[2] > now):
                text, id, expires, metadata = record
                about = m.About(OWNER, text, True, now, metadata)
                message = m.Subscribe(id, document or b"", space.name, expires, msgspec.json.encode(about))
                wanted.append(_Wanted(_place(space.name, id), message, about, compiled))
        yield wanted


def _described(subscription: Subscription, schema: Schema) -> Record:
    """Return the record of a compiled subscription; the text of a box is made from its filters."""
    text = format_filters(subscription.filters, schema) if subscription.text is None else subscription.text
    return text, subscription.id, subscription.expires, dict(subscription.metadata)


def _place(namespace: str, id: SubscriptionId) -> _Place:
    link = http_link(namespace, id)
    return link, client_key(link, namespace, id)


def _is_same(existing: m.Subscribe | None, wanted: _Wanted) -> bool:
    if existing is None:
        return False
    old, new = m.about(existing), wanted.about
    return (existing.expires, old.text, old.metadata) == (wanted.message.expires, new.text, new.metadata)


async def _subscribe(
    driver: Driver, version: Version, compiled_for: Schema, namespace: str, changed: Sequence[_Wanted]
) -> None:
    """Make subscriptions of a namespace at the broker; policies hold for them as for those of clients (promise S6)."""
    requests: list[tuple[m.Subscribe, Meaning | None]] = []
    checks = driver.view.checks
    try:
        content = checks.content.of(check_namespace(namespace))
    except TamisError as error:  # no subscription is at fault
        raise SnapshotError(str(version), f"namespace {namespace[:MAX_NAME]!r}: {error}") from error
    draft = Draft(content.schema, content.schema)
    try:
        for wanted in changed:
            existing = driver.view.subscriptions.get(wanted.place)
            if existing is not None and m.about(existing).owner != OWNER:
                raise RefusedError(409, "the broker has a subscription with this id and another owner")
            requests.append(_request(wanted, content, compiled_for))
        draft_many(checks, draft, namespace, requests, _RIGHTS)
    except TamisError as error:
        bad = changed[len(draft.checked) if len(requests) == len(changed) else len(requests)].message.id
        raise SnapshotError(str(version), f"subscription {bad!r}: {error}") from error
    pairs = [(wanted.place[0], message) for wanted, (message, _) in zip(changed, requests, strict=True)]
    answer = await driver.subscribe(pairs, _RIGHTS, drafts={namespace: draft})
    if isinstance(answer, Rejection):
        culprit = f"namespace {namespace!r}" if answer.row is None else f"subscription {pairs[answer.row][1].id!r}"
        raise SnapshotError(str(version), f"{culprit}: {answer.error}") from answer.error


def _request(wanted: _Wanted, content: Content, compiled_for: Schema) -> tuple[m.Subscribe, Meaning | None]:
    """Return a subscription with its document, and its meaning if that was compiled under the types of the broker."""
    if wanted.compiled is None:
        return wanted.message, None
    filter, meaning = _written(wanted.compiled, content, compiled_for, wanted.about.text)
    return msgspec.structs.replace(wanted.message, filter=filter), meaning


def _written(
    subscription: Subscription, content: Content, compiled_for: Schema, text: str
) -> tuple[bytes, Meaning | None]:
    """Return the document of a subscription, and its meaning if that is the same under the types of the broker."""
    if _has_same_types(subscription, content.schema, compiled_for):  # compiled already: the text need not be parsed
        return content.write_filter(subscription.filters), subscription.filters
    return msgspec.json.encode(to_json(parse(text))), None


def _has_same_types(subscription: Subscription, schema: Schema, compiled_for: Schema) -> bool:
    """Whether every attribute of a subscription has the same type in two schemas: its meaning is the same."""
    names = {part.attribute for filter in subscription.filters for part in filter.constraints}
    is_plain = all(filter.rest is None for filter in subscription.filters)
    return is_plain and all(name in schema and schema[name] == compiled_for.get(name) for name in names)
