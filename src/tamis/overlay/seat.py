"""A seat in the tree: one subscription of a peer, and the nodes that it owns.

A node of the tree is owned by the owner of one of its children, so the owner of a node at level 3 owns one at 2, 1 and
0: its leaf. A seat is therefore a chain: its box at level 0, one table of children per level above, itself among them,
and the parent of its *top* node. That the nodes of a seat form a chain from its leaf needs no check: the state cannot
express anything else. All leaves are equally deep for the same reason: a child at level k is a seat whose top is k - 1.

A seat reads nothing but its own state: the tables, and by concern what `state` has classes for. What happens to it
stands in these modules, and `protocol` calls them; they change the state through its methods:

* `placement`: a way down for what is inserted, attaching, splitting, reinserting, dissolving;
* `promotion`: nodes change owners, because a child covers better or because the owner leaves;
* `bounds`: MBRs that grow and shrink;
* `repair`: the rounds, in which every state becomes a legal one;
* `dissemination`: events.

The books of an MBR: a child reports its own, a parent passes inserts down and grows the child's entry *before* it does
(promise O5). The two may cross, so a report says how many inserts its sender has received; as long as some are
under way, an entry grows but does not shrink.

Implements: [drtree] section 4. Deviation: "a node must appear in exactly one leaf, and may appear on all the nodes of a
suffix of the path" is the shape of the state here (erratum D.3.10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from tamis.errors import ModelError
from tamis.geometry.split import SPLITS
from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import CHOICES
from tamis.overlay.space import Box, Space
from tamis.overlay.state import Dissolution, Growth, Losses, Membership, ParentLink, SeatEvents

__all__ = ["MAX_HOPS", "Seat", "Shape"]

#: A message with this many hops runs in a circle of broken pointers, and is dropped.
MAX_HOPS: Final = 60


@dataclass(frozen=True)
class Shape:
    """How the tree of a network is built; the same at every peer.

    ``least`` and ``most`` are the paper's m and M. With the split "r*" overflowing nodes reinsert first. ``choice`` is
    how the last step down chooses among nodes, by growth ("r") or by overlap ("r*"); "" is "r*" for the split "r*" and
    "r" for the others.

    >>> Shape(split="r*").choice, Shape(split="linear").choice, Shape(split="linear", choice="r*").choice
    ('r*', 'r', 'r*')
    """

    least: int = 5
    most: int = 10
    split: str = "quadratic"
    choice: str = ""

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ModelError(f"unknown split {self.split!r}; choose from {', '.join(SPLITS)}")
        if not self.choice:
            object.__setattr__(self, "choice", self.usual_choice)
        if self.choice not in CHOICES:
            raise ModelError(f"unknown choice {self.choice!r}; choose from {', '.join(CHOICES)}")
        if not 1 <= self.least <= (self.most + 1) // 2:
            raise ModelError(
                f"a node has {self.least} to {self.most} children: splitting {self.most + 1} needs a least of at most "
                f"{(self.most + 1) // 2}, and at least 1"
            )

    @property
    def usual_choice(self) -> str:
        """The default choice for the split."""
        return "r*" if self.split == "r*" else "r"


class Seat:
    """One subscription's place in the tree; ``box`` is the box around its filter."""

    def __init__(self, name: str, box: Box, space: Space, shape: Shape, events: SeatEvents | None = None) -> None:
        self.name = name
        self.box = box
        self.space = space
        self.shape = shape
        #: The tables of the nodes at level 1, 2, ... that this seat owns.
        self.levels: list[Level] = []
        self.up = ParentLink()
        self.membership = Membership()
        self.dissolution = Dissolution()
        self.growth = Growth()
        self.losses = Losses(len(space))
        self.events = SeatEvents() if events is None else events
        #: The last place that this seat gave a child.
        self._places = 0
        #: Outgoing messages, whether the own nodes need repair, and levels that may not reinsert, as bits.
        self._out: list[m.SeatMessage] = []
        self._unsettled = False
        self._reinserted = 0

    @property
    def parent(self) -> str | None:
        """The owner of the top node's parent; None at a root, and before the first place is found."""
        return self.up.name

    @property
    def placed(self) -> bool:
        """Whether it has found its first place, or is the first seat of the network."""
        return self.membership.placed

    @property
    def left(self) -> bool:
        """Whether its subscription is cancelled: it only forwards messages, until the next round."""
        return self.membership.left

    @property
    def is_reshaping(self) -> bool:
        """Whether its top node is new or being dissolved, so that no other change of it may begin."""
        return bool(self.up.newborn) or self.dissolution.active

    @property
    def is_waiting(self) -> bool:
        """Whether something is unfinished: a join, a growth, a change of the own nodes."""
        return (
            not self.placed
            or not self.growth.is_known
            or self.is_reshaping
            or any(level.leaving for level in self.levels)
        )

    @property
    def top(self) -> int:
        """The level of the highest node that this seat owns."""
        return len(self.levels)

    @property
    def is_root(self) -> bool:
        """Whether this seat has no parent."""
        return self.parent is None

    def mbr(self, level: int) -> Box:
        """Return the MBR of the own node at a level."""
        return self.levels[level - 1].hull() if level else self.box

    def ask_for(self, box: Box) -> None:
        """Change the seat's box; its ancestors do not know it yet."""
        self.box = np.array(box)
        self.growth.begin()

    def give_place(self, level: Level, name: str) -> int:
        """Return the number of a new place for a child of the own node at ``level``; larger than all earlier ones."""
        level.places[name] = self._places = 1 + max(self._places, *level.places.values())
        return self._places

    def send(self, message: m.SeatMessage) -> None:
        """Put a message into the mail."""
        self._out.append(message)

    def take_mail(self) -> list[m.SeatMessage]:
        """Return the outgoing messages, and clear the list."""
        mail, self._out = self._out, []
        return mail

    def forward(self, message: Any) -> bool:
        """Forward a message for a level above the own top to the parent; return False if there is no parent."""
        if self.parent is None or message.hops >= MAX_HOPS:
            return False
        self.send(msgspec.structs.replace(message, to=self.parent, hops=message.hops + 1))
        return True

    @property
    def is_settled(self) -> bool:
        """Whether the own nodes need no repair."""
        return not self._unsettled

    def unsettle(self, reinserted: int = 0) -> None:
        """Request a repair of the own nodes; ``reinserted`` are levels that may not reinsert meanwhile, as bits."""
        self._unsettled = True
        self._reinserted |= reinserted

    def settle(self) -> int:
        """Mark the own nodes as repaired; return the levels that may not reinsert, as bits."""
        reinserted, self._reinserted, self._unsettled = self._reinserted, 0, False
        return reinserted

    def refresh(self) -> None:
        """Copy the own MBRs of the lower levels to the tables above."""
        box = self.box
        for level in self.levels:
            level.put(self.name, box)
            box = level.hull()
