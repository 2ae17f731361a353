"""``/v1/links``: the links to other brokers, for those who run the broker; one that is dead can be skipped."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import RefusedError
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.edge.requests import ChangeLink
from tamis.web.server import Server, server_of

__all__ = ["listing", "resume", "skip"]


async def listing(request: Request) -> Response:
    """List the links: whether each is connected, skipped or full, what waits for it, and what it was not sent."""
    server = _demand_admin(request)
    return JSONResponse({"links": [_shown(server, link.name) for link in server.config.links]})


async def skip(request: Request) -> Response:
    """Send no event over a link and wait for none of its confirmations; what it is not sent is counted."""
    return await _change(request, is_skipped=True)


async def resume(request: Request) -> Response:
    """Send events over a link again; brokers behind it are told of the gap."""
    return await _change(request, is_skipped=False)


async def _change(request: Request, *, is_skipped: bool) -> Response:
    server, name = _demand_admin(request), request.path_params["name"]
    names = [link.name for link in server.config.links]
    if name not in names:
        raise RefusedError(404, f"there is no link {name!r}; links: {', '.join(names) or 'none'}")
    await server.driver.ask(ChangeLink(SkipLink(name, is_skipped), server.rights(request)))
    return JSONResponse(_shown(server, name))


def _demand_admin(request: Request) -> Server:
    server = server_of(request)
    rights = server.view(request).rights
    if not rights.is_admin or rights.namespaces is not None:
        raise RefusedError(403, "links are for admins of all namespaces: tamis serve token add NAME --admin")
    return server


def _shown(server: Server, name: str) -> dict[str, Any]:
    link, config = server.broker.link(name), next(one for one in server.config.links if one.name == name)
    return {
        "link": name,
        "connected": link.is_connected,
        "skipped": link.is_skipped,
        "full": link.is_full,
        "when_full": config.when_full,
        "waiting": server.broker.waiting_for(name),
        "dropped": link.counters.dropped,
    }
