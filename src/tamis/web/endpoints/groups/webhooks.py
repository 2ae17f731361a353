"""``/v1/subscriptions/{id}/webhook``: has the messages of a durable subscription sent to an HTTPS endpoint.

The secret that signs requests is shown once, when the broker has made it. The URL is shown to the owner and to admins;
lists, audit, logs and metrics have only its host, because the path of a URL is often a secret as well.
"""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError, RefusedError
from tamis.files.fields import read_fields
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.routing.webhooks.registration import MAX_BATCH, MAX_PARALLEL, PutWebhook, SigningKey, Webhook
from tamis.routing.webhooks.signature import key_as_text, read_key
from tamis.web.bodies import MAX_PAGE, read_json, whole_number
from tamis.web.endpoints.groups.consumers import queue
from tamis.web.endpoints.subscriptions import demand_owner
from tamis.web.server import Server, server_of
from tamis.web.work.rows import JsonRows

__all__ = ["delete", "listing", "put", "resume", "rotate", "show", "suspend"]

#: Bytes of a key that the broker makes.
KEY_BYTES = 32

_Seconds = Annotated[float, msgspec.Meta(ge=1, le=60)]


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PUT: where to send messages, and how."""

    url: str
    #: ``whsec_`` and base64; without one the broker keeps the present secret, or makes one.
    secret: str | None = None
    format: Literal["structured", "binary"] = "structured"
    batch: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = 1
    parallel: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARALLEL)] = 1
    timeout: _Seconds = 10.0
    max_failures: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 20


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request that changes the secret."""

    secret: str | None = None
    #: Seconds for which requests are signed with the former secret, too.
    overlap: Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)] = 86_400.0


async def put(request: Request) -> Response:
    """Set or change a webhook: waiting messages are sent first, and a suspended webhook is resumed."""
    server, link, subscription, rights = await _subscription(request)
    body = read_fields(await read_json(request), WebhookRequest)
    server.access.demand_live(rights)
    server.config.webhooks.read_url(body.url)
    if body.format == "binary" and body.batch > 1:
        raise ModelError("batch: the binary format sends one event per request; use the structured format for batches")
    former = server.webhooks.all.get(link)
    is_new_key = body.secret is not None or former is None
    keys = (_key(body.secret),) if is_new_key or former is None else former.keys
    settings = {name: getattr(body, name) for name in ("format", "batch", "parallel", "timeout", "max_failures")}
    name = secrets.token_hex(8) if former is None else former.name
    new = Webhook(name, body.url, keys, **settings, digest=rights.digest)
    await _change(server, link, subscription, rights, "webhook set", former, new)
    shown = _described(server, link, subscription, new, with_url=True)
    new_secret = {"secret": key_as_text(keys[0].key)} if is_new_key and body.secret is None else {}
    return JSONResponse(shown | new_secret)


async def show(request: Request) -> Response:
    """Show a webhook with its state."""
    server, link, subscription, _ = await _subscription(request)
    return JSONResponse(_described(server, link, subscription, _webhook_of(server, link, subscription), with_url=True))


async def delete(request: Request) -> Response:
    """Remove a webhook; the subscription stays."""
    server, link, subscription, rights = await _subscription(request)
    await _change(server, link, subscription, rights, "webhook remove", _webhook_of(server, link, subscription), None)
    return Response(status_code=204)


async def rotate(request: Request) -> Response:
    """Sign with a new secret, and for a time with the former one as well."""
    server, link, subscription, rights = await _subscription(request)
    body = read_fields(await read_json(request), RotateRequest)
    server.access.demand_live(rights)
    former = _webhook_of(server, link, subscription)
    former_key = msgspec.structs.replace(former.keys[0], until=round((time.time() + body.overlap) * 1e6))
    key = _key(body.secret)
    new = msgspec.structs.replace(former, keys=(key, former_key), digest=rights.digest)
    await _change(server, link, subscription, rights, "webhook rotate", former, new)
    new_secret = {"secret": key_as_text(key.key)} if body.secret is None else {}
    return JSONResponse(_described(server, link, subscription, new, with_url=True) | new_secret)


