"""The networks of ``POST /v1/comparison``, in a worker process: the simulator, the overlay, and all policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.demo.comparison import OVERLAYS, Trial
from tamis.errors import ModelError
from tamis.model.subscription import SubscriptionId
from tamis.node.content import Content
from tamis.routing.policies import find_policy
from tamis.runtime.event_json import payload_as_json
from tamis.runtime.simulation.network import Network
from tamis.runtime.simulation.peer_network import PeerNetwork
from tamis.runtime.simulation.statistics import LinkStatistics
from tamis.runtime.simulation.topology import Topology
from tamis.web.views import shown_key

__all__ = ["compared"]

#: Subscriptions that were not announced on a link and are named; all are counted.
MOST_NAMED = 20


def compared(arguments: dict[str, Any], content: Content, payloads: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return a row per policy: what it cost to take the subscriptions and events through a tree of brokers."""
    policies = arguments["policies"]
    for name in policies:
        if name not in OVERLAYS:
            try:
                find_policy(name)
            except ModelError as error:
                raise ModelError(f"policies: {error}, {', '.join(OVERLAYS)}") from None
    names: set[str] = set()
    subscriptions = [
        (_unlike(id, number, names), filter, namespace)
        for number, (id, filter, namespace) in enumerate(arguments["subscriptions"])
    ]
    events = [payload_as_json(payload, content.schema) for payload in payloads]
    topology = Topology.of("balanced", arguments["brokers"])
    trial = Trial(topology, content.schema, subscriptions, events, clients=2 * arguments["brokers"])
    return [_tried(trial.network(name)) for name in policies]


def _tried(network: Network | PeerNetwork) -> dict[str, Any]:
    """Return what a network cost, and its tree: links between brokers, or the seats of peers."""
    row = network.statistics().as_row()
    if isinstance(network, PeerNetwork):
        seats = network.seats()
        return row | {
            "links": [],
            "seats": [
                {"name": seat.name, "parent": seat.parent, "children": [list(level.names) for level in seat.levels]}
                for seat in seats
            ],
        }
    return row | {"links": [_link(link) for link in network.link_statistics()], "seats": []}


def _link(link: LinkStatistics) -> dict[str, Any]:
    withheld = list(link.suppressed.items())
    return {
        "source": link.source,
        "target": link.target,
        "updates": link.updates,
        "table_entries": link.table_entries,
        "events": link.events,
        "false_positives": link.false_positives,
        "withheld": len(withheld),
        "because": [
            {"id": shown_key(key), "covered_by": [shown_key(home) for home in homes]}
            for key, homes in withheld[:MOST_NAMED]
        ],
    }


def _unlike(id: SubscriptionId, number: int, names: set[str]) -> str:
    """Return an id as a name that no other subscription has: two clients may use the same id."""
    name = str(id) if str(id) not in names else f"{id} ({number})"
    names.add(name)
    return name
