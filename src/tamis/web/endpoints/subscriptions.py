"""``/v1/subscriptions``: makes, lists, shows, changes and removes subscriptions.

A subscription that is made over HTTP is a client of its own, with a queue of its own: reading one subscription does not
move the position of another.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import (
    DuplicateSubscriptionError,
    ModelError,
    RefusedError,
    TamisError,
    UnknownSubscriptionError,
)
from tamis.files.fields import read_fields
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.model.types import Timestamp
from tamis.model.values import UnfitError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.admission import check_dead_letters, check_metadata, check_namespace, subscription_id
from tamis.routing.edge.checks import Checks, adopt_from, checks_apart, draft_many
from tamis.routing.edge.limits import LONG_FILTER, MAX_DELIVERIES
from tamis.routing.edge.link_names import client_link, client_of, http_link
from tamis.routing.edge.requests import Draft, Rejection
from tamis.routing.edge.rights import Rights
from tamis.web.addresses import id_in, possible_ids
from tamis.web.bodies import MAX_PAGE, read_json, read_objects, whole_number
from tamis.web.failures import status_of
from tamis.web.server import Server, server_of
from tamis.web.views import View
from tamis.web.work.pacing import Pace
from tamis.web.work.rows import JsonRows

__all__ = [
    "Drafting",
    "RowError",
    "change",
    "create",
    "delete",
    "demand_owner",
    "drafted",
    "find",
    "http_link",
    "listing",
    "show",
]


#: Subscriptions of a request that are checked together, before others have their turn.
AT_ONCE = 32


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST."""

    filter: str | dict[str, Any]
    id: SubscriptionId | None = None
    namespace: str = DEFAULT_NAMESPACE
    durable: bool = True
    #: RFC 3339, or seconds from now.
    expires: str | float | int | None = None
    metadata: dict[str, str] = {}
    #: The attributes that deliveries carry; all without them.
    fields: tuple[str, ...] = ()
    #: How often consumers may take a message before it goes to the dead letters; 0: as often as they like.
    max_deliveries: Annotated[int, msgspec.Meta(ge=0, le=MAX_DELIVERIES)] = 0


class ChangedSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PUT: the new filter and other changes; a field that is left out stays as it is."""

    filter: str | dict[str, Any]
    durable: bool | msgspec.UnsetType = msgspec.UNSET
    #: RFC 3339, seconds from now, or null: never.
    expires: str | float | int | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    fields: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    max_deliveries: Annotated[int, msgspec.Meta(ge=0, le=MAX_DELIVERIES)] | msgspec.UnsetType = msgspec.UNSET


async def create(request: Request) -> Response:
    """Make one subscription, or all of a JSON array or NDJSON, or none; they are on disk when the answer is sent."""
    server = server_of(request)
    rights = server.rights(request)
    documents, is_one = await read_objects(request)
    server.access.demand_live(rights)
    pace = server.pace(rights.principal)
    drafting = Drafting(server.broker.checks, rights, pace)
    await pace.begin()
    try:
        requests = [message async for message in _drafted_requests(server, rights, documents, drafting, pace)]
    except RowError as error:
        raise _rejected(error.rejection, is_one=is_one) from None
    checked = await server.driver.subscribe(requests, rights, drafts=drafting.drafts, must_be_new=True)
    if isinstance(checked, Rejection):
        raise _rejected(checked, is_one=is_one)
    view = View(server.broker, rights)
    if is_one:
        [(link, _)], [message] = requests, checked
        path_id = quote(str(message.id), safe="")  # an id may be any text, a header may not
        shown = describe(server, view, link, client_key(link, message.namespace, message.id), message)
        return JSONResponse(shown, 201, {"Location": f"/v1/subscriptions/{path_id}"})
    rows = JsonRows(pace, most_bytes=None)  # the request was bounded
    for (link, _), message in zip(requests, checked, strict=True):
        await rows.add(describe(server, view, link, client_key(link, message.namespace, message.id), message))
    return rows.response("subscriptions", {"next": None}, 201)


async def _drafted_requests(
    server: Server, rights: Rights, documents: Iterable[dict[str, Any]], drafting: Drafting, pace: Pace
) -> AsyncIterator[tuple[Link, m.Subscribe]]:
    """Yield the subscriptions of a request while they are checked; `RowError` names the first that is refused."""
    for document in documents:
        try:
            _check_keys(document)
            new = read_fields(document, NewSubscription)
            link, message = _message_of(server, rights, new, await _as_json(new.filter, pace))
        except TamisError as error:
            await drafting.finish()  # an earlier one may be refused, too
            raise RowError(Rejection(drafting.count, error)) from None
        await drafting.add(message)
        yield link, message
        await pace.breathe()
    await drafting.finish()


class RowError(Exception):
    """A subscription of a request is refused."""

    def __init__(self, rejection: Rejection) -> None:
        self.rejection = rejection


class Drafting:
    """Checks the subscriptions of a request, those of one namespace that come together as a batch."""

    def __init__(self, checks: Checks, rights: Rights, pace: Pace) -> None:
        self.drafts: dict[str, Draft] = {}
        #: Subscriptions that were added.
        self.count = 0
        self._checks, self._rights, self._pace = checks, rights, pace
        self._batch: list[m.Subscribe] = []

    async def add(self, message: m.Subscribe) -> None:
        """Add a subscription; `RowError` names the first that is refused."""
        is_long = len(message.filter) > LONG_FILTER
        if self._batch and (is_long or message.namespace != self._batch[0].namespace or len(self._batch) >= AT_ONCE):
            await self.finish()
        self.count += 1
        if not is_long:
            self._batch.append(message)
            return
        draft, space = self.drafts.get(message.namespace), message.namespace
        try:
            self.drafts[space] = await drafted(self._checks, draft, message, self._rights, self._pace)
        except TamisError as error:
            raise RowError(Rejection(self.count - 1, error)) from None

    async def finish(self) -> None:
        """Check the subscriptions that were added and not checked yet."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        namespace, first = batch[0].namespace, self.count - len(batch)
        draft = self.drafts.get(namespace)
        n_checked = 0 if draft is None else len(draft.checked)
        try:
            if draft is None:
                schema = self._checks.content.of(check_namespace(namespace)).schema
                draft = self.drafts[namespace] = Draft(schema, schema)
            draft_many(self._checks, draft, namespace, [(message, None) for message in batch], self._rights)
        except TamisError as error:
            row = first + (0 if draft is None else len(draft.checked) - n_checked)
            raise RowError(Rejection(row, error)) from None
        await self._pace.breathe()


async def drafted(
    checks: Checks, draft_so_far: Draft | None, message: m.Subscribe, rights: Rights, pace: Pace
) -> Draft:
    """Return a draft with one more subscription; a long filter is compiled beside the event loop."""
    if len(message.filter) <= LONG_FILTER:
        return checks.draft(draft_so_far, message, rights)
    apart = checks_apart(checks, message.namespace)
    draft = await pace.beside(lambda: apart.draft(draft_so_far, message, rights))
    adopt_from(checks, apart, message.namespace)
    return draft


async def _as_json(filter: str | dict[str, Any], pace: Pace) -> bytes:
    """Return a filter as CQL2-JSON; a long one is parsed beside the event loop."""

    def work() -> bytes:
        return msgspec.json.encode(to_json(parse(filter)))

    is_short = isinstance(filter, str) and len(filter) <= LONG_FILTER
    return work() if is_short else await pace.beside(work)


def _rejected(rejection: Rejection, *, is_one: bool) -> Exception:
    """Return the error of a request whose subscriptions were not accepted; it names the row where there are many."""
    error, row = rejection.error, rejection.row
    if is_one or row is None or not isinstance(error, TamisError):
        return error
    return RefusedError(status_of(error), f"subscription {row}: {error}")