async def suspend(request: Request) -> Response:
    """Send nothing until the webhook is resumed; messages wait."""
    server, link, subscription, rights = await _subscription(request)
    former = _webhook_of(server, link, subscription)
    new = msgspec.structs.replace(former, suspended=f"by {rights.principal}")
    await _change(server, link, subscription, rights, "webhook suspend", former, new)
    return JSONResponse(_described(server, link, subscription, new, with_url=True))


async def resume(request: Request) -> Response:
    """Resume a webhook: messages that wait are sent."""
    server, link, subscription, rights = await _subscription(request)
    former = _webhook_of(server, link, subscription)
    server.config.webhooks.read_url(former.url)
    new = msgspec.structs.replace(former, suspended="", digest=rights.digest)
    await _change(server, link, subscription, rights, "webhook resume", former, new)
    return JSONResponse(_described(server, link, subscription, new, with_url=True))


async def listing(request: Request) -> Response:
    """List webhooks with their hosts: all for admins, their own for others."""
    server = server_of(request)
    view, query = server.view(request), request.query_params
    start, limit = (
        whole_number(query.get(name, default), name, most)
        for name, default, most in (("after", "0", 2**53), ("limit", "100", MAX_PAGE))
    )
    rows, number, next_after = JsonRows(server.pace(view.rights.principal)), 0, None
    for (link, _), subscription in list(server.broker.subscriptions.items()) if server.webhooks.all else ():
        hook = server.webhooks.all.get(link)
        if hook is not None and view.rights.sees(subscription.namespace) and _is_mine(view.rights, subscription):
            if number >= start:
                described = _described(server, link, subscription, hook, with_url=False)
                if len(rows) == limit or not await rows.add(described):
                    next_after = number
                    break
            number += 1
        await rows.breathe()
    return rows.response("webhooks", {"next": next_after})


async def _subscription(request: Request) -> tuple[Server, Link, m.Subscribe, Rights]:
    """Return the durable subscription that a request names, which must be the caller's own."""
    server, link, subscription = await queue(request)
    return server, link, subscription, server.rights(request)


async def _change(
    server: Server,
    link: Link,
    subscription: m.Subscribe,
    rights: Rights,
    action: str,
    former: Webhook | None,
    new: Webhook | None,
) -> None:
    """Write a change to disk; 409 when another request changed the webhook in between."""
    if new is not None:
        server.driver.demand_room()
    most = server.config.webhooks.most
    change = PutWebhook(link, action, former, new, str(subscription.id), subscription.namespace, rights, most)
    accepted = await server.driver.ask(change)
    if isinstance(accepted, Exception):
        raise accepted
    if not accepted:
        raise RefusedError(
            409,
            f"the webhook of subscription {subscription.id!r} was changed by another request; read it and try again",
        )
    server.webhooks.look()


def _webhook_of(server: Server, link: Link, subscription: m.Subscribe) -> Webhook:
    hook = server.webhooks.all.get(link)
    if hook is None:
        raise RefusedError(
            404, f"subscription {subscription.id!r} has no webhook; set it with PUT, or `tamis webhooks set`"
        )
    return hook


def _key(secret: str | None) -> SigningKey:
    return SigningKey(secrets.token_bytes(KEY_BYTES) if secret is None else read_key(secret))


def _is_mine(rights: Rights, subscription: m.Subscribe) -> bool:
    try:
        demand_owner(rights, subscription)
    except RefusedError:
        return False
    return True


def _described(
    server: Server, link: Link, subscription: m.Subscribe, hook: Webhook, *, with_url: bool
) -> dict[str, Any]:
    failures, problem = server.webhooks.failures_of(link)
    state = "suspended" if hook.suspended else "failing" if failures else "active"
    names = ("format", "batch", "parallel", "timeout", "max_failures")
    return {
        "subscription": subscription.id,
        "namespace": subscription.namespace,
        "host": hook.host,
        **({"url": hook.url} if with_url else {}),
        **{name: getattr(hook, name) for name in names},
        "secrets": len(hook.live_keys(round(time.time() * 1e6))),
        "state": state,
        "problem": hook.suspended or problem,
        "failures": failures,
        "waiting": server.broker.waiting_for(link),
    }
