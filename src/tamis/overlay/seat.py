"""A seat in the tree: one subscription of a peer, and the nodes that it owns.

A node of the tree is played by the owner of one of its children, so whoever owns a node at level 3 owns one at 2, 1 and
0: its leaf. A seat is therefore a chain: its box at level 0, one table of children per level above, itself among them,
and the parent of its *top* node. That occurrences of a peer form a chain from its leaf is not kept true, it cannot be
said otherwise. All leaves are equally deep for the same reason: a child at level k is somebody whose top is k - 1.

A seat reads nothing but its own state. What happens to it stands in these modules, and `protocol` calls them:

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

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from tamis.errors import InvariantError, ModelError
from tamis.geometry.split import SPLITS
from tamis.overlay import messages as m
from tamis.overlay.event_book import EventBook
from tamis.overlay.level import Level
from tamis.overlay.space import FREE, Box, Space

__all__ = ["GRACE", "MAX_HOPS", "PATIENCE", "Copy", "Seat", "Shape"]

#: A message that was passed on so often runs in a circle of broken pointers, and is dropped.
MAX_HOPS: Final = 60
#: Rounds of silence after which a parent or child is believed to be gone.
PATIENCE: Final = 3
#: Rounds for which a loss is remembered: long enough for those who fell off to notice and to join again.
GRACE: Final = 2 * PATIENCE + 2


@dataclass(frozen=True)
class Shape:
    """How the tree of a network is built; the same at every peer.

    ``least`` and ``most`` are the paper's m and M. With the split "r*" overflowing nodes reinsert first, and the last
    step down looks at overlap.
    """

    least: int = 5
    most: int = 10
    split: str = "quadratic"

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ModelError(f"there is no split {self.split!r}; there are {', '.join(SPLITS)}")
        if not 1 <= self.least <= (self.most + 1) // 2:
            raise ModelError(
                f"a node has {self.least} to {self.most} children: splitting {self.most + 1} needs a least of at most "
                f"{(self.most + 1) // 2}, and at least 1"
            )

    @property
    def choice(self) -> str:
        """How to choose just above the leaves: a name of `CHOICES`."""
        return "r*" if self.split == "r*" else "r"


@dataclass
class Copy:
    """An event at a seat, in one attempt of its publisher."""

    event: m.Published
    attempt: int
    distance: int
    #: The levels whose children were looked at, as bits, and whether it went up.
    levels: int = 0
    went_up: bool = False
    #: ``(seat, token)``: who waits for a receipt.
    engager: tuple[str, str] = ("", "")
    #: ``{token: copy}``: what was passed on and not acknowledged.
    pending: dict[str, m.Forward] = field(default_factory=dict)
    #: Whether, as far as is known, everybody who must have it has it.
    complete: bool = True
    #: Rounds since it was last busy here.
    idle: int = 0


class Seat:
    """One subscription's place in the tree; ``box`` is what it asks for."""

    def __init__(self, name: str, box: Box, space: Space, shape: Shape) -> None:
        self.name = name
        self.box = box
        self.space = space
        self.shape = shape
        #: The tables of the nodes at level 1, 2, ... that this seat owns.
        self.levels: list[Level] = []
        #: The owner of the top node's parent; None at a root, and before the first place is found.
        self.parent: str | None = None
        #: What the parent notes as our MBR, how many inserts it has passed down to us, the number of our place there.
        self.known: Box | None = None
        self.received = self.place = 0
        #: The last place that this seat gave a child.
        self.places = 0
        #: Whom the top node was split off from, while it has no parent of its own.
        self.newborn: str | None = None
        #: Whether the top node is being dissolved, and who has adopted the seat below it meanwhile.
        self.dissolving = False
        self.next_parent: tuple[str, Box, int] | None = None
        #: Whether this root has asked to be inserted elsewhere.
        self.yielding = False
        #: Through whom it looks for a place.
        self.contact: str | None = None
        #: Whether it has found its first place, or is the first of all.
        self.placed = False
        #: Its subscription is cancelled: it only passes messages on, until the next round.
        self.left = False
        #: Rounds without an answer of the parent, and answers that it is not our parent.
        self.unanswered = self.refused = 0
        #: Rounds that a dissolution or a departure of children has been under way.
        self.stuck = 0
        #: Who is above our parent, for the day it falls silent.
        self.above: tuple[str, ...] = ()
        #: Boxes behind which somebody was lost, with the rounds until all of them have found new places.
        self.lost: list[tuple[Box, int]] = []
        #: Boxes of children that have moved on, with the rounds for which a late copy may still look for them here.
        self.moved: list[tuple[Box, int]] = []
        #: Growths of the own box that all ancestors know of; the last one that was begun; words to parents about MBRs.
        self.grown = self.growing = self.told = 0
        #: What goes out, and whether the own nodes must be brought in order; levels that may not reinsert, as bits,
        #: and who waits to hear of a growth.
        self.out: list[m.Message] = []
        self.unsettled = False
        self.reinserted = 0
        self.origin = ("", 0)
        #: Events that are under way here, or were lately.
        self.copies: EventBook[Copy] = EventBook()
        #: Where an event lies; told by the peer.
        self.locate: Callable[[bytes], Box] = _nowhere
        #: What the peer wants to know: an event has come (once per attempt), its own event has been dealt with.
        self.arrived: list[m.Forward] = []
        self.finished: list[tuple[m.EventId, int, bool]] = []

    @property
    def top(self) -> int:
        """The level of the highest node that this seat owns."""
        return len(self.levels)

    @property
    def is_root(self) -> bool:
        """Whether nobody is above."""
        return self.parent is None

    def mbr(self, level: int) -> Box:
        """Return the MBR of the own node at a level."""
        return self.levels[level - 1].hull() if level else self.box

    def send(self, message: m.Message) -> None:
        """Put a message into the mail."""
        self.out.append(message)

    def forward(self, message: Any) -> bool:
        """Pass a message for a level above the own top on to the parent; False when there is none."""
        if self.parent is None or message.hops >= MAX_HOPS:
            return False
        self.send(msgspec.structs.replace(message, to=self.parent, hops=message.hops + 1))
        return True

    @property
    def doubt(self) -> int:
        """The rounds until nobody who was lost can still be on the way."""
        return max((rounds for _, rounds in self.lost), default=0)

    def doubt_everything(self, rounds: int) -> None:
        """Answer "not complete" for a while: others who should be with us may be on their way."""
        if rounds > 0:
            everything = np.repeat(np.array(FREE)[:, None], len(self.space), axis=1)
            self.lost.append((everything, rounds))

    def refresh(self) -> None:
        """Note the own MBRs of the lower levels in the tables above."""
        box = self.box
        for level in self.levels:
            level.put(self.name, box)
            box = level.hull()


def _nowhere(payload: bytes) -> Box:
    raise InvariantError("a seat without a peer got an event")
