"""``POST /v1/comparison``: what each link policy would cost for the subscriptions and events of this broker.

The broker's subscriptions and its last events go through a simulated tree of brokers, once per policy, or through
peers that arrange themselves in a distributed R-tree. All deliver the same; they differ in messages, bytes and table
sizes. The answer has the links of each tree, with what they carried and which subscriptions were covered by which. All
of it is computed in a worker process (`tamis.web.work`).
"""

from __future__ import annotations

import itertools
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.web.bodies import read_json
from tamis.web.endpoints.statistics import demand_overview
from tamis.web.server import server_of
from tamis.web.work.pool import COMPARISON

__all__ = ["compare"]

#: Limits of the simulated network, so that an answer takes seconds.
MOST_BROKERS, MOST_SUBSCRIPTIONS, MOST_EVENTS = 31, 300, 200

#: The default: no tables, tables without covering, with covering, with merging; and an overlay of peers.
DEFAULT_POLICIES = ("flood", "every", "covering", "merging", "drtree")

#: Policies of one comparison, without duplicates; there are fewer.
MOST_POLICIES = 32


async def compare(request: Request) -> Response:
    """Compare policies; this takes some seconds, while the broker goes on."""
    server = server_of(request)
    rights = demand_overview(request).rights
    brokers, policies, namespace = _settings(await read_json(request))
    broker = server.broker
    events = [event for _, event in broker.traffic.recent_events if event.namespace == namespace or not broker.learns]
    messages = (
        message
        for message in reversed(broker.subscriptions.values())
        if message.namespace == namespace or not broker.learns
    )
    newest = itertools.islice(messages, MOST_SUBSCRIPTIONS)
    subscriptions = server.newest_for_worker(list(newest)[::-1], lambda message: len(message.filter))
    arguments = server.content_for_worker(namespace) | {
        "brokers": brokers,
        "policies": policies,
        "subscriptions": [(message.id, message.namespace) for message in subscriptions],
    }
    payloads = server.recent_payloads(events[-MOST_EVENTS:])
    blobs = [*(message.filter for message in subscriptions), *payloads]
    rows = await server.pool.run(rights.principal, "compare", arguments, blobs, budget=COMPARISON)
    sizes = {"brokers": brokers, "subscriptions": len(subscriptions), "events": len(payloads)}
    return JSONResponse({**sizes, "policies": rows})


def _settings(body: dict[str, Any]) -> tuple[int, list[str], str]:
    """Return the number of brokers, the policies without duplicates, and the namespace of a request."""
    brokers, policies = body.get("brokers", 7), body.get("policies", list(DEFAULT_POLICIES))
    if isinstance(brokers, bool) or not isinstance(brokers, int) or not 2 <= brokers <= MOST_BROKERS:
        raise ModelError(f"brokers: expected a whole number from 2 to {MOST_BROKERS}")
    if not isinstance(policies, list) or not all(isinstance(name, str) for name in policies[: MOST_POLICIES + 1]):
        raise ModelError("policies: expected a list of names")
    if len(policies) > MOST_POLICIES:
        raise ModelError(f"policies: expected at most {MOST_POLICIES}, got {len(policies)}")
    namespace = body.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str):
        raise ModelError("namespace: expected a string")
    return brokers, list(dict.fromkeys(policies)), namespace
