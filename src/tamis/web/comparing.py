"""``POST /v1/comparison``: what each link policy would cost for the subscriptions and events that are here.

The broker's subscriptions and its last events go through a simulated tree of brokers, once per policy. Every policy
delivers the same; they differ in messages, bytes and table sizes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import ModelError
from tamis.routing.policies import POLICIES
from tamis.runtime.topology import Topology
from tamis.web.bodies import read_json
from tamis.web.server import Server, server_of
from tamis.web.statistics import demand_overview
from tamis.workload.comparison import Trial

__all__ = ["compare"]

#: How much goes through the simulated network, so that an answer takes seconds.
MOST_BROKERS, MOST_SUBSCRIPTIONS, MOST_EVENTS = 31, 300, 200

#: Policies that are compared when none are named.
DEFAULT_POLICIES = ("flood", "identity", "covering", "merging")


async def compare(request: Request) -> Response:
    """Compare policies on what is here; takes some seconds, while the broker goes on."""
    server = server_of(request)
    demand_overview(request)
    asked = await read_json(request)
    brokers, policies = asked.get("brokers", 7), asked.get("policies", list(DEFAULT_POLICIES))
    if not isinstance(brokers, int) or not 2 <= brokers <= MOST_BROKERS:
        raise ModelError(f"brokers: a whole number from 2 to {MOST_BROKERS}")
    if not isinstance(policies, list) or any(name not in POLICIES for name in policies):
        raise ModelError(f"policies: a list of {', '.join(POLICIES)}")
    made = _trial(server, brokers)
    rows = await asyncio.to_thread(lambda: [made.run(name).as_row() for name in policies])
    told = {"brokers": brokers, "subscriptions": len(made.subscriptions), "events": len(made.events)}
    return JSONResponse({**told, "policies": rows})


def _trial(server: Server, brokers: int) -> Trial:
    edge = server.driver.edge
    asked: list[Any] = []
    for number, message in enumerate(list(edge.asked.values())[-MOST_SUBSCRIPTIONS:]):
        asked.append((f"{number}:{message.id}", msgspec.json.decode(message.filter), message.namespace))
    events = [server.event_as_json(one.payload) for _, one in list(edge.recent.events)[-MOST_EVENTS:]]
    topology = Topology.of("balanced", brokers)
    return Trial(topology, edge.content.schema, asked, events, clients=2 * brokers)
