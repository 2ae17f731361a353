"""The children of one node: who they are, their MBRs, and what their parent notes about each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tamis.errors import ModelError
from tamis.overlay.measures import Boxes, hull
from tamis.overlay.messages import NodeState
from tamis.overlay.space import Box, Space

__all__ = ["Level"]


class Level:
    """A node's table. Rows keep the order in which children came, which is what ties fall back on."""

    def __init__(self, names: Iterable[str], boxes: Boxes) -> None:
        #: The children; the owner is one of them.
        self.names = list(names)
        #: float64[n, 2, axes]: the MBR of each child.
        self.boxes = boxes
        #: Inserts that were passed down to each child: its reports may shrink its MBR only if it has had them all.
        self.passed = dict.fromkeys(self.names, 0)
        #: The number of each child's adoption: a `Detach` ends that one, not a later one that it has crossed.
        self.places = dict.fromkeys(self.names, 0)
        #: Children that are on their way to another parent. They still get their events, but count no more.
        self.leaving: set[str] = set()
        #: The last word of each child about its MBR: an earlier one that comes later must not shrink it.
        self.orders = dict.fromkeys(self.names, 0)
        #: Rounds since the last message of each child.
        self.silent = dict.fromkeys(self.names, 0)

    def __contains__(self, name: str) -> bool:
        return name in self.passed

    def __len__(self) -> int:
        return len(self.names)

    @property
    def staying(self) -> list[int]:
        """The rows of children that are not leaving."""
        if not self.leaving:
            return list(range(len(self.names)))
        return [row for row, name in enumerate(self.names) if name not in self.leaving]

    def hull(self) -> Box:
        """Return the node's MBR, around all children, the leaving ones too."""
        return hull(self.boxes)

    def box(self, name: str) -> Box:
        """Return the MBR of a child."""
        return np.asarray(self.boxes[self.names.index(name)])

    def put(self, name: str, box: Box) -> None:
        """Add a child, or note a new MBR of one that is there; it is not leaving."""
        if name in self.passed:
            self.boxes[self.names.index(name)] = box
        else:
            self.names.append(name)
            self.boxes = np.concatenate([self.boxes, box[None]])
            self.passed[name] = self.places[name] = self.orders[name] = 0
        self.silent[name] = 0
        self.leaving.discard(name)

    def grow(self, row: int, box: Box) -> None:
        """Let a child's MBR take in a box."""
        np.minimum(self.boxes[row, 0], box[0], out=self.boxes[row, 0])
        np.maximum(self.boxes[row, 1], box[1], out=self.boxes[row, 1])

    def remove(self, name: str) -> None:
        """Drop a child; nothing happens when it is not there."""
        if name in self.passed:
            row = self.names.index(name)
            del self.names[row], self.passed[name], self.places[name], self.orders[name], self.silent[name]
            self.boxes = np.delete(self.boxes, row, axis=0)
            self.leaving.discard(name)

    def rename(self, old: str, new: str) -> None:
        """Put another owner in the place of a child; who is there already takes in what the former one had."""
        if old == new or old not in self.passed:
            return
        if new in self.passed:
            self.grow(self.names.index(new), self.box(old))
            self.remove(old)
            return
        self.names[self.names.index(old)] = new
        self.passed[new], self.places[new] = self.passed.pop(old), self.places.pop(old)
        self.silent[new] = self.orders[new] = 0  # the new one has an order of its own
        del self.silent[old], self.orders[old]
        if old in self.leaving:
            self.leaving.remove(old)
            self.leaving.add(new)

    def state(self, rows: Iterable[int] | None = None) -> NodeState:
        """Return the table, or some of its rows, as it travels; rows that are picked are not leaving."""
        chosen = list(range(len(self.names)) if rows is None else rows)
        names = tuple(self.names[row] for row in chosen)
        leaving = tuple(sorted(self.leaving)) if rows is None else ()
        passed, places = (tuple(notes[name] for name in names) for notes in (self.passed, self.places))
        return NodeState(names, self.boxes[chosen].tobytes(), passed, places, leaving)

    @classmethod
    def of_state(cls, state: NodeState, space: Space) -> Level:
        """Return the table that travelled; ModelError when it is none."""
        if not len(set(state.names)) == len(state.names) == len(state.passed) == len(state.places):
            raise ModelError(f"not a table of children: {state.names}")
        size = 16 * len(space)
        boxes = [space.read(state.boxes[size * row : size * (row + 1)]) for row in range(len(state.names))]
        level = cls(state.names, np.array(boxes).reshape(len(boxes), 2, len(space)))
        level.passed = dict(zip(state.names, state.passed, strict=True))
        level.places = dict(zip(state.names, state.places, strict=True))
        level.leaving = set(state.leaving) & set(state.names)
        return level
