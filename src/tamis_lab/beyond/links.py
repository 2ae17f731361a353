"""What links carry under each policy of the brokers: the papers' summaries and the product's on one workload."""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.demo.comparison import OVERLAYS, Trial
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.routing.policies import POLICIES
from tamis.runtime.simulation.topology import Topology
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.peers.containment import SIDE, containment_boxes
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, column
from tamis_lab.uncovered import BoxArray

__all__ = ["EXPERIMENT", "draw_boxes", "make_trial"]

_NAMES: Final = ("x", "y")
#: Policies that boxes have no use for.
_NOT_FOR_BOXES: Final = ("projection",)


def draw_boxes(distribution: str, n: int, d: int, rng: np.random.Generator) -> BoxArray:
    """Draw boxes float64[n, 2, d] that contain one another, in random order."""
    return np.stack(containment_boxes(distribution, n, d, seed=int(rng.integers(2**31))), axis=1)


def make_trial(boxes: BoxArray, events: BoxArray, brokers: int, seed: int) -> Trial:
    """Return a trial of boxes float64[n, 2, 2] and events float64[m, 2] in a balanced tree, two clients per broker."""
    schema = Schema({name: Number(0, SIDE) for name in _NAMES})
    texts = [
        (
            row,
            " AND ".join(f"{name} BETWEEN {a!r} AND {b!r}" for name, a, b in zip(_NAMES, *box, strict=True)),
            "default",
        )
        for row, box in enumerate(boxes.tolist())
    ]
    points = [dict(zip(_NAMES, point, strict=True)) for point in events.tolist()]
    return Trial(Topology.of("balanced", brokers, seed=seed), schema, texts, points, 2 * brokers, seed)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    boxes = draw_boxes(config["distribution"], config["n"], len(_NAMES), rng)
    events = rng.random((config["events"], len(_NAMES))) * SIDE
    trial = make_trial(boxes, events, config["brokers"], seed=int(rng.integers(2**31)))
    return [dict(trial.run(name).as_row()) for name in (*POLICIES, *OVERLAYS) if name not in _NOT_FOR_BOXES]


def _lesson(rows: Rows) -> str:
    at = {row["policy"]: row for row in rows if row["distribution"] == "zipf-25:75"}
    entries = ", ".join(f"{name} {row['table_entries']:,}" for name, row in at.items())
    needless = ", ".join(f"{name} {row['false_positives']:,}" for name, row in at.items() if row["false_positives"])
    delivered = {row["delivered"] for row in at.values()}
    same = "All of them deliver the same" if len(delivered) == 1 else "THEY DIFFER in what they deliver"
    lost = sum(column(rows, "lost"))
    return f"{same}, {lost} lost. Entries of all tables (zipf-25:75): {entries}. Needless events: {needless or 'none'}."


EXPERIMENT: Final = Experiment(
    name="b-links",
    paper="beyond",
    figure="every link policy, and peers, on one workload",
    set_up="Boxes of two attributes, most of them inside others, at the clients of a balanced tree of brokers; uniform "
    "events; the simulator counts. Beside them the clients, or the brokers, as peers of a distributed R-tree.",
    configs=lambda scale: grid(
        distribution=("zipf", "zipf-25:75"),
        brokers=(scale.choose(7, 31),),
        n=(scale.choose(150, 1_000),),
        events=(scale.choose(100, 500),),
    ),
    run=_run,
    lesson=_lesson,
    charts=(
        Chart("Entries of all routing tables", "policy", "table_entries", ("distribution",), y_label="entries"),
        Chart("Events sent between brokers", "policy", "event_messages", ("distribution",), y_label="messages"),
    ),
)
