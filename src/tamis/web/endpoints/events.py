"""``POST /v1/events``: publishes events, which are on disk when the answer is sent; and the last ones, to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import EventError, InvariantError, ModelError, RefusedError, TamisError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.admission import MAX_NAME, check_namespace
from tamis.routing.edge.requests import Accepted, EventDraft, FindProducer, Rejection, StaleDraftError
from tamis.routing.edge.rights import Rights
from tamis.runtime.traces.contexts import read_traceparent
from tamis.web.addresses import id_in
from tamis.web.bodies import MAX_PAGE, read_events, whole_number
from tamis.web.failures import status_of
from tamis.web.intake import principal_of
from tamis.web.server import Server, event_id, server_of, shown_event
from tamis.web.work.pacing import Pace
from tamis.web.work.rows import JsonRows

#: How often the events of a request are checked while others change the types of their namespace.
ATTEMPTS = 3

#: What is shown of an event that came by.
Entry = TypeVar("Entry")

__all__ = ["publish", "recent_deliveries", "recent_events", "show_producer"]


async def publish(request: Request) -> Response:
    """Publish the events of a request: all of them, or none and the reason."""
    server = server_of(request)
    rights, namespace = server.rights(request), request.query_params.get("namespace", DEFAULT_NAMESPACE)
    rights.demand("publish", namespace)
    server.driver.demand_room()
    events = await read_events(request)
    server.access.demand_live(rights)
    producer = _batch(request) if "producer" in request.query_params else None
    origin = None if server.driver.traces is None else read_traceparent(request.headers.getlist("traceparent"))
    for attempt in range(ATTEMPTS):
        draft = await _drafted(server, events, namespace, rights)
        if producer is not None:
            name, number, after = producer
            verdict = await server.driver.publish_once(events, namespace, rights, name, number, draft, after, origin)
        else:
            name = f"http:{rights.principal}"
            verdict = await server.driver.publish(events, namespace, rights, name, draft, origin)
        if isinstance(verdict, Accepted):
            return await _accepted(verdict, server.pace(rights.principal), is_numbered=producer is not None)
        if attempt == ATTEMPTS - 1 or not isinstance(verdict.error, StaleDraftError):
            raise _rejected(verdict, len(events))
    raise InvariantError("a request has at least one attempt")


async def _accepted(verdict: Accepted, pace: Pace, *, is_numbered: bool) -> Response:
    """Answer with the ids of the events; a batch of a producer may have been accepted before."""
    ids: list[str] = []
    await pace.begin()
    for id in verdict.ids:
        ids.append(event_id(id))
        await pace.breathe()
    more = {"duplicate": not verdict.is_new} if is_numbered else {}
    return JSONResponse({"accepted": len(ids), "ids": ids, **more})


async def _drafted(server: Server, events: Sequence[Mapping[str, Any]], namespace: str, rights: Rights) -> EventDraft:
    """Return the events of a request as they are published, checked one by one while others are served."""
    pace = server.pace(rights.principal)
    await pace.begin()
    draft = server.broker.checks.begin_events(check_namespace(namespace))
    for row, event in enumerate(events):
        try:
            server.broker.checks.draft_event(draft, event, namespace, rights)
        except TamisError as error:
            raise _rejected(Rejection(row, error), len(events)) from None
        await pace.breathe()
    return draft


def _rejected(rejection: Rejection, n: int) -> Exception:
    """Return the error of a request whose events were not accepted; it names the row."""
    error, row = rejection.error, rejection.row
    if isinstance(error, EventError):
        return EventError(error.attribute, error.value, error.problem, row if n > 1 else None)
    if isinstance(error, TamisError) and row is not None:
        return RefusedError(status_of(error), f"event {row}: {error}")
    return error


async def show_producer(request: Request) -> Response:
    """Show the number of the last accepted batch of a producer of this principal, or null."""
    server = server_of(request)
    rights, name = server.rights(request), id_in(request)
    if not rights.may_publish:
        raise RefusedError(403, f"{rights.principal!r} may not publish")
    number = await server.driver.ask(FindProducer(_producer(name), rights))
    return JSONResponse({"producer": name, "number": number})


def _batch(request: Request) -> tuple[str, int, int | None]:
    """Return the producer of a numbered batch, its number, and the number behind which it must come, if one must."""
    query = request.query_params
    after = _number("after", query["after"]) if "after" in query else None
    return _producer(query["producer"]), _number("number", query.get("number", "")), after


def _producer(name: str) -> str:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise ModelError(f"producer: expected a name of 1 to {MAX_NAME} characters")
    return name


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ModelError(f"{name}: expected a whole number below 10^18 with a producer, got {text[:40]!r}")
    return int(text)


async def recent_events(request: Request) -> Response:
    """Show the last events that clients published here, the newest first, as far as the caller may see them."""
    server = server_of(request)
    view = server.view(request)
    recent = server.broker.traffic.recent_events.newest(_before(request))
    events = ((number, event, at) for number, (at, event) in recent)

    def shown(event: m.Published, at: float) -> dict[str, Any]:
        return shown_event(server, at, event)

    return await _recent_page(request, "events", events, "200", view.shows, shown)


async def recent_deliveries(request: Request) -> Response:
    """Show the last copies that went out to clients, the newest first, with the subscriptions that matched."""
    server = server_of(request)
    view = server.view(request)
    recent = server.broker.traffic.recent_deliveries.newest(_before(request))
    deliveries = ((number, entry[2].event, entry) for number, entry in recent)

    def shown(event: m.Published, entry: tuple[float, Link, m.Delivery]) -> dict[str, Any]:
        at, link, delivery = entry
        client = link if view.names(link) else None
        return shown_event(server, at, event) | {"client": client, "subscriptions": list(delivery.subscriptions)}

    return await _recent_page(request, "deliveries", deliveries, "50", view.shows, shown)


def _before(request: Request) -> int | None:
    """Return the number below which a page of the last events begins; None: with the newest."""
    query = request.query_params
    return whole_number(query["before"], "before", 2**53) if "before" in query else None


async def _recent_page(
    request: Request,
    name: str,
    entries: Iterable[tuple[int, m.Published, Entry]],
    default_limit: str,
    is_visible: Callable[[m.Published], bool],
    shown: Callable[[m.Published, Entry], dict[str, Any]],
) -> Response:
    """Return a page of what came by, the newest first; ``next`` is the ``before`` of the next page."""
    limit = whole_number(request.query_params.get("limit", default_limit), "limit", MAX_PAGE)
    rows, next_before = JsonRows(server_of(request).pace(principal_of(request))), None
    for number, event, entry in entries:
        if is_visible(event) and (len(rows) == limit or not await rows.add(shown(event, entry))):
            next_before = number + 1
            break
        await rows.breathe()
    return rows.response(name, {"next": next_before})
