"""What a tree of peers looks like and what it costs, seen from above: for experiments, no peer knows this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.overlay.measures import meets, volume
from tamis.overlay.seat import Seat
from tamis.overlay.space import Box

__all__ = ["PeerShares", "TreeStatistics", "reach_of", "tree_statistics"]


@dataclass(frozen=True)
class TreeStatistics:
    """A tree of ``peers`` seats; ``height`` is the level of the root.

    The degree of a peer that owns a node is the number of others that it is linked to: all children of all its nodes
    without itself, and the parent of its top node. ``false_positive_ratio`` is the share of all peers that get a
    uniform event they did not ask for, in closed form.
    """

    peers: int
    height: int
    inner: int
    degree_max: int
    degree_avg: float
    degree_variance: float
    false_positive_ratio: float


@dataclass(frozen=True)
class PeerShares:
    """Shares of all peers: that receive an event, that subscribed to it (``hits``), that receive it in vain."""

    received: float
    hits: float
    false_positives: float


def tree_statistics(seats: Sequence[Seat]) -> TreeStatistics:
    """Return the shape of a tree and its false positives.

    A node is reached iff its MBR contains the event, because MBRs are nested; so for uniform events the ratio is the
    sum of what the MBRs of the inner peers' top nodes exceed their subscriptions by, over the number of peers.

    Implements: [drtree] section 5, Table 2 and the false positives ratio. Deviation: the closed form replaces sampling
    (erratum D.3.4).
    """
    inner = [seat for seat in seats if seat.levels]
    degrees = [sum(len(level) - 1 for level in seat.levels) + (seat.parent is not None) for seat in inner]
    excess = sum(volume(seat.mbr(seat.top)) - volume(seat.box) for seat in inner)
    return TreeStatistics(
        peers=len(seats),
        height=max((seat.top for seat in seats), default=0),
        inner=len(inner),
        degree_max=max(degrees, default=0),
        degree_avg=float(np.mean(degrees)) if degrees else 0.0,
        degree_variance=float(np.var(degrees)) if degrees else 0.0,
        false_positive_ratio=excess / len(seats) if seats else 0.0,
    )


def reach_of(seats: Sequence[Seat], points: npt.NDArray[np.float64]) -> PeerShares:
    """Return the seats that events injected at the root reach; ``points`` float64[n, axes] lie in the unit space."""
    tops = np.array([seat.mbr(seat.top) for seat in seats])
    boxes = np.array([seat.box for seat in seats])
    is_root = np.array([seat.parent is None for seat in seats])
    received = hits = wrong = 0
    for point in points:
        event: Box = np.stack([point, point])
        wanted = meets(boxes, event)
        reached = meets(tops, event) | is_root
        received += int(reached.sum())
        hits += int(wanted.sum())
        wrong += int((reached & ~wanted).sum())
    total = len(seats) * len(points)
    return PeerShares(received / total, hits / total, wrong / total)
