"""``POST /v1/comparison``: what each link policy would cost for the subscriptions and events that are here.

The broker's subscriptions and its last events go through a simulated tree of brokers, once per policy, or through
peers that arrange themselves in a distributed R-tree. All deliver the same; they differ in messages, bytes and table
sizes. The answer has the links of each tree, with what they carried and which subscriptions were covered by which. All
of it is computed in a worker process (`tamis.web.work`).
"""

from __future__ import annotations

import itertools

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.web.bodies import read_json
from tamis.web.endpoints.statistics import demand_overview
from tamis.web.server import server_of
from tamis.web.work.pool import COMPARISON

__all__ = ["compare"]

#: How much goes through the simulated network, so that an answer takes seconds.
MOST_BROKERS, MOST_SUBSCRIPTIONS, MOST_EVENTS = 31, 300, 200

#: What is compared when nothing is named: without tables, without covering, with it, merged; and peers.
DEFAULT_POLICIES = ("flood", "every", "covering", "merging", "drtree")

#: Policies of one comparison, without duplicates; there are fewer.
MOST_POLICIES = 32


async def compare(request: Request) -> Response:
    """Compare policies on what is here; takes some seconds, while the broker goes on."""
    server = server_of(request)
    rights = demand_overview(request).rights
    body = await read_json(request)
    brokers, policies = body.get("brokers", 7), body.get("policies", list(DEFAULT_POLICIES))
    if isinstance(brokers, bool) or not isinstance(brokers, int) or not 2 <= brokers <= MOST_BROKERS:
        raise ModelError(f"brokers: a whole number from 2 to {MOST_BROKERS}")
    if not isinstance(policies, list) or not all(isinstance(name, str) for name in policies[: MOST_POLICIES + 1]):
        raise ModelError("policies: a list of names")
    if len(policies) > MOST_POLICIES:
        raise ModelError(f"policies: at most {MOST_POLICIES}")
    broker = server.broker
    namespace = body.get("namespace", DEFAULT_NAMESPACE)
    if not isinstance(namespace, str):
        raise ModelError("namespace: a name")
    asked = (one for one in reversed(broker.asked.values()) if one.namespace == namespace or not broker.learns)
    newest = itertools.islice(asked, MOST_SUBSCRIPTIONS)
    recent = [one for _, one in broker.traffic.recent_events if one.namespace == namespace or not broker.learns]
    arguments = server.content_for_worker(namespace) | {
        "brokers": brokers,
        "policies": list(dict.fromkeys(policies)),
        "subscriptions": [(one.id, msgspec.json.decode(one.filter), one.namespace) for one in newest][::-1],
    }
    payloads = server.recent_payloads(recent[-MOST_EVENTS:])
    rows = await server.pool.run(rights.principal, "compare", arguments, payloads, budget=COMPARISON)
    sizes = {"brokers": brokers, "subscriptions": len(arguments["subscriptions"]), "events": len(payloads)}
    return JSONResponse({**sizes, "policies": rows})
