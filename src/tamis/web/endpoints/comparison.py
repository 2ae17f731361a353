"""``POST /v1/comparison``: what each link policy would cost for the subscriptions and events that are here.

The broker's subscriptions and its last events go through a simulated tree of brokers, once per policy, or through
peers that arrange themselves in a distributed R-tree. All deliver the same; they differ in messages, bytes and table
sizes. The answer has the links of each tree, with what they carried and who was not announced because of whom.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.demo.comparison import OVERLAYS, Trial
from tamis.errors import ModelError
from tamis.model.subscription import SubscriptionId
from tamis.routing.policies import POLICIES
from tamis.runtime.simulation.network import Network
from tamis.runtime.simulation.peer_network import PeerNetwork
from tamis.runtime.simulation.statistics import LinkStatistics
from tamis.runtime.simulation.topology import Topology
from tamis.web.bodies import read_json
from tamis.web.endpoints.explanations import shown_key
from tamis.web.endpoints.statistics import demand_overview
from tamis.web.server import Server, server_of

__all__ = ["compare"]

#: How much goes through the simulated network, so that an answer takes seconds.
MOST_BROKERS, MOST_SUBSCRIPTIONS, MOST_EVENTS = 31, 300, 200

#: What is compared when nothing is named: without tables, without covering, with it, merged; and peers.
DEFAULT_POLICIES = ("flood", "every", "covering", "merging", "drtree")

#: Subscriptions that were not announced on a link and are named; all are counted.
MOST_NAMED = 20


async def compare(request: Request) -> Response:
    """Compare policies on what is here; takes some seconds, while the broker goes on."""
    server = server_of(request)
    demand_overview(request)
    asked = await read_json(request)
    brokers, policies = asked.get("brokers", 7), asked.get("policies", list(DEFAULT_POLICIES))
    if not isinstance(brokers, int) or not 2 <= brokers <= MOST_BROKERS:
        raise ModelError(f"brokers: a whole number from 2 to {MOST_BROKERS}")
    known = (*POLICIES, *OVERLAYS)
    if not isinstance(policies, list) or any(name not in known for name in policies):
        raise ModelError(f"policies: a list of {', '.join(known)}")
    made = _trial(server, brokers)
    rows = await asyncio.to_thread(lambda: [_tried(made.network(name)) for name in policies])
    told = {"brokers": brokers, "subscriptions": len(made.subscriptions), "events": len(made.events)}
    return JSONResponse({**told, "policies": rows})


def _tried(network: Network | PeerNetwork) -> dict[str, Any]:
    """Return what a network cost, and its tree: links between brokers, or the seats of peers."""
    row = network.statistics().as_row()
    if isinstance(network, PeerNetwork):
        seats = network.seats()
        return row | {
            "links": [],
            "seats": [
                {"name": one.name, "parent": one.parent, "children": [list(level.names) for level in one.levels]}
                for one in seats
            ],
        }
    return row | {"links": [_link(one) for one in network.link_statistics()], "seats": []}


def _link(one: LinkStatistics) -> dict[str, Any]:
    withheld = list(one.suppressed.items())
    return {
        "source": one.source,
        "target": one.target,
        "updates": one.updates,
        "table_entries": one.table_entries,
        "events": one.events,
        "false_positives": one.false_positives,
        "withheld": len(withheld),
        "because": [
            {"id": shown_key(key), "covered_by": [shown_key(home) for home in homes]}
            for key, homes in withheld[:MOST_NAMED]
        ],
    }


def _trial(server: Server, brokers: int) -> Trial:
    broker = server.broker
    asked: list[Any] = []
    taken: set[str] = set()
    for number, message in enumerate(list(broker.asked.values())[-MOST_SUBSCRIPTIONS:]):
        asked.append((_unlike(message.id, number, taken), msgspec.json.decode(message.filter), message.namespace))
    events = [broker.event_as_json(one.payload) for _, one in list(broker.traffic.recent_events)[-MOST_EVENTS:]]
    topology = Topology.of("balanced", brokers)
    return Trial(topology, broker.schema, asked, events, clients=2 * brokers)


def _unlike(id: SubscriptionId, number: int, taken: set[str]) -> str:
    """Return an id as a name that nobody has yet: two clients may use the same one."""
    name = str(id) if str(id) not in taken else f"{id} ({number})"
    taken.add(name)
    return name
