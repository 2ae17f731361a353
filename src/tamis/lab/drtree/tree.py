"""A tree of real peers, and what can be read off it once all have joined."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.lab.drtree.drawing import DOMAIN, Boxes
from tamis.model.schema import Schema
from tamis.model.subscription import Filter
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number
from tamis.model.values import Value
from tamis.overlay.messages import Subscribe
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis.runtime.express import Express

__all__ = ["DEFAULT", "SPLITS", "BoxContent", "Tree", "count_hits", "grow_tree", "join_all", "read_tree"]

SPLITS: Final = ("linear", "quadratic", "r*")
#: The paper's m and M.
DEFAULT: Final = (5, 10)
#: Events whose matches are counted at once.
_AT_ONCE: Final = 50


class BoxContent:
    """What peers read: a filter is the number of a box, an event the values of all attributes."""

    def __init__(self, boxes: Boxes) -> None:
        self.names = [f"a{axis}" for axis in range(boxes.shape[2])]
        self.space = Space(Schema({name: Number(0, DOMAIN) for name in self.names}))
        self._table = SubscriptionTable.from_boxes(self.names, boxes[:, 0], boxes[:, 1])

    def read_filter(self, data: bytes) -> tuple[Filter, ...]:
        """Return the filter of a box."""
        return self._table.box_subscription(int(data), 0).filters

    def read_event(self, payload: bytes) -> dict[str, Value]:
        """Return an event."""
        return dict(zip(self.names, np.frombuffer(payload).tolist(), strict=True))


class Tree(NamedTuple):
    """The peers of a tree in the order in which they joined; boxes float64[n, 2, d] in the unit space.

    ``outer`` is the MBR of a peer's topmost node (its own box if it has no node), ``degrees`` its neighbours: children
    over all its nodes but itself, and a parent.
    """

    boxes: Boxes
    outer: Boxes
    tops: npt.NDArray[np.int64]
    degrees: npt.NDArray[np.int64]

    @property
    def is_inner(self) -> npt.NDArray[np.bool_]:
        """Which peers own a node above their leaf."""
        return self.tops > 0

    @property
    def height(self) -> int:
        """The level of the root."""
        return int(self.tops.max())

    @property
    def false_positives(self) -> float:
        """The share of peers that receive a uniform event in vain, on average: the volumes they overlook.

        Implements: [drtree] section 5, the false positives ratio, in closed form.
        """
        return float((_volumes(self.outer) - _volumes(self.boxes)).sum() / len(self.boxes))

    @property
    def hits(self) -> float:
        """The share of peers that want a uniform event, on average."""
        return float(_volumes(self.boxes).mean())


def _volumes(boxes: Boxes) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = (boxes[:, 1] - boxes[:, 0]).prod(axis=1)
    return found


def grow_tree(boxes: Boxes, split: str, limits: tuple[int, int] = DEFAULT) -> Tree:
    """Let a peer join for each box, one after another; return the tree they form."""
    return read_tree(join_all(BoxContent(boxes), len(boxes), split, limits))


def join_all(content: BoxContent, n: int, split: str, limits: tuple[int, int] = DEFAULT) -> Express:
    """Let n peers join, each asking for one box."""
    network, shape, contact = Express(), Shape(*limits, split), None
    for row in range(n):
        core = PeerCore(f"p{row}", content, content.space, shape, contact)
        network.add(core)
        network.submit(core.name, Subscribe(row, str(row).encode()))
        network.run()
        contact = contact or core.contact_seat
    return network


def read_tree(network: Express) -> Tree:
    """Return the tree that peers with one subscription each have formed."""
    seats = list(network.seats())
    degrees = [sum(len(level) - 1 for level in seat.levels) + (seat.parent is not None) for seat in seats]
    return Tree(
        np.array([seat.box for seat in seats]),
        np.array([seat.mbr(seat.top) for seat in seats]),
        np.array([seat.top for seat in seats]),
        np.array(degrees),
    )


def count_hits(tree: Tree, events: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return int64[m, 2]: for each event of the unit space, how many peers want it, and how many get it in vain."""
    inner = tree.is_inner
    found = []
    for few in np.array_split(events, max(1, len(events) // _AT_ONCE)):
        wanted = _inside(few, tree.boxes)
        received = _inside(few, tree.outer[inner])
        found.append(np.stack([wanted.sum(1), (received & ~wanted[:, inner]).sum(1)], axis=1))
    return np.concatenate(found)


def _inside(events: npt.NDArray[np.float64], boxes: Boxes) -> npt.NDArray[np.bool_]:
    at = events[:, None]
    return np.array(((boxes[None, :, 0] <= at) & (boxes[None, :, 1] >= at)).all(axis=2), np.bool_)
