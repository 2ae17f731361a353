"""``/v1/subscriptions/{id}/webhook``: has the messages of a durable subscription sent to an HTTPS endpoint.

The secret that signs requests is shown once, when the broker has made it. The URL is shown to the owner and to admins;
lists, audit, logs and metrics have its host alone, because the path of a URL is often a secret as well.
"""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError, RefusedError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.routing.webhooks.registration import MAX_BATCH, MAX_PARALLEL, PutWebhook, SigningKey, Webhook
from tamis.routing.webhooks.signature import key_as_text, read_key
from tamis.web.bodies import MAX_PAGE, read_json, whole_number
from tamis.web.endpoints.groups.consumers import convert, queue
from tamis.web.endpoints.subscriptions import demand_owner
from tamis.web.server import Server, server_of

__all__ = ["delete", "listing", "put", "resume", "rotate", "show", "suspend"]

#: Bytes of a key that the broker makes.
KEY_BYTES = 32

_Seconds = Annotated[float, msgspec.Meta(ge=1, le=60)]


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is put: where to send messages, and how."""

    url: str
    #: ``whsec_`` and base64; without one the broker makes it, or keeps what it has.
    secret: str | None = None
    format: Literal["structured", "binary"] = "structured"
    batch: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = 1
    parallel: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARALLEL)] = 1
    timeout: _Seconds = 10.0
    max_failures: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 20


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is posted to change the secret."""

    secret: str | None = None
    #: Seconds for which requests are signed with the former secret, too.
    overlap: Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)] = 86_400.0


async def put(request: Request) -> Response:
    """Have messages sent to an endpoint from now on, beginning with those that wait; a suspended webhook goes on."""
    server, link, asked, rights = await _subscription(request)
    given = convert(await read_json(request), WebhookRequest)
    server.access.demand_live(rights)
    server.config.webhooks.read_url(given.url)
    if given.format == "binary" and given.batch > 1:
        raise ModelError("batch: a binary CloudEvent is a request of its own; use the structured format for batches")
    before = server.webhooks.all.get(link)
    is_new_key = given.secret is not None or before is None
    keys = (_key(given.secret),) if is_new_key or before is None else before.keys
    settings = {name: getattr(given, name) for name in ("format", "batch", "parallel", "timeout", "max_failures")}
    name = secrets.token_hex(8) if before is None else before.name
    after = Webhook(name, given.url, keys, **settings, digest=rights.digest)
    await _change(server, link, asked, rights, "webhook set", before, after)
    shown = _described(server, link, asked, after, with_url=True)
    made = {"secret": key_as_text(keys[0].key)} if is_new_key and given.secret is None else {}
    return JSONResponse(shown | made)


async def show(request: Request) -> Response:
    """Show where messages are sent, and how that goes."""
    server, link, asked, _ = await _subscription(request)
    return JSONResponse(_described(server, link, asked, _found(server, link, asked), with_url=True))


async def delete(request: Request) -> Response:
    """Send nothing more; the subscription stays."""
    server, link, asked, rights = await _subscription(request)
    await _change(server, link, asked, rights, "webhook remove", _found(server, link, asked), None)
    return Response(status_code=204)


async def rotate(request: Request) -> Response:
    """Sign with a new secret, and for some time with the former one, too."""
    server, link, asked, rights = await _subscription(request)
    given = convert(await read_json(request), RotateRequest)
    server.access.demand_live(rights)
    before = _found(server, link, asked)
    former = msgspec.structs.replace(before.keys[0], until=round((time.time() + given.overlap) * 1e6))
    key = _key(given.secret)
    after = msgspec.structs.replace(before, keys=(key, former), digest=rights.digest)
    await _change(server, link, asked, rights, "webhook rotate", before, after)
    made = {"secret": key_as_text(key.key)} if given.secret is None else {}
    return JSONResponse(_described(server, link, asked, after, with_url=True) | made)


