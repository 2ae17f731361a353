"""Questions about regions, drawn: storms, floods or closed airspace, by where they are and how severe.

The world is a square of 100 by 100. A question asks for what meets a hexagon, or lies in one, most often with a
least level. Hexagons are of three sizes, as towns, counties and states are, so that some cover others. Events are small
rectangles with a level.
"""

from __future__ import annotations

import math
import random

from tamis.demo.comparison import Trial
from tamis.model.schema import Schema
from tamis.model.types import Number, Region
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.topology import Topology

__all__ = ["region_trial"]

WORLD, LEVELS = 100, 10
#: The radius of a town, a county and a state, and how often each is asked for.
SIZES, OFTEN = (2.0, 8.0, 30.0), (6, 3, 1)


def region_trial(
    topology: Topology,
    *,
    subscriptions: int = 300,
    events: int = 500,
    clients: int,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
) -> Trial:
    """Return the trial of drawn regions.

    >>> trial = region_trial(Topology.of("line", 3), subscriptions=1, events=1, clients=3)
    >>> trial.subscriptions[0][1][:21], sorted(trial.events[0])
    ('S_INTERSECTS(area, PO', ['area', 'level'])
    """
    rng = random.Random(seed)
    questions = [(number, _question(rng), "default") for number in range(1, subscriptions + 1)]
    schema = Schema({"area": Region(), "level": Number(0, LEVELS)})
    return Trial(topology, schema, questions, [_event(rng) for _ in range(events)], clients, seed, faults)


def _question(rng: random.Random) -> str:
    relation = rng.choice(("S_INTERSECTS", "S_INTERSECTS", "S_WITHIN"))
    radius = rng.choices(SIZES, OFTEN)[0]
    x, y = (round(rng.uniform(0, WORLD), 1) for _ in range(2))
    turns = [math.tau * corner / 6 for corner in range(6)]
    ring = [f"{x + radius * math.cos(turn):.3f} {y + radius * math.sin(turn):.3f}" for turn in turns]
    text = f"{relation}(area, POLYGON(({', '.join([*ring, ring[0]])})))"
    return text if rng.random() < 0.3 else f"{text} AND level >= {rng.randint(1, LEVELS - 1)}"


def _event(rng: random.Random) -> dict[str, object]:
    x, y, side = round(rng.uniform(0, WORLD), 2), round(rng.uniform(0, WORLD), 2), round(rng.uniform(0.1, 3), 2)
    corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side), (x, y)]
    ring = ", ".join(f"{a:.2f} {b:.2f}" for a, b in corners)
    return {"area": f"POLYGON(({ring}))", "level": rng.randint(0, LEVELS)}
