"""``/v1/subscriptions``: standing questions are asked, listed, shown and withdrawn.

A subscription that is made over HTTP is a client of its own, with a queue of its own: what one reader of its stream has
read says nothing about another subscription.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any, TypeVar
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
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.model.types import Timestamp
from tamis.model.values import UnfitError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.broker import client_key
from tamis.routing.edge.admission import check_namespace, subscription_id
from tamis.routing.edge.checks import Checks, adopt_from, checks_apart, draft_many
from tamis.routing.edge.limits import LONG_FILTER, MAX_DELIVERIES
from tamis.routing.edge.link_names import client_link, client_of, http_link
from tamis.routing.edge.requests import Draft, Rejection
from tamis.routing.edge.rights import Rights
from tamis.web.addresses import id_in
from tamis.web.bodies import MAX_PAGE, read_json, read_objects, whole_number
from tamis.web.failures import status_of
from tamis.web.server import Server, server_of
from tamis.web.views import View
from tamis.web.work.pacing import Pace

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


Written = TypeVar("Written", bound=msgspec.Struct)


#: Subscriptions of a request that are checked together, before others have their turn.
AT_ONCE = 32


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """What is posted."""

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
    """What is put: the new filter, and what else changes; what is not named stays as it is."""

    filter: str | dict[str, Any]
    durable: bool | msgspec.UnsetType = msgspec.UNSET
    #: RFC 3339, seconds from now, or null: never.
    expires: str | float | int | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    fields: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    max_deliveries: Annotated[int, msgspec.Meta(ge=0, le=MAX_DELIVERIES)] | msgspec.UnsetType = msgspec.UNSET


async def create(request: Request) -> Response:
    """Make a subscription, or many of a JSON array or NDJSON, all or none; they are on disk when the answer comes."""
    server = server_of(request)
    rights = server.rights(request)
    documents, is_one = await read_objects(request)
    server.access.demand_live(rights)
    pace = server.pace(rights.principal)
    drafting = Drafting(server.broker.checks, rights, pace)
    await pace.begin()
    try:
        requests = [one async for one in _drafted_requests(server, rights, documents, drafting, pace)]
    except RowError as error:
        raise _rejected(error.rejection, is_one=is_one) from None
    checked = await server.driver.subscribe(requests, rights, drafts=drafting.drafts, must_be_new=True)
    if isinstance(checked, Rejection):
        raise _rejected(checked, is_one=is_one)
    view = View(server.broker, rights)
    places = ((link, client_key(link, one.namespace, one.id)) for link, one in requests)
    shown = [describe(server, view, *place, one) for place, one in zip(places, checked, strict=True)]
    if is_one:
        place = quote(str(shown[0]["id"]), safe="")  # an id may be any text, a header may not
        return JSONResponse(shown[0], 201, {"Location": f"/v1/subscriptions/{place}"})
    return JSONResponse({"subscriptions": shown, "next": None}, 201)


async def _drafted_requests(
    server: Server, rights: Rights, documents: Iterable[dict[str, Any]], drafting: Drafting, pace: Pace
) -> AsyncIterator[tuple[Link, m.Subscribe]]:
    """Yield the subscriptions of a request while they are checked; `RowError` names the first that is refused."""
    for document in documents:
        try:
            given = _read(document, NewSubscription)
            link, message = _asked(server, rights, given, await _as_json(given.filter, pace))
        except TamisError as error:
            await drafting.finish()  # one before it may be refused, too
            raise RowError(Rejection(drafting.count, error)) from None
        await drafting.add(message)
        yield link, message
        await pace.breathe()
    await drafting.finish()


class RowError(Exception):
    """One of many subscriptions is refused."""

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
        """Add one more; `RowError` names the first that is refused."""
        is_long = len(message.filter) > LONG_FILTER
        if self._batch and (is_long or message.namespace != self._batch[0].namespace or len(self._batch) >= AT_ONCE):
            await self.finish()
        self.count += 1
        if not is_long:
            self._batch.append(message)
            return
        before, space = self.drafts.get(message.namespace), message.namespace
        try:
            self.drafts[space] = await drafted(self._checks, before, message, self._rights, self._pace)
        except TamisError as error:
            raise RowError(Rejection(self.count - 1, error)) from None

    async def finish(self) -> None:
        """Check what was added and not checked yet."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        namespace, first = batch[0].namespace, self.count - len(batch)
        draft = self.drafts.get(namespace)
        done = 0 if draft is None else len(draft.checked)
        try:
            if draft is None:
                schema = self._checks.content.of(check_namespace(namespace)).schema
                draft = self.drafts[namespace] = Draft(schema, schema)
            draft_many(self._checks, draft, namespace, [(message, None) for message in batch], self._rights)
        except TamisError as error:
            row = first + (0 if draft is None else len(draft.checked) - done)
            raise RowError(Rejection(row, error)) from None
        await self._pace.breathe()