def _message_of(server: Server, rights: Rights, new: NewSubscription, filter: bytes) -> tuple[Link, m.Subscribe]:
    """Return a subscription as it was written, and its link."""
    rights.demand("subscribe", check_namespace(new.namespace))
    id = subscription_id(secrets.token_hex(8) if new.id is None else new.id)
    link = http_link(new.namespace, id)
    if (link, client_key(link, new.namespace, id)) in server.broker.subscriptions:
        raise DuplicateSubscriptionError(id)
    about = m.About(
        rights.principal,
        _text(new.filter),
        new.durable,
        round(time.time() * 1e6),
        new.metadata,
        new.fields,
        new.max_deliveries,
    )
    check_dead_letters(about)
    return link, m.Subscribe(id, filter, new.namespace, _moment(new.expires), msgspec.json.encode(about))


async def listing(request: Request) -> Response:
    """List subscriptions, a page at a time; ``search`` looks into ids, filters and metadata."""
    server = server_of(request)
    view, query = server.view(request), request.query_params
    limit = whole_number(query.get("limit", "100"), "limit", MAX_PAGE)
    start = whole_number(query.get("after", "0"), "after", 2**53)
    searched, namespace = query.get("search", "").casefold(), query.get("namespace")
    subscriptions = server.broker.subscriptions
    is_long = bool(searched) or start > MAX_PAGE  # it reads many subscriptions, so it runs in a thread
    keys = (
        key
        for key, message in (dict(subscriptions) if is_long else subscriptions).items()
        if view.rights.sees(message.namespace)
        and namespace in (None, message.namespace)
        and (not searched or searched in _words(message))
    )
    cut = itertools.islice(keys, start, start + limit + 1)
    page = await asyncio.to_thread(list, cut) if is_long else list(cut)  # a subscription may end meanwhile
    rows, end = JsonRows(server.pace(view.rights.principal)), start + len(page)
    for key in page[:limit]:
        message = subscriptions.get(key)  # None: it has ended meanwhile
        if message is not None and not await rows.add(describe(server, view, *key, message)):
            break
        start += 1
    return rows.response("subscriptions", {"next": start if start < end else None})


async def show(request: Request) -> Response:
    """Show one subscription."""
    server = server_of(request)
    view = server.view(request)
    return JSONResponse(describe(server, view, *find(server, view.rights, request)))


async def change(request: Request) -> Response:
    """Change the filter of a subscription in one step, without a gap (promise R15); its queue stays as it is."""
    server = server_of(request)
    rights = server.rights(request)
    rights.demand_reading()
    document = await read_json(request)
    server.access.demand_live(rights)
    link, key = find(server, rights, request)
    former = server.broker.subscriptions[link, key]
    _demand_changeable(rights, link, former)
    _check_keys(document)
    changes = read_fields(document, ChangedSubscription)
    pace = server.pace(rights.principal)
    await pace.begin()
    message = _changed(former, changes, await _as_json(changes.filter, pace))
    draft = await drafted(server.broker.checks, None, message, rights, pace)
    checked = await server.driver.subscribe(
        [(link, message)], rights, drafts={message.namespace: draft}, must_exist=True
    )
    if isinstance(checked, Rejection):
        raise checked.error
    return JSONResponse(describe(server, View(server.broker, rights), link, key, checked[0]))


def _demand_changeable(rights: Rights, link: Link, former: m.Subscribe) -> None:
    """Raise `RefusedError` unless the filter may be changed over HTTP: an owner's policy is joined to it."""
    demand_owner(rights, former)
    if m.about(former).owner != rights.principal:
        raise RefusedError(403, f"only the owner may change the filter of subscription {former.id!r}")
    if client_of(link) is not None:
        raise RefusedError(409, f"subscription {former.id!r} belongs to a connected client: use client.update() there")


