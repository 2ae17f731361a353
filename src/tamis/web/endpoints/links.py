"""``/v1/links``: the links to other brokers, for admins: listed, added, removed, and dead ones skipped."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import RefusedError
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.edge.admission import MAX_NAME
from tamis.routing.edge.requests import ChangeLink
from tamis.web.bodies import read_json
from tamis.web.server import Server, server_of

__all__ = ["add", "listing", "remove", "resume", "skip"]

#: Bytes of the settings of a link.
MAX_SETTINGS = 16_384


async def listing(request: Request) -> Response:
    """List the links: whether each is connected, skipped or full, what waits for it, and what it was not sent."""
    server = _demand_admin(request)
    return JSONResponse({"links": [_shown(server, name) for name in server.links.all]})


async def add(request: Request) -> Response:
    """Add a link; with ``resend_from`` what waits for a dead one is sent over it, too. It outlasts a restart."""
    server, name = _demand_admin(request), request.path_params["name"]
    settings = await read_json(request, MAX_SETTINGS)
    resend_from = settings.pop("resend_from", "")
    if not isinstance(resend_from, str):
        raise RefusedError(400, f"resend_from: expected the name of a link, got {resend_from!r}")
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise RefusedError(400, f"the name of a broker has 1 to {MAX_NAME} characters that can be printed")
    link = server.links.check(name, settings)
    server.driver.demand_room()
    n = await server.links.add(server.driver.machine, link, server.rights(request), resend_from)
    return JSONResponse({**_shown(server, name), "resent": n}, 201)


async def remove(request: Request) -> Response:
    """Remove a link, with what its neighbour asked for and what waits for it. It outlasts a restart."""
    server, name = _demand_admin(request), request.path_params["name"]
    _demand_link(server, name)
    n = await server.links.remove(server.driver.machine, name, server.rights(request))
    return JSONResponse({"link": name, "dropped": n})


async def skip(request: Request) -> Response:
    """Send no event over a link and wait for none of its confirmations; what it is not sent is counted."""
    return await _change(request, is_skipped=True)


async def resume(request: Request) -> Response:
    """Send events over a link again; brokers behind it are told of the gap."""
    return await _change(request, is_skipped=False)


async def _change(request: Request, *, is_skipped: bool) -> Response:
    server, name = _demand_admin(request), request.path_params["name"]
    _demand_link(server, name)
    if ring := server.broker.link(name).ring:
        raise RefusedError(409, f"the link {name!r} is not used: it closes a ring of brokers ({ring})")
    await server.driver.ask(ChangeLink(SkipLink(name, is_skipped), server.rights(request)))
    return JSONResponse(_shown(server, name))


def _demand_admin(request: Request) -> Server:
    server = server_of(request)
    rights = server.view(request).rights
    if not rights.is_admin or rights.namespaces is not None:
        raise RefusedError(403, "links are for admins of all namespaces: tamis serve token add NAME --admin")
    return server


def _demand_link(server: Server, name: str) -> None:
    if name not in server.links.all:
        raise RefusedError(404, f"there is no link {name!r}; links: {', '.join(server.links.all) or 'none'}")


def _shown(server: Server, name: str) -> dict[str, Any]:
    link, config = server.broker.link(name), server.links.all[name]
    return {
        "link": name,
        "connected": link.is_connected,
        "in_step": link.is_in_step,
        "confirmed": link.is_confirmed,
        "skipped": link.is_skipped,
        "full": link.is_full,
        "when_full": config.when_full,
        "waiting": server.broker.waiting_for(name),
        "dropped": link.counters.dropped,
        "ring": link.ring,
        "searches": None if link.searches is None else link.searches._asdict(),
    }