async def drafted(checks: Checks, before: Draft | None, message: m.Subscribe, rights: Rights, pace: Pace) -> Draft:
    """Return a draft with one more subscription; a long filter is compiled beside the event loop."""
    if len(message.filter) <= LONG_FILTER:
        return checks.draft(before, message, rights)
    apart = checks_apart(checks, message.namespace)
    draft = await pace.beside(lambda: apart.draft(before, message, rights))
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


def _asked(server: Server, rights: Rights, given: NewSubscription, filter: bytes) -> tuple[Link, m.Subscribe]:
    """Return a subscription as it was written, and its link."""
    rights.demand("subscribe", check_namespace(given.namespace))
    id = subscription_id(secrets.token_hex(8) if given.id is None else given.id)
    link = http_link(given.namespace, id)
    if (link, client_key(link, given.namespace, id)) in server.broker.asked:
        raise DuplicateSubscriptionError(id)
    about = m.About(
        rights.principal,
        _text(given.filter),
        given.durable,
        round(time.time() * 1e6),
        given.metadata,
        given.fields,
        given.max_deliveries,
    )
    return link, m.Subscribe(id, filter, given.namespace, _moment(given.expires), msgspec.json.encode(about))


async def listing(request: Request) -> Response:
    """List subscriptions, a page at a time; ``search`` looks into ids, filters and metadata."""
    server = server_of(request)
    view, query = server.view(request), request.query_params
    limit = whole_number(query.get("limit", "100"), "limit", MAX_PAGE)
    start = whole_number(query.get("after", "0"), "after", 2**53)
    wanted, namespace = query.get("search", "").casefold(), query.get("namespace")
    asked = server.broker.asked
    is_long = bool(wanted) or start > MAX_PAGE  # it reads many, so it is made beside the loop
    places = (
        place
        for place, one in (dict(asked) if is_long else asked).items()
        if view.rights.sees(one.namespace)
        and namespace in (None, one.namespace)
        and (not wanted or wanted in _words(one))
    )
    cut = itertools.islice(places, start, start + limit + 1)
    page = await asyncio.to_thread(list, cut) if is_long else list(cut)  # one of them may end meanwhile
    shown = [describe(server, view, *place) for place in page[:limit] if place in asked]
    return JSONResponse({"subscriptions": shown, "next": start + limit if len(page) > limit else None})


async def show(request: Request) -> Response:
    """Show one subscription."""
    server = server_of(request)
    view = server.view(request)
    return JSONResponse(describe(server, view, *find(server, view.rights, request)))


async def change(request: Request) -> Response:
    """Change the filter of a subscription in one step, without a gap (promise R15); what waits in its queue stays."""
    server = server_of(request)
    rights = server.rights(request)
    rights.demand_reading()
    document = await read_json(request)
    server.access.demand_live(rights)
    link, key = find(server, rights, request)
    before = server.broker.asked[link, key]
    _demand_changeable(rights, link, before)
    given = _read(document, ChangedSubscription)
    pace = server.pace(rights.principal)
    await pace.begin()
    message = _changed(before, given, await _as_json(given.filter, pace))
    draft = await drafted(server.broker.checks, None, message, rights, pace)
    checked = await server.driver.subscribe(
        [(link, message)], rights, drafts={message.namespace: draft}, must_exist=True
    )
    if isinstance(checked, Rejection):
        raise checked.error
    return JSONResponse(describe(server, View(server.broker, rights), link, key, checked[0]))


