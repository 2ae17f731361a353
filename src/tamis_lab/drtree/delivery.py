"""Nobody misses an event, and it comes soon: claim D8."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tamis.model.schema import Schema
from tamis.model.subscription import Filter
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis.model.values import Value
from tamis.overlay.messages import Publish, Subscribe
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis_lab.drtree.trees import DEFAULT, READINGS, SPLITS, Floats, draw
from tamis_lab.experiment import Config, Experiment, Outcome, Row, Rows, column, grid, judged
from tamis_lab.peers.containment import SIDE
from tamis_lab.peers.express import Express
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart

__all__ = ["EXPERIMENT"]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], 4, rng)
    network = _join_all(lo, hi, Shape(*DEFAULT, config["split"]))
    network.messages.clear()
    lost, wrong = _publish_all(network, lo, hi, rng.random((config["events"], 4)) * SIDE, rng)
    distances = [hops for core in network.peers.values() for hops in core.distances.elements()]
    return [
        {
            "lost": lost,
            "wrong": wrong,
            "delivered": len(network.deliveries),
            "height": tree_statistics(list(network.seats())).height,
            "hops": float(np.mean(distances)),
            "most_hops": max(distances),
            "messages": network.messages["Forward"] / config["events"],
        }
    ]


class _BoxContent:
    """What peers read here: a filter is the number of a box, an event the values of all attributes."""

    def __init__(self, lo: Floats, hi: Floats) -> None:
        self.names = [f"a{axis}" for axis in range(lo.shape[1])]
        self._table = SubscriptionTable.from_boxes(self.names, lo, hi)

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        return self._table.box_subscription(int(data), 0).filters

    def read_event(self, payload: bytes) -> dict[str, Value]:
        return dict(zip(self.names, np.frombuffer(payload).tolist(), strict=True))


def _join_all(lo: Floats, hi: Floats, shape: Shape) -> Express:
    """Let a peer with one subscription join for each box."""
    content, network, contact = _BoxContent(lo, hi), Express(), None
    space = Space(Schema({name: Number(0, SIDE) for name in content.names}))
    for row in range(len(lo)):
        core = PeerCore(f"p{row}", content, space, shape, contact)
        network.add(core)
        network.submit(core.name, Subscribe(row, str(row).encode()))
        network.run()
        contact = contact or core.contact_seat
    return network


def _publish_all(network: Express, lo: Floats, hi: Floats, events: Floats, rng: np.random.Generator) -> tuple[int, int]:
    """Publish each event at a random peer; return deliveries that are missing, and those that are wrong or double."""
    lost = wrong = 0
    for event in events:
        before = len(network.deliveries)
        network.submit(f"p{rng.integers(len(lo))}", Publish(event.tobytes()))
        network.run()
        got = [int(name[1:]) for name, _ in network.deliveries[before:]]
        wanted = set(np.flatnonzero(((lo <= event) & (hi >= event)).all(axis=1)).tolist())
        lost += len(wanted - set(got))
        wrong += len(got) - len(wanted & set(got))
    return lost, wrong


def _judge_delivery(rows: Rows) -> Outcome:
    lost, wrong = sum(column(rows, "lost")), sum(column(rows, "wrong"))
    within = all(row["most_hops"] <= 2 * row["height"] and row["height"] <= _highest(row["n"]) for row in rows)
    heights = sorted(set(column(rows, "height")))
    return judged(
        lost == 0 and wrong == 0 and within,
        "no false negatives; latency logarithmic",
        f"{lost} of {sum(column(rows, 'delivered')) + lost:,} deliveries lost, {wrong} wrong; height "
        f"{heights[0]} to {heights[-1]}, at most {max(column(rows, 'most_hops'))} hops",
        f"Events published at random peers reach exactly those that ask, in {np.mean(column(rows, 'hops')):.1f} hops "
        f"on average and {np.mean(column(rows, 'messages')):.0f} messages per event, from "
        f"{min(column(rows, 'n')):,} to {max(column(rows, 'n')):,} peers.",
    )


def _highest(peers: int) -> float:
    """Return the greatest height of a tree: a root has two children or more, any other node ``m`` of them."""
    return 1 + math.log(peers / 2, DEFAULT[0])


EXPERIMENT: Final = Experiment(
    name="dr-delivery",
    paper="drtree",
    figure="section 3, dissemination",
    set_up="Events published at random peers travel through the tree message by message; deliveries against the truth.",
    readings=READINGS,
    configs=lambda scale: grid(
        split=SPLITS, n=scale.choose((100, 400, 1_600), (400, 1_600, 6_400)), events=(scale.choose(50, 250),)
    ),
    run=_run,
    claims={"D8": _judge_delivery},
    charts=(
        Chart("Hops to whom it may concern", "n", "hops", ("split",), log_x=True, x_label="peers"),
        Chart("Messages for an event", "n", "messages", ("split",), log_x=True, log_y=True, x_label="peers"),
    ),
)