def _changed(former: m.Subscribe, changes: ChangedSubscription, filter: bytes) -> m.Subscribe:
    """Return a subscription with what was put in place of what it had."""
    names = ("durable", "metadata", "fields", "max_deliveries")
    named = {name: getattr(changes, name) for name in names}
    changed = {name: value for name, value in named.items() if value is not msgspec.UNSET}
    about = msgspec.structs.replace(m.about(former), text=_text(changes.filter), **changed)
    check_dead_letters(about)
    expires = former.expires if changes.expires is msgspec.UNSET else _moment(changes.expires)
    return m.Subscribe(former.id, filter, former.namespace, expires, msgspec.json.encode(about))


async def delete(request: Request) -> Response:
    """Remove a subscription; after the answer no event is queued for it (promise G9)."""
    server = server_of(request)
    rights = server.rights(request)
    link, key = find(server, rights, request)
    subscription = server.broker.subscriptions[link, key]
    demand_owner(rights, subscription)
    await server.driver.unsubscribe(m.Unsubscribe(subscription.id, subscription.namespace), link, rights)
    return Response(status_code=204)


def find(server: Server, rights: Rights, request: Request) -> tuple[Link, str]:
    """Return the link and key of the subscription of a request; 404 also for one that the client may not see."""
    rights.demand_reading()
    text = id_in(request)
    namespace = request.query_params.get("namespace", DEFAULT_NAMESPACE)
    if rights.sees(namespace):
        for id in possible_ids(text):
            links = [http_link(namespace, id)]
            if client := request.query_params.get("client"):
                links = [client_link(rights.principal, client)]
            for link in links:
                key = client_key(link, namespace, id)
                if (link, key) in server.broker.subscriptions:
                    return link, key
    raise UnknownSubscriptionError(text)


def demand_owner(rights: Rights, subscription: m.Subscribe) -> None:
    """Raise `RefusedError` unless a client owns a subscription or is an admin; a policy binds admins to their own."""
    rights.demand("subscribe", subscription.namespace)
    is_admin = rights.is_admin and rights.policy is None  # others' queues were filled without that policy
    if not is_admin and m.about(subscription).owner != rights.principal:
        raise RefusedError(403, f"subscription {subscription.id!r} belongs to another principal")


def describe(
    server: Server, view: View, link: Link, key: str, subscription: m.Subscribe | None = None
) -> dict[str, Any]:
    """Return a subscription as JSON; pass ``subscription`` if it may have ended already, because it expires at once."""
    broker, client = server.broker, client_of(link)
    subscription = broker.subscriptions[link, key] if subscription is None else subscription
    about = m.about(subscription)
    return {
        "id": subscription.id,
        "namespace": subscription.namespace,
        "filter": about.text or subscription.filter.decode(),
        "state": broker.state_of((link, key)).value,
        "durable": about.durable,
        "owner": about.owner,
        "client": client[1] if client is not None and view.names(link) else None,
        "expires": subscription.expires,
        "created": about.created,
        "metadata": about.metadata,
        "fields": list(about.fields) or None,
        "max_deliveries": about.max_deliveries,
        "waiting": broker.waiting_for(link),
        "suspended": link in broker.suspended,
        "waiting_for": broker.missing((link, key)),
    }


def _text(filter: str | dict[str, Any]) -> str:
    return filter if isinstance(filter, str) else msgspec.json.encode(filter).decode()


def _check_keys(document: dict[str, Any]) -> None:
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        check_metadata(len(metadata))


def _moment(expires: str | float | int | None) -> int | None:
    if expires is None:
        return None
    if isinstance(expires, str):
        try:
            return int(Timestamp().canonical(expires))
        except UnfitError as error:
            raise ModelError(f"expires: {error}") from None
    if not 0 < expires < 1e10:
        raise ModelError("expires: expected an RFC 3339 timestamp, or a number of seconds from now below 1e10")
    return round((time.time() + expires) * 1e6)


def _words(subscription: m.Subscribe) -> str:
    about = m.about(subscription)
    return " ".join(
        (str(subscription.id), about.text, about.owner, *about.metadata, *about.metadata.values())
    ).casefold()