def _demand_changeable(rights: Rights, link: Link, before: m.Subscribe) -> None:
    """Raise `RefusedError` unless the filter may be changed over HTTP: an owner's policy is joined to it."""
    demand_owner(rights, before)
    if m.about(before).owner != rights.principal:
        raise RefusedError(403, f"only its owner changes the filter of subscription {before.id!r}")
    if client_of(link) is not None:
        raise RefusedError(409, f"subscription {before.id!r} belongs to a connected client: use client.update() there")


def _changed(before: m.Subscribe, given: ChangedSubscription, filter: bytes) -> m.Subscribe:
    """Return a subscription with what was put in place of what it had."""
    names = ("durable", "metadata", "fields", "max_deliveries")
    named = {name: getattr(given, name) for name in names}
    changed = {name: value for name, value in named.items() if value is not msgspec.UNSET}
    about = msgspec.structs.replace(m.about(before), text=_text(given.filter), **changed)
    expires = before.expires if given.expires is msgspec.UNSET else _moment(given.expires)
    return m.Subscribe(before.id, filter, before.namespace, expires, msgspec.json.encode(about))


async def delete(request: Request) -> Response:
    """Withdraw a subscription; after the answer nothing new is kept for it (promise G9)."""
    server = server_of(request)
    rights = server.rights(request)
    link, key = find(server, rights, request)
    asked = server.broker.asked[link, key]
    demand_owner(rights, asked)
    await server.driver.unsubscribe(m.Unsubscribe(asked.id, asked.namespace), link, rights)
    return Response(status_code=204)


def find(server: Server, rights: Rights, request: Request) -> tuple[Link, str]:
    """Return the place of the subscription that a request names; what the client may not see is not there."""
    rights.demand_reading()
    text = id_in(request)
    namespace = request.query_params.get("namespace", DEFAULT_NAMESPACE)
    ids: list[SubscriptionId] = [text]
    if text.lstrip("-").isdecimal() and text.isascii() and len(text) < 20:
        ids.append(int(text))
    if rights.sees(namespace):
        for id in ids:
            links = [http_link(namespace, id)]
            if client := request.query_params.get("client"):
                links = [client_link(rights.principal, client)]
            for link in links:
                key = client_key(link, namespace, id)
                if (link, key) in server.broker.asked:
                    return link, key
    raise UnknownSubscriptionError(text)


def demand_owner(rights: Rights, asked: m.Subscribe) -> None:
    """Raise `RefusedError` unless a client owns a subscription or is an admin; a policy binds admins to their own."""
    rights.demand("subscribe", asked.namespace)
    is_admin = rights.is_admin and rights.policy is None  # others' queues were filled without that policy
    if not is_admin and m.about(asked).owner != rights.principal:
        raise RefusedError(403, f"subscription {asked.id!r} belongs to another principal")


def describe(server: Server, view: View, link: Link, key: str, asked: m.Subscribe | None = None) -> dict[str, Any]:
    """Return a subscription as JSON; ``asked`` is one that may have ended by now, as one that expires at once has."""
    broker, client = server.broker, client_of(link)
    asked = broker.asked[link, key] if asked is None else asked
    about = m.about(asked)
    return {
        "id": asked.id,
        "namespace": asked.namespace,
        "filter": about.text or asked.filter.decode(),
        "state": broker.state_of((link, key)).value,
        "durable": about.durable,
        "owner": about.owner,
        "client": client[1] if client is not None and view.names(link) else None,
        "expires": asked.expires,
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


def _read(document: dict[str, Any], kind: type[Written]) -> Written:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise ModelError(f"not a subscription: {error} (known: {known})") from None


def _moment(expires: str | float | int | None) -> int | None:
    if expires is None:
        return None
    if isinstance(expires, str):
        try:
            return int(Timestamp().canonical(expires))
        except UnfitError as error:
            raise ModelError(f"expires: {error}") from None
    if not 0 < expires < 1e10:
        raise ModelError("expires: a moment as RFC 3339, or seconds from now")
    return round((time.time() + expires) * 1e6)


def _words(asked: m.Subscribe) -> str:
    about = m.about(asked)
    return " ".join((str(asked.id), about.text, about.owner, *about.metadata, *about.metadata.values())).casefold()
