"""Questions that are boxes of one size, as the papers draw them: where a policy shows what it can do.

Every attribute runs from 0 to 255. A question asks for ``size`` in a row on each of them; where it starts is drawn
evenly (*uniform*), or so that small numbers are asked for far more often (*zipf*: the n-th value with a weight of
1 / n). Events are drawn in the same way, so that popular questions have popular answers.

Implements: [mics] section 7, the subscriptions and publications of its simulations.
Deviation: the exponent of Zipf's law and what happens at the upper edge are not given; here it is 1, and no question
reaches over the edge (erratum M.3.10).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tamis.demo.comparison import Trial
from tamis.errors import ModelError
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.topology import Topology

__all__ = ["KINDS", "range_trial"]

KINDS = ("uniform", "zipf")
#: Values of an attribute: the 256 cells of the paper.
VALUES = 256
#: The length of a question on an attribute, in cells.
SIZE = 4


def range_trial(
    topology: Topology,
    kind: str = "zipf",
    *,
    attributes: int = 2,
    subscriptions: int = 1_000,
    events: int = 500,
    clients: int,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
) -> Trial:
    """Return the trial of drawn boxes: ``kind`` is one of `KINDS`.

    >>> trial = range_trial(Topology.of("line", 3), "uniform", subscriptions=2, events=1, clients=3)
    >>> trial.subscriptions[0]
    (1, 'x1 BETWEEN 216 AND 219 AND x2 BETWEEN 98 AND 101', 'default')
    """
    if kind not in KINDS:
        raise ModelError(f"unknown kind of ranges {kind!r}; choose from {', '.join(KINDS)}")
    rng = random.Random(seed)
    names = [f"x{number}" for number in range(1, attributes + 1)]

    def question() -> str:
        starts = {name: _draw(rng, kind, VALUES - SIZE + 1) for name in names}
        return " AND ".join(f"{name} BETWEEN {low} AND {low + SIZE - 1}" for name, low in starts.items())

    questions = [(number, question(), "default") for number in range(1, subscriptions + 1)]
    answers = [{name: _draw(rng, kind, VALUES) for name in names} for _ in range(events)]
    schema = Schema({name: Number(0, VALUES - 1) for name in names})
    return Trial(topology, schema, questions, answers, clients, seed, faults)


def _draw(rng: random.Random, kind: str, n: int) -> int:
    """Return a number below ``n``."""
    draws: dict[str, Callable[[], int]] = {
        "uniform": lambda: rng.randrange(n),
        "zipf": lambda: rng.choices(range(n), [1 / (rank + 1) for rank in range(n)])[0],
    }
    return draws[kind]()
