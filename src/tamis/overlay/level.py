"""The children of one node: their names, their MBRs, and the parent's notes about each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tamis.errors import ModelError
from tamis.overlay.measures import Boxes, hull
from tamis.overlay.messages import NodeState
from tamis.overlay.space import Box, Space

__all__ = ["Level"]


class Level:
    """A node's table of children. Rows are in the order of arrival, which decides ties."""

    def __init__(self, names: Iterable[str], boxes: Boxes) -> None:
        #: The children; the owner is one of them.
        self.names = list(names)
        #: float64[n, 2, axes]: the MBR of each child.
        self.boxes = boxes
        #: Inserts passed down to each child: its reports may shrink its MBR only after it has received them all.
        self.passed = dict.fromkeys(self.names, 0)
        #: The number of each child's adoption: a `Detach` ends only that adoption, not a later one.
        self.places = dict.fromkeys(self.names, 0)
        #: Children that move to another parent. They still get their events, but no longer count as children.
        self.leaving: set[str] = set()
        #: The number of each child's last report of its MBR: an older report that arrives later must not shrink it.
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
        """Add a child, or update the MBR of an existing one; it is no longer leaving."""
        if name in self.passed:
            self.boxes[self.names.index(name)] = box
        else:
            self.names.append(name)
            self.boxes = np.concatenate([self.boxes, box[None]])
            self.passed[name] = self.places[name] = self.orders[name] = 0
        self.silent[name] = 0
        self.leaving.discard(name)

    def grow(self, row: int, box: Box) -> None:
        """Enlarge a child's MBR to contain a box."""
        np.minimum(self.boxes[row, 0], box[0], out=self.boxes[row, 0])
        np.maximum(self.boxes[row, 1], box[1], out=self.boxes[row, 1])

    def remove(self, name: str) -> None:
        """Remove a child; do nothing if it is absent."""
        if name in self.passed:
            row = self.names.index(name)
            del self.names[row], self.passed[name], self.places[name], self.orders[name], self.silent[name]
            self.boxes = np.delete(self.boxes, row, axis=0)
            self.leaving.discard(name)

    def rename(self, old: str, new: str) -> None:
        """Replace a child by another owner; if the new owner is a child already, its MBR grows by the old one's."""
        if old == new or old not in self.passed:
            return
        if new in self.passed:
            self.grow(self.names.index(new), self.box(old))
            self.remove(old)
            return
        self.names[self.names.index(old)] = new
        self.passed[new], self.places[new] = self.passed.pop(old), self.places.pop(old)
        self.silent[new] = self.orders[new] = 0  # the new owner numbers its own reports
        del self.silent[old], self.orders[old]
        if old in self.leaving:
            self.leaving.remove(old)
            self.leaving.add(new)

    def state(self, rows: Iterable[int] | None = None) -> NodeState:
        """Return the table, or some of its rows, as a message field; chosen rows are not leaving."""
        chosen = list(range(len(self.names)) if rows is None else rows)
        names = tuple(self.names[row] for row in chosen)
        leaving = tuple(sorted(self.leaving)) if rows is None else ()
        passed, places = (tuple(notes[name] for name in names) for notes in (self.passed, self.places))
        return NodeState(names, self.boxes[chosen].tobytes(), passed, places, leaving)

    @classmethod
    def of_state(cls, state: NodeState, space: Space) -> Level:
        """Return the table of a message field; raise `ModelError` if it is not valid."""
        if not len(set(state.names)) == len(state.names) == len(state.passed) == len(state.places):
            raise ModelError(f"invalid table of children: {state.names}")
        size = 16 * len(space)
        boxes = [space.read(state.boxes[size * row : size * (row + 1)]) for row in range(len(state.names))]
        level = cls(state.names, np.array(boxes).reshape(len(boxes), 2, len(space)))
        level.passed = dict(zip(state.names, state.passed, strict=True))
        level.places = dict(zip(state.names, state.places, strict=True))
        level.leaving = set(state.leaving) & set(state.names)
        return level
