"""Subscriptions that contain one another, in a given share, and the tree that containment alone would make of them.

Origins are whole numbers of 0 to 1000, uniform or by Zipf's law (p(v) ~ 1 / (v + 1)); sizes are uniform in the room
that is left. Of ``X:Y`` subscriptions X per cent are drawn like that, and each of the others is a uniform box inside a
random one that is there already. All are shuffled.

Implements: [drtree] section 5, experimental set-up, completed where it is silent; section 3.1, the containment graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.errors import ModelError
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.node.content import Content
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis_lab.peers.express import Express

__all__ = [
    "DISTRIBUTIONS",
    "ContainmentGraph",
    "containment_boxes",
    "containment_graph",
    "containment_parents",
    "grow_tree",
]

FloatArray = npt.NDArray[np.float64]

#: Values lie in 0 .. SIDE.
SIDE: Final = 1000
#: (Zipf origins?, share that is drawn and not contained), by the paper's names.
DISTRIBUTIONS: Final = {
    "uniform": (False, 1.0),
    "uniform-25:75": (False, 0.25),
    "uniform-10:90": (False, 0.10),
    "zipf": (True, 1.0),
    "zipf-25:75": (True, 0.25),
    "zipf-10:90": (True, 0.10),
}


def containment_boxes(
    name: str, n: int, dimensions: int = 4, *, seed: int = 1, largest: int = SIDE
) -> tuple[FloatArray, FloatArray]:
    """Return ``n`` boxes, float64[n, dimensions] low and high corners; ``largest`` bounds a side that is drawn.

    >>> lo, hi = containment_boxes("zipf-25:75", 100)
    >>> lo.shape, bool((lo <= hi).all())
    ((100, 4), True)
    """
    if name not in DISTRIBUTIONS:
        raise ModelError(f"there is no distribution {name!r}; there are {', '.join(DISTRIBUTIONS)}")
    zipf, share = DISTRIBUTIONS[name]
    rng = np.random.default_rng(seed)
    drawn = max(1, round(n * share))
    lo, hi = np.empty((n, dimensions)), np.empty((n, dimensions))
    lo[:drawn] = _origins(rng, (drawn, dimensions), zipf)
    hi[:drawn] = lo[:drawn] + rng.uniform(0, np.minimum(SIDE - lo[:drawn], largest))
    for row in range(drawn, n):
        outer = rng.integers(row)
        lo[row] = rng.uniform(lo[outer], hi[outer])
        hi[row] = rng.uniform(lo[row], hi[outer])
    order = rng.permutation(n)
    return lo[order], hi[order]


def _origins(rng: np.random.Generator, shape: tuple[int, int], zipf: bool) -> FloatArray:
    if not zipf:
        return rng.integers(0, SIDE + 1, shape).astype(float)
    weights = 1.0 / np.arange(1, SIDE + 2)
    return rng.choice(SIDE + 1, shape, p=weights / weights.sum()).astype(float)


@dataclass(frozen=True)
class ContainmentGraph:
    """The direct mapping of containment to a tree: the children of its virtual root, its degrees and its height."""

    roots: int
    height: int
    degree_max: int
    degree_avg: float
    degree_variance: float


def containment_graph(lo: FloatArray, hi: FloatArray) -> ContainmentGraph:
    """Hang each box under the smallest one that contains it, or under a virtual root.

    >>> containment_graph(np.array([[0.0], [1.0], [5.0]]), np.array([[4.0], [2.0], [6.0]])).roots
    2
    """
    parents = containment_parents(lo, hi)
    depth = np.zeros(len(lo), int)
    for row in np.argsort(-(hi - lo).prod(axis=1), kind="stable"):  # containers come before what they contain
        depth[row] = 1 if parents[row] < 0 else depth[parents[row]] + 1
    degrees = np.bincount(parents + 1, minlength=len(lo) + 1)
    inner = degrees[degrees > 0]
    return ContainmentGraph(
        roots=int(degrees[0]),
        height=int(depth.max(initial=0)),
        degree_max=int(inner.max(initial=0)),
        degree_avg=float(inner.mean()) if len(inner) else 0.0,
        degree_variance=float(inner.var()) if len(inner) else 0.0,
    )


def containment_parents(lo: FloatArray, hi: FloatArray) -> npt.NDArray[np.int64]:
    """Return the row of the smallest other box around each box, or -1; of equal boxes the earlier is the container."""
    volumes = (hi - lo).prod(axis=1)
    parents = np.full(len(lo), -1)
    order = np.argsort(volumes, kind="stable")
    for row in range(len(lo)):
        around = ((lo <= lo[row]) & (hi >= hi[row])).all(axis=1)
        equal = around & (lo >= lo[row]).all(axis=1) & (hi <= hi[row]).all(axis=1)
        around &= ~(equal & (np.arange(len(lo)) >= row))
        containers = order[around[order]]
        if len(containers):
            parents[row] = containers[0]
    return parents


def grow_tree(lo: FloatArray, hi: FloatArray, shape: Shape | None = None, *, seed: int = 1) -> Express:
    """Let a peer per box join, each through a random other one; return all of them, message by message."""
    names = [f"a{axis}" for axis in range(lo.shape[1])]
    content = Content(Schema({name: Number(0, SIDE) for name in names}))
    space, rng, express = Space(content.schema), np.random.default_rng(seed), Express()
    for row, (low, high) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        contact = f"p{rng.integers(row)}/0" if row else None
        core = PeerCore(f"p{row}", content, space, shape, contact)
        express.add(core)
        box = np.array([low, high]) / SIDE
        express.carry_out(core.name, core.sit(box))
        express.run()
    return express