async def suspend(request: Request) -> Response:
    """Send nothing until the webhook is resumed; messages wait."""
    server, link, asked, rights = await _subscription(request)
    before = _found(server, link, asked)
    after = msgspec.structs.replace(before, suspended=f"by {rights.principal}")
    await _change(server, link, asked, rights, "webhook suspend", before, after)
    return JSONResponse(_described(server, link, asked, after, with_url=True))


async def resume(request: Request) -> Response:
    """Send what waits, and go on."""
    server, link, asked, rights = await _subscription(request)
    before = _found(server, link, asked)
    server.config.webhooks.read_url(before.url)
    after = msgspec.structs.replace(before, suspended="", digest=rights.digest)
    await _change(server, link, asked, rights, "webhook resume", before, after)
    return JSONResponse(_described(server, link, asked, after, with_url=True))


async def listing(request: Request) -> Response:
    """List webhooks by the hosts that they lead to: all for admins, their own for others."""
    server = server_of(request)
    view, query = server.view(request), request.query_params
    start, limit = (
        whole_number(query.get(name, default), name, most)
        for name, default, most in (("after", "0", 2**53), ("limit", "100", MAX_PAGE))
    )
    shown = []
    for (link, _), asked in list(server.broker.asked.items()) if server.webhooks.all else ():
        hook = server.webhooks.all.get(link)
        if hook is not None and view.rights.sees(asked.namespace) and _is_mine(view.rights, asked):
            shown.append(_described(server, link, asked, hook, with_url=False))
    page = shown[start : start + limit]
    return JSONResponse({"webhooks": page, "next": start + limit if len(shown) > start + limit else None})


async def _subscription(request: Request) -> tuple[Server, Link, m.Subscribe, Rights]:
    """Return the durable subscription that a request names, which must be the caller's own."""
    server, link, asked = await queue(request)
    return server, link, asked, server.rights(request)


async def _change(
    server: Server,
    link: Link,
    asked: m.Subscribe,
    rights: Rights,
    what: str,
    before: Webhook | None,
    after: Webhook | None,
) -> None:
    """Have a change on disk; 409 when another request changed the webhook meanwhile."""
    if after is not None:
        server.driver.demand_room()
    most = server.config.webhooks.most
    change = PutWebhook(link, what, before, after, str(asked.id), asked.namespace, rights, most)
    done = await server.driver.ask(change)
    if isinstance(done, Exception):
        raise done
    if not done:
        raise RefusedError(409, f"the webhook of subscription {asked.id!r} changed meanwhile; look at it and try again")
    server.webhooks.look()


def _found(server: Server, link: Link, asked: m.Subscribe) -> Webhook:
    hook = server.webhooks.all.get(link)
    if hook is None:
        raise RefusedError(404, f"subscription {asked.id!r} has no webhook; set it with PUT, or `tamis webhooks set`")
    return hook


def _key(secret: str | None) -> SigningKey:
    return SigningKey(secrets.token_bytes(KEY_BYTES) if secret is None else read_key(secret))


def _is_mine(rights: Rights, asked: m.Subscribe) -> bool:
    try:
        demand_owner(rights, asked)
    except RefusedError:
        return False
    return True


def _described(server: Server, link: Link, asked: m.Subscribe, hook: Webhook, *, with_url: bool) -> dict[str, Any]:
    failures, problem = server.webhooks.failures_of(link)
    state = "suspended" if hook.suspended else "failing" if failures else "active"
    names = ("format", "batch", "parallel", "timeout", "max_failures")
    return {
        "subscription": asked.id,
        "namespace": asked.namespace,
        "host": hook.host,
        **({"url": hook.url} if with_url else {}),
        **{name: getattr(hook, name) for name in names},
        "secrets": len(hook.live_keys(round(time.time() * 1e6))),
        "state": state,
        "problem": hook.suspended or problem,
        "failures": failures,
        "waiting": server.broker.waiting_for(link),
    }
